//! `tallymesh writers`: the version vector of a space.

use super::client::Client;
use super::failure::Failure;
use super::output::{Output, text};
use serde_json::Value;
use tallymesh_node_ground::escape;

pub(super) fn run(client: &Client, output: &mut Output) -> Result<(), Failure> {
    let answer = client.get_in_space("writers")?;
    for row in answer["writers"].as_array().into_iter().flatten() {
        output.line(row, || {
            let own = match row["own"] == true {
                true => "\tthis node",
                false => "",
            };
            let fate = match row["fate"].as_str() {
                Some(fate) => format!("\t{}{}", escape::value(fate), belongs(row)),
                None => String::new(),
            };
            let (writer, clock) = (text(&row["writer"]), text(&row["clock"]));
            format!("{writer}\t{clock}{own}{fate}")
        })?;
    }
    Ok(())
}

/// The member that a writer belongs to, in a space with members.
fn belongs(row: &Value) -> String {
    let one = |name: &str, field: &str| {
        let value = row[field].as_str();
        value.map(|value| format!(", {name} {}", escape::value(value)))
    };
    let parts = [("member", "owner"), ("home", "home"), ("heir", "heir")];
    parts
        .iter()
        .filter_map(|(name, field)| one(name, field))
        .collect()
}
