//! What an engine does in spaces with members, and with tokens, in the module that is built for them.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::mem;

use tallymesh_core::{
    Encode, Error, ErrorKind, Fate, Input, KeyId, Message, Millis, RESERVED, Replica, Returned,
    ScopeError, Token, WriterId,
};

use super::{Engine, named, parts, put};

/// More than any delay after which the sync machine pushes, in milliseconds.
const PUSHED_BY_MS: Millis = 1_000;
const NOBODY: [u8; 16] = [0; 16];

/// A record's first byte: whether it stands for all before it.
const WHOLE: u8 = 1;
/// Bytes of a record before its nonces: that byte, and how many nonces there are (u16).
const RECORD_HEAD: usize = 3;

/// What a store brings back, and what it is still to be told.
#[derive(Default)]
pub(super) struct Restored {
    /// What the own writers were minted with, to prove later that they were.
    nonces: Vec<[u8; 16]>,
    /// How many of them the store has.
    stored: usize,
    /// What was restored of a log that is not adopted yet.
    left: Option<Replica>,
    left_nonces: Vec<[u8; 16]>,
}

/// Whether a key is a plain counter's, and no part of a budget: of those there are none in spaces
/// without members, and TypeScript refuses to write to them.
pub(super) fn is_plain(key: &str) -> bool {
    !key.starts_with(RESERVED)
}

impl Engine {
    /// Takes in the next record of a log that a process left behind. False is a failure: what was
    /// restored of that log is dropped then.
    ///
    /// A record is a byte (1 if it stands for all before it), how many nonces of writers follow (u16,
    /// little-endian), those, and a stored message or nothing. `live` says whether this replica was used
    /// already.
    pub fn restore(&mut self, record: &[u8], live: bool) -> bool {
        let restored = self.try_restore(record, live);
        self.keep(restored).is_some()
    }

    /// Goes on with what was restored: `live` or not, as it was restored. Reads the numbers (u32) of the
    /// counters that changed. False is a failure, such as `closed`: a replica that was used already has
    /// not heard of the members that the log knows.
    pub fn adopt(&mut self, live: bool) -> bool {
        let Some(mut left) = self.restored.left.take() else {
            return true;
        };
        let nonces = mem::take(&mut self.restored.left_nonces);
        self.bytes.clear();
        // As long as nothing is held here, what was restored just takes this one's place: it has the same
        // writer, and to merge it would take several times as long.
        if !live && self.replica.vector().iter().next().is_none() {
            mem::swap(&mut self.replica, &mut left);
        }
        let changed = &mut |key_id: KeyId| put(&mut self.bytes, &key_id.as_u32().to_le_bytes());
        let adopted = match self.replica.rejoin_mut().take_over(&mut left, changed) {
            Err(error) if error.kind() == ErrorKind::Closed && !live => {
                mem::swap(&mut self.replica, &mut left);
                self.replica.rejoin_mut().take_over(&mut left, changed)
            }
            adopted => adopted,
        };
        if self.keep(adopted).is_none() {
            return false;
        }
        for nonce in nonces {
            let writer = WriterId::mint(self.replica.space(), &self.owner, &nonce);
            self.own(0, writer, nonce);
        }
        true
    }

    /// Makes a replica that goes on where one of the small module ended, under its writer. `state` is
    /// all that it held, which must be an open space's. Or nothing, if something of it is refused.
    ///
    /// `bytes` are those that the one of the small module was made with.
    pub fn resume(space: &[u8], bytes: &[u8], state: &[u8]) -> Option<Engine> {
        let (space, name) = named(space)?;
        let (owner, nonce, seed) = parts(bytes)?;
        // It came from this very page, and may be of any size.
        let state = Message::decode_stored(state).ok()?;
        let writer = WriterId::mint(&space, owner, nonce);
        let replica = Replica::resume(space, writer, &state).ok()?;
        Some(Engine::of(replica, (owner, nonce), seed, name))
    }

    /// Holds this replica to a role: 0 may all, 1 only adds, 2 writes nothing. The refusal of what is
    /// beyond it is `beyond_role`.
    pub fn limit(&mut self, role: u32) {
        self.replica.members_mut().set_adds_only(role > 0);
        self.reads_only = role > 1;
    }

