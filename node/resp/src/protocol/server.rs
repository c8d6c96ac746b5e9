//! Commands about the node: `INFO`, `CONFIG`, `COMMAND`.

use super::command::{Command, Kind, SUBS, Spec, Sub, TABLE, find};
use super::counters::check_sub;
use super::error::ReplyError;
use super::glob::{self, Glob};
use super::limits::ARG_BYTES_MAX;
use super::reply::Reply;
use super::request::Args;
use super::{Host, RespConfig};
use std::fmt::Write;
use tallymesh_node_ground::model::Place;

/// The Redis version whose protocol this is. Clients decide by it which commands they may send.
pub(super) const REDIS_VERSION: &str = "7.4.0";

/// Answers `INFO`: the requested sections, or all.
pub(super) fn info(args: &Args<'_>, host: &mut dyn Host, reply: &mut Reply<'_>) {
    let asked: Vec<Vec<u8>> = args
        .iter()
        .skip(1)
        .map(<[u8]>::to_ascii_lowercase)
        .collect();
    let all = asked.is_empty()
        || asked
            .iter()
            .any(|name| matches!(name.as_slice(), b"all" | b"default" | b"everything"));
    let mut text = String::new();
    for (name, tell) in SECTIONS {
        if all
            || asked
                .iter()
                .any(|asked| asked.eq_ignore_ascii_case(name.as_bytes()))
        {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            // Writing to a string can't fail.
            let _ = write!(text, "# {name}\r\n{}", tell(host));
        }
    }
    reply.verbatim(&text);
}

/// The name of a section of `INFO`, and the function that makes its text.
type Section = (&'static str, fn(&mut dyn Host) -> String);

/// The sections of `INFO`. Each is made only on request, in a time that does not depend on the
/// number of counters, because clients request it whenever they connect.
static SECTIONS: &[Section] = &[
    ("Server", server),
    ("Clients", |host| {
        format!("connected_clients:{}\r\n", host.facts().connections)
    }),
    ("Memory", |host| {
        format!(
            "used_memory:{}\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n",
            host.memory_bytes()
        )
    }),
    ("Persistence", |_| {
        "loading:0\r\nasync_loading:0\r\n".to_owned()
    }),
    ("Stats", |host| {
        let facts = host.facts();
        format!(
            "total_connections_received:{}\r\ntotal_commands_processed:{}\r\n",
            facts.connections_total, facts.commands_total
        )
    }),
    ("Replication", |host| {
        let links = host.facts().links;
        format!("role:master\r\nconnected_slaves:0\r\ntallymesh_links:{links}\r\n")
    }),
    ("Tallymesh", |host| {
        let named = |space| format!("db{space}_space:{}\r\n", host.space_name(space));
        spaces_told(host).into_iter().map(named).collect()
    }),
    ("Keyspace", keyspace),
];

fn server(host: &mut dyn Host) -> String {
    let facts = host.facts();
    let uptime_s = facts.uptime_ms / 1000;
    format!(
        "redis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\ntallymesh_version:{}\r\n\
         process_id:{}\r\nrun_id:{}\r\ntcp_port:{}\r\nuptime_in_seconds:{uptime_s}\r\n\
         uptime_in_days:{}\r\n",
        facts.version,
        facts.process_id,
        facts.run_id,
        facts.port,
        uptime_s / 86_400
    )
}

/// The spaces that the session's ticket covers.
fn spaces_told(host: &dyn Host) -> Vec<usize> {
    let told = |space: &usize| host.judge(Place::Space(*space)).is_ok();
    (0..host.spaces()).filter(told).collect()
}

/// A row for each space with counters, with exactly Redis's fields, because parsers refuse others.
fn keyspace(host: &mut dyn Host) -> String {
    let mut rows = String::new();
    for space in spaces_told(host) {
        let sizes = host.sizes(space);
        if sizes.counters > 0 {
            let (keys, expires) = (sizes.counters, sizes.expiring);
            // Writing to a string can't fail.
            let _ = write!(
                rows,
                "db{space}:keys={keys},expires={expires},avg_ttl=0\r\n"
            );
        }
    }
    rows
}

/// Answers `CONFIG`.
pub(super) fn config<'a>(
    args: &Args<'a>,
    config: &RespConfig,
    host: &mut dyn Host,
    reply: &mut Reply<'_>,
) -> Result<(), ReplyError<'a>> {
    let parameters = parameters(config, host);
    match check_sub("config", Command::Config, args)? {
        Sub::Help => help("config", Command::Config, reply),
        Sub::ConfigGet => {
            args.iter().try_for_each(glob::check)?;
            let patterns: Vec<Glob> = args
                .iter()
                .skip(2)
                .map(|pattern| Glob::new(&pattern.to_ascii_lowercase()))
                .collect();
            let asked = |name: &str| {
                patterns
                    .iter()
                    .any(|pattern| pattern.matches(name.as_bytes(), &mut 0))
            };
            let found: Vec<_> = parameters.iter().filter(|(name, _)| asked(name)).collect();
            reply.map(found.len());
            for (name, value) in found {
                reply.bulk(name.as_bytes());
                reply.bulk(value.as_bytes());
            }
        }
        _ => {
            if args.len() % 2 == 1 {
                return Err(ReplyError::Syntax);
            }
            for at in (2..args.len()).step_by(2) {
                let (name, value) = (args.at(at), args.at(at + 1));
                let known =
                    |known: &&(String, String)| name.eq_ignore_ascii_case(known.0.as_bytes());
                let known = parameters
                    .iter()
                    .find(known)
                    .ok_or(ReplyError::ConfigUnknown(name))?;
                if !may_be(&known.0, &known.1, value) {
                    return Err(ReplyError::ConfigImmutable(name));
                }
            }
            reply.ok();
        }
    }
    Ok(())
}

