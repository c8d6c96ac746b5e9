//! Vectors that must be rejected, about keyed operations, levels and stores. Each is an accepted vector with
//! one part changed.

use super::{Vector, asked, frame, refused};
use tallymesh_core::VersionVector;
use tallymesh_core::wire::{Answer, Body};

/// 2^32, one more than the greatest number of 32 bits.
const OVER_32_BITS: &[u8] = &[0x80, 0x80, 0x80, 0x80, 0x10];
/// 2^100, one more than the greatest wide number.
const OVER_100_BITS: &[u8] = &[
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x08,
];

/// A message of a space with members. It has only the clock of 11.., then these flags, and then `rest`.
fn flagged(hi: u8, flags: u8, rest: &[&[u8]]) -> Vec<u8> {
    let table = [&[1][..], &[0x11; 16], &[0, hi]].concat();
    [&table[..], &[0, 0, flags], &rest.concat()].concat()
}

/// The parts of a keyed operation. Each vector changes one of them.
#[derive(Clone, Copy)]
struct Op<'a> {
    writer: &'a [u8],
    clock: &'a [u8],
    once: [u8; 24],
    count: &'a [u8],
    counter: &'a [u8],
    amount: &'a [u8],
    before: &'a [u8],
}

const OP: Op<'static> = Op {
    writer: &[1],
    clock: &[1],
    once: [0xcc; 24],
    count: &[1],
    counter: b"\x01a",
    amount: &[10],
    before: &[1],
};

impl Op<'_> {
    fn encode(&self) -> Vec<u8> {
        let Op {
            writer,
            clock,
            once,
            count,
            counter,
            amount,
            before,
        } = *self;
        [writer, clock, &once, count, counter, amount, before].concat()
    }
}

/// A message without membership records, with this many keyed operations.
fn keyed(count: &[u8], ops: &[Op<'_>]) -> Vec<u8> {
    let ops: Vec<u8> = ops.iter().flat_map(Op::encode).collect();
    flagged(2, 1 + 4, &[&[0], count, &ops])
}

/// The least message with a keyed operation.
pub(super) fn keyed_least() -> Vec<u8> {
    keyed(&[1], &[OP])
}

/// The parts of a withdrawal. Each vector changes one of them.
#[derive(Clone, Copy)]
struct Withdrawal<'a> {
    clock: u8,
    amount: &'a [u8],
    since: u8,
    several: u8,
    by: [u8; 2],
}

const WITHDRAWAL: Withdrawal<'static> = Withdrawal {
    clock: 2,
    amount: &[10],
    since: 1,
    several: 0,
    by: [0, 2],
};

/// A message with a slot that has only withdrawals.
fn withdrawals(count: &[u8], withdrawals: &[Withdrawal<'_>]) -> Vec<u8> {
    let table = [&[1][..], &[0x11; 16], &[0, 3]].concat();
    let key_and_page = [1, 0, 1, b'a', 0];
    let side = [1, 0, 0, 32];
    let parts = |it: &Withdrawal<'_>| {
        let Withdrawal {
            clock,
            amount,
            since,
            several,
            by,
        } = *it;
        [&[clock], amount, &[since, several], &by].concat()
    };
    let parts: Vec<u8> = withdrawals.iter().flat_map(parts).collect();
    [&table[..], &key_and_page, &side, count, &parts, &[1, 0]].concat()
}

/// The least message with a withdrawal.
pub(super) fn withdrawal_least() -> Vec<u8> {
    withdrawals(&[1], &[WITHDRAWAL])
}

