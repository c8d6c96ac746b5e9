//! A server, the pages at it, and the bounds at which a row stops.

use super::Plan;
use super::client::Client;
use super::crowd::Crowd;
use super::page::{KEY, Page};
use super::peers::{FloorPage, YjsPage};
use super::servers::{Server, Who, resident_bytes};
use crate::random::Random;
use anyhow::{Context, Result, bail};
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

/// The load process may have so many times the memory that a server may.
const OWN_TIMES: u64 = 4;
/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long a node counts after all have clicked before it is killed.
const KILLED_AFTER: Duration = Duration::from_millis(10);
/// How long the pages have until they have noticed that their sockets are closed.
const NOTICED: Duration = Duration::from_millis(50);
/// How long a node may need until it answers with the value that all pages show.
const TOLD: Duration = Duration::from_secs(10);
/// The longest that pages need to become quiet, the time they are watched for that, and the bytes a second that
/// a quiet page receives at most.
const QUIET: Duration = Duration::from_secs(15);
const QUIET_LOOK: Duration = Duration::from_secs(1);
const QUIET_BYTES: u64 = 64;

/// A row reached a bound. The figures that it has by then stand.
#[derive(Debug)]
pub(super) struct Stopped(pub(super) String);

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Stopped {}

/// Looks at the memory of the server and of this process.
struct Watch {
    /// Most bytes of the server.
    server_max: u64,
    /// Most bytes of this process.
    own_max: u64,
    /// The most that the server had since [`Stage::begin_peak`].
    peak: u64,
    looked: Instant,
}

impl Watch {
    fn look(&mut self, server: u32) -> Result<()> {
        if self.looked.elapsed() < LOOK {
            return Ok(());
        }
        self.looked = Instant::now();
        let bytes = resident_bytes(server)?;
        self.peak = self.peak.max(bytes);
        let mib = |bytes: u64| bytes >> 20;
        if bytes > self.server_max {
            bail!(Stopped(format!("{} MiB of the server", mib(bytes))));
        }
        let own = resident_bytes(std::process::id())?;
        if own > self.own_max {
            bail!(Stopped(format!("{} MiB of the load process", mib(own))));
        }
        Ok(())
    }
}

/// A server with its pages.
pub(super) struct Stage<'a> {
    plan: &'a Plan<'a>,
    who: Who,
    /// The first one is watched, and killed.
    pub(super) servers: Vec<Server>,
    pub(super) crowd: Crowd,
    watch: Watch,
    random: Random,
    made: u64,
    /// Bytes of memory of the server before any page came.
    pub(super) empty_bytes: u64,
}

