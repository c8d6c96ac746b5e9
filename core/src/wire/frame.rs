//! Frames: what travels on a link. Each names its version, its type and its space.

use super::VERSION;
#[cfg(feature = "members")]
use super::ask::{Answer, Ask, put_answer, put_ask, read_answer, read_ask};
use super::bytes::{Fail, Reader, put, put_bytes, put_varint, read_all};
#[cfg(feature = "members")]
use super::message::find_told_writer;
use super::message::{
    has_memory, put_memory, put_message, put_vector, read_memory, read_told, read_vector,
};
#[cfg(feature = "guests")]
use super::round::{
    Followed, Position, Round, put_followed, put_position, put_round, read_followed, read_position,
    read_round,
};
#[cfg(feature = "budgets")]
use super::want::{Draw, Want, put_draw, put_want, read_draw, read_want};
use crate::bounds::{AGENT_BYTES_MAX, FRAME_BYTES_MAX, PROOF_BYTES_MAX, SPACE_BYTES_MAX};
use crate::error::{DecodeError, Error, Limited, LinkError, Rule, detail};
use crate::forks::Contents;
use crate::message::Message;
use crate::message::records::{Intro, Owner};
use crate::optional::{GUESTS, MEMBERS};
use crate::state::vector::VersionVector;
use crate::writer_id::{Space, WriterId};
use alloc::string::String;
use alloc::vec::Vec;

const MAGIC: [u8; 2] = *b"tm";

const HELLO: u8 = 1;
const DIGEST: u8 = 2;
const PULL: u8 = 3;
const DELTA: u8 = 4;
const MORE: u8 = 5;
const PUSH: u8 = 6;
const CONTENTS: u8 = 7;
const WRITER: u8 = 8;
const RETURN: u8 = 9;
const ENDED: u8 = 10;
#[cfg(feature = "members")]
const ASK: u8 = 11;
#[cfg(feature = "members")]
const ANSWER: u8 = 12;
const OWN: u8 = 13;
#[cfg(feature = "budgets")]
const WANT: u8 = 14;
#[cfg(feature = "budgets")]
const DRAW: u8 = 15;
#[cfg(feature = "guests")]
const TIME: u8 = 16;
#[cfg(feature = "guests")]
const ROUND: u8 = 17;
#[cfg(feature = "guests")]
const POSITION: u8 = 18;
#[cfg(feature = "guests")]
const FOLLOWED: u8 = 19;

/// The capability to store the memory of forgotten writers: whole states contain it.
pub const REMEMBERS: u64 = 1;
/// The sender lacks some of that memory. The last chunk of each transfer to it has to contain it.
pub const LACKS_MEMORY: u64 = 2;
/// The capability to answer what a replica has durably.
pub const ANSWERS: u64 = 4;
/// The sender accepts only transactions of writers that were proved to be its peer's own.
pub const TAKES_OWN: u64 = 8;
/// The sender accepts no transactions: its peer may only read.
pub const TAKES_NOTHING: u64 = 16;
/// The capability to give rights of budgets on request.
pub const GIVES: u64 = 32;
/// The capability to give numbers of sequences on request.
pub const DEALS: u64 = 64;
/// The capability to give rights of periods of limits on request.
pub const LENDS: u64 = 256;

/// The sender runs on a copy of a member's data, and [stands aside](crate::MembersMut::stand_aside).
pub const COPY: u64 = 512;

/// The sender is a guest that judges expiries by the time of its members, and wants to be told it.
pub const TAKES_TIME: u64 = 1024;

/// The capability to follow [`Round`]s.
pub const FOLLOWS: u64 = 2048;

