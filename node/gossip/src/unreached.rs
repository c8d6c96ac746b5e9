//! Configured peers, and those that tickets name, that are not linked.
//!
//! A setting without effect must not be silent. So such a peer is shown with the reason in the log,
//! in `/v1/peers` and by `tallymesh doctor`.

use libp2p::core::transport::TransportError;
use libp2p::swarm::DialError;
use libp2p::{Multiaddr, PeerId};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io;
use std::time::{Duration, Instant};
use tallymesh_node_engine::network::UnreachedRow;
use tallymesh_node_ground::identity::relay_of;

/// How long a peer may be away before it is logged. A lower value logs restarts, too.
const TELL_AFTER: Duration = Duration::from_secs(5);

/// The wait before it is logged again. It doubles up to its limit.
const TELL_WAIT_MIN: Duration = Duration::from_secs(10);
const TELL_WAIT_MAX: Duration = Duration::from_secs(3600);

/// The reason why a peer is not linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Why {
    code: &'static str,
    detail: String,
}

impl Why {
    fn new(code: &'static str, detail: impl Into<String>) -> Why {
        let detail = detail.into();
        Why { code, detail }
    }

    /// No attempt to dial it has a result yet.
    fn waiting() -> Why {
        Why::new("no_answer", "no answer so far")
    }

    /// It is connected, and sends nothing.
    pub(super) fn silent() -> Why {
        Why::new(
            "silent",
            "it answers, and sends no hello: it may take this node for a stranger. Let a member there \
             run `tallymesh invite`, and start this node with `--join TICKET`",
        )
    }

    /// It is connected, and has no right here.
    pub(super) fn stranger() -> Why {
        Why::new(
            "stranger",
            "it has no right at this node: name it with its id (`/p2p/ID`), or give it a ticket",
        )
    }

    /// It sends its hello, and has no space of this node.
    pub(super) fn elsewhere() -> Why {
        Why::new(
            "no_space",
            "it sends a hello in none of the spaces that are open here: open one of its with `--space`, or one of \
             this node's there",
        )
    }

    /// It is a relay at which this node does not listen.
    pub(super) fn no_circuit() -> Why {
        Why::new(
            "relay",
            "no relay takes this node in there: it is away, or no relay (`--relay`), or it refuses",
        )
    }

    /// The reason in a failed attempt; `None` if the attempt shows nothing about the peer.
    pub(super) fn of(error: &DialError) -> Option<Why> {
        Some(match error {
            // An address of this node's own listeners is not even dialled.
            DialError::LocalPeerId { .. } | DialError::NoAddresses => {
                Why::new("own_address", "this is an address of this node itself")
            }
            DialError::WrongPeerId { obtained, .. } => Why::new(
                "other_identity",
                format!(
                    "{obtained} answers there: the node has another key, or another node its address"
                ),
            ),
            DialError::Transport(errors) => errors.last().map(|(_, error)| transport(error))?,
            DialError::Denied { cause } => Why::new("denied", innermost(cause)),
            DialError::Aborted | DialError::DialPeerConditionFalse(_) => return None,
        })
    }
}

fn transport(error: &TransportError<io::Error>) -> Why {
    let error = match error {
        TransportError::MultiaddrNotSupported(_) => {
            return Why::new("unsupported", "this kind of address can't be dialled");
        }
        TransportError::Other(error) => error,
    };
    let text = innermost(error);
    let all = format!("{error} {text}").to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| all.contains(word));
    if has(&["connection refused"]) {
        Why::new("refused", "nobody listens there (connection refused)")
    } else if has(&["resolve", "dns", "no record", "name or service"]) {
        Why::new("not_resolved", format!("its name does not resolve: {text}"))
    } else if has(&["timeout", "timed out"]) {
        Why::new("no_answer", "nobody answered in time")
    } else {
        Why::new("unreachable", text)
    }
}

