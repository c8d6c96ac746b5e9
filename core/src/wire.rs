//! The wire format, version 1, which is stable. `docs/protocol.md` specifies it byte by byte.
//!
//! # What it adds
//! Bytes. Numbers are LEB128, in the shortest form only.
//!
//! | file | bytes of |
//! |---|---|
//! | `bytes` | numbers and byte strings |
//! | `frame` | frames, and the hello |
//! | `message`, `side`, `record`, `keyed` | a message: shards in columns, slots' records, membership records, keys |
//! | `earlier`, `adds` | records of a store: unconfirmed transactions; plain adds |
//! | `round`, `names` | changes between positions of their sender; short names of writers in them |
//! | `ask`, `want`, `audit` | questions of consistency levels, requests for rights, audits |
//! | `token` | a session's dependencies, as text |
//!
//! # What it guarantees
//! - **One state has one encoding.** A decoder accepts only what the encoder would write.
//! - **Bounds come before memory.** A decoder checks each length against its bound before it allocates.
//! - **Damage is an error.** Bytes that are cut short, too long or changed decode to an error or to another
//!   message, and never panic.
//!
//! `tests/vectors` has golden bytes, `core/tests/laws/codec.rs` the laws: round trip, truncation, trailing
//! bytes.
//!
//! # What it follows
//! LEB128 is the encoding of DWARF and WebAssembly. Keys are front-coded, as in sorted dictionaries, and
//! shards lie in columns, so that like numbers are neighbours. The rest is the format's own.

#[cfg(feature = "members")]
mod adds;
#[cfg(feature = "members")]
mod ask;
#[cfg(feature = "members")]
mod audit;
mod bytes;
mod earlier;
mod frame;
mod keyed;
mod message;
#[cfg(feature = "guests")]
mod names;
mod record;
#[cfg(feature = "guests")]
mod round;
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
    ANSWERS, Body, COPY, DEALS, Delta, Digests, FOLLOWS, Frame, GIVES, Hello, LACKS_MEMORY, LENDS,
    Last, Pull, REMEMBERS, TAKES_NOTHING, TAKES_OWN, TAKES_TIME, Why, frame_space,
};
#[cfg(feature = "members")]
pub(crate) use keyed::{decode_adds, encode_adds, room_for_keyed};

#[cfg(feature = "guests")]
pub use names::Names;
#[cfg(feature = "guests")]
pub use round::{Followed, Position, Round};
#[cfg(feature = "tokens")]
pub use token::Token;
#[cfg(feature = "budgets")]
pub use want::{Draw, Want};

pub use crate::error::VERSION;
pub use message::Encode;
