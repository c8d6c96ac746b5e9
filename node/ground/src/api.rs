//! All calls on counters, budgets, sequences and limits, in one table of plain data.
//!
//! A call is one operation as clients request it. Its row has what every face has to know: its name,
//! its fields, its refusals, the role that it needs, and its names in each face. The faces take
//! these facts from the table, and add their own words:
//!
//! - HTTP takes the address and the role of each route, and OpenAPI the codes of its refusals.
//! - The command line takes the address of each request.
//! - The Redis protocol takes the role of each command.
//!
//! In each face, a test goes through the table. So a new call can't be forgotten in one of them.

mod table;
#[cfg(test)]
mod tests;

pub use table::*;

use crate::model::Role;

/// Most rows of one page of a list.
pub const PAGE_MAX: usize = 10_000;

/// Most counters that are read at once.
pub const READ_MANY_MAX: usize = 1_000;

/// Largest amount of a budget or a limit.
pub const AMOUNT_MAX: u64 = i64::MAX as u64;

/// The kind of thing that a call is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// Plain counters.
    Counters,
    /// Budgets and their leases.
    Budgets,
    /// Sequences of numbers.
    Sequences,
    /// Rate limits.
    Limits,
}

impl On {
    /// All kinds.
    pub const ALL: [On; 4] = [On::Counters, On::Budgets, On::Sequences, On::Limits];

    /// Its name: in addresses, in answers that list it, and in the description of HTTP.
    pub const fn name(self) -> &'static str {
        match self {
            On::Counters => "counters",
            On::Budgets => "budgets",
            On::Sequences => "sequences",
            On::Limits => "limits",
        }
    }
}

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `GET`.
    Get,
    /// `PUT`.
    Put,
    /// `POST`.
    Post,
    /// `DELETE`.
    Delete,
}

/// The options that a call takes beside its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Options {
    /// None.
    None,
    /// Those of a read: a level, and the token of a session.
    Read,
    /// Those of a write: these, and a wait for rights.
    Write,
}

impl Options {
    /// The codes with which any call with these options may be refused.
    pub const fn refusals(self) -> &'static [&'static str] {
        match self {
            Options::None => &[],
            Options::Read => &READING,
            Options::Write => &WRITING,
        }
    }
}

/// The codes with which any read of counters may be refused.
const READING: [&str; 6] = [
    "level",
    "level_not_reached",
    "millis",
    "no_members",
    "token",
    "token_not_reached",
];

/// The codes with which any write of counters may be refused.
const WRITING: [&str; 17] = [
    "beyond_role",
    "catching_up",
    "clock_exhausted",
    "counters_full",
    "expired",
    "key_length",
    "key_reserved",
    "level",
    "level_not_reached",
    "millis",
    "needs_centre",
    "no_members",
    "outdated",
    "retired",
    "token",
    "token_full",
    "wrong_kind",
];

/// Whether a call takes an idempotency key, under which it counts once (RIFL, Lee et al., 2015).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idempotency {
    /// It takes a key.
    UnderAKey,
    /// It takes no key, because each request has a result of its own. A request with a key is
    /// refused with this code.
    Never(&'static str),
    /// A key is not looked at, because the call changes nothing or is harmless to repeat.
    NotNeeded,
}

impl Idempotency {
    /// The codes with which a call may be refused because of its key.
    pub fn refusals(self) -> impl Iterator<Item = &'static str> {
        let (keyed, never): (&[&str], _) = match self {
            Idempotency::UnderAKey => (&KEYED, None),
            Idempotency::Never(code) => (&[], Some(code)),
            Idempotency::NotNeeded => (&[], None),
        };
        keyed.iter().copied().chain(never)
    }
}

/// The codes with which a call may be refused because of its idempotency key.
const KEYED: [&str; 5] = [
    "idempotency_key",
    "key_reused",
    "keyed_full",
    "keyed_too_large",
    "made_weaker",
];

