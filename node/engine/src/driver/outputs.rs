//! Handles the outputs of the sync machines, and sends each to its destination.

use super::{Driver, FLUSH_MS, Order, SYNC};
use std::time::Instant;
use tallymesh_core::Output;
use tallymesh_node_ground::model::{News, SpaceId};
use tallymesh_node_ground::rate::LogPace;
use tallymesh_node_store::StoreError;

/// Paces the log lines about refused pushes.
static PUSHES_LOG: LogPace = LogPace::new();

impl Driver {
    /// Polls the outputs of the sync machines. The outputs for peers wait for the commit.
    pub(super) fn poll_outputs(&mut self) -> Result<(), StoreError> {
        let listening = self.clients.as_ref().is_some_and(|it| it.are_listening());
        self.spaces.set_listening(listening);
        let mut at = 0;
        while let Some(place) = self.spaces.awake(at) {
            at += 1;
            while let Some(output) = self.spaces[place].poll() {
                if matches!(output, Output::Renew) {
                    let now = self.now();
                    self.spaces[place].renew(now, &mut self.nonces)?;
                }
                match output {
                    Output::Send { .. } | Output::Broadcast { .. } => {
                        self.gate.publish(SpaceId(place), output);
                    }
                    other => self.output(SpaceId(place), other),
                }
            }
            if let Some(followed) = self.spaces[place].take_followed() {
                // Before the commit that takes the right away, and before anybody receives it.
                let name = self.spaces[place].name().clone();
                self.starts.set(&name, followed);
                self.starts.save()?;
            }
            let notices = self.spaces[place].settle(place, &self.origins);
            let writer = self.spaces[place].writer();
            if self.writers.borrow()[place] != writer {
                self.writers.send_modify(|writers| {
                    let mut all = writers.to_vec();
                    all[place] = writer;
                    *writers = all.into();
                });
            }
            if let Some(clients) = &mut self.clients {
                let spaces = (place, &self.spaces);
                let (gate, metrics) = (&self.gate, &self.metrics);
                clients.notify(notices, spaces, &self.clock, (gate, metrics));
            }
            let news = self.spaces[place].take_news();
            if news.iter().any(|news| matches!(news, News::Members(_))) {
                self.roles_due = 0;
                let member_list = self.spaces[place].member_list();
                self.member_lists.send_modify(|member_lists| {
                    let mut all = member_lists.to_vec();
                    all[place] =
                        member_list.map(|member_list| member_list.after(all[place].as_ref()));
                    *member_lists = all.into();
                });
            }
            if !news.is_empty() {
                let watchers = self.spaces[place].watchers.clone();
                self.gate.answer(Box::new(move || {
                    // Without readers of events, the log has the news alone.
                    for news in &news {
                        watchers.tell(news);
                    }
                }));
            }
            if std::mem::take(&mut self.closed) {
                at = 0;
            }
        }
        Ok(())
    }

    pub(super) fn output(&mut self, space: SpaceId, output: Output) {
        match output {
            Output::Send { link, bytes } => {
                if let Some(peer) = self.peers.get_mut(&link)
                    && !peer.send(link, bytes, &self.metrics)
                {
                    self.flush_next = self.flush_next.min(self.now() + FLUSH_MS);
                }
            }
            Output::Broadcast { bytes } => {
                let bytes_out = bytes.len();
                let name = self.spaces[space.0].name().clone();
                match self.broadcast.try_send(Order::Broadcast(name, bytes)) {
                    Ok(()) => self.metrics.frame_out(bytes_out),
                    Err(_) => self.metrics.dropped_frame(),
                }
            }
            Output::Changed { key_id } => self.spaces[space.0].changed(key_id),
            Output::Merged { shards, .. } => {
                self.metrics.merged(shards);
                let now = self.now();
                self.spaces[space.0].tend_soon(now);
            }
            Output::Renew => self.metrics.renewed(),
            Output::Returned(returned) => self.spaces[space.0].came_back(&returned),
            Output::Refused { close, error } => match close {
                Some(link) => self.close(self.now(), link, error),
                None => {
                    self.metrics.refused(SYNC, error.code());
                    if let Some(left_out) = PUSHES_LOG.admit(Instant::now()) {
                        tracing::warn!(code = error.code(), left_out, %error, "refused a push");
                    }
                }
            },
        }
    }
}
