//! The rows of the table of commands.

use super::{Command, KeysAt, Kind, Needs, Spec};
use tallymesh_node_ground::api;
use tallymesh_node_ground::model::Role;

const fn spec(
    name: &'static str,
    command: Command,
    arity: i8,
    kind: Kind,
    keys: KeysAt,
    takes_role: Needs,
    summary: &'static str,
) -> Spec {
    Spec {
        name,
        command,
        arity,
        kind,
        keys,
        takes_role,
        summary,
    }
}

/// A command that makes a call, and needs the role of the call.
const fn made(
    name: &'static str,
    command: Command,
    arity: i8,
    kind: Kind,
    keys: KeysAt,
    summary: &'static str,
) -> Spec {
    let takes_role = Needs::Here(api::role_of_command(name));
    spec(name, command, arity, kind, keys, takes_role, summary)
}

/// All commands, by name.
// One command a line, so that values to compare are below each other.
#[rustfmt::skip]
pub(crate) static TABLE: &[Spec; 77] = {
    use Kind::*;
    const NO: KeysAt = KeysAt::None;
    const ONE: KeysAt = KeysAt::First;
    const ALL: KeysAt = KeysAt::All;
    const OPEN: Needs = Needs::Nothing;
    const TICKET: Needs = Needs::Ticket;
    const READER: Needs = Needs::Here(Role::Reader);
    const WRITER: Needs = Needs::Here(Role::Writer);
    const EDITOR: Needs = Needs::Here(Role::Editor);
    const EDITOR_OF_ALL: Needs = Needs::Everywhere(Role::Editor);
    &[
        spec("auth", Command::Auth, -2, Connection, NO, OPEN, "Authenticates the connection."),
        made("budget.cap", Command::BudgetCap, 4, Write, ONE, "Raises or lowers the cap of a budget; answers it."),
        made("budget.endlease", Command::BudgetEndLease, 3, Write, ONE, "Takes back what is left here of a lease; answers the value."),
        made("budget.floor", Command::BudgetFloor, 4, Write, ONE, "Raises or lowers the floor of a budget; answers it."),
        made("budget.get", Command::BudgetGet, 2, Read, ONE, "Reads a budget, as this node sees it."),
        made("budget.grant", Command::BudgetGrant, -4, Write, ONE, "Moves rights of a budget, or room, to another member; answers how many are left here."),
        made("budget.holders", Command::BudgetHolders, 2, Keyspace, ONE, "Tells which writer holds what of a budget."),
        made("budget.lease", Command::BudgetLease, 5, Write, ONE, "Sets rights aside for somebody who may spend them without asking, for a while; answers when they return."),
        made("budget.leases", Command::BudgetLeases, 2, Keyspace, ONE, "Tells what is left of which lease of a budget."),
        made("budget.list", Command::BudgetList, -1, Keyspace, NO, "Lists budgets by name, from a prefix and a name on."),
        made("budget.mint", Command::BudgetMint, 3, Write, ONE, "Pays into a budget; answers its value."),
        made("budget.spend", Command::BudgetSpend, -3, Write, ONE, "Spends of a budget what this node holds of it, or of a lease first; answers its value."),
        made("budget.transfer", Command::BudgetTransfer, -4, Write, ONE, "Spends of a budget and pays that into others, all at once; answers its value."),
        spec("client", Command::Client, -2, Connection, NO, TICKET, "Tells of connections, names this one, and says how many members its commands have to reach, and how long they wait for rights."),
        spec("command", Command::Commands, -1, Connection, NO, TICKET, "Tells which commands there are."),
        spec("config", Command::Config, -2, Connection, NO, TICKET, "Tells how the node is configured."),
        made("dbsize", Command::DbSize, 1, Keyspace, NO, "Counts the counters of the space that this node sees."),
        made("decr", Command::Decr, 2, Write, ONE, "Subtracts one; answers what this node then sees."),
        made("decrby", Command::DecrBy, 3, Write, ONE, "Subtracts an integer; answers what this node then sees."),
        made("del", Command::Del, -2, Write, ALL, "Deletes counters, together; what this node has not seen of them survives."),
        spec("discard", Command::Discard, 1, Transaction, NO, TICKET, "Forgets what MULTI has queued."),
        spec("echo", Command::Echo, 2, Answer, NO, TICKET, "Answers its argument."),
        spec("exec", Command::Exec, 1, Transaction, NO, READER, "Makes what MULTI has queued: every replica sees all of it or none."),
        made("exists", Command::Exists, -2, Read, ALL, "Counts which of the counters exist."),
        made("expire", Command::Expire, -3, Write, ONE, "Lets a counter expire after seconds; of concurrent expiries the longest counts."),
        made("expireat", Command::ExpireAt, -3, Write, ONE, "Lets a counter expire at a time in seconds since 1970."),
        made("expiretime", Command::ExpireTime, 2, Read, ONE, "Tells when a counter expires, in seconds since 1970."),
        spec("flushall", Command::FlushAll, -1, Flush, NO, EDITOR_OF_ALL, "Deletes all counters of all spaces, if the configuration allows it."),
        spec("flushdb", Command::FlushDb, -1, Flush, NO, EDITOR, "Deletes all counters of the space, if the configuration allows it."),
        made("get", Command::Get, 2, Read, ONE, "Reads a counter, as this node sees it."),
        made("getdel", Command::GetDel, 2, Write, ONE, "Reads a counter and deletes what was read; others may have counted meanwhile."),
        made("getex", Command::GetEx, -2, Write, ONE, "Reads a counter and sets or ends its expiry."),
        made("getset", Command::GetSet, 3, Write, ONE, "Sets a counter and answers what this node saw before; others may have counted meanwhile."),
        spec("hello", Command::Hello, -1, Connection, NO, OPEN, "Agrees on the version of the protocol."),
        made("incr", Command::Incr, 2, Write, ONE, "Adds one; answers what this node then sees."),
        made("incrby", Command::IncrBy, 3, Write, ONE, "Adds an integer; answers what this node then sees."),
        made("increx", Command::IncrEx, -2, Write, ONE, "Adds within the bounds of a limit or a budget, or sets a counter's expiry along; answers what this node then sees, and how much was added."),
        spec("info", Command::Info, -1, Connection, NO, TICKET, "Tells about the node."),
        made("keys", Command::Keys, 2, Keyspace, NO, "Lists the counters that match a pattern; looks at all of them, so prefer SCAN."),
        made("mget", Command::MGet, -2, Read, ALL, "Reads counters."),
        made("mset", Command::MSet, -3, Write, KeysAt::EverySecond, "Sets counters, together."),
        spec("multi", Command::Multi, 1, Transaction, NO, TICKET, "Begins to queue commands for EXEC."),
        made("object", Command::Object, -2, Read, KeysAt::Second, "Tells how a counter is kept."),
        spec("once", Command::Once, -3, Transaction, NO, WRITER, "Makes a command that writes, or EXEC, under a key: it counts once, however often and wherever it is sent."),
        made("persist", Command::Persist, 2, Write, ONE, "Takes a counter's expiry away; beats concurrent expiries."),
        made("pexpire", Command::PExpire, -3, Write, ONE, "Lets a counter expire after milliseconds."),
        made("pexpireat", Command::PExpireAt, -3, Write, ONE, "Lets a counter expire at a time in milliseconds since 1970."),
        made("pexpiretime", Command::PExpireTime, 2, Read, ONE, "Tells when a counter expires, in milliseconds since 1970."),
        spec("ping", Command::Ping, -1, Answer, NO, TICKET, "Answers."),
        made("psetex", Command::PSetEx, 4, Write, ONE, "Sets a counter that expires after milliseconds."),
        spec("psubscribe", Command::PSubscribe, -2, PubSub, NO, READER, "Subscribes to the channels that match patterns."),
        made("pttl", Command::PTtl, 2, Read, ONE, "Tells in how many milliseconds a counter expires."),
        spec("punsubscribe", Command::PUnsubscribe, -1, PubSub, NO, TICKET, "Ends subscriptions to patterns."),
        spec("quit", Command::Quit, -1, Connection, NO, OPEN, "Ends the connection."),
        made("randomkey", Command::RandomKey, 1, Keyspace, NO, "Names a counter at random."),
        spec("reset", Command::Reset, 1, Connection, NO, OPEN, "Puts the connection back to how it began."),
        made("scan", Command::Scan, -2, Keyspace, NO, "Lists counters part by part; what is there all the while is listed at least once."),
        spec("select", Command::Select, 2, Connection, NO, TICKET, "Picks a space by its number at this node."),
        made("sequence.begin", Command::SequenceBegin, 2, Write, ONE, "Begins a sequence of numbers."),
        made("sequence.get", Command::SequenceGet, 2, Keyspace, ONE, "Reads a sequence: how many numbers it has handed out, and which are watched."),
        made("sequence.list", Command::SequenceList, -1, Keyspace, NO, "Lists sequences by name, from a prefix and a name on."),
        made("sequence.next", Command::SequenceNext, 2, Write, ONE, "Hands out the next number of a sequence, which nobody else gets."),
        made("sequence.unwatch", Command::SequenceUnwatch, 3, Write, ONE, "Ends the watch of a number of a sequence."),
        made("sequence.watch", Command::SequenceWatch, 3, Write, ONE, "Watches a number of a sequence: SEQUENCE.GET tells when it was handed out, and by whom."),
        made("set", Command::Set, -3, Write, ONE, "Sets a counter to an integer; cancels what this node has seen of it, and nothing else."),
        made("setex", Command::SetEx, 4, Write, ONE, "Sets a counter that expires after seconds."),
        made("setnx", Command::SetNx, 3, Write, ONE, "Sets a counter that this node does not see; others may see it."),
        spec("subscribe", Command::Subscribe, -2, PubSub, NO, READER, "Subscribes to channels, which tell of changed counters."),
        spec("time", Command::Time, 1, Connection, NO, TICKET, "Tells the node's clock: seconds since 1970, and microseconds."),
        made("touch", Command::Touch, -2, Read, ALL, "Counts which of the counters exist."),
        made("ttl", Command::Ttl, 2, Read, ONE, "Tells in how many seconds a counter expires."),
        made("type", Command::Type, 2, Read, ONE, "Tells whether a counter exists: string, as in Redis, or none."),
        made("unlink", Command::Unlink, -2, Write, ALL, "Deletes counters, as DEL."),
        spec("unsubscribe", Command::Unsubscribe, -1, PubSub, NO, TICKET, "Ends subscriptions to channels."),
        spec("unwatch", Command::Unwatch, 1, Transaction, NO, TICKET, "Watches no counters any more."),
        spec("wait", Command::Wait, 3, Connection, NO, TICKET, "Waits until so many members hold this connection's writes durably."),
        spec("watch", Command::Watch, -2, Transaction, NO, READER, "Lets EXEC do nothing if this node sees a counter change before."),
    ]
};
