//! The ledger: a node's record of tickets. It lists the tickets that the node signed, the ones that
//! it was given, and those that are revoked.
//!
//! It is one file in the data folder, which is written whole at each change, with a copy in memory
//! for queries. It has the text of the tickets that the node was given, which is as good as a key.
//! So only the owner of the file may read it. For a ticket that the node signed, it has only the
//! content.

mod removed;

pub use removed::{REMOVED_MAX, Seen};

use super::revocation::Revocation;
use super::ticket::{CLOCK_SKEW_MAX, Grant, TicketId, named, spaces_named};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use tallymesh_core::Space;
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::model::Role;
use tallymesh_node_store as store;
use tallymesh_node_store::{LEDGER_BYTES_MAX, LEDGER_FILE};
use tokio::sync::watch;

/// The version of the file that this build writes. It reads earlier ones, too.
const VERSION: u64 = 2;

/// The version of a file without newer fields, which earlier builds can read.
const VERSION_MIN: u64 = 1;

/// Most tickets in the list of those that a node has signed.
pub const ISSUED_MAX: usize = 16_384;

/// Most tickets that a node was given and stores.
pub const HELD_MAX: usize = 64;

/// Most revocations that count at a node at one time. Each of them is in the address book, too.
pub const REVOKED_MAX: usize = 4_096;

/// How long a ticket that this node signed stays in the list after its end, in seconds.
const LISTED_S: u64 = 7 * 24 * 60 * 60;

/// A ticket that this node signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The id by which it is revoked.
    pub id: TicketId,
    /// The role of the holder.
    pub role: Role,
    /// Its spaces; `None` for all in which this node is a member.
    pub spaces: Option<Vec<Space>>,
    /// The only key that may use it; `None` if any holder may.
    pub holder: Option<OwnerKey>,
    /// When it was signed, in seconds since 1970.
    pub issued: u64,
    /// When it ends, in seconds since 1970.
    pub expires: Option<u64>,
}

/// A revocation that counts here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// Its text, as it is sent to other nodes.
    pub statement: String,
    /// Its content.
    pub revocation: Revocation,
    /// The spaces in which it counts: its issuer was trusted there when it was received.
    pub spaces: BTreeSet<Space>,
}

/// The reason why the ledger can't be read, or did not store an entry.
#[derive(Debug)]
#[non_exhaustive]
pub enum LedgerError {
    /// The file can't be read or written.
    Io {
        /// The file.
        file: PathBuf,
        /// The error text of the system.
        problem: io::Error,
    },
    /// The content of the file makes no sense.
    Damaged {
        /// The file.
        file: PathBuf,
        /// The problem with it.
        problem: String,
    },
    /// The file was written by a build with another version of it.
    Version {
        /// The file.
        file: PathBuf,
        /// The version that it has.
        found: u64,
    },
    /// There is no room for more entries of one kind.
    Full {
        /// The kind of entry.
        what: &'static str,
        /// The bound on such entries.
        limit: usize,
    },
}

impl LedgerError {
    /// A stable name of the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            LedgerError::Io { .. } => "tickets_io",
            LedgerError::Damaged { .. } => "tickets_damaged",
            LedgerError::Version { .. } => "tickets_version",
            LedgerError::Full { .. } => "tickets_full",
        }
    }
}

impl fmt::Display for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LedgerError::Io { file, problem } => write!(
                f,
                "can't keep what is known of tickets in {}: {problem}. Make room, or the folder one \
                 that the node may write",
                file.display()
            ),
            LedgerError::Damaged { file, problem } => write!(
                f,
                "{} has what is known of tickets, and is damaged: {problem}. Take the file from a \
                 backup; without it the node does not know which tickets are revoked until it hears \
                 of them from others",
                file.display()
            ),
            LedgerError::Version { file, found } => write!(
                f,
                "{} has version {found}, and this build knows version {VERSION}: start the build that \
                 wrote it, or a later one",
                file.display()
            ),
            LedgerError::Full { what, limit } => write!(
                f,
                "there are {limit} {what} already, as many as there may be; some have to end first. \
                 Give out tickets that end soon, or fewer of them"
            ),
        }
    }
}

impl std::error::Error for LedgerError {}

