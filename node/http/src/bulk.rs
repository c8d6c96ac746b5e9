//! Many adds in one request, one a line, all or none.

use super::access::Serving;
use super::asking::{Answered, Asking};
use super::body::not_an_amount;
use super::problem::{Problem, Route};
use super::requests::{AskingOnce, AskingWrite, InSpace};
use super::rows::Answer;
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use serde::Serialize;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use tallymesh_core::bounds::KEY_BYTES_MAX;
use tallymesh_core::{Error, Op, WriteError};
use tallymesh_node_ground::api;
use tallymesh_node_ground::model::Sum;
use tallymesh_node_ground::problems;
use utoipa::ToSchema;

/// The result of a bulk request.
#[derive(Serialize, ToSchema)]
pub(super) struct Acknowledged {
    /// Lines that were added, without blank ones.
    lines: u64,
}

/// Adds to many counters, all or none
///
/// One add a line: `key`, `key n`, or, for keys with blanks, `key`, a tab, `n`.
#[utoipa::path(
    post, path = api::ADD_MANY.path(), operation_id = api::ADD_MANY.name, tag = "counters",
    params(InSpace, AskingOnce, AskingWrite),
    request_body(
        content = String, content_type = "text/plain",
        description = "The lines, at most 8 MiB.", example = "likes 5\nviews",
    ),
    responses((
        status = 200, description = "How many lines were added.", body = Acknowledged,
        example = json!({"lines": 2}),
    )),
)]
pub(super) async fn add(
    app: Serving,
    Route(space): Route<String>,
    asking: Asking,
    body: Result<Bytes, BytesRejection>,
) -> Answer<Acknowledged> {
    let (space, body) = (app.handle.space(&space)?, body?);
    let (lines, sums) = sums(&body)?;
    let answer = Json(Acknowledged { lines });
    if asking.is_plain() {
        if !sums.is_empty() {
            app.handle.add_many(space, sums).await?;
        }
        return Ok(Answered::plain(answer));
    }
    // A request that counts once, or has to reach others, is one transaction.
    let ops = sums
        .into_iter()
        .map(|sum| (sum.key, Op::Add(sum.by)).into());
    let done = asking.transact(&app, space, &body, ops.collect()).await?;
    Ok(done.map(|_| answer))
}

/// Reads all lines and sums them up for each key, in the order of the first occurrence of each key.
fn sums(body: &[u8]) -> Result<(u64, Vec<Sum>), Problem> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut sums: Vec<Sum> = Vec::new();
    let mut lines = 0;
    for (number, line) in (1..).zip(body.split(|byte| *byte == b'\n')) {
        let at_line = |problem: Problem| problem.line(number);
        let Some((key, by)) = parse(line).map_err(at_line)? else {
            continue;
        };
        lines += 1;
        match places.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(sums.len());
                sums.push(Sum {
                    key: key.to_owned(),
                    by,
                    line: number,
                });
            }
            Entry::Occupied(entry) => {
                let sum = &mut sums[*entry.get()];
                let total = sum.by;
                sum.by = total.checked_add(by).ok_or_else(|| {
                    let total = i128::from(total);
                    let overflow = Error::Write(WriteError::Overflow { total, by });
                    at_line(Problem::from(&overflow))
                })?;
                sum.line = number;
            }
        }
    }
    Ok((lines, sums))
}

/// Reads one line: `key`, `key n`, or, for keys with blanks, `key TAB n`. Returns `None` if it is
/// blank.
fn parse(line: &[u8]) -> Result<Option<(&str, i64)>, Problem> {
    let line = std::str::from_utf8(line)
        .map_err(|_| Problem::new(&problems::LINE, "the line is not UTF-8"))?;
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.trim().is_empty() {
        return Ok(None);
    }
    let (key, amount) = match line.rsplit_once('\t') {
        Some((key, amount)) => (key, amount.trim()),
        None => {
            let line = line.trim();
            let (key, amount) = line.split_once(' ').unwrap_or((line, ""));
            (key, amount.trim())
        }
    };
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        let error = Error::Write(WriteError::KeyLength { bytes: key.len() });
        return Err(Problem::from(&error));
    }
    match amount {
        "" => Ok(Some((key, 1))),
        text => match text.parse() {
            Ok(by) => Ok(Some((key, by))),
            Err(_) => Err(not_an_amount(text)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_summed_up_for_each_key() {
        let body = b"likes 5\nviews\r\n\nlikes -2\n a  7 \nwith blanks\t3\n";
        let (lines, sums) = sums(body).expect("valid");
        let shown: Vec<_> = sums
            .iter()
            .map(|sum| (sum.key.as_str(), sum.by, sum.line))
            .collect();
        assert_eq!(lines, 5);
        assert_eq!(
            shown,
            [
                ("likes", 3, 4),
                ("views", 1, 2),
                ("a", 7, 5),
                ("with blanks", 3, 6)
            ]
        );
    }

    #[test]
    fn a_refusal_names_its_line() {
        let long = format!("ok\n{}", "k".repeat(KEY_BYTES_MAX + 1));
        let table: [(&[u8], &str, u64); 6] = [
            (b"a 1\nb x\nc", "amount", 2),
            (b"a 1 2", "amount", 1),
            (b"a 1.5", "amount", 1),
            (b"a\n\n\xff", "line", 3),
            (b"a 9223372036854775807\na 1", "overflow", 2),
            (long.as_bytes(), "key_length", 2),
        ];
        for (body, code, line) in table {
            let shown = String::from_utf8_lossy(body);
            let problem = sums(body).expect_err(&shown);
            assert_eq!(
                (problem.code(), problem.at_line()),
                (code, Some(line)),
                "{shown}"
            );
        }
    }
}
