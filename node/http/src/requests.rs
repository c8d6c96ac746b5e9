//! The forms of requests, for the description of this interface.
//!
//! [`body`](super::body) reads them field by field, so that a refusal can name the field. A test
//! sends each example of the description to a node.

#![expect(dead_code, reason = "these types are described and never made")]

use tallymesh_node_ground::api::AMOUNT_MAX;
use tallymesh_node_ground::model::Role;
use utoipa::openapi::{
    ArrayBuilder, KnownFormat, ObjectBuilder, OneOfBuilder, Ref, RefOr, Schema, SchemaFormat, Type,
};
use utoipa::{IntoParams, PartialSchema, ToSchema};

/// The space of a request.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct InSpace {
    /// The space, such as `default`.
    #[param(example = "default", pattern = "^[A-Za-z0-9._-]{1,64}$")]
    space: String,
}

/// The counter of a request.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct OfCounter {
    /// The counter's key, 1 to 512 bytes of UTF-8, with percent signs where needed.
    #[param(example = "likes", min_length = 1)]
    key: String,
}

/// The budget of a request.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct OfBudget {
    /// The budget's name, 1 to 477 bytes of UTF-8, with percent signs where needed.
    #[param(example = "gift", min_length = 1)]
    key: String,
}

/// The lease of a request.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct OfLease {
    /// The budget's name, 1 to 429 bytes of UTF-8, with percent signs where needed.
    #[param(example = "gift", min_length = 1)]
    key: String,
    /// The lease's id, which the client draws at random.
    #[param(
        example = "8d1c0f3a5b7e49d2a6c4e8f012345678",
        pattern = "^[0-9a-f]{32}$"
    )]
    id: String,
}

/// The sequence of a request.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct OfSequence {
    /// The sequence's name, 1 to 461 bytes of UTF-8, with percent signs where needed.
    #[param(example = "visits", min_length = 1)]
    key: String,
}

/// The limit of a request.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct OfLimit {
    /// The limit's name, 1 to 128 bytes of UTF-8, with percent signs where needed.
    #[param(example = "login", min_length = 1)]
    key: String,
}

/// The key of a request that a limit covers.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct OfPeriod {
    /// The key, 1 to 445 bytes of UTF-8, with percent signs where needed. A limit of the same name
    /// covers it, or else one whose name is the part before the first colon.
    #[param(example = "login", min_length = 1)]
    key: String,
}

/// The number of a sequence of a request.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct OfNumber {
    /// The sequence's name, 1 to 461 bytes of UTF-8, with percent signs where needed.
    #[param(example = "visits", min_length = 1)]
    key: String,
    /// The number, from 1 on.
    #[param(example = "1000000", pattern = "^[1-9][0-9]{0,18}$")]
    number: String,
}

/// The ticket of a request.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct OfTicket {
    /// The ticket's id, as `tallymesh ticket` shows it.
    #[param(
        example = "00000000000000000000000000000000",
        pattern = "^[0-9a-f]{32}$"
    )]
    id: String,
}

/// The idempotency key of a write that takes one.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct AskingOnce {
    /// The operation counts once, however often and at whichever member it is requested: 1 to 255
    /// bytes of ASCII. The answer to a retry has `idempotent-replayed: true`.
    #[param(
        rename = "idempotency-key",
        example = "7c1b6d0e",
        min_length = 1,
        max_length = 255,
        required = false
    )]
    key: String,
}

/// Options of a write beside its operation and its idempotency key.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct AskingWrite {
    /// How many members store the write before it is answered: `local`, `quorum` or `all`; `local`
    /// if it is left out.
    #[param(
        rename = "tallymesh-level",
        example = "local",
        pattern = "^(local|quorum|all)$",
        required = false
    )]
    level: String,
    /// The longest wait for the level, in milliseconds, at most 20000; 5000 if it is left out.
    #[param(
        rename = "tallymesh-wait-ms",
        example = "5000",
        pattern = "^[0-9]+$",
        required = false
    )]
    wait: String,
    /// The longest wait until this node has the rights of a budget to spend, or the room to use. It
    /// is in milliseconds, at most 20000; 0 if it is left out. Both waits together take at most
    /// 25000.
    #[param(
        rename = "tallymesh-rights-wait-ms",
        example = "0",
        pattern = "^[0-9]+$",
        required = false
    )]
    rights_wait: String,
    /// The state on which the session depends, as the last answer returned it; empty to begin one.
    #[param(rename = "tallymesh-token", required = false)]
    token: String,
}