/// The identity of a peer and its versions: the first frame in each direction.
///
/// Its first two bytes mean the same in all versions. So any two programs can find out that they do not
/// understand each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The lowest version of the protocol that the sender implements.
    pub version_min: u8,
    /// The highest version of the protocol that the sender implements.
    pub version_max: u8,
    /// Optional features, one bit each: [`REMEMBERS`], [`LACKS_MEMORY`], [`ANSWERS`], [`TAKES_OWN`],
    /// [`TAKES_NOTHING`], [`GIVES`], [`DEALS`], [`LENDS`], [`COPY`], [`TAKES_TIME`], [`FOLLOWS`]. A receiver
    /// ignores unknown bits.
    pub capabilities: u64,
    /// A random number of this process. It identifies the peer after a reconnect.
    pub session: u64,
    /// The program's name and version, for people.
    pub agent: String,
    /// Fresh random bytes to be signed by the other side. Reserved.
    pub nonce: [u8; 16],
    /// The proof of the owner's key. Reserved, empty.
    pub proof: Vec<u8>,
    /// The digests of the sender's state.
    pub digests: Digests,
    /// The writer under which the sender writes.
    pub writer: WriterId,
    /// The clock of that writer.
    pub clock: u64,
}

/// The digests of a replica's state. Equal vectors with different contents are a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digests {
    /// The digest of the version vector.
    pub vector: [u8; 16],
    /// The digest of the contents.
    pub contents: u64,
}

/// The reason why a peer sends writers' contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// An answer: the contents of these writers differ here.
    Answer,
    /// A question: the digests differ, so the receiver compares all writers.
    Ask,
    /// A report: these writers were found forked.
    Forked,
}

/// A request for everything that is not in a version vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pull {
    /// The request's number. The sender chooses it, and the answers repeat it.
    pub id: u32,
    /// The first chunk that is requested: 0, or the one at which a broken transfer continues.
    pub chunk: u32,
    /// The version vector of the sender.
    pub vector: VersionVector,
}

/// One chunk of the answer to a pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    /// The request's number.
    pub id: u32,
    /// The chunk's number, from 0.
    pub chunk: u32,
    /// Whether this chunk completes the transfer. Only then the receiver shows any of it.
    pub last: bool,
    /// The shards.
    pub message: Message,
}

/// A frame's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The hello.
    Hello(Hello),
    /// The digests of the sender's state.
    Digest(Digests),
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
    /// The writer under which the sender writes from now on.
    Writer(WriterId),
    /// A proof that this writer belongs to the sender's owner, whom the link has authenticated. The owner's
    /// key, the space and this nonce give the writer's id.
    ///
    /// A receiver that accepts the proof answers with the same frame.
    Own {
        /// The writer.
        writer: WriterId,
        /// The nonce from which the id was made.
        nonce: [u8; 16],
    },
    /// In a space with members: the sender's writer, which is this, can't go on. The receiver has to declare
    /// it dead, and to reply up to which clock it was taken over.
    Return {
        /// The writer.
        writer: WriterId,
        /// The admission of the writer, if the sender has it. If the receiver does not have the writer, the
        /// admission says why: the receiver has forgotten the writer, or has not received it yet.
        intro: Option<Intro>,
        /// The owner of the writer, if the sender takes part as a member once its owner is one. The sender
        /// may not have learned yet whether it is.
        owner: Option<Owner>,
    },
    /// In a space with members: this writer can't go on.
    Ended {
        /// The writer.
        writer: WriterId,
        /// The part of it that counts.
        last: Last,
    },
    /// The contents of writers, one by one.
    Contents {
        /// The reason for the frame.
        why: Why,
        /// The digest of the sender's version vector.
        vector: [u8; 16],
        /// The writers, ascending.
        writers: Vec<Contents>,
    },
    /// In a space with members: a question what the receiver has durably.
    #[cfg(feature = "members")]
    Ask(Ask),
    /// The transactions that the sender has durably.
    #[cfg(feature = "members")]
    Answer(Answer),
    /// In a space with members: a member requests rights of a budget, because it is short of them.
    #[cfg(feature = "budgets")]
    Want(Want),
    /// A request for numbers of a sequence.
    #[cfg(feature = "budgets")]
    Draw(Draw),
    /// In a space with members: the time by which the sender, a member, judges expiries, in milliseconds since
    /// 1970.
    #[cfg(feature = "guests")]
    Time(u64),
    /// The changes between two positions of the sender.
    #[cfg(feature = "guests")]
    Round(Round),
    /// Where the sender of rounds is.
    #[cfg(feature = "guests")]
    Position(Position),
    /// In a space with members: how far the sender, a guest, has followed the receiver's rounds.
    #[cfg(feature = "guests")]
    Followed(Followed),
}

