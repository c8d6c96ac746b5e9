//! The table of commands: their names, their numbers of arguments, and their kinds.

mod table;

pub(super) use table::TABLE;

use super::request::Args;
use super::why::Why;
use tallymesh_node_ground::model::Role;

/// A command, independent of the spelling of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Auth,
    BudgetCap,
    BudgetEndLease,
    BudgetFloor,
    BudgetGet,
    BudgetGrant,
    BudgetHolders,
    BudgetLease,
    BudgetLeases,
    BudgetList,
    BudgetMint,
    BudgetSpend,
    BudgetTransfer,
    Client,
    Commands,
    Config,
    DbSize,
    Decr,
    DecrBy,
    Del,
    Discard,
    Echo,
    Exec,
    Exists,
    Expire,
    ExpireAt,
    ExpireTime,
    FlushAll,
    FlushDb,
    Get,
    GetDel,
    GetEx,
    GetSet,
    Hello,
    Incr,
    IncrBy,
    IncrEx,
    Info,
    Keys,
    MGet,
    MSet,
    Multi,
    Object,
    Once,
    PExpire,
    PExpireAt,
    PExpireTime,
    PSetEx,
    PSubscribe,
    PTtl,
    PUnsubscribe,
    Persist,
    Ping,
    Quit,
    RandomKey,
    Reset,
    Scan,
    Select,
    SequenceBegin,
    SequenceGet,
    SequenceList,
    SequenceNext,
    SequenceUnwatch,
    SequenceWatch,
    Set,
    SetEx,
    SetNx,
    Subscribe,
    Time,
    Touch,
    Ttl,
    Type,
    Unlink,
    Unsubscribe,
    Unwatch,
    Wait,
    Watch,
}

/// The kind of a command, which decides where it may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Reads counters in its arguments.
    Read,
    /// Changes counters in its arguments.
    Write,
    /// Reads all counters of the space.
    Keyspace,
    /// Deletes all counters.
    Flush,
    /// Answers from its arguments alone.
    Answer,
    /// Reads or changes the connection or the node.
    Connection,
    /// Begins, ends or guards a transaction.
    Transaction,
    /// Changes subscriptions.
    PubSub,
}

/// The authorization that a command needs where clients need tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// None: it begins or ends a session.
    Nothing,
    /// Any ticket: it shows and changes no counters.
    Ticket,
    /// A role in the session's space.
    Here(Role),
    /// A role in every space.
    Everywhere(Role),
}

/// Which arguments are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeysAt {
    None,
    First,
    Second,
    All,
    EverySecond,
}

impl KeysAt {
    /// The first, the last and the step, in the form of `COMMAND`.
    pub(super) fn range(self) -> [i64; 3] {
        match self {
            KeysAt::None => [0, 0, 0],
            KeysAt::First => [1, 1, 1],
            KeysAt::Second => [2, 2, 1],
            KeysAt::All => [1, -1, 1],
            KeysAt::EverySecond => [1, -1, 2],
        }
    }
}

/// One command of the table.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) name: &'static str,
    pub(super) command: Command,
    /// The number of arguments with the name; negative if it is a minimum.
    pub(super) arity: i8,
    pub(super) kind: Kind,
    pub(super) keys: KeysAt,
    /// The authorization that it needs, if its arguments do not change that.
    takes_role: Needs,
    /// Its meaning here.
    pub(super) summary: &'static str,
}

impl Spec {
    /// Whether it may have `len` arguments, including the name.
    #[inline]
    pub(super) fn takes(&self, len: usize) -> bool {
        takes(self.arity, len)
    }

    /// Whether it may be sent before the session has authenticated.
    pub(super) fn is_open(&self) -> bool {
        self.takes_role == Needs::Nothing
    }

    /// The authorization that it needs with these arguments.
    pub(super) fn needs(&self, args: &Args<'_>) -> Needs {
        let sub = || find_sub(self.command, args.at(1)).map(|sub| sub.sub);
        match self.command {
            // It shows the other connected clients and their addresses.
            Command::Client if sub() == Some(Sub::ClientList) => Needs::Everywhere(Role::Member),
            _ => self.takes_role,
        }
    }

