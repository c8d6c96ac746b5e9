//! The state of one connection: its input, its present command, and its answers.

use super::command::{self, Command, KeysAt, Kind, Spec};
use super::counters::{self, View, Writing, amount, key, shown_key, sum};
use super::error::{Broken, ReplyError};
pub(super) use super::flow::{Flow, Wait};
use super::keyspace::Listing;
use super::levels::Levels;
use super::limits::{AHEAD_MAX, HELD_BYTES_MAX, IDLE_BYTES_MAX, OUT_BYTES_PAUSE, TURN_WORK_MAX};
use super::multi::{Multi, Watched};
use super::once::commit;
use super::pubsub::Subscriptions;
use super::received_bytes::ReceivedBytes;
use super::reply::Reply;
use super::request::{Args, Parsed, Request};
use super::rights::RightsWait;
use super::{Host, RespConfig, budgets, increx};
use std::hint::black_box;
use std::sync::Arc;
use tallymesh_core::{Error, Once, Replica, WriterId};
pub(super) use tallymesh_node_ground::model::LastWrite;
use tallymesh_node_ground::model::{Event, Place, Role};

/// A command that was read ahead.
#[derive(Default)]
struct Ready {
    request: Request,
    spec: Option<&'static Spec>,
    /// The offsets where it begins, and where the next one begins.
    start: usize,
    end: usize,
}

/// The result of reading ahead.
struct Read {
    /// Commands that are ready.
    count: usize,
    /// Bytes before them without a command.
    skipped: usize,
    /// Whether more may follow; if not, the next one is incomplete.
    then: Result<bool, Broken>,
}

/// Reads the next commands, one into each of `ahead`. The first one may have been begun before.
fn read_ahead(ahead: &mut Vec<Ready>, source: &[u8], trusted: bool) -> Read {
    let mut read = Read {
        count: 0,
        skipped: 0,
        then: Ok(true),
    };
    let mut from = 0;
    while read.count < AHEAD_MAX {
        if ahead.len() == read.count {
            ahead.push(Ready::default());
        }
        let ready = &mut ahead[read.count];
        let rest = &source[from..];
        match ready.request.next(rest, trusted) {
            Ok(Parsed::Command(used)) => {
                ready.spec = command::find(ready.request.args(rest).name());
                ready.start = from;
                ready.end = from + used;
                from += used;
                read.count += 1;
            }
            Ok(Parsed::Nothing(used)) => {
                from += used;
                match read.count {
                    0 => read.skipped = from,
                    count => ahead[count - 1].end = from,
                }
            }
            incomplete => {
                read.then = incomplete.map(|_| false);
                break;
            }
        }
    }
    read
}

/// The state of one connection.
///
/// The owner [feeds](Session::feed) it received bytes, flushes the output, and acts on the
/// [`Flow`]. The replies do not depend on how the bytes are split into pieces.
pub struct Session {
    pub(super) id: u64,
    pub(super) config: Arc<RespConfig>,
    pub(super) space: usize,
    pub(super) resp3: bool,
    pub(super) authenticated: bool,
    /// The role of its ticket, where clients need tickets.
    pub(super) role: Option<Role>,
    /// The place for which its ticket was last found valid in the present piece.
    pub(super) judged: Option<Place>,
    /// Whether commands need checks before they are executed.
    guarded: bool,
    pub(super) closing: bool,
    /// Commands that were read and not executed. Between two feeds it has only the incomplete one,
    /// if any.
    ahead: Vec<Ready>,
    /// Received bytes that wait. Empty while they are executed.
    held: ReceivedBytes,
    pub(super) multi: Option<Box<Multi>>,
    pub(super) watched: Vec<Watched>,
    pub(super) subscriptions: Option<Subscriptions>,
    pub(super) wait: Option<Wait>,
    pub(super) levels: Levels,
    pub(super) rights: RightsWait,
    /// A `KEYS` that continues in the next turn.
    pub(super) listing: Option<Box<Listing>>,
    /// Whether the present command was postponed, and has to be read again.
    pub(super) put_off: bool,
    written: Vec<LastWrite>,
    pub(super) name: String,
    pub(super) library: String,
    pub(super) library_version: String,
    pub(super) no_evict: bool,
    commands: u64,
    /// The work of its present turn; see [`TURN_WORK_MAX`].
    pub(super) work: usize,
    /// The offset in the output where the last whole reply ends.
    sound: usize,
    /// The last command's name.
    pub(super) last: &'static str,
}

