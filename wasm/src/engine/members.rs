//! What an engine does in spaces with members, and with tokens, in the module that is built for them.

use alloc::string::ToString;
use alloc::vec::Vec;

use tallymesh_core::{
    Error, Fate, Input, Message, Millis, Replica, Returned, Space, Token, WriterId,
};

use super::{Engine, parts, put};

/// More than any delay after which the sync machine pushes, in milliseconds.
const PUSHED_BY_MS: Millis = 1_000;
const NOBODY: [u8; 16] = [0; 16];

impl Engine {
    /// Makes a replica that goes on where one of the small module ended, under its writer. `state` is
    /// all that it held, which must be an open space's. Or nothing, if something of it is refused.
    ///
    /// `bytes` are those that the one of the small module was made with.
    pub fn resume(space: &[u8], bytes: &[u8], state: &[u8]) -> Option<Engine> {
        let space = Space::new(str::from_utf8(space).ok()?).ok()?;
        let (owner, nonce, seed) = parts(bytes)?;
        // It came from this very page, and may be of any size.
        let state = Message::decode_stored(state).ok()?;
        let writer = WriterId::mint(&space, owner, nonce);
        let replica = Replica::resume(space, writer, &state).ok()?;
        Some(Engine::of(replica, (owner, nonce), seed))
    }

    /// Holds this replica to a role: 0 may all, 1 only adds, 2 writes nothing. The refusal of what is
    /// beyond it is `beyond_role`.
    pub fn limit(&mut self, role: u32) {
        self.replica.set_adds_only(role > 0);
        self.reads_only = role > 1;
    }

    /// Says goodbye to the member that takes care of this replica, which takes over what it counted,
    /// and has that sent at once. False, with nothing done, if no member does.
    pub fn leave(&mut self, now: f64) -> bool {
        let left = self.replica.is_announced(); // of no member it says only that
        if left || self.replica.home().is_none() || self.replica.leave().is_err() {
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
        let token = token(before).and_then(|before| self.replica.token(&before));
        let Some(token) = self.keep(token) else {
            return false;
        };
        self.bytes = token.to_string().into_bytes();
        true
    }

    /// Whether all that a token names is seen here and counts. Nothing is a failure.
    pub fn holds(&mut self, text: &[u8]) -> Option<bool> {
        let token = self.keep(token(text))?;
        Some(self.replica.holds(token.vector()))
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
        self.error = Some(Error::BeyondRole);
        false
    }

    /// It, once peers are told that its writer is this owner's, where they take no others.
    pub(super) fn proving(mut self, nonce: [u8; 16]) -> Engine {
        self.own(0, self.replica.writer(), nonce);
        self
    }

    fn own(&mut self, now: Millis, writer: WriterId, nonce: [u8; 16]) {
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

/// The token of a text in UTF-8.
fn token(text: &[u8]) -> Result<Token, Error> {
    // What is no UTF-8 is no token either, and nor is no text.
    str::from_utf8(text).unwrap_or_default().parse()
}

/// Writes [`part::MEMBERS`](super::part::MEMBERS); false if the space is open.
pub(super) fn put_members(bytes: &mut Vec<u8>, replica: &Replica) -> bool {
    let Some(configuration) = replica.configuration() else {
        return false;
    };
    put(bytes, &configuration.era.to_le_bytes());
    put(bytes, &configuration.number.to_le_bytes());
    put(bytes, id(&replica.home()));
    for owner in &configuration.members {
        put(bytes, owner);
    }
    true
}

/// Writes [`part::WRITERS`](super::part::WRITERS).
pub(super) fn put_writers(bytes: &mut Vec<u8>, replica: &Replica) {
    for listed in replica.roster() {
        put(bytes, listed.writer.as_bytes());
        put(bytes, &listed.clock.to_le_bytes());
        put(bytes, id(&listed.home));
        put(bytes, id(&listed.heir));
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
