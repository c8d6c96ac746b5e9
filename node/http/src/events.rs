//! Changed counters as server-sent events.
//!
//! A change is an event without a name: the key and the value, which is null if the counter has
//! become absent. A change of a budget is an event `budget`, with its present state here and
//! without its holders. A change of a sequence is an event `sequence`. These events have names,
//! too:
//!
//! - `members`: the space has other members.
//! - `retired`: a writer that is gone was taken over.
//! - `renewed`: the node continues under another writer.
//! - `returned`: the node rejoined after its writer had been retired, with the fate of its
//!   transactions.
//! - `fault`: the evidence of a writer that used one clock twice.
//! - `skipped`: the reader missed changes that can't be listed. The counters, budgets and sequences
//!   that exist follow it, and all others are absent.
//!
//! Events have ids. A reader that reconnects with the last one receives each counter that changed
//! since, and perhaps some that did not. If the id is from another start of the node, or from
//! before counters were dropped, it receives `skipped`. Only these changes are sent later, not the
//! other events with names.

use super::access::{Caller, Serving};
use super::problem::{Problem, QueryString, Route};
use super::requests::InSpace;
use axum::http::{HeaderMap, HeaderName};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::Stream;
use futures::stream;
use serde::Deserialize;
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tallymesh_node_engine::driver::{Handle, NoNews, Watch};
use tallymesh_node_ground::model::{
    Absorption, BudgetRow, Change, Changes, Comeback, ConfigurationRow, Counter, FaultReport, News,
    Position, Query, Reading, Renewal, SequenceRow, SpaceId, Wanted,
};
use utoipa::IntoParams;

/// The header in which a reader sends its position.
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Changes within this time are one event for each counter, with the newest value. A higher value
/// saves work on busy counters. A lower one shows a change sooner.
const COALESCE: Duration = Duration::from_millis(20);

/// After this time without an event, a comment is sent, so that proxies keep the stream open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Counters requested at a time for a reader that has to catch up.
const CATCH_UP_LIMIT: usize = 1_000;

/// Selects the counters.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventsQuery {
    /// Only this key.
    key: Option<String>,
    /// Only keys with this prefix.
    #[serde(default)]
    prefix: String,
    /// The id of the last event that the reader has; the header `last-event-id` overrides it.
    since: Option<String>,
}