/// Options of a read beside its counters.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct AskingRead {
    /// How many members are asked for their state before the read: `local`, `quorum` or `all`;
    /// `local` if it is left out.
    #[param(
        rename = "tallymesh-level",
        example = "local",
        pattern = "^(local|quorum|all)$",
        required = false
    )]
    level: String,
    /// The longest wait for that, in milliseconds, at most 20000; 5000 if it is left out.
    #[param(
        rename = "tallymesh-wait-ms",
        example = "5000",
        pattern = "^[0-9]+$",
        required = false
    )]
    wait: String,
    /// The state on which the session depends, as the last answer returned it. The read waits until
    /// this node has it.
    #[param(rename = "tallymesh-token", required = false)]
    token: String,
}

/// A 64-bit integer in a request.
pub(super) struct Amount;

impl ToSchema for Amount {}

impl PartialSchema for Amount {
    fn schema() -> RefOr<Schema> {
        number(
            "A 64-bit integer, as a decimal string or as a number.",
            "^-?[0-9]+$",
            None,
            None,
        )
    }
}

/// An amount of a budget in a request.
pub(super) struct Quantity;

impl ToSchema for Quantity {}

impl PartialSchema for Quantity {
    fn schema() -> RefOr<Schema> {
        number(
            "A whole number from 0 to 2^63 - 1, as a decimal string or as a number.",
            "^[0-9]+$",
            Some(0),
            Some(AMOUNT_MAX),
        )
    }
}

/// The recipients of an operation on a budget.
pub(super) struct Recipients;

impl ToSchema for Recipients {}

impl PartialSchema for Recipients {
    fn schema() -> RefOr<Schema> {
        let one = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^([0-9A-Fa-f]{64}|[0-9a-f]{32})$"));
        let shares = ArrayBuilder::new().items(Ref::from_schema_name("ShareBody"));
        let either = OneOfBuilder::new().item(one).item(shares);
        let about = "Of a `grant` or `grant_room`: a member's key, or its present writer. Of a `transfer`: \
                     the budgets that are paid into.";
        either.description(Some(about)).into()
    }
}

/// Frames, each after its length.
pub(super) struct Frames;

impl ToSchema for Frames {}

impl PartialSchema for Frames {
    fn schema() -> RefOr<Schema> {
        let binary = SchemaFormat::KnownFormat(KnownFormat::Binary);
        let bytes = ObjectBuilder::new().schema_type(Type::String);
        bytes.format(Some(binary)).into()
    }
}

/// Milliseconds in a request.
pub(super) struct Millis;

impl ToSchema for Millis {}

impl PartialSchema for Millis {
    fn schema() -> RefOr<Schema> {
        number(
            "Milliseconds, as a decimal string or as a number.",
            "^[0-9]+$",
            Some(0),
            None,
        )
    }
}

fn number(about: &str, pattern: &str, minimum: Option<i32>, maximum: Option<u64>) -> RefOr<Schema> {
    let text = ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(pattern));
    let maximum = maximum.and_then(|it| usize::try_from(it).ok());
    let number = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(minimum)
        .maximum(maximum.map(utoipa::Number::UInt));
    let either = OneOfBuilder::new().item(text).item(number);
    either.description(Some(about)).into()
}

/// The amount to add.
#[derive(ToSchema)]
#[schema(example = json!({"by": "5"}))]
pub(super) struct AddBody {
    /// The amount, which may be negative; 1 if it is left out.
    #[schema(required = false)]
    by: Amount,
}

/// The value to set.
#[derive(ToSchema)]
#[schema(example = json!({"value": "10"}))]
pub(super) struct SetBody {
    /// The value.
    value: Amount,
}

