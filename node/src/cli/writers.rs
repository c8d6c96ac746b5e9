//! `tallymesh writers`: the version vector of a space.

use super::client::Client;
use super::failure::Failure;
use super::get::text;
use super::output::Output;

pub(super) fn run(client: &Client, output: &mut Output) -> Result<(), Failure> {
    let answer = client.get_in_space("writers")?;
    for row in answer["writers"].as_array().into_iter().flatten() {
        output.line(row, || {
            let own = match row["own"] == true {
                true => "\tthis node",
                false => "",
            };
            format!("{}\t{}{own}", text(&row["writer"]), text(&row["clock"]))
        })?;
    }
    Ok(())
}