/// The part of a writer's transactions that counts, after the writer is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// The part is not certain yet. The transactions that the writer sent up to this clock showed that it
    /// can't go on.
    Unsure(u64),
    /// Every transaction up to this clock.
    Upto(u64),
    /// None, for certain: the sender remembers all forgotten writers.
    Nothing,
    /// The sender no longer remembers. The flag says whether transactions that came on this link may have
    /// counted.
    Forgotten(bool),
    /// The part is not certain before the process that asks has announced itself, because its owner is a
    /// member.
    Member,
    /// The sender is no member. The frame matters only to a process that writes under another writer by now.
    Hearsay,
}

/// A frame: a space and a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The space to which the frame belongs.
    pub space: Space,
    /// The content.
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
    /// Any error of the format; [`LinkError::Version`] if it is of another version.
    pub fn decode(bytes: &[u8]) -> Result<Frame, Error> {
        read_all(bytes, |reader| {
            let (version, kind, space) = read_head(reader)?;
            if version != VERSION && kind != HELLO {
                return Err(reader.fail(
                    LinkError::Version {
                        min: detail(version),
                        max: detail(version),
                    }
                    .into(),
                ));
            }
            let body = match kind {
                HELLO => {
                    let hello = read_hello(reader)?;
                    if version != VERSION {
                        return Err(reader.malformed(Rule::VersionByte));
                    }
                    Body::Hello(hello)
                }
                DIGEST => Body::Digest(read_digests(reader)),
                PULL => Body::Pull(Pull {
                    id: reader.varint32(),
                    chunk: reader.varint32(),
                    vector: read_vector(reader)?,
                }),
                DELTA => Body::Delta(read_delta(reader)?),
                MORE => Body::More {
                    id: reader.varint32(),
                    chunk: reader.varint32(),
                },
                PUSH => Body::Push(read_told(reader)?),
                CONTENTS => read_contents(reader)?,
                WRITER if GUESTS => Body::Writer(read_writer(reader)),
                RETURN if GUESTS => Body::Return {
                    writer: read_writer(reader),
                    intro: read_intro(reader)?,
                    owner: match reader.u8() {
                        0 => None,
                        1 => Some(reader.array()),
                        _ => return Err(reader.malformed(Rule::Flag)),
                    },
                },
                ENDED if GUESTS => Body::Ended {
                    writer: read_writer(reader),
                    last: match reader.u8() {
                        0 => Last::Unsure(reader.varint()),
                        1 => Last::Upto(reader.varint()),
                        2 => Last::Forgotten(false),
                        3 => Last::Forgotten(true),
                        4 => Last::Member,
                        5 => Last::Hearsay,
                        6 => Last::Nothing,
                        _ => return Err(reader.malformed(Rule::Flag)),
                    },
                },
                #[cfg(feature = "members")]
                ASK => Body::Ask(read_ask(reader)?),
                #[cfg(feature = "members")]
                ANSWER => Body::Answer(read_answer(reader)?),
                #[cfg(feature = "budgets")]
                WANT => Body::Want(read_want(reader)?),
                #[cfg(feature = "budgets")]
                DRAW => Body::Draw(read_draw(reader)?),
                #[cfg(feature = "guests")]
                TIME => Body::Time(reader.varint()),
                #[cfg(feature = "guests")]
                ROUND => Body::Round(read_round(reader)?),
                #[cfg(feature = "guests")]
                POSITION => Body::Position(read_position(reader)?),
                #[cfg(feature = "guests")]
                FOLLOWED => Body::Followed(read_followed(reader)),
                OWN if GUESTS => Body::Own {
                    writer: read_writer(reader),
                    nonce: reader.array(),
                },
                _ => return Err(reader.malformed(Rule::FrameType)),
            };
            let space = Space::new(space).map_err(|error| reader.fail(error))?;
            Ok(Frame { space, body })
        })
    }
}

