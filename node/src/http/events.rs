//! Changed counters as server-sent events.

use super::App;
use super::problem::{Asked, Problem, Route};
use crate::driver::{Counter, Query};
use crate::handle::{Changes, Handle, SpaceId};
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::Stream;
use futures::stream;
use serde::Deserialize;
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

/// Changes within this time are one event for each counter, with the newest value. Higher saves
/// work on busy counters, lower shows a change sooner.
const COALESCE: Duration = Duration::from_millis(20);

/// A comment is sent when nothing else was for this time, so that proxies keep the stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Counters asked for at once by a reader that must catch up.
const CATCH_UP_LIMIT: usize = 1_000;

/// Which counters to tell of.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    /// This one only.
    key: Option<String>,
}

pub(super) async fn stream(
    State(app): State<Arc<App>>,
    Route(space): Route<String>,
    Asked(query): Asked<EventsQuery>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let space = app.handle.space(&space)?;
    let reader = Reader {
        changes: app.handle.watch(space).await?,
        handle: app.handle.clone(),
        space,
        key: query.key,
        ready: VecDeque::new(),
        catching_up: None,
    };
    let events = stream::unfold((reader, app), |(mut reader, app)| async move {
        let next = tokio::select! {
            next = reader.next() => next,
            () = app.stopped() => None,
        };
        next.map(|counter| (Ok(event(&counter)), (reader, app)))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

fn event(counter: &Counter) -> Event {
    // Two strings always make JSON; an empty event would say nothing wrong either.
    Event::default().json_data(counter).unwrap_or_default()
}

/// One reader of events. One that is too slow for the changes skips to the newest values of all
/// counters.
struct Reader {
    changes: Receiver<Changes>,
    handle: Handle,
    space: SpaceId,
    key: Option<String>,
    ready: VecDeque<Counter>,
    /// The last key of the list that was told, while catching up.
    catching_up: Option<String>,
}

impl Reader {
    /// The next counter to tell of. `None` when the node stops.
    async fn next(&mut self) -> Option<Counter> {
        loop {
            if let Some(counter) = self.ready.pop_front() {
                return Some(counter);
            }
            if self.catching_up.is_some() {
                self.list_more().await?;
                continue;
            }
            match self.changes.recv().await {
                Ok(first) => {
                    tokio::time::sleep(COALESCE).await;
                    self.gather(&first);
                }
                Err(RecvError::Lagged(_)) => self.catching_up = Some(String::new()),
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// Takes all changes that wait, the newest of each counter.
    fn gather(&mut self, first: &Changes) {
        let mut newest = BTreeMap::new();
        self.note(&mut newest, first);
        loop {
            match self.changes.try_recv() {
                Ok(changes) => self.note(&mut newest, &changes),
                Err(TryRecvError::Lagged(_)) => self.catching_up = Some(String::new()),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        let counters = newest.into_iter();
        self.ready = counters
            .map(|(key, value)| Counter { key, value })
            .collect();
    }

    fn note(&self, newest: &mut BTreeMap<String, i128>, changes: &Changes) {
        let wanted = |counter: &&Counter| self.key.as_ref().is_none_or(|key| *key == counter.key);
        for counter in changes.iter().filter(wanted) {
            newest.insert(counter.key.clone(), counter.value);
        }
    }

    /// Takes the next part of the list of all counters.
    async fn list_more(&mut self) -> Option<()> {
        if let Some(key) = &self.key {
            let value = self.handle.value(self.space, key.clone()).await.ok()?;
            let counter = value.map(|value| Counter {
                key: key.clone(),
                value,
            });
            self.ready.extend(counter);
            self.catching_up = None;
            return Some(());
        }
        let query = Query {
            after: self.catching_up.take().filter(|key| !key.is_empty()),
            limit: CATCH_UP_LIMIT,
            ..Query::default()
        };
        let page = self.handle.list(self.space, query).await.ok()?;
        self.ready.extend(page.counters);
        self.catching_up = page.next;
        Some(())
    }
}