    /// Whether a session of RESP2 that is subscribed may send it.
    pub(super) fn is_for_subscribers(&self) -> bool {
        use Command::{Ping, Quit, Reset};
        self.kind == Kind::PubSub || matches!(self.command, Ping | Quit | Reset)
    }
}

fn takes(arity: i8, len: usize) -> bool {
    let least = usize::from(arity.unsigned_abs());
    match arity < 0 {
        true => len >= least,
        false => len == least,
    }
}

/// The command with this name, in any case.
#[inline]
pub(super) fn find(name: &[u8]) -> Option<&'static Spec> {
    let packed = pack(name)?;
    let at = PACKED.binary_search(&packed).ok()?;
    // Blanks and the padding fold to the same value, so the length distinguishes them.
    Some(&TABLE[at]).filter(|spec| spec.name.len() == name.len())
}

/// A name as a number in the order of names. Letters of both cases fold to the same value.
#[inline]
const fn pack(name: &[u8]) -> Option<u128> {
    if name.len() > 16 {
        return None;
    }
    let mut bytes = [0; 16];
    let mut at = 0;
    while at < name.len() {
        bytes[at] = name[at];
        at += 1;
    }
    // No other byte becomes a letter by this bit.
    Some(u128::from_be_bytes(bytes) | u128::from_be_bytes([0x20; 16]))
}

const PACKED: [u128; TABLE.len()] = {
    let mut packed = [0; TABLE.len()];
    let mut at = 0;
    while at < TABLE.len() {
        packed[at] = match pack(TABLE[at].name.as_bytes()) {
            Some(name) => name,
            None => panic!("a command's name has at most 16 bytes"),
        };
        at += 1;
    }
    packed
};

/// A part of a command that has parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sub {
    Help,
    ClientGetName,
    ClientId,
    ClientInfo,
    ClientLevel,
    ClientRightsWait,
    ClientList,
    ClientNoEvict,
    ClientSetInfo,
    ClientSetName,
    CommandCount,
    CommandDocs,
    CommandInfo,
    ConfigGet,
    ConfigSet,
    ObjectEncoding,
    ObjectFreq,
    ObjectIdleTime,
    ObjectRefCount,
}

/// One part of a command that has parts.
#[derive(Debug)]
pub(super) struct SubSpec {
    pub(super) of: Command,
    pub(super) name: &'static str,
    pub(super) sub: Sub,
    /// As for a command, with both names.
    pub(super) arity: i8,
}

impl SubSpec {
    pub(super) fn takes(&self, len: usize) -> bool {
        takes(self.arity, len)
    }
}

const fn sub(of: Command, name: &'static str, sub: Sub, arity: i8) -> SubSpec {
    SubSpec {
        of,
        name,
        sub,
        arity,
    }
}

/// The parts of all commands that have parts.
pub(super) static SUBS: &[SubSpec] = &[
    sub(Command::Client, "getname", Sub::ClientGetName, 2),
    sub(Command::Client, "help", Sub::Help, 2),
    sub(Command::Client, "id", Sub::ClientId, 2),
    sub(Command::Client, "info", Sub::ClientInfo, 2),
    sub(Command::Client, "level", Sub::ClientLevel, -2),
    sub(Command::Client, "list", Sub::ClientList, -2),
    sub(Command::Client, "no-evict", Sub::ClientNoEvict, 3),
    sub(Command::Client, "rights-wait", Sub::ClientRightsWait, -2),
    sub(Command::Client, "setinfo", Sub::ClientSetInfo, 4),
    sub(Command::Client, "setname", Sub::ClientSetName, 3),
    sub(Command::Commands, "count", Sub::CommandCount, 2),
    sub(Command::Commands, "docs", Sub::CommandDocs, -2),
    sub(Command::Commands, "help", Sub::Help, 2),
    sub(Command::Commands, "info", Sub::CommandInfo, -2),
    sub(Command::Config, "get", Sub::ConfigGet, -3),
    sub(Command::Config, "help", Sub::Help, 2),
    sub(Command::Config, "set", Sub::ConfigSet, -4),
    sub(Command::Object, "encoding", Sub::ObjectEncoding, 3),
    sub(Command::Object, "freq", Sub::ObjectFreq, 3),
    sub(Command::Object, "help", Sub::Help, 2),
    sub(Command::Object, "idletime", Sub::ObjectIdleTime, 3),
    sub(Command::Object, "refcount", Sub::ObjectRefCount, 3),
];