pub(super) fn put_intro(out: &mut Vec<u8>, intro: Option<&Intro>) {
    out.push(u8::from(intro.is_some()));
    if let Some(intro) = intro {
        put(out, intro.by.as_bytes());
        put_varint(out, intro.clock);
        put(out, &intro.owner);
        put_varint(out, intro.generation);
    }
}

pub(super) fn read_intro(reader: &mut Reader<'_>) -> Result<Option<Intro>, Fail> {
    Ok(match reader.u8() {
        0 => None,
        1 => Some(Intro {
            by: read_writer(reader),
            clock: reader.varint(),
            owner: reader.array(),
            generation: reader.varint(),
        }),
        _ => return Err(reader.malformed(Rule::Flag)),
    })
}

pub(crate) fn encode(space: &Space, body: &Body) -> Vec<u8> {
    let mut out = crate::list(64);
    let kind = match body {
        Body::Hello(_) => HELLO,
        Body::Digest(_) => DIGEST,
        Body::Pull(_) => PULL,
        Body::Delta(_) => DELTA,
        Body::More { .. } => MORE,
        Body::Push(_) => PUSH,
        Body::Contents { .. } => CONTENTS,
        Body::Writer(_) => WRITER,
        Body::Return { .. } => RETURN,
        Body::Ended { .. } => ENDED,
        #[cfg(feature = "members")]
        Body::Ask(_) => ASK,
        #[cfg(feature = "members")]
        Body::Answer(_) => ANSWER,
        #[cfg(feature = "budgets")]
        Body::Want(_) => WANT,
        #[cfg(feature = "budgets")]
        Body::Draw(_) => DRAW,
        #[cfg(feature = "guests")]
        Body::Time(_) => TIME,
        #[cfg(feature = "guests")]
        Body::Round(_) => ROUND,
        #[cfg(feature = "guests")]
        Body::Position(_) => POSITION,
        #[cfg(feature = "guests")]
        Body::Followed(_) => FOLLOWED,
        Body::Own { .. } => OWN,
    };
    let [first, second] = MAGIC;
    put(&mut out, &[first, second, VERSION, kind]);
    put_bytes(&mut out, space.as_str().as_bytes());
    match body {
        Body::Hello(hello) => put_hello(&mut out, hello),
        Body::Digest(digests) => put_digests(&mut out, digests),
        Body::Pull(pull) => {
            put_varint(&mut out, u64::from(pull.id));
            put_varint(&mut out, u64::from(pull.chunk));
            put_vector(&mut out, &pull.vector);
        }
        Body::Delta(delta) => {
            put_varint(&mut out, u64::from(delta.id));
            put_varint(&mut out, u64::from(delta.chunk));
            put(&mut out, &[u8::from(delta.last)]);
            put_message(&mut out, &delta.message);
            if GUESTS && has_memory(&delta.message) {
                put_memory(&mut out, &delta.message);
            }
        }
        Body::More { id, chunk } => {
            put_varint(&mut out, u64::from(*id));
            put_varint(&mut out, u64::from(*chunk));
        }
        Body::Push(message) => put_message(&mut out, message),
        Body::Writer(_) | Body::Return { .. } | Body::Ended { .. } | Body::Own { .. }
            if !GUESTS => {}
        Body::Own { writer, nonce } => {
            put(&mut out, writer.as_bytes());
            put(&mut out, nonce);
        }
        Body::Writer(writer) => put(&mut out, writer.as_bytes()),
        Body::Return {
            writer,
            intro,
            owner,
        } => {
            put(&mut out, writer.as_bytes());
            put_intro(&mut out, intro.as_ref());
            out.push(u8::from(owner.is_some()));
            put(&mut out, owner.as_ref().map_or(&[], |owner| &owner[..]));
        }
        Body::Ended { writer, last } => {
            put(&mut out, writer.as_bytes());
            match last {
                Last::Unsure(clock) => {
                    out.push(0);
                    put_varint(&mut out, *clock);
                }
                Last::Upto(clock) => {
                    out.push(1);
                    put_varint(&mut out, *clock);
                }
                Last::Forgotten(here) => out.push(2 + u8::from(*here)),
                Last::Member => out.push(4),
                Last::Hearsay => out.push(5),
                Last::Nothing => out.push(6),
            }
        }
        #[cfg(feature = "members")]
        Body::Ask(ask) => put_ask(&mut out, ask),
        #[cfg(feature = "members")]
        Body::Answer(answer) => put_answer(&mut out, answer),
        #[cfg(feature = "budgets")]
        Body::Want(want) => put_want(&mut out, want),
        #[cfg(feature = "budgets")]
        Body::Draw(draw) => put_draw(&mut out, draw),
        #[cfg(feature = "guests")]
        Body::Time(_) | Body::Round(_) | Body::Position(_) if !MEMBERS => {} // no guest sends it
        #[cfg(feature = "guests")]
        Body::Time(unix_ms) => put_varint(&mut out, *unix_ms),
        #[cfg(feature = "guests")]
        Body::Round(round) => put_round(&mut out, round),
        #[cfg(feature = "guests")]
        Body::Position(position) => put_position(&mut out, position),
        #[cfg(feature = "guests")]
        Body::Followed(followed) => put_followed(&mut out, followed),
        Body::Contents { .. } if !MEMBERS => {}
        Body::Contents {
            why,
            vector,
            writers,
        } => {
            out.push(*why as u8);
            put(&mut out, vector);
            let clocks = writers.iter().map(|it| (it.writer, it.clock));
            put_vector(&mut out, &VersionVector::from_sorted(clocks.collect()));
            for it in writers {
                for digest in [it.shards, it.cancels] {
                    put(&mut out, &digest.to_le_bytes());
                }
            }
        }
    }
    out
}

