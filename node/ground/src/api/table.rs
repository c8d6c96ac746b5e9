//! The table itself. Names and codes never change.

use super::Form::{
    Amount, Count, Integer, Keys, LeaseId, Lines, Millis, Number, Operations, Recipient, Shares,
    Text,
};
use super::Method::{Delete, Post, Put};
use super::On::{Budgets, Counters, Limits, Sequences};
use super::{Call, Field, Form, PAGE_MAX, READ_MANY_MAX, optional, required};
use crate::model::Role::{Editor, Member};
use tallymesh_core::bounds::{
    BUDGET_NAME_BYTES_MAX, KEY_BYTES_MAX, LEASED_NAME_BYTES_MAX, LIMIT_NAME_BYTES_MAX,
    PERIOD_KEY_BYTES_MAX, SEQUENCE_NAME_BYTES_MAX,
};

const COUNTER: Field = required("key", Form::Name(KEY_BYTES_MAX));
const BUDGET: Field = required("key", Form::Name(BUDGET_NAME_BYTES_MAX));
const LEASED: Field = required("key", Form::Name(LEASED_NAME_BYTES_MAX));
const SEQUENCE: Field = required("key", Form::Name(SEQUENCE_NAME_BYTES_MAX));
const LIMIT: Field = required("key", Form::Name(LIMIT_NAME_BYTES_MAX));
const PERIOD: Field = required("key", Form::Name(PERIOD_KEY_BYTES_MAX));
const AMOUNT: Field = required("amount", Amount);
const LEASE_ID: Field = required("id", LeaseId);
const NUMBER: Field = required("number", Number);
const TO: Field = required("to", Recipient);

/// The fields that select the page of a list.
const PAGE: &[Field] = &[
    optional("prefix", Text),
    optional("after", Text),
    optional("limit", Count(PAGE_MAX)),
];

/// Declares the calls, and the table of all of them.
macro_rules! calls {
    ($($name:ident: $call:expr;)*) => {
        $(#[doc = concat!("The row of `", stringify!($name), "`.")]
        pub static $name: Call = $call;)*

        /// All calls.
        pub static TABLE: &[&Call] = &[$(&$name),*];
    };
}