/// Whether a parameter may be set to `value`. It may be set to its present value. The parameter of
/// events may be set to some of the sent events, because clients receive only subscribed ones.
fn may_be(name: &str, is: &str, value: &[u8]) -> bool {
    let events = || {
        let known = value.iter().all(|flag| b"KEAg$lshzxetdnm".contains(flag));
        known && value.iter().any(|flag| b"KE".contains(flag))
    };
    value == is.as_bytes() || name == "notify-keyspace-events" && events()
}

/// The answers of `CONFIG GET`, by name.
fn parameters(config: &RespConfig, host: &mut dyn Host) -> Vec<(String, String)> {
    let own = [
        ("appendonly", "no".to_owned()),
        ("databases", host.spaces().to_string()),
        ("maxmemory", "0".to_owned()),
        ("maxmemory-policy", "noeviction".to_owned()),
        ("notify-keyspace-events", "AKE".to_owned()),
        ("proto-max-bulk-len", ARG_BYTES_MAX.to_string()),
        ("save", String::new()),
        ("timeout", "0".to_owned()),
    ];
    let mut all = config.parameters.clone();
    for (name, value) in own {
        if !all.iter().any(|(known, _)| known == name) {
            all.push((name.to_owned(), value));
        }
    }
    all.sort_unstable();
    all
}

/// Answers `HELP` of a command that has parts.
pub(super) fn help(name: &str, command: Command, reply: &mut Reply<'_>) {
    let parts: Vec<&str> = SUBS
        .iter()
        .filter(|sub| sub.of == command)
        .map(|sub| sub.name)
        .collect();
    reply.array(parts.len() + 1);
    let name = name.to_ascii_uppercase();
    reply.status(&format!(
        "{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    ));
    for part in parts {
        reply.status(&part.to_ascii_uppercase());
    }
}

/// Answers `COMMAND`.
pub(super) fn command_table<'a>(
    args: &Args<'a>,
    reply: &mut Reply<'_>,
) -> Result<(), ReplyError<'a>> {
    let all = || TABLE.iter().map(Some);
    if args.len() == 1 {
        write_all(all(), reply);
        return Ok(());
    }
    let named = || args.iter().skip(2).map(find);
    match check_sub("command", Command::Commands, args)? {
        Sub::Help => help("command", Command::Commands, reply),
        Sub::CommandCount => reply.count(TABLE.len()),
        Sub::CommandInfo if args.len() == 2 => write_all(all(), reply),
        Sub::CommandInfo => write_all(named(), reply),
        _ if args.len() == 2 => write_docs(&TABLE.iter().collect::<Vec<_>>(), reply),
        _ => write_docs(&named().flatten().collect::<Vec<_>>(), reply),
    }
    Ok(())
}

