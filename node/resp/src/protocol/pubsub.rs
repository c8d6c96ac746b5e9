//! Subscriptions: channels with events about changed counters, under Redis's names.

use super::command::Command;
use super::error::ReplyError;
use super::glob::{self, Glob};
use super::limits::{SUBSCRIPTION_BYTES_MAX, SUBSCRIPTIONS_MAX};
use super::reply::Reply;
use super::request::Args;
use super::session::Session;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use tallymesh_node_ground::model::Notice;

/// How far a session has received an event that matches many patterns.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Midway {
    /// How many of the event's two channels are done.
    channels: usize,
    /// The last pattern that was compared with the next channel.
    after: Option<Box<[u8]>>,
}

/// Steps that the lookup of a channel, or the begin of a pattern, counts for.
const LOOK_STEPS: usize = 16;

/// The subscriptions of a session.
#[derive(Default)]
pub(super) struct Subscriptions {
    channels: BTreeSet<Box<[u8]>>,
    patterns: BTreeMap<Box<[u8]>, Glob>,
    /// Bytes of all channels and patterns.
    bytes: usize,
    /// Bytes of the compiled patterns.
    compiled: usize,
}

impl Subscriptions {
    pub(super) fn channels(&self) -> usize {
        self.channels.len()
    }

    pub(super) fn patterns(&self) -> usize {
        self.patterns.len()
    }

    fn count(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    /// The memory that they use, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        // Each is stored at most twice: by itself, and in the tree.
        self.bytes + self.compiled + self.count() * 2 * size_of::<(Box<[u8]>, Glob)>()
    }

    fn insert(&mut self, command: Command, name: &[u8]) {
        let new = match command {
            Command::Subscribe => self.channels.insert(name.into()),
            _ if self.patterns.contains_key(name) => false,
            _ => {
                let glob = Glob::new(name);
                self.compiled += glob.heap_bytes();
                self.patterns.insert(name.into(), glob).is_none()
            }
        };
        self.bytes += if new { name.len() } else { 0 };
    }

    fn remove(&mut self, of_channels: bool, name: &[u8]) {
        let was = match of_channels {
            true => self.channels.remove(name),
            false => {
                let glob = self.patterns.remove(name);
                self.compiled -= glob.as_ref().map_or(0, Glob::heap_bytes);
                glob.is_some()
            }
        };
        self.bytes -= if was { name.len() } else { 0 };
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count() == 0
    }
}

impl Session {
    /// Whether it has subscriptions, so that it is to be [notified](Session::notify).
    pub fn is_subscribed(&self) -> bool {
        self.subscriptions.is_some()
    }

    /// Appends a message for each channel and pattern that the event matches. Stops once `steps`
    /// are over the limit, and records where. Returns whether it is done.
    ///
    /// A reader whose output is then over [`OUT_BYTES_MAX`](super::limits::OUT_BYTES_MAX) is too
    /// slow and must be disconnected, because unread output can't be kept for ever.
    pub fn notify(
        &self,
        notice: &Notice,
        midway: &mut Midway,
        (steps, steps_max): (&mut usize, usize),
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(subscriptions) = &self.subscriptions else {
            *midway = Midway::default();
            return true;
        };
        let mut reply = Reply {
            out,
            resp3: self.resp3,
        };
        let event = notice.event.name().as_bytes();
        let key = &notice.keyspace[notice.key_at..];
        let channels = [(&notice.keyspace, event), (&notice.keyevent, key)];
        for (channel, message) in channels.into_iter().skip(midway.channels) {
            let after = midway.after.take();
            if after.is_none() {
                *steps += LOOK_STEPS;
                if subscriptions.channels.contains(channel.as_slice()) {
                    reply.push(3);
                    reply.bulk(b"message");
                    reply.bulk(channel);
                    reply.bulk(message);
                }
            }
            let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let patterns = subscriptions
                .patterns
                .range::<[u8], _>((from, Bound::Unbounded));
            for (pattern, glob) in patterns {
                *steps += LOOK_STEPS;
                if glob.matches(channel, steps) {
                    *steps += pattern.len() + channel.len();
                    reply.push(4);
                    reply.bulk(b"pmessage");
                    reply.bulk(pattern);
                    reply.bulk(channel);
                    reply.bulk(message);
                }
                if *steps > steps_max {
                    midway.after = Some(pattern.clone());
                    return false;
                }
            }
            midway.channels += 1;
        }
        *midway = Midway::default();
        true
    }

    /// Makes and answers the commands about subscriptions.
    pub(super) fn pubsub<'a>(
        &mut self,
        command: Command,
        args: &Args<'a>,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        let mut all = self.subscriptions.take().unwrap_or_default();
        let answered = match command {
            Command::Subscribe | Command::PSubscribe => subscribe(&mut all, command, args, reply),
            _ => {
                unsubscribe(&mut all, command, args, reply);
                Ok(())
            }
        };
        self.subscriptions = Some(all).filter(|all| !all.is_empty());
        answered
    }
}

fn subscribe<'a>(
    all: &mut Subscriptions,
    command: Command,
    args: &Args<'a>,
    reply: &mut Reply<'_>,
) -> Result<(), ReplyError<'a>> {
    let wanted = || args.iter().skip(1);
    wanted().try_for_each(glob::check)?;
    if all.count() + args.len() - 1 > SUBSCRIPTIONS_MAX {
        return Err(ReplyError::SubscriptionsFull);
    }
    let bytes = all.bytes + wanted().map(<[u8]>::len).sum::<usize>();
    if bytes > SUBSCRIPTION_BYTES_MAX {
        return Err(ReplyError::SubscriptionBytes(bytes));
    }
    for name in wanted() {
        all.insert(command, name);
        confirm(word(command), Some(name), all.count(), reply);
    }
    Ok(())
}

fn unsubscribe(all: &mut Subscriptions, command: Command, args: &Args<'_>, reply: &mut Reply<'_>) {
    let of_channels = command == Command::Unsubscribe;
    let mut gone: Vec<Box<[u8]>> = args.iter().skip(1).map(Box::from).collect();
    if args.len() == 1 {
        gone = match of_channels {
            true => all.channels.iter().cloned().collect(),
            false => all.patterns.keys().cloned().collect(),
        };
    }
    for name in &gone {
        all.remove(of_channels, name);
        confirm(word(command), Some(name), all.count(), reply);
    }
    if gone.is_empty() {
        confirm(word(command), None, all.count(), reply);
    }
}

fn word(command: Command) -> &'static [u8] {
    match command {
        Command::Subscribe => b"subscribe",
        Command::PSubscribe => b"psubscribe",
        Command::Unsubscribe => b"unsubscribe",
        _ => b"punsubscribe",
    }
}

fn confirm(word: &[u8], name: Option<&[u8]>, count: usize, reply: &mut Reply<'_>) {
    reply.push(3);
    reply.bulk(word);
    match name {
        Some(name) => reply.bulk(name),
        None => reply.null(),
    }
    reply.count(count);
}
