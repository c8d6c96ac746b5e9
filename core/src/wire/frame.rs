//! Frames: what travels on a link. Each names its version, its type and its space.

use super::VERSION;
use super::bytes::{Reader, put_bytes, put_varint};
use super::message::{put_vector, read_vector};
use crate::delta::Message;
use crate::error::Error;
use crate::limits::{AGENT_BYTES_MAX, FRAME_BYTES_MAX, PROOF_BYTES_MAX, SPACE_BYTES_MAX};
use crate::vector::VersionVector;
use crate::writer_id::Space;
use alloc::string::String;
use alloc::vec::Vec;

const MAGIC: [u8; 2] = *b"tm";

const HELLO: u8 = 1;
const DIGEST: u8 = 2;
const PULL: u8 = 3;
const DELTA: u8 = 4;
const MORE: u8 = 5;
const PUSH: u8 = 6;

/// Who a peer is and what it speaks: the first frame in each direction.
///
/// Its first two bytes mean the same in all versions, so that any two programs can tell that they
/// do not understand each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The lowest version of the protocol that is spoken.
    pub version_min: u8,
    /// The highest version of the protocol that is spoken.
    pub version_max: u8,
    /// Optional features, a bit each. Unknown bits are ignored; none is defined yet.
    pub capabilities: u64,
    /// A random number of this process, by which a peer is known again after a reconnect.
    pub session: u64,
    /// The program's name and version, for people.
    pub agent: String,
    /// Fresh random bytes to be signed by the other side. Reserved.
    pub nonce: [u8; 16],
    /// The proof of the owner's key. Reserved, empty.
    pub proof: Vec<u8>,
    /// The digest of the sender's version vector.
    pub digest: [u8; 16],
}

/// A request for everything that is not in a version vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pull {
    /// The request's number, chosen by whoever asks, repeated in the answers.
    pub id: u32,
    /// Which chunk is asked for first: 0, or where a broken transfer goes on.
    pub chunk: u32,
    /// What the asker holds.
    pub vector: VersionVector,
}

/// One chunk of the answer to a pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    /// The request's number.
    pub id: u32,
    /// The chunk's number, from 0.
    pub chunk: u32,
    /// Whether this chunk completes the transfer; only then anything becomes visible.
    pub last: bool,
    /// The shards.
    pub message: Message,
}

/// A frame's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The greeting.
    Hello(Hello),
    /// The digest of the sender's version vector.
    Digest([u8; 16]),
    /// A request.
    Pull(Pull),
    /// A chunk of an answer.
    Delta(Delta),
    /// A request for the next chunk.
    More {
        /// The pull's number.
        id: u32,
        /// The chunk's number.
        chunk: u32,
    },
    /// Fresh changes of one writer.
    Push(Message),
}

/// A frame: a space and a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The space it speaks of.
    pub space: Space,
    /// What it says.
    pub body: Body,
}

impl Frame {
    /// The frame's only encoding.
    pub fn encode(&self) -> Vec<u8> {
        encode(&self.space, &self.body)
    }

    /// Decodes a frame.
    ///
    /// # Errors
    /// Any error of the format; [`Error::Version`] if it is of another version.
    pub fn decode(bytes: &[u8]) -> Result<Frame, Error> {
        let (version, kind, space, mut reader) = open(bytes)?;
        if version != VERSION && kind != HELLO {
            return Err(Error::Version {
                min: version,
                max: version,
            });
        }
        let body = match kind {
            HELLO => {
                let hello = read_hello(&mut reader)?;
                if version != VERSION {
                    let rule = "a hello that offers version 1 is written in version 1";
                    return Err(Error::Malformed { rule });
                }
                Body::Hello(hello)
            }
            DIGEST => Body::Digest(reader.array()?),
            PULL => Body::Pull(Pull {
                id: read_u32(&mut reader)?,
                chunk: read_u32(&mut reader)?,
                vector: read_vector(&mut reader)?,
            }),
            DELTA => Body::Delta(read_delta(&mut reader)?),
            MORE => Body::More {
                id: read_u32(&mut reader)?,
                chunk: read_u32(&mut reader)?,
            },
            PUSH => Body::Push(Message::decode(core::mem::take(&mut reader.0))?),
            _ => {
                let rule = "a frame's type is 1 to 6";
                return Err(Error::Malformed { rule });
            }
        };
        reader.end()?;
        let space = Space::new(space)?;
        Ok(Frame { space, body })
    }
}