/// The form of a field, with its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A name of 1 to this many bytes of UTF-8.
    Name(usize),
    /// A text.
    Text,
    /// A 64-bit integer.
    Integer,
    /// A whole number from 0 to [`AMOUNT_MAX`].
    Amount,
    /// A whole number from 1 to this one, in a query.
    Count(usize),
    /// Milliseconds.
    Millis,
    /// A lease's id.
    LeaseId,
    /// A number of a sequence.
    Number,
    /// A member's key, or its present writer.
    Recipient,
    /// Budgets, and how much each gets.
    Shares,
    /// At most this many keys.
    Keys(usize),
    /// Lines, each with a key and an integer. They are the whole body.
    Lines,
    /// Operations of a transaction. They are refused with the codes of the calls that they are.
    Operations,
}

impl Form {
    /// The codes with which a field that does not have this form is refused. Those of names and of
    /// operations depend on the call.
    pub const fn refusals(self) -> &'static [&'static str] {
        match self {
            Form::Name(_) | Form::Text | Form::Operations => &[],
            Form::Integer => &["amount"],
            Form::Amount | Form::Shares => &["amount", "amount_range"],
            Form::Count(_) => &["query"],
            Form::Millis => &["millis"],
            Form::LeaseId => &["lease_id"],
            Form::Number => &["number_range"],
            Form::Recipient => &["recipient"],
            Form::Keys(_) => &["too_many_keys"],
            Form::Lines => &["amount", "line"],
        }
    }
}

/// A field of a call: a part of the address or of the query, or a field of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its form, with its bounds.
    pub form: Form,
    /// Whether a call without it is refused.
    pub required: bool,
}

const fn required(name: &'static str, form: Form) -> Field {
    Field {
        name,
        form,
        required: true,
    }
}

const fn optional(name: &'static str, form: Form) -> Field {
    Field {
        name,
        form,
        required: false,
    }
}

/// One call.
#[derive(Debug)]
pub struct Call {
    /// Its name in the description of HTTP.
    pub name: &'static str,
    /// The kind of thing that it is about.
    pub on: On,
    /// The method and the path below the space, with `{name}` for fields; `None` for an operation
    /// of transactions alone.
    pub route: Option<(Method, &'static str)>,
    /// Its name as an operation of a transaction, if it can be one.
    pub op: Option<&'static str>,
    /// Its fields, those of the path first.
    pub fields: &'static [Field],
    /// The codes of refusals of its own, beside those of its fields and options.
    refusals: &'static [&'static str],
    /// The options that it takes.
    pub options: Options,
    /// Whether it takes an idempotency key.
    pub idempotency: Idempotency,
    /// The role that it needs. A call that changes anything needs more than the role reader.
    pub role: Role,
    /// The subcommands that make it.
    pub subcommands: &'static [&'static str],
    /// The Redis commands that make it.
    pub commands: &'static [&'static str],
}

impl Call {
    /// A read.
    const fn read(name: &'static str, on: On, path: &'static str) -> Call {
        Call {
            name,
            on,
            route: Some((Method::Get, path)),
            op: None,
            fields: &[],
            refusals: &[],
            options: Options::Read,
            idempotency: Idempotency::NotNeeded,
            role: Role::Reader,
            subcommands: &[],
            commands: &[],
        }
    }

    /// A write, for which the role writer is enough.
    const fn write(name: &'static str, on: On, method: Method, path: &'static str) -> Call {
        Call {
            route: Some((method, path)),
            options: Options::Write,
            idempotency: Idempotency::UnderAKey,
            role: Role::Writer,
            ..Call::read(name, on, path)
        }
    }

    /// A write to a budget that is an operation of transactions alone.
    const fn part(name: &'static str) -> Call {
        Call {
            route: None,
            ..Call::write(name, On::Budgets, Method::Post, "")
        }
        .op(name)
    }

    /// The same, by a `POST`, because it has a body.
    const fn posted(mut self) -> Call {
        if let Some((_, path)) = self.route {
            self.route = Some((Method::Post, path));
        }
        self
    }

    const fn needs(mut self, role: Role) -> Call {
        self.role = role;
        self
    }

    /// The same without options, for a call that is harmless to repeat.
    const fn without_options(mut self) -> Call {
        self.options = Options::None;
        self.idempotency = Idempotency::NotNeeded;
        self
    }

    /// The same, never under an idempotency key.
    const fn never_keyed(mut self, code: &'static str) -> Call {
        self.idempotency = Idempotency::Never(code);
        self
    }