calls! {
    // Counters.
    LIST_COUNTERS: Call::read("list_counters", Counters, "counters")
        .fields(PAGE)
        .told(&["list"])
        .redis(&["dbsize", "keys", "randomkey", "scan"]);
    READ_COUNTER: Call::read("read_counter", Counters, "counters/{key}")
        .fields(&[COUNTER])
        .refused(&["absent"])
        .told(&["get", "ttl"])
        .redis(&["exists", "expiretime", "get", "object", "pexpiretime", "pttl", "touch", "ttl", "type"]);
    READ_COUNTERS: Call::read("read_counters", Counters, "read")
        .posted()
        .fields(&[required("keys", Keys(READ_MANY_MAX))])
        .redis(&["mget"]);
    COUNTER_SHARDS: Call::read("counter_shards", Counters, "counters/{key}/shards")
        .fields(&[COUNTER])
        .refused(&["absent"]);
    ADD: Call::write("add_to_counter", Counters, Post, "counters/{key}/add")
        .op("add")
        .fields(&[COUNTER, optional("by", Integer)])
        .refused(&["absent", "overflow"])
        .told(&["add"])
        .redis(&["decr", "decrby", "incr", "incrby", "increx"]);
    ADD_MANY: Call::write("add_many", Counters, Post, "add")
        .fields(&[required("lines", Lines)])
        .refused(&["overflow", "transaction_too_large"])
        .told(&["add"]);
    SET: Call::write("set_counter", Counters, Put, "counters/{key}")
        .needs(Editor)
        .op("set")
        .fields(&[COUNTER, required("value", Integer)])
        .refused(&["overflow"])
        .told(&["set"])
        .redis(&["getset", "mset", "psetex", "set", "setex", "setnx"]);
    RESET: Call::write("reset_counter", Counters, Post, "counters/{key}/reset")
        .needs(Editor)
        .op("reset")
        .fields(&[COUNTER])
        .told(&["reset"]);
    DELETE: Call::write("delete_counter", Counters, Delete, "counters/{key}")
        .needs(Editor)
        .op("delete")
        .fields(&[COUNTER])
        .told(&["del"])
        .redis(&["del", "getdel", "unlink"]);
    EXPIRE: Call::write("expire_counter", Counters, Post, "counters/{key}/expire")
        .needs(Editor)
        .op("expire")
        .fields(&[COUNTER, optional("at", Millis), optional("in_ms", Millis)])
        .refused(&["absent", "expiry_range"])
        .told(&["expire"])
        .redis(&["expire", "expireat", "getex", "pexpire", "pexpireat"]);
    PERSIST: Call::write("persist_counter", Counters, Post, "counters/{key}/persist")
        .needs(Editor)
        .op("persist")
        .fields(&[COUNTER])
        .refused(&["absent"])
        .told(&["persist"])
        .redis(&["persist"]);
    // The role that a transaction needs is that of its operations.
    TRANSACT: Call::write("transact", Counters, Post, "transactions")
        .fields(&[required("ops", Operations)])
        .refused(&["transaction_too_large"])
        .told(&["txn"]);

    // Budgets.
    LIST_BUDGETS: Call::read("list_budgets", Budgets, "budgets")
        .fields(PAGE)
        .told(&["budget list", "budget audit"])
        .redis(&["budget.list"]);
    READ_BUDGET: Call::read("read_budget", Budgets, "budgets/{key}")
        .fields(&[BUDGET])
        .refused(&["no_budget"])
        .told(&["budget show"])
        .redis(&["budget.get", "budget.holders", "budget.leases"]);
    MINT: Call::write("mint", Budgets, Post, "budgets/{key}/mint")
        .needs(Editor)
        .op("mint")
        .fields(&[BUDGET, AMOUNT])
        .refused(&["budget_name", "catching_up", "folder_copied", "not_a_member", "overflow", "room_short"])
        .told(&["budget mint", "budget give-back"])
        .redis(&["budget.mint"]);
    SPEND: Call::write("spend", Budgets, Post, "budgets/{key}/spend")
        .op("spend")
        .fields(&[BUDGET, AMOUNT, optional("lease", LeaseId)])
        .refused(&[
            "budget_name", "catching_up", "folder_copied", "no_budget", "not_a_member", "overflow",
            "rights_short",
        ])
        .told(&["budget spend"])
        .redis(&["budget.spend"]);
    GRANT: Call::write("grant", Budgets, Post, "budgets/{key}/grant")
        .needs(Editor)
        .op("grant")
        .fields(&[BUDGET, TO, AMOUNT])
        .refused(&[
            "budget_name", "catching_up", "folder_copied", "no_budget", "no_recipient",
            "not_a_member", "overflow", "rights_short",
        ])
        .told(&["budget grant"])
        .redis(&["budget.grant"]);
    GRANT_ROOM: Call::part("grant_room")
        .needs(Editor)
        .fields(&[BUDGET, TO, AMOUNT])
        .told(&["budget grant"])
        .redis(&["budget.grant"]);
    LOWER_FLOOR: Call::part("lower_floor")
        .needs(Editor)
        .fields(&[BUDGET, AMOUNT])
        .told(&["budget floor"])
        .redis(&["budget.floor"]);
    RAISE_FLOOR: Call::part("raise_floor")
        .needs(Editor)
        .fields(&[BUDGET, AMOUNT])
        .told(&["budget floor"])
        .redis(&["budget.floor"]);
    LOWER_CAP: Call::part("lower_cap")
        .needs(Editor)
        .fields(&[BUDGET, AMOUNT])
        .told(&["budget cap"])
        .redis(&["budget.cap"]);
    RAISE_CAP: Call::part("raise_cap")
        .needs(Editor)
        .fields(&[BUDGET, AMOUNT])
        .told(&["budget cap"])
        .redis(&["budget.cap"]);
    LEASE: Call::write("lease", Budgets, Put, "budgets/{key}/leases/{id}")
        .op("lease")
        .never_keyed("lease_once")
        .fields(&[LEASED, LEASE_ID, AMOUNT, required("lease_ms", Millis)])
        .refused(&[
            "budget_name", "catching_up", "folder_copied", "lease_range", "leased_name",
            "no_budget", "not_a_member", "overflow", "rights_short",
        ])
        .told(&["budget lease"])
        .redis(&["budget.lease"]);
    END_LEASE: Call::write("end_lease", Budgets, Delete, "budgets/{key}/leases/{id}")
        .op("end_lease")
        .fields(&[LEASED, LEASE_ID])
        .refused(&["budget_name", "catching_up", "folder_copied", "no_budget", "no_lease", "not_a_member"])
        .told(&["budget end-lease"])
        .redis(&["budget.endlease"]);
    TRANSFER: Call::write("transfer", Budgets, Post, "budgets/{key}/transfer")
        .op("transfer")
        .fields(&[BUDGET, required("to", Shares)])
        .refused(&[
            "budget_name", "catching_up", "folder_copied", "no_budget", "not_a_member", "overflow",
            "rights_short", "room_short", "transaction_too_large",
        ])
        .told(&["budget transfer"])
        .redis(&["budget.transfer"]);

    // Sequences.
    LIST_SEQUENCES: Call::read("list_sequences", Sequences, "sequences")
        .fields(PAGE)
        .told(&["sequence list"])
        .redis(&["sequence.list"]);
    READ_SEQUENCE: Call::read("read_sequence", Sequences, "sequences/{key}")
        .fields(&[SEQUENCE])
        .refused(&["no_sequence"])
        .told(&["sequence show"])
        .redis(&["sequence.get"]);
    BEGIN: Call::write("begin_sequence", Sequences, Post, "sequences/{key}")
        .needs(Editor)
        .fields(&[SEQUENCE])
        .refused(&["catching_up", "folder_copied", "not_a_member", "sequence_exists", "sequence_name"])
        .told(&["sequence begin"])
        .redis(&["sequence.begin"]);
    // A number whose answer is lost is gone.
    NEXT: Call::write("next_number", Sequences, Post, "sequences/{key}/next")
        .op("next")
        .fields(&[SEQUENCE])
        .never_keyed("number_once")
        .refused(&[
            "catching_up", "folder_copied", "no_sequence", "not_a_member", "numbers_short",
            "sequence_name",
        ])
        .told(&["sequence next"])
        .redis(&["sequence.next"]);
    WATCH: Call::write("watch_number", Sequences, Put, "sequences/{key}/watches/{number}")
        .needs(Editor)
        .fields(&[SEQUENCE, NUMBER])
        .refused(&[
            "catching_up", "folder_copied", "no_sequence", "not_a_member", "sequence_name",
            "watches_full",
        ])
        .told(&["sequence watch"])
        .redis(&["sequence.watch"]);
    END_WATCH: Call::write("end_watch", Sequences, Delete, "sequences/{key}/watches/{number}")
        .needs(Editor)
        .fields(&[SEQUENCE, NUMBER])
        .refused(&["catching_up", "folder_copied", "no_sequence", "not_a_member", "sequence_name"])
        .told(&["sequence unwatch"])
        .redis(&["sequence.unwatch"]);

    // Limits.
    LIST_LIMITS: Call::read("list_limits", Limits, "limits")
        .without_options()
        .told(&["limit list"]);
    READ_LIMIT: Call::read("read_limit", Limits, "limits/{key}")
        .fields(&[PERIOD])
        .refused(&["catching_up", "folder_copied", "key_reserved", "limit_key", "no_limit", "not_a_member"])
        .told(&["limit show"]);
    SET_LIMIT: Call::write("set_limit", Limits, Put, "limits/{key}")
        .needs(Member)
        .without_options()
        .fields(&[
            LIMIT,
            required("limit", Amount),
            required("period_ms", Amount),
            optional("wait_ms", Millis),
        ])
        .refused(&[
            "catching_up", "folder_copied", "limit_name", "limit_range", "limits_full",
            "memory_only", "no_members", "not_a_member", "period_range", "undecided",
        ])
        .told(&["limit set"]);
    REMOVE_LIMIT: Call::write("remove_limit", Limits, Delete, "limits/{key}")
        .needs(Member)
        .without_options()
        .fields(&[LIMIT])
        .refused(&["catching_up", "folder_copied", "memory_only", "no_members", "not_a_member", "undecided"])
        .told(&["limit remove"]);
    ALLOW: Call::write("allow", Limits, Post, "limits/{key}/allow")
        .op("allow")
        .fields(&[PERIOD, optional("cost", Amount)])
        .refused(&["catching_up", "folder_copied", "limit_key", "limit_reached", "no_limit", "not_a_member"])
        .told(&["limit allow"])
        .redis(&["increx"]);
}