impl Session {
    /// The state of a new connection. A node gives each `id` only once.
    pub fn new(id: u64, config: Arc<RespConfig>) -> Session {
        let mut session = Session {
            id,
            authenticated: !config.asks(),
            role: None,
            judged: None,
            config,
            space: 0,
            resp3: false,
            guarded: false,
            closing: false,
            ahead: Vec::new(),
            held: ReceivedBytes::default(),
            multi: None,
            watched: Vec::new(),
            subscriptions: None,
            wait: None,
            levels: Levels::default(),
            rights: RightsWait::default(),
            listing: None,
            put_off: false,
            written: Vec::new(),
            name: String::new(),
            library: String::new(),
            library_version: String::new(),
            no_evict: false,
            commands: 0,
            work: 0,
            sound: 0,
            last: "NULL",
        };
        session.guard_again();
        session
    }

    /// Whether it has authenticated, or does not have to.
    pub fn is_known(&self) -> bool {
        self.authenticated
    }

    /// The number of its present space.
    pub fn space(&self) -> usize {
        self.space
    }

    /// The number from its creation.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Receives `bytes`, executes all complete commands, and appends their replies to `out`.
    ///
    /// It stops early, and keeps the rest, when it waits, when it has done [`TURN_WORK_MAX`], or
    /// when `out` is longer than [`OUT_BYTES_PAUSE`]. Bytes that are fed after that are kept, too,
    /// up to [`HELD_BYTES_MAX`]. So the owner should then read no more.
    pub fn feed(&mut self, bytes: &[u8], host: &mut dyn Host, out: &mut Vec<u8>) -> Flow {
        if self.closing {
            return Flow::Close;
        }
        (self.judged, self.work, self.sound) = (None, 0, out.len());
        if self.held.is_empty() {
            let used = self.run(bytes, host, out);
            self.hold(&bytes[used..], out);
        } else {
            self.hold(bytes, out);
            let mut held = std::mem::take(&mut self.held);
            let used = self.run(held.rest(), host, out);
            match self.closing {
                true => held.clear(),
                false => held.executed(used),
            }
            self.held = held;
        }
        match (self.closing, self.wait) {
            (true, _) => Flow::Close,
            (false, Some(_)) => Flow::Waits,
            (false, None) if out.len() >= OUT_BYTES_PAUSE => Flow::Full,
            (false, None) if self.has_worked() && !self.held.is_empty() => Flow::Turn,
            (false, None) => Flow::Open,
        }
    }

    /// Ends it, because a command panicked. The answers of that command are removed.
    pub fn fail(&mut self, out: &mut Vec<u8>) {
        out.truncate(self.sound);
        self.end(&ReplyError::Internal(self.last), out);
    }

    /// Ends it with a refusal, and drops its bytes.
    pub fn end(&mut self, error: &ReplyError<'_>, out: &mut Vec<u8>) {
        let resp3 = self.resp3;
        Reply { out, resp3 }.error(error);
        self.closing = true;
        (self.wait, self.multi, self.listing) = (None, None, None);
        self.subscriptions = None;
        self.ahead = Vec::new();
        self.held.clear();
    }

    /// How many commands it has executed, including refused ones.
    pub fn commands(&self) -> u64 {
        self.commands
    }

    /// Its work since it was last fed; see [`TURN_WORK_MAX`].
    pub fn work(&self) -> usize {
        self.work
    }

    /// The event that it waits for.
    pub fn wait(&self) -> Option<Wait> {
        self.wait
    }

    /// Its last transaction in each space, and those of others that its retries refer to.
    pub fn writes(&self) -> &[LastWrite] {
        &self.written
    }

    /// Ends its wait: `members` have stored its writes. Feed it after that, even with no bytes.
    pub fn answer_wait(&mut self, members: usize, out: &mut Vec<u8>) {
        if let Some(Wait::Holders { .. }) = self.wait {
            self.wait = None;
            let resp3 = self.resp3;
            Reply { out, resp3 }.count(members);
        }
    }