fn write_all(specs: impl Iterator<Item = Option<&'static Spec>> + Clone, reply: &mut Reply<'_>) {
    reply.array(specs.clone().count());
    for spec in specs {
        match spec {
            Some(spec) => write_info(spec, reply),
            None => reply.null(),
        }
    }
}

/// The name, the arity, the flags, the places of keys, and fields that clients do not need.
fn write_info(spec: &Spec, reply: &mut Reply<'_>) {
    reply.array(10);
    reply.bulk(spec.name.as_bytes());
    reply.integer(i64::from(spec.arity));
    let flags = flags(spec);
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.status(flag));
    spec.keys
        .range()
        .into_iter()
        .for_each(|at| reply.integer(at));
    let category = format!("@{}", group(spec));
    reply.set(1);
    reply.status(&category);
    // Tips and key specifications.
    reply.array(0);
    reply.array(0);
    let subs = SUBS.iter().filter(|sub| sub.of == spec.command);
    reply.array(subs.clone().count());
    for sub in subs {
        reply.array(10);
        reply.bulk(format!("{}|{}", spec.name, sub.name).as_bytes());
        reply.integer(i64::from(sub.arity));
        reply.set(flags.len());
        flags.iter().for_each(|flag| reply.status(flag));
        spec.keys
            .range()
            .into_iter()
            .for_each(|at| reply.integer(at));
        reply.set(1);
        reply.status(&category);
        (0..3).for_each(|_| reply.array(0));
    }
}

fn write_docs(specs: &[&Spec], reply: &mut Reply<'_>) {
    reply.map(specs.len());
    for spec in specs {
        reply.bulk(spec.name.as_bytes());
        reply.map(2);
        reply.bulk(b"summary");
        reply.bulk(spec.summary.as_bytes());
        reply.bulk(b"group");
        reply.bulk(group(spec).as_bytes());
    }
}

fn flags(spec: &Spec) -> &'static [&'static str] {
    match spec.kind {
        _ if spec.command == Command::Once => &["write", "denyoom"],
        Kind::Read => &["readonly", "fast"],
        Kind::Write => &["write", "denyoom", "fast"],
        Kind::Keyspace => &["readonly"],
        Kind::Flush => &["write"],
        Kind::Answer => &["fast"],
        Kind::Connection | Kind::Transaction => &["noscript", "loading", "stale", "fast"],
        Kind::PubSub => &["pubsub", "noscript", "loading", "stale"],
    }
}

fn group(spec: &Spec) -> &'static str {
    match (spec.kind, spec.command) {
        (Kind::Transaction, _) => "transactions",
        (Kind::PubSub, _) => "pubsub",
        (_, Command::Commands | Command::Config | Command::DbSize | Command::Info)
        | (Kind::Flush, _) => "server",
        (Kind::Connection | Kind::Answer, command) if command != Command::Wait => "connection",
        (Kind::Read, Command::Get | Command::MGet) => "string",
        (Kind::Write, command) if !is_generic(command) => "string",
        _ => "generic",
    }
}

/// Whether a command that writes is for any type, in Redis's categories.
fn is_generic(command: Command) -> bool {
    use Command::{Del, Expire, ExpireAt, PExpire, PExpireAt, Persist, Unlink};
    matches!(
        command,
        Del | Expire | ExpireAt | PExpire | PExpireAt | Persist | Unlink
    )
}
