//! `tallymesh openapi`: the description of the HTTP interface, for programs.

use super::failure::Failure;
use super::output::Output;
use tallymesh_node_server::node::http_description;

pub(super) fn run(output: &mut Output) -> Result<(), Failure> {
    let document = http_description();
    output.line(&document, || format!("{document:#}"))
}