    /// Sets the time that expiry is judged by, in milliseconds since 1970, until the next call, and gives it. In
    /// a space with members it is theirs, as far as they told it; else it is `wall`, the page's own clock, which
    /// ends no counter there. `now` is as of [`Engine::input`].
    pub fn judge_time(&mut self, wall: f64, now: f64) -> f64 {
        let told = self.sync.member_time(now as Millis, &self.replica);
        self.replica.members_mut().set_time_unsure(told.is_none());
        let time = told.map_or(wall, |it| it as f64);
        self.set_time(time);
        time
    }

    /// Says goodbye to the member that takes care of this replica, which takes over what it counted,
    /// and has that sent at once. False, with nothing done, if no member does.
    pub fn leave(&mut self, now: f64) -> bool {
        let left = self.replica.members().is_announced(); // of no member it says only that
        if left
            || self.replica.members().sponsor().is_none()
            || self.replica.members_mut().leave().is_err()
        {
            return false;
        }
        let now = now as Millis;
        self.sync.handle(now, &mut self.replica, Input::Changed);
        let later = now + PUSHED_BY_MS;
        self.sync.handle(later, &mut self.replica, Input::Tick);
        true
    }

    /// Reads the text of a token that names all that was written and is seen here, and of the token
    /// `before` what is not. False is a failure.
    pub fn token(&mut self, before: &[u8]) -> bool {
        let token = token(before).and_then(|before| self.replica.consistency().token(&before));
        let Some(token) = self.keep(token) else {
            return false;
        };
        self.bytes = token.to_string().into_bytes();
        true
    }

    /// Whether all that a token names is seen here and counts. Nothing is a failure.
    pub fn holds(&mut self, text: &[u8]) -> Option<bool> {
        let token = self.keep(token(text))?;
        Some(self.replica.consistency().holds(token.vector()))
    }
}

impl Engine {
    /// Goes on under a fresh writer id of the same owner. A nonce of another length is one of zeros,
    /// which no caller makes.
    pub(super) fn renew(&mut self, now: Millis, nonce: &[u8]) {
        let nonce = nonce.try_into().unwrap_or_default();
        let writer = WriterId::mint(self.replica.space(), &self.owner, &nonce);
        self.own(now, writer, nonce);
        let renew = Input::Renew { writer };
        self.sync.handle(now, &mut self.replica, renew);
    }

    /// Refuses what the role does not allow.
    #[cold]
    pub(super) fn refuse(&mut self) -> bool {
        self.error = Some(ScopeError::BeyondRole.into());
        false
    }

    /// It, once peers are told that its writer is this owner's, where they take no others.
    pub(super) fn proving(mut self, nonce: [u8; 16]) -> Engine {
        self.own(0, self.replica.writer(), nonce);
        self
    }

    fn own(&mut self, now: Millis, writer: WriterId, nonce: [u8; 16]) {
        self.restored.nonces.push(nonce);
        let own = Input::Own { writer, nonce };
        self.sync.handle(now, &mut self.replica, own);
    }

    /// Drops what nobody needs any more.
    pub(super) fn tend(&mut self, now: Millis) {
        let kept = match self.stored {
            true => self.mark.clone(),
            false => self.replica.mark(),
        };
        // A page makes no transaction of its own here, and so none that fails.
        let _ = self.sync.tend(now, &mut self.replica, &kept);
    }
}

impl Engine {
    fn try_restore(&mut self, record: &[u8], live: bool) -> Result<(), Error> {
        let nonces = mem::take(&mut self.restored.left_nonces);
        let left = self.restored.left.take();
        // What promises more than there is has a message that is none.
        let (head, message) = parted(record).unwrap_or((&[0; RECORD_HEAD], &[0]));
        let space = self.replica.space().clone();
        // A log may have something of a writer that is in use, but of no other.
        let writer = match live {
            true => WriterId::mint(&space, &self.owner, &NOBODY),
            false => self.replica.writer(),
        };
        let whole = head.first().is_some_and(|flags| flags & WHOLE > 0);
        let left = left.filter(|_| !whole);
        let mut left = left.unwrap_or_else(|| Replica::new(space, writer));
        if !message.is_empty() {
            left.restore(&Message::decode_stored(message)?)?;
        }
        self.restored.left = Some(left);
        self.restored.left_nonces = nonces;
        let fresh = head[RECORD_HEAD..].as_chunks().0;
        self.restored.left_nonces.extend_from_slice(fresh);
        Ok(())
    }