/// When a counter is to expire: one of the two fields.
#[derive(ToSchema)]
#[schema(example = json!({"in_ms": "60000"}))]
pub(super) struct ExpireBody {
    /// The time, in milliseconds since 1970.
    #[schema(required = false)]
    at: Millis,
    /// The time from now, in milliseconds.
    #[schema(required = false)]
    in_ms: Millis,
}

/// An amount of a budget.
#[derive(ToSchema)]
#[schema(example = json!({"amount": "5"}))]
pub(super) struct AmountBody {
    /// The amount.
    amount: Quantity,
}

/// The amount to spend, and the lease that it is spent from.
#[derive(ToSchema)]
#[schema(example = json!({"amount": "5"}))]
pub(super) struct SpendBody {
    /// The amount.
    amount: Quantity,
    /// The lease that it is spent from, as 32 hex digits. If the lease has less left here, the
    /// remaining amount is spent from the rights of this node.
    #[schema(required = false, pattern = "^[0-9a-f]{32}$")]
    lease: String,
}

/// The number of rights to lease, and for how long.
#[derive(ToSchema)]
#[schema(example = json!({"amount": "5", "lease_ms": "60000"}))]
pub(super) struct LeaseBody {
    /// The number of rights.
    amount: Quantity,
    /// How long the holder may spend from them, from 1,000 (a second) to 2,592,000,000 (30 days).
    /// The holder counts this time from before its request. It stops when the time has passed by
    /// any of its clocks.
    lease_ms: Millis,
}

/// The amount that is allowed in a period, and the length of a period.
#[derive(ToSchema)]
#[schema(example = json!({"limit": "100", "period_ms": 60000, "wait_ms": 100}))]
pub(super) struct LimitBody {
    /// The amount, from 1 to 2^63 - 1.
    limit: Quantity,
    /// The length of a period, from 1,000 (a second) to 31,622,400,000 (366 days).
    period_ms: Quantity,
    /// How long to wait for the decision, at most 20,000; 10,000 if it is left out.
    #[schema(required = false)]
    wait_ms: Millis,
}

/// The amount to allow.
#[derive(ToSchema)]
#[schema(example = json!({"cost": "1"}))]
pub(super) struct CostBody {
    /// The amount; 1 if it is left out.
    #[schema(required = false)]
    cost: Quantity,
}

/// The recipient and the amount of a grant.
#[derive(ToSchema)]
#[schema(example = json!({"to": "0000000000000000000000000000000000000000000000000000000000000000", "amount": "5"}))]
pub(super) struct GrantBody {
    /// A member's key, or its present writer, as `tallymesh members` shows them.
    #[schema(pattern = "^([0-9A-Fa-f]{64}|[0-9a-f]{32})$")]
    to: String,
    /// The amount.
    amount: Quantity,
}

/// The budgets to pay into.
#[derive(ToSchema)]
#[schema(example = json!({"to": [{"key": "cashback", "amount": "5"}]}))]
pub(super) struct TransferBody {
    /// The budgets, and how much each gets.
    to: Vec<ShareBody>,
}

/// The share of one budget in a transfer.
#[derive(ToSchema)]
pub(super) struct ShareBody {
    /// The budget.
    key: String,
    /// How much it gets.
    amount: Quantity,
}

/// The counters to read.
#[derive(ToSchema)]
#[schema(example = json!({"keys": ["likes", "views"]}))]
pub(super) struct ReadBody {
    /// Their keys, at most 1,000.
    #[schema(max_items = 1000)]
    keys: Vec<String>,
}

/// Several operations, all or none.
#[derive(ToSchema)]
#[schema(example = json!({"ops": [{"op": "add", "key": "likes", "by": "1"}, {"op": "delete", "key": "views"}]}))]
pub(super) struct TransactionBody {
    /// The operations, in their order.
    ops: Vec<OperationBody>,
}

