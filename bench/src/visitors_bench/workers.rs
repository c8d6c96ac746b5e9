//! Workers that cannot hold a socket: each counts once over `POST`, and is gone after a second.

use super::page::{KEY, nonce};
use super::servers::Who;
use super::stage::{Stage, Stopped};
use super::table::{Measure, aim, head, plain, table};
use super::{Plan, tell};
use crate::random::Random;
use anyhow::{Context, Result, bail};
use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tallymesh_core::{
    Input, Link, Millis, Output, Replica, Space, SplitMix64, SyncConfig, SyncMachine, WriterId,
};

const SESSION: &str = "tallymesh-session";
/// How long a request waits for frames at most, in milliseconds.
const WAIT_MS: u64 = 100;
/// A worker lives so long.
const LIVES: Duration = Duration::from_secs(1);
/// How long after the last one writers are counted.
const AFTER: Duration = Duration::from_secs(10);
/// A guest does its duties so often.
const TEND: Duration = Duration::from_secs(1);
/// A worker that failed begins a new link after this time.
const RETRY: Duration = Duration::from_millis(50);
/// The node is killed so long after the workers have begun.
const KILLED_AFTER: Duration = Duration::from_millis(5);
/// Where a frame has its kind, and the kinds that bring what was counted: Delta and Push (docs/protocol.md).
const KIND_AT: usize = 3;
const BRINGS: [u8; 2] = [4, 6];
const STACK_BYTES: usize = 512 << 10;
const ANSWER_BYTES_MAX: u64 = 10 << 20;

const MEASURES: [Measure; 5] = [
    aim("acknowledged, p99", 100.0, "ms", 1_000),
    plain("acknowledged, median", "ms"),
    plain("requests that failed and were made again", ""),
    aim("writers of workers left after 10 s", 0.0, "", 1_000),
    plain(
        "with `kill -9` in the middle: the last one is acknowledged",
        "s",
    ),
];

pub(super) fn run(plan: &Plan<'_>) -> Result<String> {
    let links = plan.args.links;
    let found = plan.each(&[Who::Ours], links, |stage, found| {
        let before = stage.servers[0].writers()?;
        let mut random = Random::new(plan.seed);
        let done = finish(start(stage, links, &mut random)?)?;
        let mut took: Vec<f64> = done.iter().map(|it| it.took.as_secs_f64() * 1e3).collect();
        took.sort_by(f64::total_cmp);
        found.put(took[(took.len() * 99 / 100).min(took.len() - 1)]);
        found.put(took[took.len() / 2]);
        found.put(done.iter().map(|it| it.failures).sum::<usize>() as f64);
        tell("the workers are gone");
        stage.run(AFTER)?;
        found.put(stage.servers[0].writers()?.saturating_sub(before) as f64);
        stage.crowd.expect(links as i128);
        stage.check()?;
        let again = start(stage, links, &mut random)?;
        thread::sleep(KILLED_AFTER);
        stage.kill()?;
        let done = finish(again)?;
        let last = done.iter().map(|it| it.took).max();
        found.put(last.unwrap_or_default().as_secs_f64());
        stage.crowd.expect(2 * links as i128);
        stage.check()
    })?;
    let text = "Workers in their place: all begin at once, each syncs over `POST`, and adds 1 to one counter \
        once it knows the members. It is acknowledged once a member holds that, or in a space without members once the request is \
        answered that brought it. Each ends without a goodbye a second after it began, or once it is \
        acknowledged.";
    Ok(head(plan, links, text) + &table(links, &MEASURES, &found))
}

/// How long a worker waited for its acknowledgement, and how many of its requests failed.
struct Done {
    took: Duration,
    failures: usize,
}

fn start(
    stage: &Stage<'_>,
    count: usize,
    random: &mut Random,
) -> Result<Vec<JoinHandle<Result<Done>>>> {
    let (address, bound) = (stage.servers[0].address, stage.bound());
    let is_guest = stage.has_members();
    let mut workers = Vec::new();
    for _ in 0..count {
        let seed = random.next();
        let work = move || Worker::new(address, seed, is_guest)?.work(bound);
        let thread = thread::Builder::new().stack_size(STACK_BYTES);
        workers.push(thread.spawn(work)?);
    }
    Ok(workers)
}

fn finish(workers: Vec<JoinHandle<Result<Done>>>) -> Result<Vec<Done>> {
    let mut done = Vec::new();
    let (mut late, count) = (None, workers.len());
    for worker in workers {
        match worker.join() {
            Ok(Ok(one)) => done.push(one),
            Ok(Err(error)) => late = Some(error.downcast::<Stopped>()?),
            Err(_) => bail!("a worker panicked"),
        }
    }
    match late {
        Some(Stopped(at)) => bail!(Stopped(format!(
            "{at}: {} of {count} workers were acknowledged",
            done.len()
        ))),
        None => Ok(done),
    }
}

