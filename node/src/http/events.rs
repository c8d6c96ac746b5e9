//! Changed counters as server-sent events.
//!
//! A change is an event without a name: the key and the value, which is null if the counter has
//! become absent. Others have names: `members`, when the space has other members, `retired`, when a
//! writer that is gone was taken over, `renewed`, when the node goes on under another writer,
//! `returned`, with what became of its transactions if it had been retired, `fault`, with the evidence of a writer that used one clock twice, and `skipped`, for a reader
//! that was too slow: the counters that exist follow it, and those that do not follow are absent.

use super::App;
use super::problem::{Asked, Problem, Route};
use crate::driver::{
    Absorption, Change, Comeback, ConfigurationRow, Counter, FaultReport, News, Query, Reading,
    Renewal,
};
use crate::handle::{Handle, SpaceId};
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::Stream;
use futures::stream;
use serde::Deserialize;
use serde_json::json;
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
        news: app.handle.watch(space).await?,
        handle: app.handle.clone(),
        space,
        key: query.key,
        ready: VecDeque::new(),
        skipped: false,
        catching_up: None,
    };
    let events = stream::unfold((reader, app), |(mut reader, app)| async move {
        let next = tokio::select! {
            next = reader.next() => next,
            () = app.stopped() => None,
        };
        next.map(|told| (Ok(told.event()), (reader, app)))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

/// One event.
enum Told {
    Change(Change),
    Fault(Arc<FaultReport>),
    Renewed(Arc<Renewal>),
    Returned(Arc<Comeback>),
    Members(Arc<ConfigurationRow>),
    Absorbed(Arc<Absorption>),
    Skipped,
}

impl Told {
    fn event(&self) -> Event {
        let event = Event::default();
        let event = match self {
            Told::Change(change) => event.json_data(change),
            Told::Fault(report) => event.event("fault").json_data(&**report),
            Told::Renewed(renewal) => event.event("renewed").json_data(&**renewal),
            Told::Returned(comeback) => event.event("returned").json_data(&**comeback),
            Told::Members(members) => event.event("members").json_data(&**members),
            Told::Absorbed(writer) => event.event("retired").json_data(&**writer),
            Told::Skipped => event.event("skipped").json_data(json!({})),
        };
        // Texts always make JSON; an empty event would say nothing wrong either.
        event.unwrap_or_default()
    }
}

/// One reader of events. One that is too slow for the changes skips to the newest values of all
/// counters.
struct Reader {
    news: Receiver<News>,
    handle: Handle,
    space: SpaceId,
    key: Option<String>,
    ready: VecDeque<Told>,
    /// Changes were lost, which was not told yet.
    skipped: bool,
    /// The last key of the list that was told, while catching up.
    catching_up: Option<String>,
}

impl Reader {
    /// The next event. `None` when the node stops.
    async fn next(&mut self) -> Option<Told> {
        loop {
            if let Some(told) = self.ready.pop_front() {
                return Some(told);
            }
            if std::mem::take(&mut self.skipped) {
                self.catching_up = Some(String::new());
                if self.key.is_none() {
                    return Some(Told::Skipped);
                }
            }
            if self.catching_up.is_some() {
                self.list_more().await?;
                continue;
            }
            match self.news.recv().await {
                Ok(first) => {
                    tokio::time::sleep(COALESCE).await;
                    self.gather(first);
                }
                Err(RecvError::Lagged(_)) => self.skipped = true,
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// Takes all news that waits, the newest of each counter.
    fn gather(&mut self, first: News) {
        let mut newest = BTreeMap::new();
        self.note(&mut newest, first);
        loop {
            match self.news.try_recv() {
                Ok(news) => self.note(&mut newest, news),
                Err(TryRecvError::Lagged(_)) => self.skipped = true,
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        let changes = newest.into_iter();
        self.ready
            .extend(changes.map(|(key, now)| Told::Change(Change { key, now })));
    }

    fn note(&mut self, newest: &mut BTreeMap<String, Option<Reading>>, news: News) {
        let wanted = |key: &str| self.key.as_ref().is_none_or(|own| own == key);
        match news {
            News::Changed(changes) => {
                for change in changes.iter().filter(|change| wanted(&change.key)) {
                    newest.insert(change.key.clone(), change.now);
                }
            }
            // One that did not show in a counter concerns all.
            News::Fault(report) if report.key.as_deref().is_none_or(wanted) => {
                self.ready.push_back(Told::Fault(report));
            }
            News::Fault(_) => {}
            News::Members(members) => self.ready.push_back(Told::Members(members)),
            News::Absorbed(writer) => self.ready.push_back(Told::Absorbed(writer)),
            News::Renewed(renewal) => self.ready.push_back(Told::Renewed(renewal)),
            News::Returned(comeback) => self.ready.push_back(Told::Returned(comeback)),
        }
    }

    /// Takes the next part of the list of all counters, or the one counter.
    async fn list_more(&mut self) -> Option<()> {
        let after = self.catching_up.take();
        if let Some(key) = &self.key {
            let counter = self.handle.read(self.space, key.clone()).await.ok()?;
            self.ready.push_back(Told::Change(Change {
                key: key.clone(),
                now: counter.map(|counter| counter.now),
            }));
            return Some(());
        }
        let query = Query {
            after: after.filter(|key| !key.is_empty()),
            limit: CATCH_UP_LIMIT,
            ..Query::default()
        };
        let page = self.handle.list(self.space, query).await.ok()?;
        let told = |Counter { key, now }| {
            let now = Some(now);
            Told::Change(Change { key, now })
        };
        self.ready.extend(page.counters.into_iter().map(told));
        self.catching_up = page.next;
        Some(())
    }
}
