//! The wire format, version 1, which is stable. `docs/protocol.md` specifies it byte by byte.
//!
//! It is strict: a decoder accepts only what the encoder would write, so one state has one encoding. It checks
//! each length against its bound before it allocates. Numbers are LEB128, in the shortest form only.
//!
//! | file | bytes of |
//! |---|---|
//! | `bytes` | numbers and byte strings |
//! | `frame` | frames, and the hello |
//! | `message`, `side`, `fact`, `keyed` | a message: shards in columns, slots' records, membership records, keys |
//! | `kept`, `adds` | records of a store: unconfirmed transactions; plain adds |
//! | `ask`, `want`, `audit` | questions of consistency levels, requests for rights, audits |
//! | `token` | a session's dependencies, as text |
//!
//! `tests/vectors` has golden bytes, `core/tests/laws/codec.rs` the laws: round trip, truncation, trailing bytes.

#[cfg(feature = "members")]
mod adds;
#[cfg(feature = "members")]
mod ask;
#[cfg(feature = "members")]
mod audit;
mod bytes;
mod fact;
mod frame;
mod kept;
mod keyed;
mod message;
mod side;
#[cfg(feature = "tokens")]
mod token;
#[cfg(feature = "budgets")]
mod want;

pub use crate::message::records::Intro;
#[cfg(feature = "members")]
pub(crate) use adds::Adds;
#[cfg(feature = "members")]
pub use ask::{Answer, Ask};
#[cfg(feature = "members")]
pub use audit::{AuditAnswer, AuditQuestion, AuditedPage};
pub(crate) use frame::encode;
#[cfg(feature = "members")]
pub use frame::push_changes_writer;
pub use frame::{
    ANSWERS, Body, DEALS, Delta, Digests, Frame, GIVES, Hello, LACKS_MEMORY, LENDS, Last, Pull,
    REMEMBERS, TAKES_NOTHING, TAKES_OWN, Why, frame_space,
};
#[cfg(feature = "members")]
pub(crate) use keyed::{decode_adds, encode_adds, room_for_keyed};

#[cfg(feature = "tokens")]
pub use token::Token;
#[cfg(feature = "budgets")]
pub use want::{Draw, Want};

pub use crate::error::VERSION;