/// One operation of a transaction.
#[derive(ToSchema)]
#[schema(example = json!({"op": "add", "key": "likes", "by": "1"}))]
pub(super) struct OperationBody {
    /// The name of the operation.
    op: OperationName,
    /// The counter, the budget, the sequence or the key that a limit covers. For a `transfer`, it
    /// is the budget that is spent from.
    key: String,
    /// For an `add`: the amount; 1 if it is left out.
    #[schema(required = false)]
    by: Amount,
    /// For a `set`: the value.
    #[schema(required = false)]
    value: Amount,
    /// For an `expire`: the time, in milliseconds since 1970.
    #[schema(required = false)]
    at: Millis,
    /// For an `expire`: the time from now, in milliseconds.
    #[schema(required = false)]
    in_ms: Millis,
    /// For an operation on a budget, except a `transfer` and an `end_lease`: the amount.
    #[schema(required = false)]
    amount: Quantity,
    /// For an `allow`: the amount; 1 if it is left out.
    #[schema(required = false)]
    cost: Quantity,
    /// For a `grant`, `grant_room` or `transfer`: the recipient, or the budgets.
    #[schema(required = false)]
    to: Recipients,
    /// For a `lease` or `end_lease`: the lease's id, as 32 hex digits.
    #[schema(required = false, pattern = "^[0-9a-f]{32}$")]
    id: String,
    /// For a `lease`: how long the holder may spend from it, in milliseconds.
    #[schema(required = false)]
    lease_ms: Millis,
    /// For a `spend`: the lease that it is spent from, as 32 hex digits.
    #[schema(required = false, pattern = "^[0-9a-f]{32}$")]
    lease: String,
}

/// The name of an operation. Those from `mint` to `transfer` are for budgets, `next` is for
/// sequences, and `allow` for limits.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub(super) enum OperationName {
    Add,
    Set,
    Reset,
    Delete,
    Expire,
    Persist,
    Mint,
    Spend,
    Grant,
    GrantRoom,
    LowerFloor,
    RaiseFloor,
    RaiseCap,
    LowerCap,
    Lease,
    EndLease,
    Transfer,
    Next,
    Allow,
}

/// A change of the members.
#[derive(ToSchema)]
#[schema(example = json!({"owner": "1111111111111111111111111111111111111111111111111111111111111111", "wait_ms": 100}))]
pub(super) struct MemberBody {
    /// The owner's key, as `tallymesh id` shows it.
    #[schema(pattern = "^[0-9A-Fa-f]{64}$")]
    owner: String,
    /// How long to wait for the decision, at most 20,000; 10,000 if it is left out.
    #[schema(required = false)]
    wait_ms: Millis,
}

/// All members of the new configuration.
#[derive(ToSchema)]
#[schema(example = json!({"members": ["1111111111111111111111111111111111111111111111111111111111111111"]}))]
pub(super) struct ForceBody {
    /// Their owners' keys.
    members: Vec<String>,
}

/// The content of a ticket.
#[derive(ToSchema)]
#[schema(example = json!({"role": "writer", "spaces": ["default"]}))]
pub(super) struct TicketBody {
    /// The role of the holder.
    role: Role,
    /// Its spaces; `["*"]` for every space in which this node is a member.
    spaces: Vec<String>,
    /// How long it is valid; 0 for ever, 30 days if it is left out.
    #[schema(required = false)]
    expires_in_ms: Millis,
    /// The key of the only node that may use it, as `tallymesh id` shows it.
    #[schema(required = false, nullable = false, pattern = "^[0-9A-Fa-f]{64}$")]
    holder: Option<String>,
}

/// The writers that are gone for good: one of the two fields.
#[derive(ToSchema)]
#[schema(example = json!({"writer": "00000000000000000000000000000000", "wait_ms": 100}))]
pub(super) struct RetireBody {
    /// A writer, as `GET .../writers` shows it.
    #[schema(required = false, nullable = false, pattern = "^[0-9A-Fa-f]{32}$")]
    writer: Option<String>,
    /// An owner that is no member.
    #[schema(required = false, nullable = false, pattern = "^[0-9A-Fa-f]{64}$")]
    owner: Option<String>,
    /// How long to wait for the successor, at most 20,000; 10,000 if it is left out.
    #[schema(required = false)]
    wait_ms: Millis,
}