    pub(super) fn put_record(&mut self, snapshot: bool) -> bool {
        self.stored = true;
        let Engine {
            replica, restored, ..
        } = self;
        let message = match snapshot {
            true => {
                if replica.consistency().unconfirmed() == 0 {
                    // Else there may be more to be told of writers that the replica does not list.
                    let vector = replica.vector();
                    restored.nonces.retain(|nonce| {
                        let writer = WriterId::mint(replica.space(), &self.owner, nonce);
                        writer == replica.writer() || vector.get(&writer) > 0
                    });
                }
                restored.stored = 0;
                self.mark = replica.mark();
                Some(replica.snapshot())
            }
            false => replica.since(&mut self.mark),
        };
        let whole = snapshot || message.as_ref().is_some_and(Message::is_whole);
        if whole {
            restored.stored = 0;
        }
        let nonces = &restored.nonces[restored.stored..];
        if message.is_none() && nonces.is_empty() {
            return false;
        }
        let bytes = &mut self.bytes;
        bytes.push(u8::from(whole));
        put(bytes, &(nonces.len() as u16).to_le_bytes());
        put(bytes, nonces.as_flattened());
        restored.stored = restored.nonces.len();
        if let Some(message) = message {
            put(bytes, &message.encode_stored());
        }
        true
    }
}

/// A record's head with its nonces, and its message.
fn parted(record: &[u8]) -> Option<(&[u8], &[u8])> {
    let head = record.first_chunk::<RECORD_HEAD>()?;
    let nonces = usize::from(u16::from_le_bytes([head[1], head[2]]));
    record.split_at_checked(RECORD_HEAD + nonces * NOBODY.len())
}

/// The token of a text in UTF-8.
fn token(text: &[u8]) -> Result<Token, Error> {
    // What is no UTF-8 is no token either, and nor is no text.
    str::from_utf8(text).unwrap_or_default().parse()
}

/// Writes [`part::MEMBERS`](super::part::MEMBERS); false if the space is open.
pub(super) fn put_members(bytes: &mut Vec<u8>, replica: &Replica) -> bool {
    let Some(configuration) = replica.members().configuration() else {
        return false;
    };
    put(bytes, &configuration.era.to_le_bytes());
    put(bytes, &configuration.number.to_le_bytes());
    put(bytes, id(&replica.members().sponsor()));
    for owner in &configuration.members {
        put(bytes, owner);
    }
    true
}

/// Writes [`part::WRITERS`](super::part::WRITERS).
pub(super) fn put_writers(bytes: &mut Vec<u8>, replica: &Replica) {
    for listed in replica.members().writer_table() {
        put(bytes, listed.writer.as_bytes());
        put(bytes, &listed.clock.to_le_bytes());
        put(bytes, id(&listed.sponsor));
        put(bytes, id(&listed.successor));
        put(bytes, &listed.owner.unwrap_or_default());
        let fate = match listed.fate {
            Fate::Living => 0,
            Fate::Left => 1,
            Fate::Dead => 2,
            Fate::Absorbed => 3,
        };
        put(bytes, &[fate]);
    }
}

/// What [`Engine::poll`] tells of a late return.
pub(super) fn returned(returned: &Returned) -> Vec<u8> {
    let ops = returned.again.iter().flat_map(|again| &again.ops);
    let weaker = ops.filter(|op| op.left > 0).count();
    let (first, last) = returned.unknown.unwrap_or_default();
    [returned.again.len() as u64, first, last, weaker as u64]
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

fn id(writer: &Option<WriterId>) -> &[u8; 16] {
    writer.as_ref().map_or(&NOBODY, WriterId::as_bytes)
}
