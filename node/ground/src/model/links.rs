//! Links to peers: who is at the other end, what the link carries, and how far its exchange has come.

use super::SpaceId;
use crate::identity::OwnerKey;
use serde::Serialize;
use tallymesh_core::LinkStatus;
use utoipa::ToSchema;

/// The kind of peer at the other end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PeerKind {
    /// Another node.
    Libp2p,
    /// A client that syncs over WebSocket, such as a browser tab.
    WebSocket,
    /// A client that syncs over single requests.
    Post,
}

/// The limits of a link's peer in a space, if it may do less than a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerScope {
    /// The key that the peer has proved to be its own.
    pub owner: OwnerKey,
    /// The peer's role in the space.
    pub role: tallymesh_core::Role,
}

/// A space that a link carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The space.
    pub space: SpaceId,
    /// The limits of the peer there; `None` for a peer without limits.
    pub limits: Option<PeerScope>,
}

impl From<SpaceId> for Carried {
    fn from(space: SpaceId) -> Carried {
        Carried {
            space,
            limits: None,
        }
    }
}

/// Facts about the sender at the other end of a new link, beside its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sender {
    /// The key that the peer has proved to be its own.
    pub owner: Option<OwnerKey>,
    /// The peer's address, as seen from this node.
    pub address: Option<String>,
    /// The id of the ticket that the peer showed.
    pub ticket: Option<String>,
}

/// How far the exchange between two replicas has come on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LinkState {
    /// The peer has not sent its hello yet; it may not have the space open.
    Greeting,
    /// This node lacks something, and requested it on this link.
    Pulling,
    /// This node lacks nothing that other nodes have announced to it.
    Ready,
}

impl LinkState {
    /// The state of a link, as it is shown.
    pub fn of(status: &LinkStatus) -> LinkState {
        match (&status.agent, status.pulling) {
            (None, _) => LinkState::Greeting,
            (Some(_), true) => LinkState::Pulling,
            (Some(_), false) => LinkState::Ready,
        }
    }
}

/// The state of one link in one space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct LinkRow {
    /// Its number.
    pub link: u32,
    /// The name of the other end: a libp2p peer id, or `ws-N`.
    pub peer: String,
    /// The kind of peer at the other end.
    pub kind: PeerKind,
    /// The space.
    pub space: String,
    /// How far the exchange has come.
    pub state: LinkState,
    /// The program at the other end, as it calls itself.
    pub agent: Option<String>,
    /// Milliseconds since this node last received a frame on the link, if it received one.
    pub last_heard_ms: Option<u64>,
    /// Bytes of frames received on this link.
    pub bytes_in: u64,
    /// Bytes of frames sent on this link.
    pub bytes_out: u64,
}