    const fn op(mut self, op: &'static str) -> Call {
        self.op = Some(op);
        self
    }

    const fn fields(mut self, fields: &'static [Field]) -> Call {
        self.fields = fields;
        self
    }

    const fn refused(mut self, codes: &'static [&'static str]) -> Call {
        self.refusals = codes;
        self
    }

    const fn told(mut self, subcommands: &'static [&'static str]) -> Call {
        self.subcommands = subcommands;
        self
    }

    const fn redis(mut self, commands: &'static [&'static str]) -> Call {
        self.commands = commands;
        self
    }

    /// Its method.
    pub fn method(&self) -> Method {
        self.route.map_or(Method::Post, |(method, _)| method)
    }

    /// Its path below a space, with `{name}` for fields.
    pub fn below_space(&self) -> &'static str {
        self.route.map_or("transactions", |(_, path)| path)
    }

    /// Its whole path, with `{name}` for the space and for fields.
    pub fn path(&self) -> String {
        format!("/v1/spaces/{{space}}/{}", self.below_space())
    }

    /// The codes with which it may be refused. A code may occur twice.
    pub fn codes(&self) -> impl Iterator<Item = &'static str> {
        let takes_ops = self.fields.iter().any(|it| it.form == Form::Operations);
        let ops = TABLE.iter().filter(move |it| takes_ops && it.op.is_some());
        // In a transaction, the result of an operation on an absent counter says so.
        let of_ops = ops.flat_map(|it| it.own_codes());
        let of_ops = of_ops.filter(|code| *code != "absent");
        self.own_codes().chain(of_ops)
    }

    /// The codes without those of its operations.
    fn own_codes(&self) -> impl Iterator<Item = &'static str> {
        let of_fields = self.fields.iter().flat_map(|it| it.form.refusals());
        let own = self.refusals.iter().chain(self.options.refusals());
        let own = of_fields.chain(own).copied();
        own.chain(self.idempotency.refusals())
    }

    /// Whether a path below a space, in its parts, is this call's.
    fn is_at(&self, parts: &[&str]) -> bool {
        let mut own = self.below_space().split('/');
        let fits = |part: &&str| {
            own.next()
                .is_some_and(|own| own == *part || own.starts_with('{'))
        };
        parts.iter().all(fits) && own.next().is_none()
    }
}

/// The call with this name.
pub fn named(name: &str) -> Option<&'static Call> {
    TABLE.iter().copied().find(|it| it.name == name)
}

/// The role that an operation of a transaction needs. An unknown one needs the most.
pub fn role_of_op(op: &str) -> Role {
    let found = TABLE.iter().find(|it| it.op == Some(op));
    found.map_or(Role::Member, |it| it.role)
}

/// The role that a request other than a `GET` needs at this path below a space. Where there is no
/// call, it needs the most that a write of the same kind does.
pub fn role_at(parts: &[&str]) -> Role {
    let writes = || {
        let written = |it: &&&Call| !matches!(it.route, None | Some((Method::Get, _)));
        TABLE.iter().filter(written)
    };
    if let Some(call) = writes().find(|it| it.is_at(parts)) {
        return call.role;
    }
    let on = On::ALL.iter().find(|on| parts.first() == Some(&on.name()));
    let most = on.and_then(|on| writes().filter(|it| it.on == *on).map(|it| it.role).max());
    most.unwrap_or(Role::Member)
}

/// The role that a Redis command needs which makes a call. A command that is not in the table does
/// not compile.
pub const fn role_of_command(name: &str) -> Role {
    let mut at = 0;
    while at < TABLE.len() {
        let commands = TABLE[at].commands;
        let mut of = 0;
        while of < commands.len() {
            if is_same(commands[of], name) {
                return TABLE[at].role;
            }
            of += 1;
        }
        at += 1;
    }
    panic!("no call has this command");
}

const fn is_same(one: &str, two: &str) -> bool {
    let (one, two) = (one.as_bytes(), two.as_bytes());
    let mut at = 0;
    while at < one.len() && at < two.len() && one[at] == two[at] {
        at += 1;
    }
    at == one.len() && at == two.len()
}