/// Returns the space of a frame. A program with many spaces routes the frame by it.
///
/// # Errors
/// [`LinkError::NotAFrame`], [`DecodeError::TooLarge`], or an error of the format.
pub fn frame_space(bytes: &[u8]) -> Result<&str, Error> {
    read_all(bytes, |reader| {
        let (_, _, space) = read_head(reader)?;
        reader.skip_rest();
        Ok(space)
    })
}

/// Whether a frame is a push with changes of this writer. Only that writer's own node makes such pushes. It
/// reads no further than the writer's entry, and allocates nothing.
#[cfg(feature = "members")]
pub fn push_changes_writer(bytes: &[u8], writer: &WriterId) -> bool {
    let changes = read_all(bytes, |reader| {
        let (_, kind, _) = read_head(reader)?;
        let entry = match kind {
            PUSH => find_told_writer(reader, writer)?,
            _ => None,
        };
        reader.skip_rest();
        Ok(entry.is_some_and(|it| it.hi > it.lo))
    });
    changes.unwrap_or(false)
}

/// Reads the version, the type and the space.
fn read_head<'a>(reader: &mut Reader<'a>) -> Result<(u8, u8, &'a str), Fail> {
    if reader.len() > FRAME_BYTES_MAX {
        let size = reader.len();
        return Err(reader.fail(
            DecodeError::TooLarge {
                what: detail(Limited::Frame),
                size: detail(size),
                max: detail(FRAME_BYTES_MAX),
            }
            .into(),
        ));
    }
    if reader.take(MAGIC.len().min(reader.len())) != MAGIC {
        return Err(reader.fail(LinkError::NotAFrame.into()));
    }
    let version = reader.u8();
    let kind = reader.u8();
    let space = reader.text(Limited::SpaceName, SPACE_BYTES_MAX);
    Ok((version, kind, space))
}

