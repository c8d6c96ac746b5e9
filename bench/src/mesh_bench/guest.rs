//! A replica in this process that syncs with a node over single requests: it brings a node many
//! counters of many writers at once, and takes what changed there apart.

use super::nodes::Node;
use anyhow::{Context, Result, bail};
use std::time::{Duration, Instant};
use tallymesh_core::{
    Encode, Input, Link, Mark, Millis, Output, Replica, Space, SyncConfig, SyncMachine,
    VersionVector, WriterId,
};

const LINK: Link = Link(0);
const SESSION: &str = "tallymesh-session";

/// How long a request waits for frames, in milliseconds.
const WAIT_MS: u64 = 50;
/// The longest that a sync may take.
const SYNC: Duration = Duration::from_secs(300);
/// The most bytes that an answer has: what docs/http.md allows, and one frame more.
const ANSWER_BYTES_MAX: u64 = 10 << 20;

/// The replica, and its end of a link.
pub(super) struct Guest {
    replica: Replica,
    sync: SyncMachine,
    session: Option<String>,
    begun: Instant,
}

/// The name of a counter, as `redis-benchmark` names its random keys: 20 bytes.
pub(super) fn key(number: usize) -> String {
    format!("counter:{number:012}")
}

/// A writer of its own for each number.
pub(super) fn writer(number: u64) -> WriterId {
    let mut nonce = [0; 16];
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    WriterId::mint(&Space::default(), &[9; 32], &nonce)
}

impl Guest {
    /// One that holds so many counters, each counted in once, by so many writers in turn.
    pub(super) fn with(counters: usize, writers: usize) -> Result<Guest> {
        let space = Space::default();
        let mut replica = Replica::new(space.clone(), writer(0));
        for number in 0..writers {
            let mut one = Replica::new(space.clone(), writer(number as u64 + 1));
            for counter in (number..counters).step_by(writers) {
                one.add(&key(counter), 1)?;
            }
            replica.merge(&one.delta(&VersionVector::default()))?;
        }
        let sync = SyncMachine::new(SyncConfig::default(), 9);
        let (session, begun) = (None, Instant::now());
        Ok(Guest {
            replica,
            sync,
            session,
            begun,
        })
    }

    /// Syncs with a node until both hold the same.
    pub(super) fn sync(&mut self, node: &Node) -> Result<()> {
        self.session = None;
        self.input(Input::Disconnected { link: LINK });
        self.input(Input::Connected {
            link: LINK,
            broadcast: false,
        });
        let begun = Instant::now();
        loop {
            let digest = self.replica.digest();
            let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            if node.space()?["digest"] == digest.as_str() {
                return Ok(());
            }
            if begun.elapsed() > SYNC {
                bail!("a node and a guest never held the same");
            }
            // Many at once: to look at a node takes longer than to bring it a chunk.
            for _ in 0..16 {
                self.exchange(node)?;
            }
        }
    }

    /// The present place in what it has heard.
    pub(super) fn mark(&mut self) -> Mark {
        self.replica.mark()
    }

    /// How many shards changed after `mark`, and their bytes: one message of exactly these.
    pub(super) fn changed_since(&mut self, mut mark: Mark) -> (usize, usize) {
        let message = self.replica.since(&mut mark);
        message.map_or((0, 0), |it| (it.shard_count(), it.encode().len()))
    }

    fn input(&mut self, input: Input<'_>) {
        let now = self.begun.elapsed().as_millis() as Millis;
        self.sync.handle(now, &mut self.replica, input);
    }

    /// Sends what there is to send, and takes what comes.
    fn exchange(&mut self, node: &Node) -> Result<()> {
        self.input(Input::Tick);
        let mut body = Vec::new();
        while let Some(output) = self.sync.poll() {
            if let Output::Send { bytes, .. } = output {
                body.extend_from_slice(&u32::try_from(bytes.len())?.to_be_bytes());
                body.extend_from_slice(&bytes);
            }
        }
        let wait = if body.is_empty() { WAIT_MS } else { 1 };
        let url = format!("{}/v1/spaces/default/sync?wait_ms={wait}", node.base);
        let mut request = ureq::post(url);
        if let Some(session) = &self.session {
            request = request.header(SESSION, session);
        }
        let mut answer = request.send(&body[..])?;
        let session = answer.headers().get(SESSION).context("no session")?;
        self.session = Some(session.to_str()?.to_owned());
        let reader = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let bytes = reader.read_to_vec()?;
        let mut rest = &bytes[..];
        while let Some((length, after)) = rest.split_first_chunk() {
            let length = u32::from_be_bytes(*length) as usize;
            let frame = after.split_at_checked(length).context("half a frame")?;
            self.input(Input::Frame {
                link: LINK,
                bytes: frame.0,
            });
            rest = frame.1;
        }
        Ok(())
    }
}
