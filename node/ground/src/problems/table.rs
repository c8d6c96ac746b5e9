//! The table itself. Codes never change, but the texts about their meanings may.

use super::{Kind, Shown};

/// Declares the kinds, and the table of all of them.
macro_rules! kinds {
    ($($name:ident: $kind:expr;)*) => {
        $(
            #[allow(missing_docs, reason = "its text says what it is")]
            pub static $name: Kind = $kind;
        )*

        /// All kinds of refusals.
        pub static TABLE: &[&Kind] = &[$(&$name),*];
    };
}

kinds! {
    // Refusals of HTTP itself.
    ABSENT: Kind::http("absent", 404, "There is no such counter at this node.")
        .advice("Add to it: the first add makes it. With `applied: here` the write had been made before, under its idempotency key.");
    AMOUNT: Kind::http("amount", 400, "A number is no integer of 64 bits.")
        .advice("Send a whole number, as a number or as a decimal string.");
    BODY: Kind::http("body", 400, "The body is not what this address takes.")
        .advice("Send what `detail` shows.");
    BODY_TOO_LARGE: Kind::http("body_too_large", 413, "The body is longer than this address takes.")
        .advice("Send less at a time.");
    CUT: Kind::http("cut", 503, "This node's links are cut, for a demonstration.")
        .advice("Heal them with `POST /v1/demo/cut`.");
    CUT_TIMEOUT: Kind::http("cut_timeout", 503, "A link that was cut did not close in time.")
        .advice("Look at `GET /v1/peers`, and cut again.")
        .unknown();
    HEADER_TWICE: Kind::http("header_twice", 400, "A header that means one thing is there twice, and not the same; or two tickets are shown, or two hosts named.")
        .advice("Send it once.");
    HOST: Kind::http("host", 403, "The `Host` header names no address that this node answers to.")
        .advice("Use `localhost` or `127.0.0.1`, or start the node with `--http-host NAME`, and with `--http-tickets` too if others reach it by that name.");
    IDEMPOTENCY_KEY: Kind::http("idempotency_key", 400, "An idempotency key has 1 to 255 bytes; over HTTP, of ASCII that can be seen.")
        .advice("Send a shorter one, such as a UUID.")
        .both();
    INTERNAL: Kind::http("internal", 500, "Something failed that never should.")
        .advice("Look at the log of the node, and report it.")
        .shown(Shown::End("ERR"))
        .unknown();
    LEVEL: Kind::http("level", 400, "A level is `local`, `quorum` or `all`.")
        .advice("Send one of these.")
        .both();
    LINE: Kind::http("line", 400, "A line of a bulk add is not UTF-8.")
        .advice("Mend the line that `line` names.");
    METHOD_NOT_ALLOWED: Kind::http("method_not_allowed", 405, "This address takes another method.")
        .advice("Use one that the `allow` header names.");
    MILLIS: Kind::http("millis", 400, "A time is no whole number of milliseconds from 0 on.")
        .advice("Send one, as a number or as a decimal string.");
    NOT_DEMO: Kind::http("not_demo", 403, "Links can be cut only at a node for demonstrations.")
        .advice("Start the node with `tallymesh up --demo`.");
    NOT_FOUND: Kind::http("not_found", 404, "There is nothing at this address.")
        .advice("The API is under `/v1/`; `/openapi.json` describes it.");
    ORIGIN: Kind::http("origin", 403, "Pages of this origin may not talk to this node.")
        .advice("Allow the origin with `--cors-origin ORIGIN`.");
    OWNER: Kind::http("owner", 400, "This is no owner's key, or a weak one, in whose name anybody can sign.")
        .advice("A key has 64 hex digits; `tallymesh id` shows it.");
    OWNER_PROOF: Kind::http("owner_proof", 401, "Who opens a link with a ticket of a lesser role than member has not proved its owner's key.")
        .advice("Sign the challenge that the node sends, as docs/http.md tells.");
    PATH: Kind::http("path", 400, "The address is not UTF-8, once it is decoded.")
        .advice("Encode keys as UTF-8, and then with percent signs.");
    PEER: Kind::http("peer", 400, "This is no name of a node.")
        .advice("`GET /v1/peers` shows their names.");
    PEER_NO_ANSWER: Kind::http("peer_no_answer", 502, "A connected node did not tell what it shows.")
        .advice("`detail` says why: it may have another version, not have the space open, or be busy. Try again.");
    PEER_NOT_CONNECTED: Kind::http("peer_not_connected", 404, "The node is not connected to this one.")
        .advice("`GET /v1/peers` shows those that are.");
    QUERY: Kind::http("query", 400, "The query has an unknown part, or a value that it can't have.")
        .advice("Send what `detail` names.");
    RATE_LIMITED: Kind::http("rate_limited", 429, "Requests come from this address faster than `--http-rate` allows, or tickets and passwords that let no Redis client in.")
        .advice("Wait the seconds of the `retry-after` header, or of the text; send many adds in one request.")
        .both();
    ROLE: Kind::http("role", 400, "A role is `reader`, `writer`, `editor` or `member`.")
        .advice("Send one of these.");
    SYNC_FRAMES: Kind::http("sync_frames", 400, "The body is no list of frames, each after its length in four bytes.")
        .advice("See docs/http.md.");
    SYNC_SESSION: Kind::http("sync_session", 404, "There is no such link: it ended, or it never began.")
        .advice("Leave the header out, to begin another link.");
    SYNC_SESSIONS_FULL: Kind::http("sync_sessions_full", 503, "As many links over POST are open as may be.")
        .advice("Try again later, or sync with another node.");
    FORBIDDEN: Kind::http("forbidden", 403, "The ticket does not allow this.")
        .advice("Ask a member for a ticket with the role and the space that `detail` names.")
        .shown(Shown::Error("NOPERM"));
    TICKET: Kind::http("ticket", 401, "This is no ticket.")
        .advice("Send all that `tallymesh invite` printed.")
        .shown(Shown::Error("WRONGPASS"));
    TICKET_EARLY: Kind::http("ticket_early", 401, "The ticket was signed in the future.")
        .advice("Set the clocks right: of this node, and of the one that signed it.")
        .shown(Shown::Error("WRONGPASS"));
    TICKET_EXPIRED: Kind::http("ticket_expired", 401, "The ticket has ended.")
        .advice("Ask a member for another.")
        .shown(Shown::Error("WRONGPASS"));
    TICKET_HOLDER: Kind::http("ticket_holder", 401, "The ticket is for one node only.")
        .advice("Ask a member for one without `--holder`.")
        .shown(Shown::Error("WRONGPASS"));
    TICKET_ISSUER: Kind::http("ticket_issuer", 401, "Who signed the ticket is no member of the space.")
        .advice("Ask a member for another.")
        .shown(Shown::Error("WRONGPASS"));
    TICKET_ID: Kind::http("ticket_id", 400, "This is no ticket's id.")
        .advice("An id has 32 hex digits; `tallymesh ticket` shows it.");
    TICKET_NEEDED: Kind::http("ticket_needed", 401, "This node asks for a ticket.")
        .advice("Send one in the header `authorization: Bearer TICKET`; `tallymesh invite` makes it.");
    TICKET_REVOKED: Kind::http("ticket_revoked", 401, "The ticket is revoked.")
        .advice("Ask a member for another.")
        .shown(Shown::Error("WRONGPASS"));
    TICKET_SIGNATURE: Kind::http("ticket_signature", 401, "Who is said to have signed the ticket has not.")
        .advice("Ask a member for another.")
        .shown(Shown::Error("WRONGPASS"));
    TICKETS_FULL: Kind::http("tickets_full", 507, "The node knows as many tickets, or revocations, as it can.")
        .advice("Wait until some have ended. Give out tickets that end soon, and revoke by the ticket or at the node that signed it: its end is known then.");
    TICKETS_IO: Kind::http("tickets_io", 503, "What is to be known of tickets could not be kept.")
        .advice("Look at the log and at the disk of the node, and ask again. A ticket that was to be revoked is, until the node stops.")
        .unknown();
    TRANSFER_ENCODING: Kind::http("transfer_encoding", 400, "The length of the body is told in two ways, or in one that is not known here.")
        .advice("Send `content-length`, or `transfer-encoding: chunked` and nothing else.");
    TIMEOUT: Kind::http("timeout", 503, "There was no answer in time.")
        .advice("Read the counter before you try again, or try again under the same idempotency key.")
        .unknown();
    TOO_MANY_KEYS: Kind::http("too_many_keys", 400, "More counters are asked for at once than may be.")
        .advice("Ask for fewer at a time.");
    WEBSOCKET: Kind::http("websocket", 400, "This address is a WebSocket.")
        .advice("Open it as one.");
    WRITER: Kind::http("writer", 400, "This is no writer.")
        .advice("A writer has 32 hex digits; `tallymesh writers` shows them.");

    // Refusals of the node.
    SPACE_NOT_OPEN: Kind::http("space_not_open", 404, "The space is not open at this node.")
        .advice("Start the node with `--space`.")
        .both();
    NO_MEMBERS: Kind::http("no_members", 409, "The space is open: there are no members to be changed, or to ask for a level.")
        .advice("Make a node the first one: `tallymesh members init`.")
        .shown(Shown::Error("NOMEMBERS"));
    MEMORY_ONLY: Kind::http("memory_only", 409, "This node keeps its state in memory only, and can be no member.")
        .advice("Start it on a data folder.");
    IS_MEMBER: Kind::http("is_member", 409, "A member can't be declared dead.")
        .advice("Take it out first: `tallymesh members remove`.");
    UNKNOWN_OWNER: Kind::http("unknown_owner", 404, "No writer of this owner is known.")
        .advice("Look at `tallymesh writers`.");
    UNDECIDED: Kind::http("undecided", 503, "A majority of the members has not agreed to the change yet. It may still take effect.")
        .advice("Ask again, which is harmless; look at `tallymesh members`.")
        .unknown();
    LEVEL_NOT_REACHED: Kind::http("level_not_reached", 503, "Too few members are known, in time, to hold a write or to have told what they hold.")
        .advice("A write counts and goes on to the others: do not write it again, but under the same idempotency key. A read may be tried again.")
        .shown(Shown::Error("LEVELNOTREACHED"))
        .here();
    TOKEN_NOT_REACHED: Kind::http("token_not_reached", 503, "What the session depends on was not heard of here in time; nothing was read.")
        .advice("Try again, or at the node where the session wrote last.");
    KEY_REUSED: Kind::http("key_reused", 422, "Something else was made under this idempotency key.")
        .advice("Give each operation a key of its own, and retry it with the same.")
        .shown(Shown::Error("KEYREUSED"));
    MADE_WEAKER: Kind::http("made_weaker", 409, "This was made before under its idempotency key, at a node that was taken over by others and began again. What it had cancelled of others could not be cancelled again in full, or a part of it could not be made again.")
        .advice("Read the counters, and make what is still wanted under a new key.")
        .shown(Shown::Error("MADEWEAKER"))
        .here();
    KEYED_TOO_LARGE: Kind::http("keyed_too_large", 400, "What is added under an idempotency key takes too many bytes, with the keys of the counters.")
        .advice("Send it in several parts, each under a key of its own.")
        .both();
    KEYED_FULL: Kind::http("keyed_full", 429, "The caller's ticket or address has made as many operations under idempotency keys as are remembered of it, all of them within two minutes.")
        .advice("Wait some seconds, ask at a lower rate, or write without a key.")
        .after(10)
        .both();
    NEEDS_CENTRE: Kind::http("needs_centre", 501, "Only one place for all of the mesh could give this.")
        .advice("Add, or let one member alone set the counter; the text says what fits.")
        .shown(Shown::Error("NEEDSCENTRE"));
    CATCHING_UP: Kind::http("catching_up", 503, "The node does not take part in one of its spaces yet: it catches up with the members, or awaits their clocks.")
        .advice("Ask `/readyz` again; it takes some seconds after a start. If `detail` names members that the node does not reach, to wait does not help: start them. Counters can be read and written meanwhile, except those that have just expired; what only members may do is to be tried again, or waits as long as `tallymesh-rights-wait-ms` says.")
        .shown(Shown::Error("TRYAGAIN"));
    FOLDER_COPIED: Kind::http("folder_copied", 409, "The node's data folder is a copy of a member's, or has one; the other node may still run, and only one of the two may do what members do.")
        .advice("Start the other node, and ask that. If it is gone for good, run `tallymesh adopt` at this node.")
        .shown(Shown::Error("FOLDERCOPIED"));
    JOINING: Kind::http("joining", 503, "The node waits to join one of its spaces.")
        .advice("Start a node that its ticket names, or name another with `--peer`; once it is linked, see that a majority of the members is there. `tallymesh peers` tells which it tries to reach.");
    REMOVED: Kind::http("removed", 503, "The node was removed from the members of one of its spaces.")
        .advice("Run `tallymesh members add` at a member, or start it with `--join` and a new ticket.");
    TICKET_WORTHLESS: Kind::http("ticket_worthless", 503, "No ticket that the node was given lets it into one of its spaces; `detail` says why.")
        .advice("Do as `detail` says: mostly, ask a member for another ticket (`tallymesh invite` there), and start the node with `--join` and that. What was counted meanwhile is kept, and sent once it is let in.");
    STREAMS_FULL: Kind::http("streams_full", 503, "Streams of events and sockets take as many of the node's connections as they may: of a ticket, of an address, of readers, of all that may do less than a member, or of all.")
        .advice("Try again later, ask another node, or start the node with more connections by `--http-clients`.");
    BODIES_FULL: Kind::http("bodies_full", 503, "Requests that are under way take as many bytes as they may: of a ticket, of an address, of all that may do less than a member, or of all.")
        .advice("Send less at a time, one request after the other.")
        .after(5);
    STORE_LOST: Kind::http("store_lost", 503, "The node's data folder, or its lock, is no longer the one that it opened; nothing is acknowledged.")
        .advice("Put the folder back, and the node goes on; or look who else uses it, and start the node again.");
    STORE_WAITS: Kind::http("store_waits", 503, "The node's store has not answered for some time; nothing is acknowledged meanwhile.")
        .advice("Look at the disk of the data folder. The node goes on by itself once that answers.");
    STOPPED: Kind::http("stopped", 503, "The node stopped before it could confirm.")
        .advice("Read the counter when the node is back, or try again under the same idempotency key.")
        .unknown();

    // Refusals of the replica.
    KEY_LENGTH: Kind::http("key_length", 400, "A key has 1 to 512 bytes.")
        .advice("Use a shorter key.")
        .both();
    KEY_RESERVED: Kind::http("key_reserved", 400, "A key must not begin with U+0000.")
        .advice("Use another key.")
        .both();
    WRONG_KIND: Kind::http("wrong_kind", 409, "Something of another kind, such as a budget, goes by this name, and does not take this operation.")
        .advice("Use another key, or an operation of that kind.")
        .shown(Shown::Error("WRONGTYPE"));
    NO_BUDGET: Kind::http("no_budget", 404, "No budget of this name is known at this node.")
        .advice("Mint it first, or wait until this node has heard of it.")
        .shown(Shown::Error("NOBUDGET"));
    BUDGET_NAME: Kind::http("budget_name", 400, "A budget's name has 1 to 477 bytes.")
        .advice("Use a shorter one.")
        .both();
    RECIPIENT: Kind::http("recipient", 400, "This is no member's key, nor a writer.")
        .advice("A key has 64 hex digits, a writer 32; `tallymesh members` shows both.")
        .both();
    NO_RECIPIENT: Kind::http("no_recipient", 409, "Rights move to another member's present writer, and this is none that is known here.")
        .advice("Look at `tallymesh members`.")
        .both();
    AMOUNT_RANGE: Kind::http("amount_range", 400, "An amount of a budget is 0 to 2^63 - 1.")
        .advice("Send one of these; to give back what was spent, mint it.")
        .both();
    RIGHTS_SHORT: Kind::http("rights_short", 409, "This node does not hold as many rights of the budget; the text says how many it holds, and how many others do as far as it knows.")
        .advice("Ask a node that holds more, or let one grant rights to this one.")
        .shown(Shown::Error("RIGHTSSHORT"));
    ROOM_SHORT: Kind::http("room_short", 409, "This node does not hold as much room under the cap of the budget; the text says how much it holds, and how much others do as far as it knows.")
        .advice("Ask a node that holds more, or let one grant room to this one.")
        .shown(Shown::Error("ROOMSHORT"));
    LEASE_RANGE: Kind::http("lease_range", 400, "A lease is too short or too long.")
        .advice("Lease rights for 1,000 (a second) to 2,592,000,000 (30 days) milliseconds.")
        .both();
    LEASE_ID: Kind::http("lease_id", 400, "This is no lease's id.")
        .advice("Draw 16 bytes at random, and write them as 32 hex digits in lower case.")
        .both();
    LEASE_ONCE: Kind::http("lease_once", 400, "A lease has an id of its own, by which it is given once, so it is not given under an idempotency key.")
        .advice("Ask without one, and retry with the same id at the same node.")
        .both();
    LEASED_NAME: Kind::http("leased_name", 400, "Rights are leased of budgets whose names have at most 429 bytes.")
        .advice("Use a budget with a shorter name.")
        .both();
    NO_LEASE: Kind::http("no_lease", 404, "Nothing is left of this lease at this node.")
        .advice("Ask the member that gave it, or let it end by itself.")
        .shown(Shown::Error("NOLEASE"));
    NO_SEQUENCE: Kind::http("no_sequence", 404, "No sequence of numbers of this name is known at this node.")
        .advice("Begin it first, or wait until this node has heard of it.")
        .shown(Shown::Error("NOSEQUENCE"));
    SEQUENCE_EXISTS: Kind::http("sequence_exists", 409, "There is a sequence of this name.")
        .advice("Hand out its next number.")
        .both();
    SEQUENCE_NAME: Kind::http("sequence_name", 400, "A sequence's name has 1 to 461 bytes.")
        .advice("Use a shorter one.")
        .both();
    NUMBERS_SHORT: Kind::http("numbers_short", 409, "This node has no number of the sequence to hand out now; it has asked for some.")
        .advice("Try again, or wait with `tallymesh-rights-wait-ms`.")
        .shown(Shown::Error("NUMBERSSHORT"));
    NUMBER_RANGE: Kind::http("number_range", 400, "No sequence has a number like that.")
        .advice("Numbers go from 1 to 9223372036854775806.")
        .both();
    WATCHES_FULL: Kind::http("watches_full", 409, "As many numbers of the sequence are watched as may be.")
        .advice("End one of the watches first.")
        .both();
    NUMBER_ONCE: Kind::http("number_once", 400, "A number is handed out anew each time, so not under an idempotency key.")
        .advice("Ask without one; a number that nobody heard of is gone, and nobody else gets it.")
        .both();
    NO_LIMIT: Kind::http("no_limit", 404, "No limit covers this key.")
        .advice("Set a limit of its name, or of what stands before its first colon.");
    LIMIT_REACHED: Kind::http("limit_reached", 429, "So much is not left at this node of what a limit allows in this period; the text says how much is, and how much others hold as far as it knows.")
        .advice("Try again when the next period begins, or wait with `tallymesh-rights-wait-ms` for what others hold.");
    LIMIT_KEY: Kind::http("limit_key", 400, "A key that a limit covers has 1 to 445 bytes.")
        .advice("Use a shorter one, such as a digest.");
    LIMIT_NAME: Kind::http("limit_name", 400, "A limit's name has 1 to 128 bytes.")
        .advice("Use a shorter one.");
    LIMIT_RANGE: Kind::http("limit_range", 400, "A limit is 1 to 2^63 - 1.")
        .advice("Remove the limit, if nothing is to be allowed.");
    PERIOD_RANGE: Kind::http("period_range", 400, "A period is a second to 366 days long.")
        .advice("Use a longer or a shorter one.");
    LIMITS_FULL: Kind::http("limits_full", 409, "A space has at most 256 limits.")
        .advice("Remove some: one limit covers all keys that begin with its name and a colon.");
    SPACE_NAME: Kind::http("space_name", 400, "A space's name has 1 to 64 of the characters A-Z a-z 0-9 . _ -.")
        .advice("Use another name.");
    OVERFLOW: Kind::http("overflow", 409, "What this writer adds to the counter would leave 64 bits.")
        .advice("Add less, or set the counter.")
        .both();
    EXPIRY_RANGE: Kind::http("expiry_range", 400, "An expiry is later than any date, or none.")
        .advice("Send an earlier time.")
        .both();
    TRANSACTION_TOO_LARGE: Kind::http("transaction_too_large", 400, "A transaction has too many operations.")
        .advice("Send fewer at a time, if they may be seen apart.")
        .both();
    CLOCK_EXHAUSTED: Kind::http("clock_exhausted", 507, "This writer has made all transactions that a clock can count.")
        .advice("Start the node again, which is a new writer.")
        .both();
    COUNTERS_FULL: Kind::http("counters_full", 507, "The space can't hold one more counter.")
        .advice("Delete counters in a space with members, or use another space.")
        .both();
    WRITERS_FULL: Kind::http("writers_full", 507, "The space can't hold one more writer.")
        .advice("Make the space one with members, which forgets writers that are gone.")
        .both();
    CLOSED: Kind::http("closed", 409, "The space has members already.")
        .advice("Add and remove members.");
    MEMBERS_UNSUPPORTED: Kind::http("members_unsupported", 501, "The space has members, which this program can't deal with.")
        .advice("Use a program that can.");
    NOT_A_MEMBER: Kind::http("not_a_member", 409, "Only a member of the space may do this, and this node is none.")
        .advice("In a space that has members, ask the node of one, such as the one that gave you the ticket. A node of your own whose space has none: run `tallymesh members init` once.")
        .both();
    MEMBERS_FULL: Kind::http("members_full", 409, "A space has 1 to 255 members.")
        .advice("Add another first if there would be none, or take one out if there would be too many.");
    UNKNOWN_WRITER: Kind::http("unknown_writer", 404, "No writer of this id is known.")
        .advice("Look at `tallymesh writers`.");
    UNKNOWN_HANDLE: Kind::http("unknown_handle", 500, "No key goes by this number here: a fault of the program.")
        .advice("Report it.")
        .both();
    RETIRED: Kind::http("retired", 503, "This node's writer was retired; the node goes on under a new one by itself.")
        .advice("Try again.")
        .shown(Shown::Error("TRYAGAIN"));
    OUTDATED: Kind::http("outdated", 503, "This node missed what was collected, and begins again from a member's state by itself.")
        .advice("Try again.")
        .shown(Shown::Error("TRYAGAIN"));
    BEYOND_ROLE: Kind::http("beyond_role", 403, "The role of this node, or of whoever sent it, does not allow this: writers only add, and readers only read.")
        .advice("Ask a node that may, or ask a member for a ticket with a greater role.")
        .shown(Shown::Error("NOPERM"));
    TICKET_REMOVED: Kind::between_nodes("ticket_removed", "The ticket was signed before its holder was removed from the members.")
        .advice("Ask a member for a new one, and start the node with `--join` and that.");
    BUSY: Kind::between_nodes("busy", "Too many nodes have shown tickets there.")
        .advice("The node shows its ticket again by itself.");
    SHARE_FULL: Kind::link("share_full", "The sender's key, its ticket or its address is the reason for as many writers as it may have in a space.")
        .advice("Use one page or one program for longer, or ask for another ticket; writers that ended are forgotten by and by in a space with members.");
    WIDE_TOTAL: Kind::link("wide_total", "A guest tells a total that leaves 64 bits, which no adds of one writer come to.")
        .advice("Look at the sender's program: it, or who uses its ticket, makes totals up.");
    EXPIRED: Kind::http("expired", 409, "The counter has expired, and has to be ended before it is written to. This node may not do that: its role does not allow it, or the node is no member and knows no member's clock.")
        .advice("Try again once a member has ended it, which a member's node does by itself, or this node is linked to a member; or write at a member.")
        .both();

    TOKEN: Kind::http("token", 400, "This is no token of a session.")
        .advice("Send what an answer gave, as it is.");
    TOKEN_NEEDED: Kind::http("token_needed", 401, "Tickets and membership are the operator's, and the request does not show the operator's token.")
        .advice("Send what is in the file `token` of the node's data folder in the header `authorization: Bearer TOKEN`; `tallymesh` reads it there, or from `--data DIR` or `--token-file FILE`. A program may show a member's ticket instead.");
    TOKEN_WRONG: Kind::http("token_wrong", 401, "This is not the token of this node's operator.")
        .advice("Take the one in the file `token` of this node's data folder, with `--data DIR` or `--token-file FILE`.")
        .shown(Shown::Error("WRONGPASS"));
    TOKEN_FULL: Kind::http("token_full", 409, "The session depends on more writers than a token can name.")
        .advice("Begin a new session, or wait until earlier writers have been taken over.");

    // Errors of frames from a link.
    NOT_COVERED: Kind::link("not_covered", "A message builds on something that is not held here.")
        .advice("Sync asks for what is missing.");
    OWN_CLOCK_AHEAD: Kind::link("own_clock_ahead", "Another process writes under this node's writer id.")
        .advice("The node takes another id by itself; was it cloned?");
    GONE: Kind::link("gone", "The sender's writer left or was retired.")
        .advice("It rejoins under a new writer by itself.");
    BEHIND: Kind::link("behind", "The sender missed what was collected meanwhile.")
        .advice("It begins again from a member's state by itself.");
    UNSURE: Kind::link("unsure", "It is not certain yet that a member began from a state that was new enough.")
        .advice("Sync asks for all that is missing.");
    STRANGER: Kind::link("stranger", "No member has taken a writer in that a message brings.")
        .advice("The node that brought it has to meet a member.");
    NOT_YOURS: Kind::link("not_yours", "The sender speaks for a writer that it has not proved to be its owner's, or says what only members say.")
        .advice("Only members pass on what others made; others take a ticket with the role `member`, or have a fault.");
    TRUNCATED: Kind::link("truncated", "The bytes end too early.")
        .advice("The sender has a fault; report it.");
    TRAILING_BYTES: Kind::link("trailing_bytes", "Bytes are left over at the end.")
        .advice("The sender has a fault; report it.");
    NUMBER: Kind::link("number", "A number is not in its shortest form, or out of range.")
        .advice("The sender has a fault; report it.");
    MALFORMED: Kind::link("malformed", "The bytes break a rule of the format.")
        .advice("The sender has a fault; report it.");
    TOO_LARGE: Kind::link("too_large", "A size is over its limit.")
        .advice("The sender has a fault; report it.");
    NOT_A_FRAME: Kind::link("not_a_frame", "The bytes are no frame of this protocol.")
        .advice("Is the other end a Tallymesh replica?");
    VERSION: Kind::link("version", "The two ends speak other versions of the protocol.")
        .advice("Upgrade the older one.");
    WRONG_SPACE: Kind::link("wrong_space", "A frame of another space came on this link.")
        .advice("Use a link for each space.");
    HANDSHAKE: Kind::link("handshake", "A link opens with one hello, before anything else.")
        .advice("The sender has a fault; report it.");

    // Refusals for Redis clients only.
    UNKNOWN_COMMAND: Kind::resp("unknown_command", "There is no such command.")
        .advice("docs/operations.md lists the commands.");
    UNKNOWN_SUBCOMMAND: Kind::resp("unknown_subcommand", "There is no such subcommand.")
        .advice("Use `HELP` of the command.");
    ARITY: Kind::resp("arity", "The command has another number of arguments.")
        .advice("Look at the command's arguments.");
    UNSUPPORTED: Kind::resp("unsupported", "Redis has this command, and a mesh of counters does not.")
        .advice("The text says what to use instead.");
    BOUNDS_CROSSED: Kind::resp("bounds_crossed", "`LBOUND` is over `UBOUND`.")
        .advice("Swap them.");
    NOT_INTEGER: Kind::resp("not_integer", "An argument is no integer of 64 bits.")
        .advice("Send an integer.");
    NOT_COUNTER_VALUE: Kind::resp("not_counter_value", "A value that is to be stored is no integer of 64 bits.")
        .advice("Send an integer.");
    SYNTAX: Kind::resp("syntax", "A word is not where it may stand.")
        .advice("Look at the command's arguments.");
    KEY_TEXT: Kind::resp("key_text", "A key is not UTF-8.")
        .advice("Use UTF-8.");
    EXPIRE_OPTION: Kind::resp("expire_option", "There is no such option of the `EXPIRE` family.")
        .advice("Use `NX`, `XX`, `GT` or `LT`.");
    EXPIRE_OPTIONS: Kind::resp("expire_options", "Two options about an expiry exclude each other, or one lacks what it is about.")
        .advice("Use one of them, or give the expiry along.");
    NO_AUTH: Kind::resp("no_auth", "The session has to authenticate first.")
        .advice("`AUTH` with a ticket, or with the node's password if it has one.")
        .shown(Shown::Error("NOAUTH"));
    AUTH_TIME: Kind::resp("auth_time", "The connection has not authenticated in time, or its ticket ended.")
        .advice("Connect again, and send `AUTH` first.")
        .shown(Shown::End("NOAUTH"));
    CLIENTS_FULL: Kind::resp("clients_full", "The ticket is good, and its clients, or all that may do less than a member, have as many Redis connections as they may.")
        .advice("Close some, or use fewer; or start the node with more by `--resp-clients`.");
    HELD_FULL: Kind::resp("held_full", "All connections together hold more bytes than they may, and this one most.")
        .advice("Send less at a time, and read the answers.")
        .shown(Shown::End("ERR"));
    WRONG_PASS: Kind::resp("wrong_pass", "The password is wrong.")
        .advice("Use the node's `TALLYMESH_RESP_PASSWORD`.")
        .shown(Shown::Error("WRONGPASS"));
    NO_PASSWORD: Kind::resp("no_password", "A password was sent and none is configured.")
        .advice("Leave it out.");
    NO_PROTO: Kind::resp("no_proto", "The version of the protocol is not 2 or 3.")
        .advice("Use 2 or 3.")
        .shown(Shown::Error("NOPROTO"));
    PROTO_NOT_INTEGER: Kind::resp("proto_not_integer", "The version of the protocol is no number.")
        .advice("Use 2 or 3.");
    HELLO_OPTION: Kind::resp("hello_option", "There is no such option of `HELLO`.")
        .advice("Use `AUTH` or `SETNAME`.");
    EXEC_ABORT: Kind::resp("exec_abort", "Something that was queued was refused, so nothing of it was made.")
        .advice("Mend it, and queue all again.")
        .shown(Shown::Error("EXECABORT"));
    NOT_ONCE: Kind::resp("not_once", "The command can't be made under an idempotency key.")
        .advice("Use `ONCE` with a command that writes counters, or with `EXEC`.");
    ONCE_IN_MULTI: Kind::resp("once_in_multi", "`ONCE` in `MULTI`, with something else than `EXEC`.")
        .advice("Queue plain commands, and end with `ONCE key EXEC`.");
    REPLAYED: Kind::resp("replayed", "The command was made before under this idempotency key, and what it answered then is not kept.")
        .advice("It counts once; `GET` the counter.")
        .shown(Shown::Error("REPLAYED"))
        .here();
    MULTI_NESTED: Kind::resp("multi_nested", "`MULTI` in `MULTI`.")
        .advice("`EXEC` or `DISCARD` first.");
    EXEC_WITHOUT_MULTI: Kind::resp("exec_without_multi", "`EXEC` without `MULTI`.")
        .advice("`MULTI` first.");
    DISCARD_WITHOUT_MULTI: Kind::resp("discard_without_multi", "`DISCARD` without `MULTI`.")
        .advice("`MULTI` first.");
    WATCH_IN_MULTI: Kind::resp("watch_in_multi", "`WATCH` in `MULTI`.")
        .advice("`WATCH` before `MULTI`.");
    NOT_IN_MULTI: Kind::resp("not_in_multi", "The command can't be queued.")
        .advice("Send it before `MULTI` or after `EXEC`.");
    QUEUE_FULL: Kind::resp("queue_full", "`MULTI` has queued as much as it may.")
        .advice("`EXEC` in several parts.");
    WATCHED_FULL: Kind::resp("watched_full", "As many keys are watched as may be.")
        .advice("`EXEC` or `UNWATCH` first.");
    SUBSCRIPTIONS_FULL: Kind::resp("subscriptions_full", "As many channels and patterns are subscribed to as may be.")
        .advice("Use a pattern for several keys.");
    PATTERN_LENGTH: Kind::resp("pattern_length", "A channel or a pattern is too long.")
        .advice("Use a shorter one.");
    SUBSCRIBED: Kind::resp("subscribed", "A session of RESP2 with subscriptions can't do this.")
        .advice("Use another connection, or RESP3.");
    CURSOR: Kind::resp("cursor", "The cursor of `SCAN` is no number.")
        .advice("Send the one that came, or 0.");
    TYPE_NAME: Kind::resp("type_name", "There is no such type.")
        .advice("Counters are strings.");
    KEYS_TOO_MANY: Kind::resp("keys_too_many", "`KEYS` found more than one reply may hold.")
        .advice("Use `SCAN`.");
    CLIENT_NAME: Kind::resp("client_name", "A client's name has characters that it can't have.")
        .advice("Use another name.");
    CLIENT_NAME_LENGTH: Kind::resp("client_name_length", "A client's name is too long.")
        .advice("Use a shorter one.");
    CLIENT_INFO_OPTION: Kind::resp("client_info_option", "There is no such option of `CLIENT SETINFO`.")
        .advice("Use `LIB-NAME` or `LIB-VER`.");
    CLIENT_ID: Kind::resp("client_id", "A client's number is none.")
        .advice("`CLIENT LIST` shows them.");
    CLIENT_TYPE: Kind::resp("client_type", "There is no such kind of client.")
        .advice("Use `normal` or `pubsub`.");
    CONFIG_UNKNOWN: Kind::resp("config_unknown", "There is no such parameter.")
        .advice("`CONFIG GET *` lists them.");
    CONFIG_IMMUTABLE: Kind::resp("config_immutable", "The parameter can't be changed while the node runs.")
        .advice("Start the node with another.");
    FLUSH_OFF: Kind::resp("flush_off", "`FLUSHDB` and `FLUSHALL` are off at this node.")
        .advice("Start it with `--resp-flush`, or `DEL` single keys.");
    TIMEOUT_NOT_INTEGER: Kind::resp("timeout_not_integer", "A timeout is no number.")
        .advice("Send milliseconds.");
    TIMEOUT_NEGATIVE: Kind::resp("timeout_negative", "A timeout is below 0.")
        .advice("Send milliseconds.");
    TIMEOUT_RANGE: Kind::resp("timeout_range", "A timeout is later than any time.")
        .advice("Send a shorter one.");
    FREQUENCY: Kind::resp("frequency", "How often a counter is read is not kept.")
        .advice("Counters are never evicted.");
    IDLE_TIME: Kind::resp("idle_time", "When a counter was last read is not kept.")
        .advice("Counters are never evicted.");
    ARG_COUNT: Kind::resp("arg_count", "The count of arguments is no number, or too great.")
        .advice("Send fewer arguments.")
        .shown(Shown::End("ERR"));
    UNAUTHENTICATED_ARG_COUNT: Kind::resp("unauthenticated_arg_count", "Too many arguments before authentication.")
        .advice("Authenticate first.")
        .shown(Shown::End("ERR"));
    ARG_COUNT_LINE: Kind::resp("arg_count_line", "The line with the count of arguments does not end.")
        .advice("The client has a fault.")
        .shown(Shown::End("ERR"));
    EXPECTED_BULK: Kind::resp("expected_bulk", "Something else stands where an argument's length should.")
        .advice("The client has a fault.")
        .shown(Shown::End("ERR"));
    ARG_LENGTH: Kind::resp("arg_length", "An argument's length is no number, or too great.")
        .advice("Send shorter arguments.")
        .shown(Shown::End("ERR"));
    UNAUTHENTICATED_ARG_LENGTH: Kind::resp("unauthenticated_arg_length", "An argument is too long before authentication.")
        .advice("Authenticate first.")
        .shown(Shown::End("ERR"));
    ARG_LENGTH_LINE: Kind::resp("arg_length_line", "The line with an argument's length does not end.")
        .advice("The client has a fault.")
        .shown(Shown::End("ERR"));
    INLINE_LENGTH: Kind::resp("inline_length", "An inline command has no end.")
        .advice("Use the protocol's arrays.")
        .shown(Shown::End("ERR"));
    QUOTES: Kind::resp("quotes", "An inline command has unbalanced quotes.")
        .advice("Balance them.")
        .shown(Shown::End("ERR"));
    COMMAND_LENGTH: Kind::resp("command_length", "A command is longer than 8 MiB.")
        .advice("Send less at a time.")
        .shown(Shown::End("ERR"));
    HELD: Kind::resp("held", "More came than is kept while replies wait.")
        .advice("Read replies first.")
        .shown(Shown::End("ERR"));
}