impl<'a> Stage<'a> {
    /// Starts a server with room for so many pages. A node's space gets members, unless the plan says otherwise.
    pub(super) fn start(plan: &'a Plan<'a>, who: Who, links: usize) -> Result<Stage<'a>> {
        let server = Server::start(&plan.programs, who, links, Vec::new())?;
        let mut stage = Stage {
            plan,
            who,
            servers: vec![server],
            crowd: Crowd::new()?,
            watch: Watch {
                server_max: plan.args.memory_mib << 20,
                own_max: (OWN_TIMES * plan.args.memory_mib) << 20,
                peak: 0,
                looked: Instant::now(),
            },
            random: Random::new(plan.seed),
            made: 0,
            empty_bytes: 0,
        };
        if stage.has_members() {
            stage.servers[0].init_members()?;
        }
        // The rest of its start is no cost of pages.
        thread::sleep(Duration::from_millis(500));
        stage.empty_bytes = stage.memory()?;
        stage.begin_peak();
        Ok(stage)
    }

    /// Starts another node, linked to those that are there, and a member if they are.
    pub(super) fn link_node(&mut self, links: usize) -> Result<()> {
        let mut peers = Vec::new();
        for server in &self.servers {
            peers.extend(server.listen()?);
        }
        let node = Server::start(&self.plan.programs, self.who, links, peers)?;
        self.servers.push(node);
        if !self.has_members() {
            return Ok(());
        }
        let count = self.servers.len();
        self.servers[0].add_member(&self.servers[count - 1])?;
        let begun = Instant::now();
        for server in &self.servers {
            while server.member_count()? < count {
                if begun.elapsed() > self.bound() {
                    bail!("a node did not become a member");
                }
                thread::sleep(LOOK);
            }
        }
        Ok(())
    }

    /// Whether a page that comes learns what was counted before.
    pub(super) fn keeps(&self) -> bool {
        self.who != Who::Floor
    }

    pub(super) fn is_ours(&self) -> bool {
        self.who == Who::Ours
    }

    pub(super) fn has_members(&self) -> bool {
        self.who == Who::Ours && !self.plan.args.open
    }

    /// The longest that a step may take.
    pub(super) fn bound(&self) -> Duration {
        Duration::from_secs(self.plan.args.bound_s)
    }

    pub(super) fn memory(&self) -> Result<u64> {
        resident_bytes(self.servers[0].pid())
    }

    pub(super) fn begin_peak(&mut self) {
        self.watch.peak = 0;
    }

    /// How much more memory the server had than before any page came, at the most.
    pub(super) fn growth(&self) -> Result<u64> {
        let peak = self.watch.peak.max(self.memory()?);
        Ok(peak.saturating_sub(self.empty_bytes))
    }

    /// A page comes to one of the servers. Returns its number.
    pub(super) fn come(&mut self, server: usize) -> usize {
        let number = self.made;
        self.made += 1;
        let client: Box<dyn Client> = match self.who {
            Who::Ours => Box::new(Page::new(self.random.next(), self.has_members())),
            Who::Yjs => Box::new(YjsPage::new(number)),
            Who::Floor => Box::new(FloorPage::new(number)),
        };
        self.crowd.open(client, self.servers[server].address)
    }

    /// So many pages come, to the servers in turn. Returns how long it takes until all are online.
    pub(super) fn fill(&mut self, count: usize) -> Result<Duration> {
        for number in 0..count {
            self.come(number % self.servers.len());
        }
        self.until("are online", Crowd::online)
    }

    /// Waits until as many pages as there are come up to something. Returns how long that took.
    ///
    /// # Errors
    /// [`Stopped`] at a bound.
    pub(super) fn until(
        &mut self,
        what: &str,
        count: impl Fn(&Crowd) -> usize,
    ) -> Result<Duration> {
        let begun = Instant::now();
        while count(&self.crowd) < self.crowd.present() {
            let reached = self.step(begun);
            let (reached_by, of) = (count(&self.crowd), self.crowd.present());
            self.explain(reached, &format!("{reached_by} of {of} {what}"))?;
        }
        Ok(begun.elapsed())
    }

    /// Waits until something is so. Returns how long that took.
    ///
    /// # Errors
    /// [`Stopped`] at a bound.
    pub(super) fn until_so(
        &mut self,
        what: &str,
        is_so: impl Fn(&Crowd) -> bool,
    ) -> Result<Duration> {
        let begun = Instant::now();
        while !is_so(&self.crowd) {
            let reached = self.step(begun);
            self.explain(reached, &format!("not yet: {what}"))?;
        }
        Ok(begun.elapsed())
    }

    /// One turn of the pages, within the bounds of a step that began then.
    fn step(&mut self, begun: Instant) -> Result<()> {
        self.crowd.turn()?;
        self.watch.look(self.servers[0].pid())?;
        if begun.elapsed() > self.bound() {
            bail!(Stopped(format!("{} s", self.bound().as_secs())));
        }
        Ok(())
    }

    /// Says how far a step was that stopped, and what links ended by.
    fn explain(&mut self, reached: Result<()>, how_far: &str) -> Result<()> {
        let Err(error) = reached else {
            return Ok(());
        };
        let Stopped(at) = error.downcast::<Stopped>()?;
        let lost = self.crowd.take_lost();
        let lost = lost.map_or(String::new(), |it| format!("; links ended: {it}"));
        bail!(Stopped(format!("{at}: {how_far}{lost}")))
    }

    /// Serves the pages for a while.
    ///
    /// # Errors
    /// [`Stopped`] if the memory reaches its bound.
    pub(super) fn run(&mut self, time: Duration) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < time {
            let reached = self.step(Instant::now());
            self.explain(reached, "while pages were served")?;
        }
        Ok(())
    }

    /// Serves the pages for one turn of a step that began then.
    ///
    /// # Errors
    /// [`Stopped`] at a bound.
    pub(super) fn serve(&mut self, begun: Instant) -> Result<()> {
        let reached = self.step(begun);
        if reached.is_ok() {
            return reached;
        }
        let (expected, least) = (self.crowd.expected(), self.crowd.values().0);
        self.explain(
            reached,
            &format!("a page shows {least} of {expected} clicks"),
        )
    }

    /// Kills the first node, and starts it again on its folder.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.servers[0].kill()?;
        let killed = Instant::now();
        while killed.elapsed() < NOTICED {
            self.crowd.turn()?;
        }
        self.servers[0].again()
    }

    /// Waits until the pages receive next to nothing, for a while at most. Returns whether they do.
    pub(super) fn quiet(&mut self) -> Result<bool> {
        let begun = Instant::now();
        while begun.elapsed() < QUIET {
            let pages: Vec<usize> = self.crowd.numbers().collect();
            let before = self.crowd.received(&pages);
            self.run(QUIET_LOOK)?;
            if self.crowd.received(&pages) - before < QUIET_BYTES * pages.len() as u64 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// All add at once. Returns how long it takes until all agree, and the bytes that each received.
    pub(super) fn add_all(&mut self) -> Result<(Duration, f64)> {
        let pages: Vec<usize> = self.crowd.numbers().collect();
        let before = self.crowd.received(&pages);
        let begun = Instant::now();
        self.crowd.add_all()?;
        self.until("agree", Crowd::agreeing)?;
        let took = begun.elapsed();
        let received = self.crowd.received(&pages) - before;
        Ok((took, received as f64 / pages.len() as f64))
    }

    /// So many pages add, the node is killed (SIGKILL) in the middle and started again. Waits until all
    /// are online again and agree, and returns how long it took from the kill.
    pub(super) fn crash(&mut self, clicks: usize) -> Result<Duration> {
        let pages: Vec<usize> = self.crowd.numbers().take(clicks).collect();
        for page in pages {
            self.crowd.add(page)?;
        }
        self.run(KILLED_AFTER)?;
        let killed = Instant::now();
        self.kill()?;
        // Some may have agreed before it, and had nothing to do with a node since.
        self.until("are online after the kill", Crowd::online)?;
        self.until("agree after the kill", Crowd::agreeing)?;
        let took = killed.elapsed();
        self.crowd.take_lost();
        self.check()?;
        Ok(took)
    }

    /// Waits until all pages show what was added, and checks that none shows more, and that the nodes show
    /// exactly that.
    ///
    /// # Errors
    /// [`Stopped`] at a bound. Another one if a sum is wrong: then no figure counts.
    pub(super) fn check(&mut self) -> Result<()> {
        let expected = self.crowd.expected();
        let most = self.crowd.values().1;
        if most > expected {
            bail!("a page shows {most}, and {expected} was added");
        }
        self.until("agree", Crowd::agreeing)?;
        if self.who != Who::Ours {
            return Ok(());
        }
        for at in 0..self.servers.len() {
            let begun = Instant::now();
            loop {
                let value = self.servers[at].value(KEY);
                match value {
                    Ok(value) if value == expected => break,
                    _ if begun.elapsed() < TOLD => self.run(LOOK)?,
                    value => {
                        let value = value.context("a node does not tell its value")?;
                        bail!("a node shows {value}, and {expected} was added");
                    }
                }
            }
        }
        Ok(())
    }
}