/// The part of `command` with this name.
pub(super) fn find_sub(command: Command, name: &[u8]) -> Option<&'static SubSpec> {
    let mut of = SUBS.iter().filter(|sub| sub.of == command);
    of.find(|sub| sub.name.as_bytes().eq_ignore_ascii_case(name))
}

/// The reason why a command of Redis is not available. `None` for an unknown command, and for one
/// of Redis's own administration, which is answered as unknown.
pub(super) fn unsupported(name: &[u8]) -> Option<Why> {
    let lower = name.to_ascii_lowercase();
    let found = UNSUPPORTED.iter().find(|(_, names)| {
        names
            .split(' ')
            .any(|unsupported| unsupported.as_bytes() == lower)
    });
    found.map(|(why, _)| *why)
}

const UNSUPPORTED: [(Why, &str); 5] = [
    (
        Why::OtherType,
        "blmove blmpop blpop brpop brpoplpush bzmpop bzpopmax bzpopmin geoadd geodist geohash \
         geopos georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch \
         geosearchstore hdel hexists hexpire hexpireat hexpiretime hget hgetall hgetdel hgetex \
         hincrby hincrbyfloat hkeys hlen hmget hmset hpersist hpexpire hpexpireat hpexpiretime \
         hpttl hrandfield hscan hset hsetex hsetnx hstrlen httl hvals lindex linsert llen lmove \
         lmpop lpop lpos lpush lpushx lrange lrem lset ltrim pfadd pfcount pfmerge rpop rpoplpush \
         rpush rpushx sadd scard sdiff sdiffstore sinter sintercard sinterstore sismember smembers \
         smismember smove sort sort_ro spop srandmember srem sscan sunion sunionstore xack xadd \
         xautoclaim xclaim xdel xgroup xinfo xlen xpending xrange xread xreadgroup xrevrange \
         xsetid xtrim zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard zinterstore \
         zlexcount zmpop zmscore zpopmax zpopmin zrandmember zrange zrangebylex zrangebyscore \
         zrangestore zrank zrem zremrangebylex zremrangebyrank zremrangebyscore zrevrange \
         zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunion zunionstore",
    ),
    (
        Why::NotInteger,
        "append bitcount bitfield bitfield_ro bitop bitpos getbit getrange incrbyfloat lcs setbit \
         setrange strlen substr",
    ),
    (
        Why::Script,
        "eval eval_ro evalsha evalsha_ro fcall fcall_ro function script",
    ),
    (Why::Conditional, "copy msetnx rename renamenx"),
    (Why::Publish, "publish spublish ssubscribe sunsubscribe"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_ascends_and_each_command_is_found_in_any_case() {
        assert!(TABLE.is_sorted_by(|one, two| one.name < two.name));
        for spec in TABLE {
            let upper = spec.name.to_ascii_uppercase();
            for name in [spec.name, &upper] {
                assert_eq!(
                    find(name.as_bytes()).map(|found| found.command),
                    Some(spec.command)
                );
            }
            for name in [
                format!("{} ", spec.name),
                format!("{}\0", spec.name),
                upper + "x",
            ] {
                assert!(find(name.as_bytes()).is_none(), "{name:?}");
            }
            assert!(spec.arity != 0 && unsupported(spec.name.as_bytes()).is_none());
        }
        for name in ["", " ", "g", "ge", "gett", "seventeen letters", "\u{7f}et"] {
            assert!(find(name.as_bytes()).is_none(), "{name:?}");
        }
    }

    #[test]
    fn parts_belong_to_commands_that_take_them() {
        for sub in SUBS {
            let of = TABLE.iter().find(|spec| spec.command == sub.of);
            assert!(of.is_some_and(|spec| spec.arity < 0), "{}", sub.name);
            assert_eq!(
                find_sub(sub.of, sub.name.as_bytes()).map(|found| found.sub),
                Some(sub.sub)
            );
        }
        assert!(find_sub(Command::Config, b"id").is_none());
    }
}
