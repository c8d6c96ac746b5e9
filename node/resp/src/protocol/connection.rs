//! Commands about the connection: `HELLO`, `AUTH`, `SELECT`, `CLIENT`, `RESET`, `QUIT`, `WAIT`.

use super::command::{Command, Sub};
use super::counters::{check_sub, integer};
use super::error::ReplyError;
use super::levels::Levels;
use super::limits::{LOGIN_WORK, NAME_BYTES_MAX};
use super::reply::Reply;
use super::request::{Args, number};
use super::rights::RightsWait;
use super::server::{REDIS_VERSION, command_table, config, help, info};
use super::session::{Session, Wait};
use super::{Host, Seen, session};
use std::fmt::Write;
use tallymesh_node_ground::model::Place;

/// The only user.
const USER: &[u8] = b"default";

impl Session {
    /// Makes and answers the commands about the connection and the node.
    pub(super) fn connection<'a>(
        &mut self,
        command: Command,
        args: &Args<'a>,
        host: &mut dyn Host,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        match command {
            Command::Hello => return self.hello(args, host, reply),
            Command::Auth => {
                self.auth(args, host)?;
                reply.ok();
            }
            Command::Select => {
                let space = usize::try_from(integer(args.at(1))?).ok();
                let open = space.filter(|space| *space < host.spaces());
                let space = open.ok_or(ReplyError::DbIndex)?;
                host.judge(Place::Space(space))?;
                self.space = space;
                reply.ok();
            }
            Command::Client => return self.client(args, host, reply),
            Command::Wait => return self.wait_for(args, host, reply),
            Command::Reset => {
                self.reset();
                reply.resp3 = false;
                reply.status("RESET");
            }
            Command::Quit => {
                self.closing = true;
                reply.ok();
            }
            Command::Info => {
                // The answer has a row or two for each space.
                self.work += host.spaces();
                info(args, host, reply);
            }
            Command::Time => {
                let now = host.space_time(self.space);
                reply.array(2);
                for number in [now / 1000, now % 1000 * 1000] {
                    reply.bulk(number.to_string().as_bytes());
                }
            }
            Command::Config => return config(args, &self.config, host, reply),
            _ => return command_table(args, reply),
        }
        Ok(())
    }

    fn hello<'a>(
        &mut self,
        args: &Args<'a>,
        host: &mut dyn Host,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        let mut resp3 = self.resp3;
        if args.len() > 1 {
            resp3 = match number(args.at(1)).ok_or(ReplyError::ProtoNotInteger)? {
                2 => false,
                3 => true,
                _ => return Err(ReplyError::NoProto),
            };
        }
        let (mut login, mut name) = (None, None);
        let mut at = 2;
        while at < args.len() {
            let (word, left) = (args.at(at), args.len() - at - 1);
            if word.eq_ignore_ascii_case(b"auth") && left >= 2 {
                login = Some((args.at(at + 1), args.at(at + 2)));
                at += 3;
            } else if word.eq_ignore_ascii_case(b"setname") && left >= 1 {
                name = Some(check_name(args.at(at + 1), ReplyError::ClientName)?);
                at += 2;
            } else {
                return Err(ReplyError::HelloOption(word));
            }
        }
        if let Some((user, password)) = login {
            self.log_in(user, password, host)?;
        }
        if !self.authenticated {
            return Err(ReplyError::HelloNoAuth);
        }
        if let Some(name) = name {
            self.name = name;
        }
        self.resp3 = resp3;
        reply.resp3 = resp3;
        reply.map(7);
        for (field, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
            reply.bulk(field.as_bytes());
            reply.bulk(value.as_bytes());
        }
        reply.bulk(b"proto");
        reply.integer(if resp3 { 3 } else { 2 });
        reply.bulk(b"id");
        reply.integer(i64::try_from(self.id).unwrap_or(i64::MAX));
        for (field, value) in [("mode", "standalone"), ("role", "master")] {
            reply.bulk(field.as_bytes());
            reply.bulk(value.as_bytes());
        }
        reply.bulk(b"modules");
        reply.array(0);
        Ok(())
    }

    fn auth<'a>(&mut self, args: &Args<'a>, host: &mut dyn Host) -> Result<(), ReplyError<'a>> {
        match args.len() {
            2 if !self.config.asks() => Err(ReplyError::NoPassword),
            2 => self.log_in(USER, args.at(1), host),
            3 => self.log_in(args.at(1), args.at(2), host),
            _ => Err(ReplyError::Syntax),
        }
    }

    fn log_in(
        &mut self,
        user: &[u8],
        secret: &[u8],
        host: &mut dyn Host,
    ) -> Result<(), ReplyError<'static>> {
        self.work += LOGIN_WORK;
        if !self.config.tickets {
            // A password can be guessed, so attempts are bounded before one is checked.
            host.may_log_in().map_err(|wait| ReplyError::TooManyTries {
                wait_s: wait.as_secs() + u64::from(wait.subsec_nanos() > 0),
            })?;
        }
        let tried = match self.config.tickets {
            // A ticket names its holder, so the name beside it is ignored.
            true => host
                .log_in(secret)
                .map(Some)
                .map_err(ReplyError::WrongTicket),
            false => self.check_password(user, secret).map(|()| None),
        };
        if let Err(error) = &tried {
            let pause = host.log_in_failed(error.code());
            // A ticket is signed and can't be guessed. So a valid one passes whatever others showed
            // from the same address. Only the connection that shows bad ones is slowed down.
            if let Some(pause) = pause.filter(|_| self.config.tickets) {
                let timeout_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
                self.wait = Some(Wait::Pause { timeout_ms });
            }
        }
        self.role = tried?;
        (self.authenticated, self.judged) = (true, None);
        Ok(())
    }

    fn check_password(&self, user: &[u8], password: &[u8]) -> Result<(), ReplyError<'static>> {
        // Without a password every one is accepted, as for Redis's `nopass` users.
        let wanted = self.config.password.as_deref();
        let right = wanted.is_none_or(|wanted| same(wanted.as_bytes(), password));
        match user == USER && right {
            true => Ok(()),
            false => Err(ReplyError::WrongPass),
        }
    }

    /// Resets the session to its beginning. Its writes stay known to `WAIT`, and so does its
    /// library's name.
    fn reset(&mut self) {
        self.authenticated = !self.config.asks();
        self.role = None;
        self.resp3 = false;
        self.space = 0;
        self.multi = None;
        self.watched = Vec::new();
        self.subscriptions = None;
        self.name = String::new();
        self.no_evict = false;
        self.levels = Levels::default();
        self.rights = RightsWait::default();
    }

    fn wait_for<'a>(
        &mut self,
        args: &Args<'a>,
        host: &mut dyn Host,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        let members = usize::try_from(integer(args.at(1))?).unwrap_or(0);
        let timeout = number(args.at(2)).ok_or(ReplyError::TimeoutNotInteger)?;
        let timeout = u64::try_from(timeout).map_err(|_| ReplyError::TimeoutNegative)?;
        let now = i64::try_from(host.unix_ms()).unwrap_or(i64::MAX);
        if now.checked_add_unsigned(timeout).is_none() {
            return Err(ReplyError::TimeoutRange);
        }
        let holders = host.holders(self.writes());
        if holders >= members {
            reply.count(holders);
            return Ok(());
        }
        self.wait = Some(Wait::Holders {
            members,
            timeout_ms: (timeout > 0).then_some(timeout),
        });
        Ok(())
    }

    fn client<'a>(
        &mut self,
        args: &Args<'a>,
        host: &mut dyn Host,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        match check_sub("client", Command::Client, args)? {
            Sub::Help => help("client", Command::Client, reply),
            Sub::ClientId => reply.integer(i64::try_from(self.id).unwrap_or(i64::MAX)),
            Sub::ClientGetName if self.name.is_empty() => reply.null(),
            Sub::ClientGetName => reply.bulk(self.name.as_bytes()),
            Sub::ClientSetName => {
                self.name = check_name(args.at(2), ReplyError::ClientName)?;
                reply.ok();
            }
            Sub::ClientSetInfo => {
                let field = args.at(2);
                let known = [&b"lib-name"[..], b"lib-ver"];
                let at = known
                    .iter()
                    .position(|name| field.eq_ignore_ascii_case(name));
                let at = at.ok_or(ReplyError::ClientInfoOption(field))?;
                let value = check_name(args.at(3), ReplyError::ClientAttribute(field))?;
                match at {
                    0 => self.library = value,
                    _ => self.library_version = value,
                }
                reply.ok();
            }
            Sub::ClientNoEvict => {
                self.no_evict = match args.at(2).to_ascii_lowercase().as_slice() {
                    b"on" => true,
                    b"off" => false,
                    _ => return Err(ReplyError::Syntax),
                };
                reply.ok();
            }
            Sub::ClientLevel => return self.client_level(args, reply),
            Sub::ClientRightsWait => return self.client_rights_wait(args, reply),
            Sub::ClientInfo => reply.verbatim(&self.describe(&host.seen(self.id))),
            _ => return self.list_clients(args, host, reply),
        }
        Ok(())
    }

    fn list_clients<'a>(
        &self,
        args: &Args<'a>,
        host: &mut dyn Host,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        let option = args.at(2).to_ascii_lowercase();
        let mut ids = None;
        let mut kind = Vec::new();
        match (option.as_slice(), args.len()) {
            (b"", 2) => {}
            (b"type", 4) => kind = args.at(3).to_ascii_lowercase(),
            (b"id", 4..) => {
                let parsed = args.iter().skip(3).map(number);
                let mut named = parsed
                    .collect::<Option<Vec<i64>>>()
                    .ok_or(ReplyError::ClientId)?;
                named.sort_unstable();
                ids = Some(named);
            }
            _ => return Err(ReplyError::Syntax),
        }
        if !matches!(
            kind.as_slice(),
            b"" | b"normal" | b"pubsub" | b"master" | b"replica" | b"slave"
        ) {
            return Err(ReplyError::ClientType(args.at(3)));
        }
        let wanted = |id: u64, line: &str| {
            let subscribed = line.contains(" flags=P");
            let of_kind = match kind.as_slice() {
                b"" => true,
                b"normal" => !subscribed,
                b"pubsub" => subscribed,
                _ => false,
            };
            let id = i64::try_from(id).unwrap_or(i64::MAX);
            of_kind
                && ids
                    .as_ref()
                    .is_none_or(|ids| ids.binary_search(&id).is_ok())
        };
        let mut lines = Vec::new();
        let own = self.describe(&host.seen(self.id));
        if wanted(self.id, &own) {
            lines.push((self.id, own));
        }
        host.others(&mut |id, line| {
            if wanted(id, line) {
                lines.push((id, line.to_owned()));
            }
        });
        lines.sort_unstable();
        let text: String = lines.into_iter().map(|(_, line)| line).collect();
        reply.verbatim(&text);
        Ok(())
    }

    /// Its line in `CLIENT LIST`, with the line end.
    pub fn describe(&self, seen: &Seen) -> String {
        let (channels, patterns) = self
            .subscriptions
            .as_ref()
            .map_or((0, 0), |all| (all.channels(), all.patterns()));
        let flags = [
            (self.is_subscribed(), 'P'),
            (self.multi.is_some(), 'x'),
            (self.wait.is_some(), 'b'),
            (self.no_evict, 'e'),
        ];
        let mut flags: String = flags
            .iter()
            .filter(|(is, _)| *is)
            .map(|(_, flag)| flag)
            .collect();
        if flags.is_empty() {
            flags.push('N');
        }
        let multi = self.multi.as_ref().map(|multi| multi.len());
        let mut line = String::new();
        // Writing to a string can't fail.
        let _ = writeln!(
            line,
            "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags={flags} db={} sub={channels} \
             psub={patterns} ssub=0 multi={} watch={} qbuf={} tot-mem={} cmd={} user={} redir=-1 \
             resp={} lib-name={} lib-ver={}",
            self.id,
            seen.peer,
            seen.local,
            self.name,
            seen.age_s,
            seen.idle_s,
            self.space,
            multi.map_or(-1, |queued| i64::try_from(queued).unwrap_or(i64::MAX)),
            self.watched.len(),
            self.unparsed(),
            size_of::<session::Session>() + self.heap_bytes(),
            self.last,
            if self.authenticated {
                "default"
            } else {
                "(none)"
            },
            if self.resp3 { 3 } else { 2 },
            self.library,
            self.library_version,
        );
        line
    }
}

/// Checks a name from a client, which must not break the lines of `CLIENT LIST`.
fn check_name<'a>(name: &'a [u8], broken: ReplyError<'a>) -> Result<String, ReplyError<'a>> {
    if name.len() > NAME_BYTES_MAX {
        return Err(ReplyError::NameLength(name.len()));
    }
    match name.iter().all(u8::is_ascii_graphic) {
        true => Ok(name.iter().copied().map(char::from).collect()),
        false => Err(broken),
    }
}

/// Whether two secrets are the same, in a time that reveals only their lengths.
fn same(one: &[u8], other: &[u8]) -> bool {
    let differ = one
        .iter()
        .zip(other)
        .fold(0, |bits, (one, other)| bits | (one ^ other));
    one.len() == other.len() && std::hint::black_box(differ) == 0
}