fn put_hello(out: &mut Vec<u8>, hello: &Hello) {
    put(out, &[hello.version_min, hello.version_max]);
    put_varint(out, hello.capabilities);
    put(out, &hello.session.to_le_bytes());
    put_bytes(out, hello.agent.as_bytes());
    put(out, &hello.nonce);
    put_bytes(out, &hello.proof);
    put_digests(out, &hello.digests);
    put(out, hello.writer.as_bytes());
    put_varint(out, hello.clock);
}

fn read_writer(reader: &mut Reader<'_>) -> WriterId {
    WriterId::from_bytes(reader.array())
}

pub(super) fn put_digests(out: &mut Vec<u8>, digests: &Digests) {
    put(out, &digests.vector);
    put(out, &digests.contents.to_le_bytes());
}

pub(super) fn read_digests(reader: &mut Reader<'_>) -> Digests {
    Digests {
        vector: reader.array(),
        contents: read_u64(reader),
    }
}

fn read_u64(reader: &mut Reader<'_>) -> u64 {
    u64::from_le_bytes(reader.array())
}

fn read_contents(reader: &mut Reader<'_>) -> Result<Body, Fail> {
    let why = match reader.u8() {
        0 => Why::Answer,
        1 => Why::Ask,
        2 => Why::Forked,
        _ => return Err(reader.malformed(Rule::Flag)),
    };
    if !MEMBERS {
        // The reason is all that such a program can use.
        reader.skip_rest();
        return Ok(Body::Contents {
            why,
            vector: [0; 16],
            writers: Vec::new(),
        });
    }
    let vector = reader.array();
    // The clocks, and their number, are checked before anything else is read.
    let mut writers: Vec<Contents> = read_vector(reader)?
        .iter()
        .map(|(writer, clock)| Contents {
            writer,
            clock,
            shards: 0,
            cancels: 0,
        })
        .collect();
    for it in &mut writers {
        it.shards = read_u64(reader);
        it.cancels = read_u64(reader);
    }
    Ok(Body::Contents {
        why,
        vector,
        writers,
    })
}

fn read_hello(reader: &mut Reader<'_>) -> Result<Hello, Fail> {
    let (version_min, version_max) = (reader.u8(), reader.u8());
    if version_min > VERSION || version_max < VERSION {
        // The format of the rest belongs to another version.
        return Err(reader.fail(
            LinkError::Version {
                min: detail(version_min),
                max: detail(version_max),
            }
            .into(),
        ));
    }
    Ok(Hello {
        version_min,
        version_max,
        capabilities: reader.varint(),
        session: read_u64(reader),
        agent: match reader.text(Limited::Agent, AGENT_BYTES_MAX) {
            agent if MEMBERS => agent.into(),
            _ => String::new(),
        },
        nonce: reader.array(),
        proof: match reader.bytes(Limited::Proof, PROOF_BYTES_MAX) {
            proof if MEMBERS => proof.to_vec(),
            _ => Vec::new(),
        },
        digests: read_digests(reader),
        writer: read_writer(reader),
        clock: reader.varint(),
    })
}

fn read_delta(reader: &mut Reader<'_>) -> Result<Delta, Fail> {
    let id = reader.varint32();
    let chunk = reader.varint32();
    let last = match reader.u8() {
        0 => false,
        1 => true,
        _ => return Err(reader.malformed(Rule::Flag)),
    };
    let mut message = read_told(reader)?;
    if GUESTS && reader.len() > 0 {
        let bytes = reader.len();
        read_memory(reader, &mut message)?;
        if !has_memory(&message) {
            return Err(reader.fail(
                DecodeError::TrailingBytes {
                    bytes: detail(bytes),
                }
                .into(),
            ));
        }
    }
    Ok(Delta {
        id,
        chunk,
        last,
        message,
    })
}