/// Keyed operations in messages.
pub(super) fn keyed_operations() -> Vec<Vector> {
    let with = |name, says, code, op| refused(name, says, code, keyed(&[1], &[op]));
    let ordered = |name, says, ops: &[Op<'_>]| refused(name, says, "malformed", keyed(&[2], ops));
    let mut long = vec![0x81, 0x04];
    long.extend_from_slice(&[b'a'; 513]);
    let first = Op {
        clock: &[0],
        before: &[0],
        ..OP
    };
    let two_counters = |second: &[u8]| [b"\x01b\x0a\x01", second].concat();
    vec![
        refused(
            "message_keyed_none",
            "The flag of keyed operations, and none follow.",
            "malformed",
            keyed(&[0], &[]),
        ),
        refused(
            "message_keyed_count",
            "2^32 keyed operations are announced, and one follows.",
            "truncated",
            keyed(OVER_32_BITS, &[OP]),
        ),
        refused(
            "message_keyed_short",
            "A keyed operation that lacks its last byte.",
            "truncated",
            {
                let mut bytes = keyed_least();
                bytes.pop();
                bytes
            },
        ),
        refused(
            "message_keyed_trailing",
            "A byte behind the last keyed operation.",
            "trailing_bytes",
            [keyed_least(), vec![0]].concat(),
        ),
        with(
            "message_keyed_writer",
            "A keyed operation of the second writer of a table of one.",
            "malformed",
            Op { writer: &[2], ..OP },
        ),
        with(
            "message_keyed_writer_number",
            "A keyed operation whose writer is number 2^32.",
            "number",
            Op {
                writer: OVER_32_BITS,
                ..OP
            },
        ),
        with(
            "message_keyed_clock",
            "A keyed operation of clock 3, where its writer's hi is 2.",
            "malformed",
            Op { clock: &[2], ..OP },
        ),
        ordered(
            "message_keyed_order",
            "A keyed operation of clock 2 before one of clock 1.",
            &[OP, first],
        ),
        ordered("message_keyed_twice", "A keyed operation twice.", &[OP, OP]),
        with(
            "message_keyed_counters",
            "A keyed operation that announces 2^32 counters.",
            "truncated",
            Op {
                count: OVER_32_BITS,
                ..OP
            },
        ),
        with(
            "message_keyed_no_counter",
            "A keyed operation that added to a counter with no name.",
            "malformed",
            Op {
                counter: &[0],
                amount: &[0x80, 1],
                ..OP
            },
        ),
        with(
            "message_keyed_counter_length",
            "A keyed operation that added to a counter whose name has 513 bytes.",
            "too_large",
            Op {
                counter: &long,
                ..OP
            },
        ),
        with(
            "message_keyed_counter_text",
            "A keyed operation that added to a counter whose name is no UTF-8.",
            "malformed",
            Op {
                counter: &[1, 0xff],
                ..OP
            },
        ),
        with(
            "message_keyed_counter_order",
            "A keyed operation that added to `b` and then to `a`.",
            "malformed",
            Op {
                count: &[2],
                counter: &two_counters(b"\x01a"),
                ..OP
            },
        ),
        with(
            "message_keyed_counter_twice",
            "A keyed operation that added to `b` twice.",
            "malformed",
            Op {
                count: &[2],
                counter: &two_counters(b"\x01b"),
                ..OP
            },
        ),
        with(
            "message_keyed_amount",
            "A keyed operation that added 2^100.",
            "number",
            Op {
                amount: OVER_100_BITS,
                ..OP
            },
        ),
        with(
            "message_keyed_amount_long",
            "A keyed operation that added 5, written in two bytes.",
            "number",
            Op {
                amount: &[0x8a, 0],
                ..OP
            },
        ),
        with(
            "message_keyed_before",
            "A keyed operation of clock 2, whose writer's add before it is of clock 2 too.",
            "malformed",
            Op { before: &[2], ..OP },
        ),
    ]
}

/// The flags beside those of keyed operations.
pub(super) fn flags() -> Vec<Vector> {
    let malformed = |name, says, bytes| refused(name, says, "malformed", bytes);
    let lacking = |rest: &[u8]| flagged(2, 1 + 16, &[rest, &[0]]);
    vec![
        malformed(
            "message_flags_both",
            "The byte before the facts says 1 and 2.",
            flagged(2, 3, &[&[0]]),
        ),
        malformed(
            "message_flags_unknown",
            "The byte before the facts has the flag 32.",
            flagged(2, 1 + 32, &[&[0]]),
        ),
        malformed(
            "message_keyed_open",
            "A peer's message of an open space with a keyed operation.",
            flagged(2, 4, &[&[1], &OP.encode()]),
        ),
        malformed(
            "message_keyless_open",
            "A message of an open space whose sender keeps no keyed operations.",
            flagged(2, 8, &[]),
        ),
        malformed(
            "message_lacking_open",
            "A message of an open space that may lack keyed operations of a writer.",
            flagged(2, 16, &[&[1, 0]]),
        ),
        malformed(
            "message_lacking_none",
            "Some keyed operations may be missing, of no writer.",
            lacking(&[0]),
        ),
        malformed(
            "message_lacking_writer",
            "Some keyed operations may be missing of the second writer of a table of one.",
            lacking(&[1, 1]),
        ),
        malformed(
            "message_lacking_twice",
            "Some keyed operations may be missing of a writer, which is named twice.",
            lacking(&[2, 0, 0]),
        ),
        refused(
            "message_lacking_count",
            "Some keyed operations may be missing of 2^32 writers.",
            "truncated",
            lacking(OVER_32_BITS),
        ),
    ]
}

/// Withdrawals in messages.
pub(super) fn withdrawn() -> Vec<Vector> {
    let with = |name, says, code, it| refused(name, says, code, withdrawals(&[1], &[it]));
    let it = WITHDRAWAL;
    vec![
        refused(
            "message_withdrawals_none",
            "A slot with withdrawals, and none follow.",
            "malformed",
            withdrawals(&[0], &[]),
        ),
        refused(
            "message_withdrawals_count",
            "2^32 withdrawals are announced, and one follows.",
            "truncated",
            withdrawals(OVER_32_BITS, &[it]),
        ),
        refused(
            "message_withdrawals_twice",
            "A withdrawal twice.",
            "malformed",
            withdrawals(&[2], &[it, it]),
        ),
        with(
            "message_withdrawal_clock",
            "A withdrawal of clock 4, where its writer's hi is 3.",
            "malformed",
            Withdrawal { clock: 4, ..it },
        ),
        with(
            "message_withdrawal_itself",
            "A withdrawal of clock 2, whose writer's add before it is of clock 2 too.",
            "malformed",
            Withdrawal { since: 0, ..it },
        ),
        with(
            "message_withdrawal_before",
            "A withdrawal of clock 2, whose writer's add before it was 3 clocks earlier.",
            "malformed",
            Withdrawal { since: 3, ..it },
        ),
        with(
            "message_withdrawal_flag",
            "A withdrawal that stands for several is told by 2.",
            "malformed",
            Withdrawal { several: 2, ..it },
        ),
        with(
            "message_withdrawal_amount",
            "A withdrawal of 2^100.",
            "number",
            Withdrawal {
                amount: OVER_100_BITS,
                ..it
            },
        ),
        with(
            "message_withdrawal_stamp",
            "A withdrawal made by the second writer of a table of one.",
            "malformed",
            Withdrawal { by: [1, 2], ..it },
        ),
        with(
            "message_withdrawal_stamp_clock",
            "A withdrawal made at clock 4, where its writer's hi is 3.",
            "malformed",
            Withdrawal { by: [0, 3], ..it },
        ),
        refused(
            "message_side_parts",
            "A slot with a part 64.",
            "malformed",
            {
                let mut bytes = withdrawal_least();
                bytes[27] = 64;
                bytes
            },
        ),
    ]
}

/// An answer whose vector is replaced by these bytes, and which reports nothing else.
fn answered(id: &[u8], flags: u8, vector: &[u8]) -> Vec<u8> {
    let mut bytes = frame(Body::Answer(Answer {
        id: 7,
        era: 0,
        number: 1,
        accepted: false,
        counts: false,
        whole: false,
        vector: VersionVector::default(),
    }));
    bytes.truncate(12);
    [&bytes, id, &[0, 1, flags], vector].concat()
}

/// Want frames.
pub(super) fn wants() -> Vec<Vector> {
    let body = |body: &[u8]| {
        let mut bytes = asked(0);
        bytes.truncate(12);
        bytes[3] = 14;
        [&bytes, body].concat()
    };
    let named = |name: &[u8]| {
        let mut bytes = vec![0];
        put_length(&mut bytes, name.len());
        body(&[&bytes, name, &[0, 1, 1]].concat())
    };
    let over = [&[0x80; 9][..], &[1]].concat();
    vec![
        refused(
            "want_stock",
            "A request for a fourth kind of stock.",
            "malformed",
            body(&[3, 1, b'g', 0, 1, 1]),
        ),
        refused(
            "want_window",
            "A request for rights of a window whose name has no end.",
            "malformed",
            body(&[2, 1, b'g', 0, 1, 1]),
        ),
        refused(
            "want_no_name",
            "A request without a budget's name.",
            "key_length",
            named(b""),
        ),
        refused(
            "want_long_name",
            "A request with a name of 478 bytes.",
            "too_large",
            named(&[b'g'; 478]),
        ),
        refused(
            "want_reserved",
            "A request with a name that begins with U+0000.",
            "key_reserved",
            named(b"\0g"),
        ),
        refused(
            "want_text",
            "A request with a name that is no UTF-8.",
            "malformed",
            named(&[0xff]),
        ),
        refused(
            "want_need",
            "A request for 2^63.",
            "number",
            body(&[&[0, 1, b'g', 0][..], &over, &[1]].concat()),
        ),
        refused(
            "want_recent",
            "A request of one that used 2^63.",
            "number",
            body(&[&[0, 1, b'g', 0, 1][..], &over].concat()),
        ),
        refused(
            "want_trailing",
            "A request and one more byte.",
            "trailing_bytes",
            body(&[0, 1, b'g', 0, 1, 1, 0]),
        ),
    ]
}

/// Draw frames.
pub(super) fn draws() -> Vec<Vector> {
    let body = |name: &[u8], numbers: &[u8]| {
        let mut bytes = asked(0);
        bytes.truncate(12);
        bytes[3] = 15;
        put_length(&mut bytes, name.len());
        [&bytes, name, numbers].concat()
    };
    let over = [&[0x80; 9][..], &[1]].concat();
    vec![
        refused(
            "draw_no_name",
            "A request for numbers of a sequence without a name.",
            "key_length",
            body(b"", &[0, 1, 1]),
        ),
        refused(
            "draw_long_name",
            "A request for numbers of a sequence with a name of 462 bytes.",
            "too_large",
            body(&[b'v'; 462], &[0, 1, 1]),
        ),
        refused(
            "draw_reserved",
            "A request for numbers of a sequence whose name begins with U+0000.",
            "key_reserved",
            body(b"\0v", &[0, 1, 1]),
        ),
        refused(
            "draw_need",
            "A request for 2^63 numbers.",
            "number",
            body(b"v", &[&[0][..], &over, &[1]].concat()),
        ),
        refused(
            "draw_recent",
            "A request of one that handed out 2^63 numbers.",
            "number",
            body(b"v", &[&[0, 1][..], &over].concat()),
        ),
    ]
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    let low = (length & 0x7f) as u8;
    match length >> 7 {
        0 => out.push(low),
        high => out.extend([low | 0x80, high as u8]),
    }
}

/// Ask and Answer frames.
pub(super) fn questions() -> Vec<Vector> {
    let head = |id: &[u8], vector: &[u8]| {
        let mut bytes = asked(0);
        bytes.truncate(12);
        [&bytes, id, vector].concat()
    };
    let entry = |clock: u8| [&[0x11; 16][..], &[clock]].concat();
    let twice = [vec![2], entry(1), entry(1)].concat();
    let no_clock = [vec![1], entry(0)].concat();
    let short = [vec![2], entry(1)].concat();
    vec![
        refused(
            "ask_too_many",
            "A question about 65 writers.",
            "too_large",
            asked(65),
        ),
        refused(
            "ask_id",
            "Question 2^32.",
            "number",
            head(OVER_32_BITS, &[0]),
        ),
        refused(
            "ask_twice",
            "A question about a writer twice.",
            "malformed",
            head(&[7], &twice),
        ),
        refused(
            "ask_no_clock",
            "A question about a writer up to clock 0.",
            "malformed",
            head(&[7], &no_clock),
        ),
        refused(
            "ask_short",
            "A question that announces two writers and names one.",
            "truncated",
            head(&[7], &short),
        ),
        refused(
            "ask_trailing",
            "A question and one more byte.",
            "trailing_bytes",
            head(&[7], &[0, 0]),
        ),
        refused(
            "answer_flags",
            "An answer whose flags are 8.",
            "malformed",
            answered(&[7], 8, &[0]),
        ),
        refused(
            "answer_id",
            "An answer to question 2^32.",
            "number",
            answered(OVER_32_BITS, 2, &[0]),
        ),
        refused(
            "answer_twice",
            "An answer that names a writer twice.",
            "malformed",
            answered(&[7], 2, &twice),
        ),
        refused(
            "answer_no_clock",
            "An answer that holds a writer up to clock 0.",
            "malformed",
            answered(&[7], 2, &no_clock),
        ),
        refused(
            "answer_short",
            "An answer that announces two writers and names one.",
            "truncated",
            answered(&[7], 2, &short),
        ),
        refused(
            "answer_trailing",
            "An answer and one more byte.",
            "trailing_bytes",
            answered(&[7], 2, &[0, 0]),
        ),
    ]
}

/// The private part of a stored state: the writer, its sponsor, whether it is doubtful, and four clocks. Then
/// its transactions, and the surviving operations of earlier ones.
fn kept(intro: u8, doubtful: u8, made: &[u8], keys: &[u8]) -> Vec<u8> {
    let writer = [&[1][..], &[0x11; 16], &[intro, doubtful, 0, 0, 0, 0]].concat();
    [&flagged(2, 0, &[])[..], &[0, 0], &writer, made, &[0], keys].concat()
}

/// Stored records.
pub(super) fn stored() -> Vec<Vector> {
    let malformed = |name, says, bytes| refused(name, says, "malformed", bytes);
    let op = |kind: u8, value: u8| [1, 2, 1, 1, b'a', kind, value, 0];
    let key = |clock: u8| [&[clock][..], &[0xcc; 24]].concat();
    let keys = |clocks: [u8; 2]| [vec![2], key(clocks[0]), key(clocks[1])].concat();
    vec![
        refused(
            "stored_nothing",
            "A record that goes on after its message and says nothing more.",
            "trailing_bytes",
            [flagged(2, 0, &[]), vec![0, 0, 0]].concat(),
        ),
        malformed(
            "stored_memory",
            "What is said of forgotten writers begins with 3.",
            [flagged(2, 0, &[]), vec![3, 0, 0]].concat(),
        ),
        malformed(
            "stored_intro",
            "Whether it is known who took a writer in is told by 2.",
            kept(2, 0, &op(0, 2), &[]),
        ),
        malformed(
            "stored_doubtful",
            "Whether a store was an old copy, and a place never certain, is told by 4.",
            kept(0, 4, &op(0, 2), &[]),
        ),
        malformed(
            "stored_kind",
            "An operation of kind 6.",
            kept(0, 0, &op(6, 0), &[]),
        ),
        malformed(
            "stored_value",
            "A reset with a value.",
            kept(0, 0, &op(1, 1), &[]),
        ),
        malformed(
            "stored_order",
            "A transaction of clock 2 before one of clock 1.",
            kept(0, 0, &[2, 2, 0, 1, 0], &[]),
        ),
        malformed(
            "stored_no_keys",
            "Keys of transactions, of which there are none.",
            kept(0, 0, &op(0, 2), &[0]),
        ),
        malformed(
            "stored_key_twice",
            "Two keys of the transaction of clock 2.",
            kept(0, 0, &op(0, 2), &keys([2, 2])),
        ),
        refused(
            "stored_key_count",
            "2^32 keys of transactions are announced.",
            "truncated",
            kept(0, 0, &op(0, 2), OVER_32_BITS),
        ),
    ]
}