/// The innermost cause.
fn innermost(error: &dyn Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

struct Row {
    why: Why,
    since: Instant,
    /// The reason that was logged last.
    told: Option<&'static str>,
    tell_next: Instant,
    tell_wait: Duration,
}

/// The state of a configured peer.
pub(super) enum PeerState {
    /// It is linked.
    Well,
    /// It is connected, and not linked.
    Connected(Why),
    /// It is not connected.
    Away,
}

/// All peers that are not linked.
#[derive(Default)]
pub(super) struct Unreached {
    rows: BTreeMap<Multiaddr, Row>,
    /// The addresses that only tickets name.
    of_tickets: BTreeSet<Multiaddr>,
}

impl Unreached {
    /// Begins without peers. Only tickets name the addresses `of_tickets`.
    pub(super) fn new(of_tickets: BTreeSet<Multiaddr>) -> Unreached {
        Unreached {
            rows: BTreeMap::new(),
            of_tickets,
        }
    }

    /// Records that an attempt to reach a configured address failed.
    pub(super) fn failed(&mut self, address: Multiaddr, error: &DialError, now: Instant) {
        if let Some(why) = Why::of(error) {
            self.row(address, now).why = why;
        }
    }

    fn row(&mut self, address: Multiaddr, now: Instant) -> &mut Row {
        self.rows.entry(address).or_insert(Row {
            why: Why::waiting(),
            since: now,
            told: None,
            tell_next: now + TELL_AFTER,
            tell_wait: TELL_WAIT_MIN,
        })
    }

    /// Updates the state of the peers, each with its address and the peer last seen there, and logs
    /// it.
    pub(super) fn look(
        &mut self,
        peers: impl Iterator<Item = (Multiaddr, PeerState)>,
        now: Instant,
    ) -> Vec<(UnreachedRow, Instant)> {
        let mut rows = Vec::new();
        for (address, state) in peers {
            match state {
                PeerState::Well => {
                    if self
                        .rows
                        .remove(&address)
                        .is_some_and(|row| row.told.is_some())
                    {
                        tracing::info!(%address, "the configured peer is reached");
                    }
                    continue;
                }
                PeerState::Connected(why) => self.row(address.clone(), now).why = why,
                PeerState::Away => {}
            }
            let from = match self.of_tickets.contains(&address) {
                true => "ticket",
                false if relay_of(&address).is_some() => "listen",
                false => "peer",
            };
            let row = self.row(address.clone(), now);
            // Another reason is logged soon, the same one less and less often.
            let is_other = row.told.is_some_and(|told| told != row.why.code);
            let first = row.tell_next.min(row.since + TELL_AFTER);
            if now >= row.tell_next || is_other && now >= first {
                if is_other {
                    row.tell_wait = TELL_WAIT_MIN;
                }
                row.tell_next = now + row.tell_wait;
                row.tell_wait = (row.tell_wait * 2).min(TELL_WAIT_MAX);
                row.told = Some(row.why.code);
                let (code, detail) = (row.why.code, &row.why.detail);
                let seconds = now.duration_since(row.since).as_secs();
                tracing::warn!(%address, code, seconds, "a configured peer is not reached: {detail}");
            }
            let shown = UnreachedRow {
                address: address.to_string(),
                from,
                code: row.why.code,
                detail: row.why.detail.clone(),
                for_ms: 0,
            };
            rows.push((shown, row.since));
        }
        rows
    }
}

/// A configured address, and the peer that is expected there.
pub(super) type Expected = (Multiaddr, Option<PeerId>);

#[cfg(test)]
mod tests {
    use super::*;

    fn told(unreached: &Unreached) -> Option<&'static str> {
        unreached.rows.values().next().and_then(|row| row.told)
    }

    #[test]
    fn a_row_says_whether_a_setting_or_a_ticket_names_the_peer() {
        let [peer, ticket] = [1, 2].map(|port| {
            format!("/ip4/127.0.0.1/tcp/{port}")
                .parse()
                .expect("an address")
        });
        let mut unreached = Unreached::new(BTreeSet::from([Multiaddr::clone(&ticket)]));
        let away = [peer, ticket].map(|address| (address, PeerState::Away));
        let rows = unreached.look(away.into_iter(), Instant::now());
        let from: Vec<&str> = rows.iter().map(|row| row.0.from).collect();
        assert_eq!(from, ["peer", "ticket"]);
    }

    #[test]
    fn a_peer_that_is_away_is_told_of_at_growing_intervals_with_the_reason() {
        let address: Multiaddr = "/ip4/127.0.0.1/tcp/9".parse().expect("an address");
        let start = Instant::now();
        let mut unreached = Unreached::default();
        let at = |seconds| start + Duration::from_secs(seconds);
        let away = |unreached: &mut Unreached, seconds| {
            let peers = [(address.clone(), PeerState::Away)];
            unreached.look(peers.into_iter(), at(seconds))
        };
        assert_eq!(away(&mut unreached, 0)[0].0.code, "no_answer");
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let refused = DialError::Transport(vec![(address.clone(), TransportError::Other(refused))]);
        unreached.failed(address.clone(), &refused, at(1));
        assert_eq!((away(&mut unreached, 4).len(), told(&unreached)), (1, None));
        let mut lines = Vec::new();
        for second in 5..1000 {
            let before = unreached.rows[&address].tell_next;
            assert_eq!(away(&mut unreached, second)[0].0.code, "refused");
            if unreached.rows[&address].tell_next != before {
                lines.push(second);
            }
        }
        assert_eq!(lines, [5, 15, 35, 75, 155, 315, 635]);
        let obtained = PeerId::random();
        let other = DialError::WrongPeerId {
            obtained,
            address: address.clone(),
        };
        unreached.failed(address.clone(), &other, at(1000));
        let rows = away(&mut unreached, 1000);
        assert_eq!(rows[0].0.code, "other_identity");
        assert!(rows[0].0.detail.contains(&obtained.to_string()));
        assert_eq!(
            told(&unreached),
            Some("other_identity"),
            "another reason is news"
        );
        let well = [(address.clone(), PeerState::Well)];
        assert!(unreached.look(well.into_iter(), at(1001)).is_empty());
        assert!(unreached.rows.is_empty());
    }
}
