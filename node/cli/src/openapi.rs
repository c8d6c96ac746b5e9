//! `tallymesh openapi`: the description of the HTTP interface, for programs.

use super::failure::Failure;
use super::output::Output;
use super::whole_node::WholeNode;

pub(super) fn run(output: &mut Output, whole: &WholeNode) -> Result<(), Failure> {
    let document = (whole.http_description)();
    output.line(&document, || format!("{document:#}"))
}