    /// The memory that it uses beside itself, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let multi = self.multi.as_ref().map_or(0, |multi| multi.heap_bytes());
        let requests = self.ahead.iter().map(|ready| ready.request.heap_bytes());
        let ahead = self.ahead.capacity() * size_of::<Ready>() + requests.sum::<usize>();
        let subscriptions = self.subscriptions.as_ref().map_or(0, |it| it.heap_bytes());
        let listing = self.listing.as_ref().map_or(0, |it| it.heap_bytes());
        self.held.heap_bytes() + ahead + multi + subscriptions + listing
    }

    /// Received bytes that wait for their turn; none during their turn.
    pub(super) fn unparsed(&self) -> usize {
        self.held.len()
    }

    /// Executes the commands at the start of `source`. Returns how many bytes they had.
    fn run(&mut self, source: &[u8], host: &mut dyn Host, out: &mut Vec<u8>) -> usize {
        let mut ahead = std::mem::take(&mut self.ahead);
        let mut at = 0;
        while self.may_execute(out) {
            let rest = &source[at..];
            let trusted = self.authenticated;
            let read = read_ahead(&mut ahead, rest, trusted);
            if read.count > 1 {
                self.warm(&ahead[..read.count], rest, host);
            }
            let mut made = 0;
            at += read.skipped;
            for ready in &mut ahead[..read.count] {
                if !self.may_execute(out) || self.authenticated != trusted {
                    break;
                }
                let args = ready.request.args(&rest[ready.start..]);
                self.execute(ready.spec, &args, host, out);
                if std::mem::take(&mut self.put_off) {
                    host.executed();
                    break;
                }
                ready.request.clear();
                self.sound = out.len();
                host.executed();
                at += ready.end - ready.start;
                made += 1;
            }
            if made < read.count || self.authenticated != trusted {
                // The rest is read again in its turn, because other rules may apply then.
                ahead.iter_mut().for_each(|ready| ready.request.clear());
                continue;
            }
            match read.then {
                Ok(true) => {}
                Ok(false) => {
                    ahead.swap(0, read.count);
                    break;
                }
                Err(broken) if self.may_execute(out) => self.break_off(broken, out),
                // It is read again in its turn.
                Err(_) => ahead[read.count].request.clear(),
            }
        }
        for ready in &mut ahead {
            ready.request.shrink(IDLE_BYTES_MAX / AHEAD_MAX);
        }
        self.ahead = ahead;
        at
    }

    #[inline]
    fn may_execute(&self, out: &[u8]) -> bool {
        !self.closing && self.wait.is_none() && out.len() < OUT_BYTES_PAUSE && !self.has_worked()
    }

    /// Whether it has done the work of a turn.
    #[inline]
    fn has_worked(&self) -> bool {
        self.work >= TURN_WORK_MAX
    }

    /// Accesses the counters of the next commands, so that they are in the cache when they are
    /// needed. One after another, each command would wait for memory. Here many of these waits
    /// overlap.
    fn warm(&self, ahead: &[Ready], source: &[u8], host: &mut dyn Host) {
        let mut keys = [""; AHEAD_MAX];
        for (slot, ready) in keys.iter_mut().zip(ahead) {
            let of_first = ready.spec.is_some_and(|spec| spec.keys == KeysAt::First);
            let name = ready.request.args(&source[ready.start..]).at(1);
            *slot = key(name).ok().filter(|_| of_first).unwrap_or_default();
        }
        let replica = host.replica(self.space);
        let mut found = [None; AHEAD_MAX];
        for (slot, key) in found.iter_mut().zip(&keys[..ahead.len()]) {
            *slot = replica.key_id(key);
        }
        for counter in found.into_iter().flatten() {
            black_box(replica.value_at(counter));
        }
    }

    fn hold(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.closing || bytes.is_empty() {
            return;
        }
        if self.held.len() + bytes.len() > HELD_BYTES_MAX {
            return self.break_off(Broken::Held, out);
        }
        self.held.append(bytes);
    }

    fn break_off(&mut self, broken: Broken, out: &mut Vec<u8>) {
        let resp3 = self.resp3;
        Reply { out, resp3 }.error(&ReplyError::Protocol(broken));
        self.closing = true;
    }

    #[inline]
    fn execute(
        &mut self,
        found: Option<&'static Spec>,
        args: &Args<'_>,
        host: &mut dyn Host,
        out: &mut Vec<u8>,
    ) {
        let left_ms = self.rights.left_ms();
        let goes_on = self.levels.goes_on() || left_ms.is_some() || self.listing.is_some();
        self.commands += u64::from(!goes_on);
        let start = out.len();
        let resp3 = self.resp3;
        let mut reply = Reply { out, resp3 };
        let done = match found {
            Some(spec) if spec.takes(args.len()) => {
                self.last = spec.name;
                #[cfg(test)]
                crate::panics::panic_if_told(args.at(1), crate::panics::BEFORE);
                match self.guarded {
                    false => self.perform(spec, args, host, &mut reply),
                    true => self.admit(spec, args, host, &mut reply),
                }
            }
            found => self.reject(found, args),
        };
        if let Err(error) = done {
            reply.out.truncate(start);
            self.listing = None;
            let lacked = budgets::lacked(found, args, &error, host.replica(self.space));
            if let Some(lacked) = &lacked {
                if self.waits_for_rights(lacked, left_ms) {
                    return;
                }
                host.lacks(self.space, lacked);
            }
            let (present, quota) = (
                host.at_present(self.space),
                host.replica(self.space).quota(),
            );
            let error = error.at_present(&present, lacked.as_ref(), quota);
            let stuck = lacked.map(|it| host.stuck(self.space, &it));
            let error = error.with_stuck(stuck.unwrap_or_default());
            if error.is_catching_up() && self.waits_for_membership(left_ms) {
                return;
            }
            host.refused(error.code());
            reply.error(&error);
        }
        self.work += args.len() + (reply.out.len() - start.min(reply.out.len())) / 64;
    }

    /// Answers an unknown command, or one with a wrong number of arguments.
    #[cold]
    fn reject<'a>(
        &mut self,
        found: Option<&'static Spec>,
        args: &Args<'a>,
    ) -> Result<(), ReplyError<'a>> {
        let name = args.name();
        // A page made a browser send an HTTP request to this port.
        if name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:") {
            self.closing = true;
            return Ok(());
        }
        let error = unfit(found, args);
        self.fail_multi();
        if found.is_some_and(|spec| spec.command == Command::Exec) {
            self.multi = None;
            self.watched = Vec::new();
            self.guard_again();
            return Err(ReplyError::ExecAbortBecause(Box::new(error)));
        }
        Err(error)
    }

    /// Executes a command in a session that needs checks. Such a session has not authenticated or
    /// has a ticket, queues commands, is subscribed, or has to reach a level.
    #[cold]
    fn admit<'a>(
        &mut self,
        spec: &'static Spec,
        args: &Args<'a>,
        host: &mut dyn Host,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        use Command::{Discard, Exec, Multi, Once, Quit, Reset, Unwatch, Watch};
        if !self.authenticated && !spec.is_open() {
            return Err(ReplyError::NoAuth);
        }
        self.check_ticket(spec, args, host)?;
        if !self.resp3 && self.is_subscribed() && !spec.is_for_subscribers() {
            return Err(ReplyError::Subscribed(spec.name));
        }
        let at_once = matches!(
            spec.command,
            Discard | Exec | Multi | Once | Quit | Reset | Watch
        );
        if self.multi.is_none() || at_once {
            let done = match self.levels.is_local() {
                true => self.perform(spec, args, host, reply),
                false => self.perform_at_level(spec, args, host, reply),
            };
            self.guard_again();
            return done;
        }
        match spec.kind {
            Kind::Read | Kind::Write if !self.levels.is_local() => {
                self.check_members(self.space, host)
                    .inspect_err(|_| self.fail_multi())?;
                self.queue(spec, args, reply)
            }
            Kind::Read | Kind::Write | Kind::Answer => self.queue(spec, args, reply),
            _ if spec.command == Unwatch => self.queue(spec, args, reply),
            _ => {
                self.fail_multi();
                Err(ReplyError::NotInMulti)
            }
        }
    }

    #[inline]
    pub(super) fn perform<'a>(
        &mut self,
        spec: &'static Spec,
        args: &Args<'a>,
        host: &mut dyn Host,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        if let Some(by) = amount(spec.command, args) {
            return self.add(key(args.at(1))?, by?, host, reply);
        }
        if spec.command == Command::Get {
            let key = shown_key(args.at(1))?;
            let replica: &Replica = host.replica(self.space);
            reply.value(View::value(replica, key));
            return Ok(());
        }
        self.perform_rest(spec, args, host, reply)
    }

    /// The fast path for adds, which are nearly all commands: without a transaction of several
    /// steps.
    #[inline]
    fn add<'a>(
        &mut self,
        key: &'a str,
        by: i64,
        host: &mut dyn Host,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        let space = self.space;
        let replica = host.writable(space)?;
        #[cfg(test)]
        crate::panics::panic_if_told(key.as_bytes(), crate::panics::WITHIN);
        let (counter, after) = match replica.key_id(key) {
            Some(counter) => {
                let after = sum(replica.value_at(counter), by)?;
                replica.add_at(counter, by)?;
                (counter, after)
            }
            None => (replica.add(key, by)?, by),
        };
        self.written(space, replica.writer(), replica.clock());
        host.wrote(space, counter, Event::IncrBy);
        reply.integer(after);
        Ok(())
    }

    fn perform_rest<'a>(
        &mut self,
        spec: &'static Spec,
        args: &Args<'a>,
        host: &mut dyn Host,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        let done = match spec.kind {
            Kind::Read => {
                let now = host.space_time(self.space);
                counters::read(spec, args, host.replica(self.space), now, reply)
            }
            Kind::Write => return self.write(spec, args, None, host, reply),
            Kind::Keyspace => self.keyspace(spec.command, args, host, reply),
            Kind::Flush => self.flush(spec.command, args, host, reply),
            Kind::Answer => self.answer(spec.command, args, reply),
            Kind::Connection => self.connection(spec.command, args, host, reply),
            Kind::Transaction => self.transaction(spec.command, args, host, reply),
            Kind::PubSub => self.pubsub(spec.command, args, reply),
        };
        self.guard_again();
        done
    }

    /// The time of the present space, unless the node awaits the clock of another member.
    pub(super) fn known_time(&self, host: &dyn Host) -> Option<u64> {
        let is_known = !host.awaits_clock(self.space);
        is_known.then(|| host.space_time(self.space))
    }

    /// Makes one command that writes, as one transaction, perhaps under a new key.
    pub(super) fn write<'a>(
        &mut self,
        spec: &'static Spec,
        args: &Args<'a>,
        once: Option<Once>,
        host: &mut dyn Host,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        let (now, strict) = (self.known_time(host), self.config.strict);
        let (mut events, mut changed) = (Vec::new(), Vec::new());
        self.prepare([(spec, *args)].into_iter(), host)?;
        let keyed = once.map(|once| (once, host.asker(self.space)));
        let mut tx = host.writable(self.space)?.begin()?;
        let mut writing = Writing {
            tx: &mut tx,
            now,
            strict,
            role: self.role,
            events: &mut events,
        };
        writing.run(spec, args, reply)?;
        commit(tx, keyed, &mut changed)?;
        self.tell(host, &changed, &events, once.is_some());
        Ok(())
    }

    /// Does the work before the transaction of these commands.
    pub(super) fn prepare<'a>(
        &self,
        commands: impl Iterator<Item = (&'static Spec, Args<'a>)>,
        host: &mut dyn Host,
    ) -> Result<(), Error> {
        for (_, args) in commands.filter(|it| it.0.command == Command::IncrEx) {
            let mut brought = Vec::new();
            increx::prepare(&args, host.writable(self.space)?, &mut brought)?;
            for counter in brought {
                host.wrote(self.space, counter, Event::Merge);
            }
        }
        Ok(())
    }

    /// Answers a command that needs only its arguments.
    pub(super) fn answer<'a>(
        &self,
        command: Command,
        args: &Args<'a>,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        match command {
            Command::Echo => reply.bulk(args.at(1)),
            Command::Ping if args.len() > 2 => return Err(ReplyError::Arity("ping")),
            Command::Ping if !self.resp3 && self.is_subscribed() => {
                reply.array(2);
                reply.bulk(b"pong");
                reply.bulk(args.at(1));
            }
            Command::Ping if args.len() == 2 => reply.bulk(args.at(1)),
            Command::Ping => reply.status("PONG"),
            _ => reply.ok(),
        }
        Ok(())
    }

    /// Records the last transaction of a writer in a space, for `WAIT`.
    #[inline]
    pub(super) fn written(&mut self, space: usize, writer: WriterId, clock: u64) {
        let written = LastWrite {
            space,
            writer,
            clock,
        };
        self.levels.note(written);
        note(&mut self.written, written);
    }

    /// Updates whether commands need checks before they are executed.
    pub(super) fn guard_again(&mut self) {
        let subscribed = !self.resp3 && self.subscriptions.is_some();
        let known = self.authenticated && self.role.is_none();
        let plain = known && self.multi.is_none() && self.levels.is_local();
        self.guarded = !plain || subscribed;
    }
}

/// Records the last transaction of its writer in its space.
#[inline]
pub(super) fn note(all: &mut Vec<LastWrite>, written: LastWrite) {
    let mut same = all.iter_mut();
    match same.find(|it| it.space == written.space && it.writer == written.writer) {
        Some(before) => before.clock = before.clock.max(written.clock),
        None => all.push(written),
    }
}

/// The reason why the arguments are no valid command.
pub(super) fn unfit<'a>(found: Option<&'static Spec>, args: &Args<'a>) -> ReplyError<'a> {
    let name = args.name();
    match (found, command::unsupported(name)) {
        (Some(spec), _) => ReplyError::Arity(spec.name),
        (None, Some(why)) => ReplyError::Unsupported { name, why },
        (None, None) => ReplyError::UnknownCommand(*args),
    }
}
