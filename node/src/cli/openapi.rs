//! `tallymesh openapi`: the description of the HTTP interface, for programs.

use super::failure::Failure;
use super::output::Output;
use crate::http::openapi::document;

pub(super) fn run(output: &mut Output) -> Result<(), Failure> {
    let document = document();
    output.line(&document, || format!("{document:#}"))
}
