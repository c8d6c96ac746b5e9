//! Subscriptions: channels that tell of changed counters, by the names that Redis gives them.

use super::command::Command;
use super::error::ReplyError;
use super::glob;
use super::limits::SUBSCRIPTIONS_MAX;
use super::reply::Reply;
use super::request::Args;
use super::session::Session;
use std::collections::BTreeSet;

/// What happened to a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// Something was added here.
    IncrBy,
    /// It was set here.
    Set,
    /// It was given an expiry here.
    Expire,
    /// Its expiry was taken away here.
    Persist,
    /// It was deleted here.
    Del,
    /// It had expired, and was deleted here.
    Expired,
    /// Another replica's writes came in.
    Merge,
    /// A budget was changed here.
    Budget,
}

impl Event {
    /// Its name in channels and messages. All but `merge` and `budget` are Redis's.
    pub fn name(self) -> &'static str {
        match self {
            Event::IncrBy => "incrby",
            Event::Set => "set",
            Event::Expire => "expire",
            Event::Persist => "persist",
            Event::Del => "del",
            Event::Expired => "expired",
            Event::Merge => "merge",
            Event::Budget => "budget",
        }
    }
}

/// An event in the words of channels, made once for all sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    event: Event,
    keyspace: Vec<u8>,
    keyevent: Vec<u8>,
    /// Where the key begins in `keyspace`.
    key_at: usize,
}

impl Notice {
    /// What is to be told when `event` happens to the counter `key` of a space.
    pub fn new(space: usize, key: &str, event: Event) -> Notice {
        let prefix = format!("__keyspace@{space}__:");
        let key_at = prefix.len();
        Notice {
            event,
            keyspace: (prefix + key).into_bytes(),
            keyevent: format!("__keyevent@{space}__:{}", event.name()).into_bytes(),
            key_at,
        }
    }
}

/// What a session is subscribed to.
#[derive(Default)]
pub(super) struct Subscriptions {
    channels: BTreeSet<Box<[u8]>>,
    patterns: BTreeSet<Box<[u8]>>,
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

    pub(super) fn is_empty(&self) -> bool {
        self.count() == 0
    }
}

impl Session {
    /// Whether it has subscriptions, so that it is to be [notified](Session::notify).
    pub fn is_subscribed(&self) -> bool {
        self.subscriptions.is_some()
    }

    /// Appends a message for each channel and pattern that the event is of.
    ///
    /// A reader whose output is over [`OUT_BYTES_MAX`](super::limits::OUT_BYTES_MAX) after that is
    /// too slow and must be cut off: what it does not read can't be held for ever.
    pub fn notify(&self, notice: &Notice, out: &mut Vec<u8>) {
        let Some(subscriptions) = &self.subscriptions else {
            return;
        };
        let mut reply = Reply {
            out,
            resp3: self.resp3,
        };
        let event = notice.event.name().as_bytes();
        let key = &notice.keyspace[notice.key_at..];
        for (channel, message) in [(&notice.keyspace, event), (&notice.keyevent, key)] {
            if subscriptions.channels.contains(channel.as_slice()) {
                reply.push(3);
                reply.bulk(b"message");
                reply.bulk(channel);
                reply.bulk(message);
            }
            for pattern in &subscriptions.patterns {
                if glob::matches(pattern, channel) {
                    reply.push(4);
                    reply.bulk(b"pmessage");
                    reply.bulk(pattern);
                    reply.bulk(channel);
                    reply.bulk(message);
                }
            }
        }
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
    for name in wanted() {
        match command {
            Command::Subscribe => all.channels.insert(name.into()),
            _ => all.patterns.insert(name.into()),
        };
        confirm(word(command), Some(name), all.count(), reply);
    }
    Ok(())
}

fn unsubscribe(all: &mut Subscriptions, command: Command, args: &Args<'_>, reply: &mut Reply<'_>) {
    let of_channels = command == Command::Unsubscribe;
    let mut gone: Vec<Box<[u8]>> = args.iter().skip(1).map(Box::from).collect();
    if args.len() == 1 {
        let subscribed = match of_channels {
            true => &all.channels,
            false => &all.patterns,
        };
        gone = subscribed.iter().cloned().collect();
    }
    for name in &gone {
        match of_channels {
            true => all.channels.remove(name),
            false => all.patterns.remove(name),
        };
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