/// Changed counters, as server-sent events
///
/// A change is an event without a name; docs/http.md describes those with one, and ids.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/events", operation_id = "events", tag = "spaces",
    params(
        InSpace,
        EventsQuery,
        ("last-event-id" = Option<String>, Header, description = "The id of the last event that the reader has."),
    ),
    responses((
        status = 200, description = "A stream that does not end.", body = String,
        content_type = "text/event-stream",
        example = "id: 00f1-3-0\ndata: {\"key\":\"likes\",\"value\":\"12\"}\n\n",
    )),
    extensions(("x-problems" = json!(["query"]))),
)]
pub(super) async fn stream(
    app: Serving,
    Route(space): Route<String>,
    QueryString(query): QueryString<EventsQuery>,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let space = app.handle.space(&space)?;
    let header = headers.get(LAST_EVENT_ID);
    let header = header.map(|id| id.to_str().unwrap_or_default().to_owned());
    let since = header.or(query.since);
    // The position is read first. Changes before the subscription are then sent again to a reader
    // that reconnects.
    let position = app.handle.position(space).await?;
    let wanted = Wanted {
        key: query.key,
        prefix: query.prefix,
    };
    let mut reader = Reader {
        news: app.handle.watch(space, Some(wanted.clone())).await?,
        handle: app.handle.clone(),
        space,
        wanted,
        ready: VecDeque::new(),
        at: position,
        missed: false,
        skipped: false,
        behind: None,
        caught_up: Some(position),
    };
    reader.begin(since.as_deref());
    let ended = Box::pin(caller.pass(space).ended(Arc::clone(&app)));
    let begun = (reader, app, ended);
    let events = stream::unfold(begun, |(mut reader, app, mut ended)| async move {
        let next = tokio::select! {
            // This comes first: no event is sent any more, even if there is always one to send.
            biased;
            _ = &mut ended => None,
            () = app.stopped() => None,
            next = reader.next() => next,
        };
        next.map(|event| (Ok(event), (reader, app, ended)))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

/// One event.
enum StreamEvent {
    /// A change; with a position, if every change up to it has then been sent.
    Change(Change, Option<Position>),
    Budget(Box<BudgetRow>, Option<Position>),
    Sequence(Box<SequenceRow>, Option<Position>),
    Fault(Arc<FaultReport>),
    Renewed(Arc<Renewal>),
    Returned(Arc<Comeback>),
    Members(Arc<ConfigurationRow>),
    Absorbed(Arc<Absorption>),
    Skipped,
    /// Every change up to this position was sent: an id without an event.
    UpTo(Position),
}

impl StreamEvent {
    fn event(&self) -> Event {
        let event = match self {
            StreamEvent::Change(_, Some(position))
            | StreamEvent::Budget(_, Some(position))
            | StreamEvent::Sequence(_, Some(position)) => Event::default().id(position.to_string()),
            _ => Event::default(),
        };
        let event = match self {
            StreamEvent::Change(change, _) => event.json_data(change),
            StreamEvent::Budget(budget, _) => event.event("budget").json_data(budget),
            StreamEvent::Sequence(sequence, _) => event.event("sequence").json_data(sequence),
            StreamEvent::Fault(report) => event.event("fault").json_data(&**report),
            StreamEvent::Renewed(renewal) => event.event("renewed").json_data(&**renewal),
            StreamEvent::Returned(comeback) => event.event("returned").json_data(&**comeback),
            StreamEvent::Members(members) => event.event("members").json_data(&**members),
            StreamEvent::Absorbed(writer) => event.event("retired").json_data(&**writer),
            StreamEvent::Skipped => event.event("skipped").json_data(json!({})),
            StreamEvent::UpTo(position) => Ok(event.id(position.to_string())),
        };
        // Texts always make JSON. An empty event would not be wrong either.
        event.unwrap_or_default()
    }
}

/// The changes that a reader needs before newer events.
enum Behind {
    /// The changes since a position, from a place on.
    Since(Position, u32),
    /// All counters after this key, or from the first on, and then all budgets.
    All(Option<String>),
    /// All budgets after this name, or from the first on, and then all sequences.
    Budgets(Option<String>),
    /// All sequences after this name, or from the first on.
    Sequences(Option<String>),
}

/// The newest values of changed entries.
#[derive(Default)]
struct Newest {
    counters: BTreeMap<String, Option<Reading>>,
    budgets: BTreeMap<String, BudgetRow>,
    sequences: BTreeMap<String, SequenceRow>,
}

impl Newest {
    /// Its events, the last one with the position.
    fn told(self, position: Option<Position>) -> impl Iterator<Item = StreamEvent> {
        let all = self.counters.len() + self.budgets.len() + self.sequences.len();
        let last = all.saturating_sub(1);
        let sequences = self.sequences.into_values();
        let sequences = sequences.map(|it| StreamEvent::Sequence(Box::new(it), None));
        let budgets = self.budgets.into_values();
        let budgets = budgets.map(|it| StreamEvent::Budget(Box::new(it), None));
        let counters = self.counters.into_iter();
        let counters = counters.map(|(key, now)| StreamEvent::Change(Change { key, now }, None));
        let all = sequences.chain(budgets).chain(counters);
        all.enumerate().map(move |(at, told)| {
            let position = position.filter(|_| at == last);
            match told {
                StreamEvent::Change(change, _) => StreamEvent::Change(change, position),
                StreamEvent::Budget(budget, _) => StreamEvent::Budget(budget, position),
                StreamEvent::Sequence(sequence, _) => StreamEvent::Sequence(sequence, position),
                other => other,
            }
        })
    }
}

/// One reader of events. A reader that is too slow skips to the newest values of changed entries.
struct Reader {
    news: Watch,
    handle: Handle,
    space: SpaceId,
    wanted: Wanted,
    ready: VecDeque<StreamEvent>,
    /// Every change up to this position was sent to it.
    at: Position,
    /// Whether it was too slow for the events, so that the changes since have to be read.
    missed: bool,
    /// Whether changes were lost and that was not sent yet.
    skipped: bool,
    /// The changes that it still has to catch up with.
    behind: Option<Behind>,
    /// Its position once it has caught up, if that was not sent yet.
    caught_up: Option<Position>,
}

impl Reader {
    /// Continues at the position of the reader, if it sent one.
    fn begin(&mut self, since: Option<&str>) {
        match since.map(str::parse) {
            None => {}
            Some(Ok(position)) => self.behind = Some(Behind::Since(position, 0)),
            Some(Err(_)) => self.skipped = true,
        }
    }

    /// The next event. `None` when the node stops.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(told) = self.ready.pop_front() {
                return Some(told.event());
            }
            if std::mem::take(&mut self.skipped) {
                let position = self.handle.position(self.space).await.ok()?;
                self.caught_up = Some(position);
                self.behind = Some(Behind::All(None));
                return Some(StreamEvent::Skipped.event());
            }
            if let Some(behind) = self.behind.take() {
                self.catch_up(behind).await?;
                continue;
            }
            if std::mem::take(&mut self.missed) {
                let position = self.handle.position(self.space).await.ok()?;
                self.caught_up = Some(position);
                self.behind = Some(Behind::Since(self.at, 0));
                continue;
            }
            if let Some(position) = self.caught_up.take() {
                self.at = position;
                return Some(StreamEvent::UpTo(position).event());
            }
            match self.news.recv().await {
                Ok(first) => {
                    tokio::time::sleep(COALESCE).await;
                    self.gather(first);
                }
                Err(NoNews::Lost) => self.missed = true,
                Err(NoNews::Stopped) => return None,
            }
        }
    }

    /// Receives all waiting events, and keeps the newest value of each counter.
    fn gather(&mut self, first: News) {
        let mut newest = Newest::default();
        let mut position = self.note(&mut newest, first);
        loop {
            match self.news.try_recv() {
                Ok(Some(news)) => position = self.note(&mut newest, news).or(position),
                Err(NoNews::Lost) => self.missed = true,
                Ok(None) | Err(NoNews::Stopped) => break,
            }
        }
        // A reader that missed events has no position until it has caught up.
        let position = position.filter(|_| !self.missed);
        self.at = position.unwrap_or(self.at);
        self.ready.extend(newest.told(position));
    }

    /// Adds one event. Returns the position of the reader after it.
    fn note(&mut self, newest: &mut Newest, news: News) -> Option<Position> {
        match news {
            News::Changed(changes, position) => {
                let Changes {
                    counters,
                    budgets,
                    sequences,
                } = &*changes;
                let wanted = counters.iter().filter(|it| self.wanted.has(&it.key));
                newest
                    .counters
                    .extend(wanted.map(|it| (it.key.clone(), it.now)));
                let wanted = budgets.iter().filter(|it| self.wanted.has(&it.key));
                newest
                    .budgets
                    .extend(wanted.map(|it| (it.key.clone(), it.clone())));
                let wanted = sequences.iter().filter(|it| self.wanted.has(&it.key));
                newest
                    .sequences
                    .extend(wanted.map(|it| (it.key.clone(), it.clone())));
                return Some(position);
            }
            // A fault that is not in one counter concerns all readers.
            News::Fault(report) => {
                let key = report.key.as_deref();
                if key.is_none_or(|key| self.wanted.has(key)) {
                    self.ready.push_back(StreamEvent::Fault(report));
                }
            }
            News::Members(members) => self.ready.push_back(StreamEvent::Members(members)),
            News::Absorbed(writer) => self.ready.push_back(StreamEvent::Absorbed(writer)),
            News::Renewed(renewal) => self.ready.push_back(StreamEvent::Renewed(renewal)),
            News::Returned(comeback) => self.ready.push_back(StreamEvent::Returned(comeback)),
        }
        None
    }

    /// Reads the next part of the changes that the reader has to catch up with.
    async fn catch_up(&mut self, behind: Behind) -> Option<()> {
        match behind {
            Behind::Since(position, from) => {
                let wanted = self.wanted.clone();
                let part = self
                    .handle
                    .changed_since(self.space, position, from, wanted);
                match part.await.ok()? {
                    None => self.skipped = true,
                    Some(part) => {
                        let Changes {
                            counters,
                            budgets,
                            sequences,
                        } = part.changes;
                        self.tell_sequences(sequences);
                        self.tell_budgets(budgets);
                        let counters = counters.into_iter();
                        self.ready
                            .extend(counters.map(|it| StreamEvent::Change(it, None)));
                        self.behind = part.next.map(|next| Behind::Since(position, next));
                    }
                }
            }
            Behind::All(after) => {
                let next = match self.wanted.key.clone() {
                    Some(key) => self.read(key).await?,
                    None => self.list(after).await?,
                };
                self.behind = Some(match next {
                    Some(next) => Behind::All(Some(next)),
                    None => Behind::Budgets(None),
                });
            }
            Behind::Budgets(after) => {
                let next = match self.wanted.key.clone() {
                    Some(key) => self.read_budget(key).await?,
                    None => self.list_budgets(after).await?,
                };
                self.behind = Some(match next {
                    Some(next) => Behind::Budgets(Some(next)),
                    None => Behind::Sequences(None),
                });
            }
            Behind::Sequences(after) => {
                let next = match self.wanted.key.clone() {
                    Some(key) => self.read_sequence(key).await?,
                    None => self.list_sequences(after).await?,
                };
                self.behind = next.map(|next| Behind::Sequences(Some(next)));
            }
        }
        Some(())
    }

    fn tell_budgets(&mut self, budgets: Vec<BudgetRow>) {
        let told = |budget: BudgetRow| {
            let (holders, leases) = (None, Vec::new());
            let row = BudgetRow {
                holders,
                leases,
                ..budget
            };
            StreamEvent::Budget(Box::new(row), None)
        };
        self.ready.extend(budgets.into_iter().map(told));
    }

    /// Reads the one budget of the selection.
    async fn read_budget(&mut self, key: String) -> Option<Option<String>> {
        if self.wanted.has(&key) {
            let budget = self.handle.budget(self.space, key).await.ok()?;
            self.tell_budgets(budget.into_iter().collect());
        }
        Some(None)
    }

    /// Reads the next part of the list of selected budgets. Returns where the next part begins.
    async fn list_budgets(&mut self, after: Option<String>) -> Option<Option<String>> {
        let page = self
            .handle
            .budgets(self.space, self.page(after))
            .await
            .ok()?;
        self.tell_budgets(page.budgets);
        Some(page.next)
    }

    fn tell_sequences(&mut self, sequences: Vec<SequenceRow>) {
        let told = |sequence| StreamEvent::Sequence(Box::new(sequence), None);
        self.ready.extend(sequences.into_iter().map(told));
    }

    /// Reads the one sequence of the selection.
    async fn read_sequence(&mut self, key: String) -> Option<Option<String>> {
        if self.wanted.has(&key) {
            let sequence = self.handle.sequence(self.space, key).await.ok()?;
            self.tell_sequences(sequence.into_iter().collect());
        }
        Some(None)
    }

    /// Reads the next part of the list of selected sequences. Returns where the next part begins.
    async fn list_sequences(&mut self, after: Option<String>) -> Option<Option<String>> {
        let page = self.handle.sequences(self.space, self.page(after));
        let page = page.await.ok()?;
        self.tell_sequences(page.sequences);
        Some(page.next)
    }

    fn page(&self, after: Option<String>) -> Query {
        Query {
            prefix: self.wanted.prefix.clone(),
            after,
            limit: CATCH_UP_LIMIT,
        }
    }

    /// Reads the one counter of the selection.
    async fn read(&mut self, key: String) -> Option<Option<String>> {
        if self.wanted.has(&key) {
            let counter = self.handle.read(self.space, key.clone()).await.ok()?;
            let now = counter.map(|counter| counter.now);
            self.ready
                .push_back(StreamEvent::Change(Change { key, now }, None));
        }
        Some(None)
    }

    /// Reads the next part of the list of selected counters. Returns where the next part begins.
    async fn list(&mut self, after: Option<String>) -> Option<Option<String>> {
        let page = self.handle.list(self.space, self.page(after)).await.ok()?;
        let told = |Counter { key, now }| {
            let now = Some(now);
            StreamEvent::Change(Change { key, now }, None)
        };
        self.ready.extend(page.counters.into_iter().map(told));
        Some(page.next)
    }
}