/// A replica that syncs over single requests.
struct Worker {
    address: SocketAddr,
    agent: ureq::Agent,
    replica: Replica,
    sync: SyncMachine,
    random: SplitMix64,
    session: Option<String>,
    links: u32,
    is_guest: bool,
    /// Whether it has counted. A guest does so once it knows the members: only what it counts then is among its
    /// unconfirmed transactions.
    has_counted: bool,
    began: Instant,
    /// When it last did a guest's duties.
    tended: Instant,
    /// Whether an answer came to a request that had all that was counted.
    is_answered: bool,
}

impl Worker {
    fn new(address: SocketAddr, seed: u64, is_guest: bool) -> Result<Worker> {
        let mut random = SplitMix64::new(seed);
        let mut replica = Replica::new(Space::default(), fresh_writer(&mut random));
        if !is_guest {
            replica.add(KEY, 1)?;
        }
        Ok(Worker {
            address,
            agent: ureq::Agent::new_with_defaults(),
            replica,
            has_counted: !is_guest,
            sync: SyncMachine::new(SyncConfig::default(), random.next_u64()),
            random,
            session: None,
            links: 0,
            is_guest,
            began: Instant::now(),
            tended: Instant::now(),
            is_answered: false,
        })
    }

    /// Counts, until that is acknowledged and the worker has lived as long as it should.
    fn work(mut self, bound: Duration) -> Result<Done> {
        let (mut failures, mut took) = (0, None);
        while took.is_none() || self.began.elapsed() < LIVES {
            if let Err(error) = self.exchange() {
                if took.is_some() {
                    break;
                }
                failures += 1;
                if self.began.elapsed() > bound {
                    bail!(Stopped(format!("{} s ({error})", bound.as_secs())));
                }
                self.session = None;
                thread::sleep(RETRY);
            }
            if !self.has_counted && self.replica.members().configuration().is_some() {
                self.has_counted = true;
                self.replica.add(KEY, 1)?;
                self.input(Input::Changed);
            }
            if took.is_none() && self.is_acknowledged() {
                took = Some(self.began.elapsed());
            }
            if took.is_none() && self.began.elapsed() > bound {
                bail!(Stopped(format!("{} s", bound.as_secs())));
            }
        }
        let took = took.context("not acknowledged")?;
        Ok(Done { took, failures })
    }

    fn is_acknowledged(&self) -> bool {
        match self.is_guest {
            true => self.has_counted && self.replica.consistency().unconfirmed() == 0,
            false => self.is_answered,
        }
    }

    fn now(&self) -> Millis {
        self.began.elapsed().as_millis() as Millis
    }

    fn input(&mut self, input: Input<'_>) {
        let now = self.now();
        self.sync.handle(now, &mut self.replica, input);
    }

    /// Sends what there is to send, and takes what comes.
    fn exchange(&mut self) -> Result<()> {
        if self.session.is_none() {
            let link = Link(self.links);
            self.input(Input::Disconnected { link });
            self.links += 1;
            let (link, broadcast) = (Link(self.links), false);
            self.input(Input::Connected { link, broadcast });
            self.input(Input::Changed);
        }
        self.input(Input::Tick);
        if self.is_guest && self.tended.elapsed() >= TEND {
            let (now, kept) = (self.now(), self.replica.mark());
            self.tended = Instant::now();
            let _ = self.sync.tend(now, &mut self.replica, &kept);
        }
        let (link, mut body, mut brings) = (Link(self.links), Vec::new(), false);
        while let Some(output) = self.sync.poll() {
            match output {
                Output::Send { bytes, .. } => {
                    body.extend_from_slice(&u32::try_from(bytes.len())?.to_be_bytes());
                    body.extend_from_slice(&bytes);
                    brings |= bytes.get(KIND_AT).is_some_and(|kind| BRINGS.contains(kind));
                }
                Output::Refused { error, .. } => bail!("{error}"),
                Output::Renew => {
                    let writer = fresh_writer(&mut self.random);
                    self.input(Input::Renew { writer });
                }
                _ => {}
            }
        }
        let now = self.now();
        let due = self.sync.next_deadline().unwrap_or(Millis::MAX);
        let wait = match body.is_empty() {
            true => WAIT_MS.min(due.saturating_sub(now)),
            false => 0,
        };
        let url = format!(
            "http://{}/v1/spaces/default/sync?wait_ms={wait}&again_ms=1000",
            self.address
        );
        let mut request = self.agent.post(url);
        if let Some(session) = &self.session {
            request = request.header(SESSION, session);
        }
        let mut answer = request.send(&body[..])?;
        let session = answer.headers().get(SESSION).context("no session")?;
        self.session = Some(session.to_str()?.to_owned());
        let reader = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let bytes = reader.read_to_vec()?;
        self.is_answered |= brings;
        let mut rest = &bytes[..];
        while let Some((length, after)) = rest.split_first_chunk() {
            let length = u32::from_be_bytes(*length) as usize;
            let (bytes, after) = after.split_at_checked(length).context("half a frame")?;
            self.input(Input::Frame { link, bytes });
            rest = after;
        }
        Ok(())
    }
}

/// A writer of the owner that all workers have.
fn fresh_writer(random: &mut SplitMix64) -> WriterId {
    WriterId::mint(&Space::default(), &[5; 32], &nonce(random))
}
