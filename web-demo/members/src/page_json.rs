//! What the page is told, as JSON. Amounts are decimal strings in it, and members are their places.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use tallymesh_core::{Reached, Sequence, WriterId};

use crate::deeds::{Event, Outcome};
use crate::world::{Member, World};

/// Where the type of a frame stands in it; docs/protocol.md, section 2.
const TYPE_AT: usize = 3;

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

/// Members of an object, of which the values are JSON.
fn object(fields: impl Iterator<Item = (String, String)>) -> String {
    let fields = fields.map(|(name, value)| format!("{}:{value}", quoted(&name)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for it in text.chars() {
        match it {
            '"' | '\\' => quoted.extend(['\\', it]),
            it if it < ' ' => quoted += &format!("\\u{:04x}", u32::from(it)),
            it => quoted.push(it),
        }
    }
    quoted + "\""
}

pub(crate) fn flights(world: &World) -> String {
    list(world.flights.iter().map(|it| {
        format!(
            r#"{{"id":{},"from":{},"to":{},"type":{},"bytes":{},"sent":{},"arrives":{},"lost":{}}}"#,
            it.id,
            it.from,
            it.to,
            it.bytes.get(TYPE_AT).copied().unwrap_or_default(),
            it.bytes.len(),
            it.sent,
            it.arrives,
            it.lost
        )
    }))
}

pub(crate) fn state(world: &World) -> String {
    let found = &world.found;
    let lowest = found.lowest.iter();
    let lowest = object(lowest.map(|(name, it)| (name.clone(), format!(r#""{it}""#))));
    let sums = list(found.sums.iter().map(|it| format!(r#""{it}""#)));
    let issued = found.issued.iter();
    let issued = list(issued.map(|(number, at)| format!(r#"{{"number":"{number}","at":{at}}}"#)));
    format!(
        r#"{{"members":{},"events":{},"eventsBefore":{},"found":{{"views":{},"lowest":{lowest},"sums":{sums},"astray":{},"issued":{issued},"twice":{},"faults":{}}}}}"#,
        list(world.members.iter().map(|it| member(world, it))),
        list(world.events.iter().map(event)),
        world.events_before,
        found.views,
        found.astray,
        found.twice,
        found.faults,
    )
}

fn member(world: &World, member: &Member) -> String {
    let replica = &member.replica;
    let (mut budgets, mut sequences) = (Vec::new(), Vec::new());
    replica
        .quota()
        .each_budget(&mut |name| budgets.push(String::from(name)));
    replica
        .quota()
        .each_sequence(&mut |name| sequences.push(String::from(name)));
    let budgets = budgets.into_iter().map(|name| {
        let told = budget(world, member, &name);
        (name, told)
    });
    let sequences = sequences.into_iter().filter_map(|name| {
        let told = sequence(world, &replica.quota().sequence(&name)?);
        Some((name, told))
    });
    let waiting = member.waiting.iter().map(|it| {
        let (name, amount) = it.deed.takes();
        format!(r#"{{"name":{},"amount":"{amount}"}}"#, quoted(name))
    });
    format!(
        r#"{{"budgets":{},"sequences":{},"waiting":{}}}"#,
        object(budgets),
        object(sequences),
        list(waiting)
    )
}

/// Where a writer's member stands; `null` of a writer that nobody is any more.
fn place(world: &World, writer: WriterId) -> String {
    let mut members = world.members.iter();
    let at = members.position(|it| it.replica.writer() == writer);
    at.map_or("null".into(), |at| at.to_string())
}

fn budget(world: &World, member: &Member, name: &str) -> String {
    let value = member.replica.quota().budget(name).map_or(0, |it| it.value);
    let holders = member.replica.quota().holders_of(name);
    let held = world.members.iter().map(|it| {
        let writer = it.replica.writer();
        let holder = holders.iter().find(|it| it.writer == writer);
        format!(r#""{}""#, holder.map_or(0, |it| it.rights))
    });
    format!(r#"{{"value":"{value}","held":{}}}"#, list(held))
}

fn sequence(world: &World, known: &Sequence) -> String {
    let held = known.held.iter().map(|(range, writer)| {
        let at = place(world, *writer);
        format!(
            r#"{{"from":"{}","to":"{}","at":{at}}}"#,
            range.start,
            range.end.saturating_sub(1)
        )
    });
    let watched = known.watched.iter().map(|it| {
        let (state, by, below) = match it.reached {
            Reached::NotYet => ("open", "null".into(), 0),
            Reached::HandedOut { by, below } => ("handed_out", place(world, by), below),
            Reached::Passed => ("passed", "null".into(), 0),
            Reached::Lost => ("lost", "null".into(), 0),
        };
        format!(
            r#"{{"number":"{}","state":"{state}","by":{by},"below":"{below}"}}"#,
            it.number
        )
    });
    format!(
        r#"{{"next":"{}","issued":"{}","held":{},"watched":{}}}"#,
        known.next,
        known.issued,
        list(held),
        list(watched)
    )
}

fn event(event: &Event) -> String {
    let (name, amount) = event.deed.takes();
    let outcome = match &event.outcome {
        Outcome::Spent => r#""what":"spent""#.into(),
        Outcome::Transferred => r#""what":"transferred""#.into(),
        Outcome::HandedOut { number, watched } => {
            format!(r#""what":"handed_out","number":"{number}","watched":{watched}"#)
        }
        Outcome::RightsShort(held) => format!(
            r#""what":"rights_short","here":"{}","elsewhere":"{}""#,
            held.here, held.elsewhere
        ),
        Outcome::NumbersShort => r#""what":"numbers_short""#.into(),
    };
    format!(
        r#"{{"at":{},"now":{},"name":{},"amount":"{amount}",{outcome}}}"#,
        event.at,
        event.now,
        quoted(name)
    )
}
