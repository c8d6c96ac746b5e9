//! Requests between nodes beside frames: audits and node info.

use super::Network;
use crate::audit::{Done, Next};
use crate::network_metrics::{Direction, Protocol, count_with};
use crate::node_info::Answer;
use libp2p::{PeerId, request_response};
use std::time::Instant;
use tallymesh_core::wire::AuditQuestion;
use tallymesh_core::{Error, LinkError};
use tallymesh_node_engine::network::NodeRow;
use tallymesh_node_ground::identity::owner_of;

type AuditEvent = request_response::Event<Vec<u8>, Vec<u8>>;
type AboutEvent = request_response::Event<(), Answer>;

impl Network {
    pub(super) fn count(
        &self,
        peer: &PeerId,
        protocol: Protocol,
        direction: Direction,
        bytes: usize,
    ) {
        self.metrics.count(protocol, direction, bytes);
        let count = |row: &mut NodeRow| count_with(row, protocol, direction, bytes);
        self.node_table.with(peer, count);
    }

    pub(super) fn audit(&mut self, next: Next) {
        let (metrics, node_table) = (&self.metrics, &self.node_table);
        let count = |peer: &PeerId, bytes| {
            metrics.count(Protocol::Audit, Direction::Out, bytes);
            let count = |row: &mut NodeRow| count_with(row, Protocol::Audit, Direction::Out, bytes);
            node_table.with(peer, count);
        };
        let audits = &mut self.swarm.behaviour_mut().audits;
        match next {
            Next::Ask(request) => self.audits.ask(request, |peer, question| {
                self.peers.link(peer)?;
                count(peer, question.len());
                Some(audits.send_request(peer, question))
            }),
            Next::Answer(Done {
                peer,
                answer,
                channel,
            }) => {
                count(&peer, answer.len());
                // Sending fails if the connection is gone, which another event reports.
                let _ = audits.send_response(channel, answer);
            }
        }
    }

    pub(super) fn audit_event(&mut self, event: AuditEvent) {
        match event {
            request_response::Event::Message {
                peer,
                message:
                    request_response::Message::Request {
                        request_id,
                        request,
                        channel,
                    },
                ..
            } => {
                self.count(&peer, Protocol::Audit, Direction::In, request.len());
                let (handle, peers) = (&self.handle, &mut self.peers);
                let may = |question: &AuditQuestion| {
                    let space = handle.space(question.space.as_str());
                    space.map_err(|refusal| refusal.code())?;
                    let from = peers.get_mut(&peer);
                    match from.is_some_and(|from| from.has_hello_in(&question.space)) {
                        true => Ok(()),
                        false => Err(Error::Link(LinkError::Handshake).code()),
                    }
                };
                let audits = &mut self.audits;
                if let Some(refused) = audits.question(peer, request_id, &request, channel, may) {
                    self.audit(Next::Answer(refused));
                }
            }
            request_response::Event::Message {
                peer,
                message:
                    request_response::Message::Response {
                        request_id,
                        response,
                    },
                ..
            } => {
                self.count(&peer, Protocol::Audit, Direction::In, response.len());
                self.audits.answered(request_id, &response);
            }
            request_response::Event::OutboundFailure {
                request_id, error, ..
            } => self.audits.failed(request_id, error.to_string()),
            request_response::Event::InboundFailure {
                peer, request_id, ..
            }
            | request_response::Event::ResponseSent {
                peer, request_id, ..
            } => self.audits.closed(&peer, request_id),
        }
    }

    /// Asks the connected nodes that are due for their info.
    pub(super) fn ask_about(&mut self, now: Instant) {
        let node_infos = &mut self.swarm.behaviour_mut().node_infos;
        let (metrics, node_table) = (&self.metrics, &self.node_table);
        self.node_infos.ask(now, |peer| {
            metrics.count(Protocol::About, Direction::Out, 0);
            node_table.with(peer, |row| {
                count_with(row, Protocol::About, Direction::Out, 0)
            });
            node_infos.send_request(peer, ())
        });
    }

    pub(super) fn node_info_event(&mut self, event: AboutEvent) {
        let now = Instant::now();
        match event {
            request_response::Event::Message {
                peer,
                message: request_response::Message::Request { channel, .. },
                ..
            } => {
                self.count(&peer, Protocol::About, Direction::In, 0);
                let from = self.peers.get_mut(&peer);
                let is_stranger = from.is_none_or(|peer| peer.is_stranger());
                // A node that asks faster than it may send frames gets no answer.
                if !is_stranger && self.wait(&peer, (1, 0), now).is_none() {
                    self.spend(peer, (1, 0), now);
                    let answer = self.node_infos.own(self.node_table.copy_of(&peer));
                    self.count(&peer, Protocol::About, Direction::Out, answer.len());
                    // Sending fails if the connection is gone, which another event reports.
                    let node_infos = &mut self.swarm.behaviour_mut().node_infos;
                    let _ = node_infos.send_response(channel, answer);
                }
            }
            request_response::Event::Message {
                peer,
                message:
                    request_response::Message::Response {
                        request_id,
                        response,
                    },
                ..
            } => {
                self.count(&peer, Protocol::About, Direction::In, response.len());
                let answered = self.node_infos.answered(&peer, request_id, &response);
                let Some((row, copy)) = answered else {
                    return;
                };
                if let Some(copy) = copy {
                    self.node_table.note_own_copy(copy);
                }
                if self.node_infos.is_to_be_warned_of(peer, &row, now) {
                    let (offset, error) = (row.clock_offset_ms, row.clock_error_ms);
                    tracing::warn!(
                        %peer,
                        "its clock is {offset} ms ahead of this node's (below 0: behind), give or \
                         take {error} ms: counters expire by these clocks. Set both by NTP"
                    );
                }
                if let Some(owner) = owner_of(&peer) {
                    self.clock.note_linked(owner.0, row.clock_offset_ms);
                }
                self.node_table.with(&peer, |node| node.about = Some(row));
            }
            request_response::Event::OutboundFailure {
                peer,
                request_id,
                error,
                ..
            } => {
                tracing::debug!(%peer, %error, "it tells nothing about itself");
                self.node_infos.failed(&peer, request_id, now);
            }
            request_response::Event::InboundFailure { .. }
            | request_response::Event::ResponseSent { .. } => {}
        }
    }
}