/// A node's record of tickets. Clones share it.
///
/// When a call that stores something returns, the entry is on the disk, if there is a folder.
/// Whether a ticket is revoked is answered from memory.
#[derive(Clone, Debug)]
pub struct Ledger {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Locked while the file is written, too, so that no older content replaces a newer one.
    state: Mutex<LedgerState>,
    /// For each ticket, the spaces in which it is revoked, which every request reads. It is locked
    /// only while a new table replaces it.
    revoked: RwLock<HashMap<TicketId, Vec<Space>>>,
    /// Goes up when the set of revocations changes.
    generation: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct LedgerState {
    folder: Option<PathBuf>,
    issued: BTreeMap<TicketId, Issued>,
    held: BTreeMap<TicketId, (String, Grant)>,
    /// By the text of their statements.
    revoked: BTreeMap<String, Revoked>,
    removals: removed::Removals,
}

impl Ledger {
    /// Opens the ledger of a data folder, which may be new and empty. Without a folder, the ledger
    /// ends with the process.
    ///
    /// # Errors
    /// [`LedgerError`], when the file exists and can't be read.
    pub fn open(folder: Option<&Path>) -> Result<Ledger, LedgerError> {
        let state = match folder {
            None => LedgerState::default(),
            Some(folder) => LedgerState::read(folder)?,
        };
        Ok(Ledger {
            shared: Arc::new(Shared {
                revoked: RwLock::new(state.by_ticket()),
                state: Mutex::new(state),
                generation: watch::Sender::new(0),
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, LedgerState> {
        let state = &self.shared.state;
        state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a ticket that this node signs.
    ///
    /// # Errors
    /// [`LedgerError::Full`], [`LedgerError::Io`]: then it is not recorded, and must not be given away.
    pub fn note(&self, grant: &Grant) -> Result<(), LedgerError> {
        let mut state = self.state();
        if state.issued.len() >= ISSUED_MAX {
            return Err(LedgerError::Full {
                what: "tickets of this node that are good",
                limit: ISSUED_MAX,
            });
        }
        state.issued.insert(grant.id, Issued::from(grant));
        let saved = state.save();
        if saved.is_err() {
            state.issued.remove(&grant.id);
        }
        saved
    }

    /// The tickets that this node signed, until some days after their end.
    pub fn issued(&self) -> Vec<Issued> {
        self.state().issued.values().cloned().collect()
    }

    /// Stores a ticket that was given to this node, and replaces one with the same id.
    ///
    /// # Errors
    /// [`LedgerError::Full`], [`LedgerError::Io`]: then it is not stored.
    pub fn hold(&self, ticket: &str, grant: &Grant) -> Result<(), LedgerError> {
        let mut state = self.state();
        if state.held.len() >= HELD_MAX && !state.held.contains_key(&grant.id) {
            return Err(LedgerError::Full {
                what: "tickets that this node was given",
                limit: HELD_MAX,
            });
        }
        let held = (ticket.trim().to_owned(), grant.clone());
        let before = state.held.insert(grant.id, held);
        let saved = state.save();
        if saved.is_err() {
            state.held.remove(&grant.id);
            state.held.extend(before.map(|it| (grant.id, it)));
        }
        saved
    }

    /// The tickets that were given to this node, with the content of each, including those that
    /// ended.
    pub fn held(&self) -> Vec<(String, Grant)> {
        self.state().held.values().cloned().collect()
    }

    /// Removes a ticket that was given to this node. Returns whether it was stored.
    ///
    /// # Errors
    /// [`LedgerError::Io`]: then it is still stored.
    pub fn forget(&self, id: TicketId) -> Result<bool, LedgerError> {
        let mut state = self.state();
        let Some(before) = state.held.remove(&id) else {
            return Ok(false);
        };
        let saved = state.save();
        if saved.is_err() {
            state.held.insert(id, before);
        }
        saved.map(|()| true)
    }

    /// Whether a ticket is revoked in a space.
    pub fn is_revoked(&self, id: TicketId, space: &str) -> bool {
        let revoked = &self.shared.revoked;
        let revoked = revoked.read().unwrap_or_else(PoisonError::into_inner);
        let spaces = revoked.get(&id);
        spaces.is_some_and(|spaces| spaces.iter().any(|it| it.as_str() == space))
    }

    /// The spaces in which a ticket is revoked.
    pub fn revoked_in(&self, id: TicketId) -> Vec<Space> {
        let revoked = &self.shared.revoked;
        let revoked = revoked.read().unwrap_or_else(PoisonError::into_inner);
        revoked.get(&id).cloned().unwrap_or_default()
    }

    /// Applies revocations, each in its spaces beside those in which it already counts. The caller
    /// has checked that their issuers are trusted there. Returns whether anything is new.
    ///
    /// # Errors [`LedgerError::Full`]: the revocations without room do not count.
    /// [`LedgerError::Io`]: all count, but only while this process runs.
    pub fn revoke(&self, new: Vec<Revoked>) -> Result<bool, LedgerError> {
        let mut state = self.state();
        let (mut is_new, mut full) = (false, false);
        for revoked in new {
            let has_room = state.revoked.len() < REVOKED_MAX;
            match state.revoked.get_mut(&revoked.statement) {
                Some(known) => {
                    let before = known.spaces.len();
                    known.spaces.extend(revoked.spaces);
                    is_new |= known.spaces.len() > before;
                }
                None if !has_room => full = true,
                None => {
                    state.revoked.insert(revoked.statement.clone(), revoked);
                    is_new = true;
                }
            }
        }
        if is_new {
            self.publish(&state);
            state.save()?;
        }
        match full {
            false => Ok(is_new),
            true => Err(LedgerError::Full {
                what: "revocations",
                limit: REVOKED_MAX,
            }),
        }
    }

    /// All revocations that count here.
    pub fn revoked(&self) -> Vec<Revoked> {
        self.state().revoked.values().cloned().collect()
    }

    /// A number that changes when the result of [`Ledger::revoked`] does.
    pub fn generation(&self) -> u64 {
        *self.shared.generation.borrow()
    }

    /// Reports each change of the set of revocations.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.generation.subscribe()
    }

    /// Removes the entries that are over at a time, in milliseconds since 1970. These are
    /// revocations that are no longer needed, and tickets of this node some days after their end.
    ///
    /// # Errors
    /// [`LedgerError::Io`]: they are removed only while this process runs.
    pub fn tend(&self, now_ms: u64) -> Result<(), LedgerError> {
        let mut state = self.state();
        let before = (state.issued.len(), state.revoked.len());
        let LedgerState {
            issued, revoked, ..
        } = &mut *state;
        revoked.retain(|_, it| !it.revocation.is_over(now_ms));
        let now = now_ms / 1000;
        let ended: HashMap<TicketId, u64> = revoked
            .values()
            .filter(|it| it.revocation.spaces.is_none())
            .map(|it| (it.revocation.id, it.revocation.issued))
            .collect();
        issued.retain(|id, it| {
            let end = it.expires.into_iter().chain(ended.get(id).copied()).min();
            end.is_none_or(|end| end.saturating_add(LISTED_S) > now)
        });
        let after = (state.issued.len(), state.revoked.len());
        if after.1 != before.1 {
            self.publish(&state);
        }
        match after == before {
            true => Ok(()),
            false => state.save(),
        }
    }

    /// Publishes the revocations for queries of single tickets.
    fn publish(&self, state: &LedgerState) {
        let fresh = state.by_ticket();
        let revoked = &self.shared.revoked;
        *revoked.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        self.shared
            .generation
            .send_modify(|generation| *generation += 1);
    }
}

impl From<&Grant> for Issued {
    fn from(grant: &Grant) -> Issued {
        Issued {
            id: grant.id,
            role: grant.role,
            spaces: grant.spaces.clone(),
            holder: grant.holder,
            issued: grant.issued,
            expires: grant.expires,
        }
    }
}

/// The content of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u64,
    issued: Vec<IssuedRow>,
    held: Vec<String>,
    revoked: Vec<RevokedRow>,
    /// The members of each space, as they were last seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    members: Vec<removed::SeenRow>,
    /// The owners that were removed from them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    removed: Vec<removed::RemovedRow>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IssuedRow {
    id: String,
    role: Role,
    spaces: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    issued: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RevokedRow {
    statement: String,
    spaces: Vec<String>,
}

impl LedgerState {
    /// Reads the file in a folder; an empty ledger if there is none.
    fn read(folder: &Path) -> Result<LedgerState, LedgerError> {
        let file = folder.join(LEDGER_FILE);
        let bytes = store::read_small(folder, LEDGER_FILE, LEDGER_BYTES_MAX);
        let bytes = match bytes {
            Ok(Some(bytes)) => bytes,
            Ok(None) => {
                return Ok(LedgerState {
                    folder: Some(folder.to_path_buf()),
                    ..LedgerState::default()
                });
            }
            Err(problem) => return Err(LedgerError::Io { file, problem }),
        };
        let damaged = |problem: String| LedgerError::Damaged {
            file: file.clone(),
            problem,
        };
        let value: serde_json::Value =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        match value["version"].as_u64() {
            Some(VERSION_MIN..=VERSION) => {}
            Some(found) => return Err(LedgerError::Version { file, found }),
            None => return Err(damaged("it names no version".into())),
        }
        let written = serde_json::from_value(value).map_err(|error| damaged(error.to_string()))?;
        let mut state = LedgerState::of(written).map_err(damaged)?;
        state.folder = Some(folder.to_path_buf());
        Ok(state)
    }

    fn of(written: Written) -> Result<LedgerState, String> {
        let mut state = LedgerState::default();
        for row in written.issued {
            let owner = |text: &str| {
                OwnerKey::digits(text).ok_or_else(|| format!("`{text}` is no owner's key"))
            };
            let issued = Issued {
                id: row.id.parse()?,
                role: row.role,
                spaces: spaces_named(&row.spaces)?,
                holder: row.holder.as_deref().map(owner).transpose()?,
                issued: row.issued,
                expires: row.expires,
            };
            state.issued.insert(issued.id, issued);
        }
        for ticket in written.held {
            let grant = Grant::parse(&ticket).map_err(|error| error.to_string())?;
            state.held.insert(grant.id, (ticket, grant));
        }
        for row in written.revoked {
            let revocation = Revocation::read(&row.statement);
            let revocation = revocation
                .ok_or_else(|| format!("`{}` is no revocation that is signed", row.statement))?;
            let spaces = row.spaces.iter().map(|name| Space::new(name));
            let spaces: Result<BTreeSet<Space>, _> = spaces.collect();
            let revoked = Revoked {
                statement: row.statement.clone(),
                revocation,
                spaces: spaces.map_err(|error| error.to_string())?,
            };
            state.revoked.insert(row.statement, revoked);
        }
        state.removals = removed::Removals::of(written.members, written.removed)?;
        Ok(state)
    }

    fn by_ticket(&self) -> HashMap<TicketId, Vec<Space>> {
        let mut by_ticket: HashMap<TicketId, BTreeSet<&Space>> = HashMap::new();
        for revoked in self.revoked.values() {
            let spaces = by_ticket.entry(revoked.revocation.id).or_default();
            spaces.extend(&revoked.spaces);
        }
        let plain = |spaces: BTreeSet<&Space>| spaces.into_iter().cloned().collect();
        by_ticket
            .into_iter()
            .map(|(id, spaces)| (id, plain(spaces)))
            .collect()
    }

    /// Writes the file so that it is durable, and has either the old or the new content.
    fn save(&self) -> Result<(), LedgerError> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let issued = self.issued.values().map(|it| IssuedRow {
            id: it.id.to_string(),
            role: it.role,
            spaces: named(it.spaces.as_deref()),
            holder: it.holder.map(|holder| holder.to_string()),
            issued: it.issued,
            expires: it.expires,
        });
        let revoked = self.revoked.values().map(|it| RevokedRow {
            statement: it.statement.clone(),
            spaces: it.spaces.iter().map(Space::to_string).collect(),
        });
        let (members, removed) = self.removals.rows();
        let written = Written {
            version: match self.has_removals() {
                true => VERSION,
                false => VERSION_MIN,
            },
            issued: issued.collect(),
            held: self.held.values().map(|it| it.0.clone()).collect(),
            revoked: revoked.collect(),
            members,
            removed,
        };
        let bytes = serde_json::to_vec(&written).map_err(io::Error::from);
        let saved = bytes.and_then(|bytes| store::write_small(folder, LEDGER_FILE, &bytes));
        saved.map_err(|problem| LedgerError::Io {
            file: folder.join(LEDGER_FILE),
            problem,
        })
    }
}

/// The longest time before its end in which a ticket counts as ending. For a short ticket, it is a
/// tenth of its life.
const ENDING_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The state of a ticket at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TicketState {
    /// It is valid.
    Good,
    /// It is valid, and ends within 7 days, or within a tenth of its life if that is less.
    Ending,
    /// It has ended.
    Ended,
    /// It is revoked, in one space at least.
    Revoked,
}

impl TicketState {
    /// All states.
    pub const ALL: [TicketState; 4] = [
        TicketState::Good,
        TicketState::Ending,
        TicketState::Ended,
        TicketState::Revoked,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            TicketState::Good => "good",
            TicketState::Ending => "ending",
            TicketState::Ended => "ended",
            TicketState::Revoked => "revoked",
        }
    }

    /// The state of a ticket at a time in milliseconds since 1970. `issued` and `expires` are in
    /// seconds.
    pub fn at(now_ms: u64, issued: u64, expires: Option<u64>, is_revoked: bool) -> TicketState {
        let now = now_ms / 1000;
        match expires {
            _ if is_revoked => TicketState::Revoked,
            Some(end) if end.saturating_add(CLOCK_SKEW_MAX.as_secs()) <= now => TicketState::Ended,
            Some(end) => {
                let tenth = end.saturating_sub(issued) / 10;
                match end.saturating_sub(now) <= tenth.min(ENDING_MAX.as_secs()) {
                    true => TicketState::Ending,
                    false => TicketState::Good,
                }
            }
            None => TicketState::Good,
        }
    }
}

#[cfg(test)]
mod tests;
