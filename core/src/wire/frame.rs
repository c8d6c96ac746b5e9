//! Frames: what travels on a link. Each names its version, its type and its space.

use super::VERSION;
use super::bytes::{Fail, Reader, put_bytes, put_varint, read_all};
use super::message::{put_vector, read_message, read_vector};
use crate::delta::Message;
use crate::error::{Error, Limited, Rule};
use crate::limits::{
    AGENT_BYTES_MAX, FRAME_BYTES_MAX, MESSAGE_KEY_BYTES_MAX, PROOF_BYTES_MAX, SPACE_BYTES_MAX,
};
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
        read_all(bytes, |reader| {
            let (version, kind, space) = read_head(reader)?;
            if version != VERSION && kind != HELLO {
                return Err(reader.fail(Error::Version {
                    min: version,
                    max: version,
                }));
            }
            let body = match kind {
                HELLO => {
                    let hello = read_hello(reader)?;
                    if version != VERSION {
                        return Err(reader.malformed(Rule::VersionByte));
                    }
                    Body::Hello(hello)
                }
                DIGEST => Body::Digest(reader.array()?),
                PULL => Body::Pull(Pull {
                    id: reader.varint32()?,
                    chunk: reader.varint32()?,
                    vector: read_vector(reader)?,
                }),
                DELTA => Body::Delta(read_delta(reader)?),
                MORE => Body::More {
                    id: reader.varint32()?,
                    chunk: reader.varint32()?,
                },
                PUSH => Body::Push(read_message(reader, MESSAGE_KEY_BYTES_MAX)?),
                _ => return Err(reader.malformed(Rule::FrameType)),
            };
            let space = Space::new(space).map_err(|error| reader.fail(error))?;
            Ok(Frame { space, body })
        })
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
    read_all(bytes, |reader| {
        let (_, _, space) = read_head(reader)?;
        reader.skip_rest();
        Ok(space)
    })
}

/// Version, type and space.
fn read_head<'a>(reader: &mut Reader<'a>) -> Result<(u8, u8, &'a str), Fail> {
    if reader.len() > FRAME_BYTES_MAX {
        let size = reader.len();
        return Err(reader.fail(Error::TooLarge {
            what: Limited::Frame,
            size,
            max: FRAME_BYTES_MAX,
        }));
    }
    if reader.array().ok() != Some(MAGIC) {
        return Err(reader.fail(Error::NotAFrame));
    }
    let version = reader.u8()?;
    let kind = reader.u8()?;
    let space = reader.text(Limited::SpaceName, SPACE_BYTES_MAX)?;
    Ok((version, kind, space))
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

fn read_hello(reader: &mut Reader<'_>) -> Result<Hello, Fail> {
    let (version_min, version_max) = (reader.u8()?, reader.u8()?);
    if version_min > VERSION || version_max < VERSION {
        // Whatever follows is another version's.
        return Err(reader.fail(Error::Version {
            min: version_min,
            max: version_max,
        }));
    }
    Ok(Hello {
        version_min,
        version_max,
        capabilities: reader.varint()?,
        session: u64::from_le_bytes(reader.array()?),
        agent: reader.text(Limited::Agent, AGENT_BYTES_MAX)?.into(),
        nonce: reader.array()?,
        proof: reader.bytes(Limited::Proof, PROOF_BYTES_MAX)?.to_vec(),
        digest: reader.array()?,
    })
}

fn read_delta(reader: &mut Reader<'_>) -> Result<Delta, Fail> {
    let id = reader.varint32()?;
    let chunk = reader.varint32()?;
    let last = match reader.u8()? {
        0 => false,
        1 => true,
        _ => return Err(reader.malformed(Rule::Flag)),
    };
    let message = read_message(reader, MESSAGE_KEY_BYTES_MAX)?;
    Ok(Delta {
        id,
        chunk,
        last,
        message,
    })
}