pub(crate) fn encode(space: &Space, body: &Body) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    out.extend_from_slice(&MAGIC);
    out.push(VERSION);
    out.push(match body {
        Body::Hello(_) => HELLO,
        Body::Digest(_) => DIGEST,
        Body::Pull(_) => PULL,
        Body::Delta(_) => DELTA,
        Body::More { .. } => MORE,
        Body::Push(_) => PUSH,
    });
    put_bytes(&mut out, space.as_str().as_bytes());
    match body {
        Body::Hello(hello) => put_hello(&mut out, hello),
        Body::Digest(digest) => out.extend_from_slice(digest),
        Body::Pull(pull) => {
            put_varint(&mut out, u64::from(pull.id));
            put_varint(&mut out, u64::from(pull.chunk));
            put_vector(&mut out, &pull.vector);
        }
        Body::Delta(delta) => {
            put_varint(&mut out, u64::from(delta.id));
            put_varint(&mut out, u64::from(delta.chunk));
            out.push(u8::from(delta.last));
            delta.message.encode_into(&mut out);
        }
        Body::More { id, chunk } => {
            put_varint(&mut out, u64::from(*id));
            put_varint(&mut out, u64::from(*chunk));
        }
        Body::Push(message) => message.encode_into(&mut out),
    }
    out
}

/// The space that a frame speaks of, by which a program with many spaces routes it.
///
/// # Errors
/// [`Error::NotAFrame`], [`Error::TooLarge`], or an error of the format.
pub fn frame_space(bytes: &[u8]) -> Result<&str, Error> {
    let (_, _, space, _) = open(bytes)?;
    Ok(space)
}

/// Version, type, space and what follows.
fn open(bytes: &[u8]) -> Result<(u8, u8, &str, Reader<'_>), Error> {
    if bytes.len() > FRAME_BYTES_MAX {
        return Err(Error::TooLarge {
            what: "a frame in bytes",
            size: bytes.len() as u64,
            max: FRAME_BYTES_MAX as u64,
        });
    }
    let mut reader = Reader(bytes);
    if reader.array().ok() != Some(MAGIC) {
        return Err(Error::NotAFrame);
    }
    let version = reader.u8()?;
    let kind = reader.u8()?;
    let space = reader.text("a space's name in bytes", SPACE_BYTES_MAX)?;
    Ok((version, kind, space, reader))
}

fn read_u32(reader: &mut Reader<'_>) -> Result<u32, Error> {
    u32::try_from(reader.varint()?).map_err(|_| Error::Number)
}

fn put_hello(out: &mut Vec<u8>, hello: &Hello) {
    out.push(hello.version_min);
    out.push(hello.version_max);
    put_varint(out, hello.capabilities);
    out.extend_from_slice(&hello.session.to_le_bytes());
    put_bytes(out, hello.agent.as_bytes());
    out.extend_from_slice(&hello.nonce);
    put_bytes(out, &hello.proof);
    out.extend_from_slice(&hello.digest);
}

fn read_hello(reader: &mut Reader<'_>) -> Result<Hello, Error> {
    let (version_min, version_max) = (reader.u8()?, reader.u8()?);
    if version_min > VERSION || version_max < VERSION {
        // Whatever follows is another version's.
        return Err(Error::Version {
            min: version_min,
            max: version_max,
        });
    }
    Ok(Hello {
        version_min,
        version_max,
        capabilities: reader.varint()?,
        session: u64::from_le_bytes(reader.array()?),
        agent: reader
            .text("an agent's name in bytes", AGENT_BYTES_MAX)?
            .into(),
        nonce: reader.array()?,
        proof: reader.bytes("a proof in bytes", PROOF_BYTES_MAX)?.to_vec(),
        digest: reader.array()?,
    })
}

fn read_delta(reader: &mut Reader<'_>) -> Result<Delta, Error> {
    let id = read_u32(reader)?;
    let chunk = read_u32(reader)?;
    let last = match reader.u8()? {
        0 => false,
        1 => true,
        _ => {
            let rule = "a flag is 0 or 1";
            return Err(Error::Malformed { rule });
        }
    };
    let message = Message::decode(core::mem::take(&mut reader.0))?;
    Ok(Delta {
        id,
        chunk,
        last,
        message,
    })
}
