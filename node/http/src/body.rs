//! Bodies of requests: JSON objects without unknown fields.

mod unique;

use super::problem::Problem;
use axum::body::{Bytes, HttpBody};
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request};
use serde_json::{Map, Value};
use std::convert::Infallible;
use tallymesh_node_ground::api::AMOUNT_MAX;
use tallymesh_node_ground::problems;
use unique::Unique;

/// A request's body. Most adds have an empty one, which needs no collecting.
pub(super) struct Content(pub(super) Result<Bytes, BytesRejection>);

impl<S: Send + Sync> FromRequest<S> for Content {
    type Rejection = Infallible;

    async fn from_request(request: Request, state: &S) -> Result<Content, Infallible> {
        let body = match request.body().is_end_stream() {
            true => Ok(Bytes::new()),
            false => Bytes::from_request(request, state).await,
        };
        Ok(Content(body))
    }
}

/// The fields of a JSON object, which are removed one by one.
pub(super) struct Fields {
    fields: Map<String, Value>,
    /// The form to send, for an error.
    advice: &'static str,
}

impl Fields {
    /// Reads a body. A body of blanks only has no fields.
    pub(super) fn parse(body: &[u8], advice: &'static str) -> Result<Fields, Problem> {
        if body.iter().all(u8::is_ascii_whitespace) {
            let fields = Map::new();
            return Ok(Fields { fields, advice });
        }
        match serde_json::from_slice(body) {
            Ok(Unique(value)) => Fields::of(value, advice),
            Err(error) => Err(invalid(&error.to_string(), advice)),
        }
    }

    /// Reads a JSON value as an object.
    pub(super) fn of(value: Value, advice: &'static str) -> Result<Fields, Problem> {
        match value {
            Value::Object(fields) => Ok(Fields { fields, advice }),
            _ => Err(invalid("this is no JSON object", advice)),
        }
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        self.fields.remove(name)
    }

    /// A required field.
    pub(super) fn required<T>(&self, name: &str, field: Option<T>) -> Result<T, Problem> {
        field.ok_or_else(|| invalid(&format!("there is no field `{name}`"), self.advice))
    }

    /// A text.
    pub(super) fn text(&mut self, name: &str) -> Result<String, Problem> {
        match self.take(name) {
            Some(Value::String(text)) => Ok(text),
            None => self.required(name, None),
            Some(_) => Err(invalid(
                &format!("the field `{name}` is no text"),
                self.advice,
            )),
        }
    }

    /// An optional text.
    pub(super) fn text_if_any(&mut self, name: &str) -> Result<Option<String>, Problem> {
        match self.fields.contains_key(name) {
            true => self.text(name).map(Some),
            false => Ok(None),
        }
    }

    /// A list.
    pub(super) fn list(&mut self, name: &str) -> Result<Vec<Value>, Problem> {
        match self.take(name) {
            Some(Value::Array(list)) => Ok(list),
            None => self.required(name, None),
            Some(_) => Err(invalid(
                &format!("the field `{name}` is no list"),
                self.advice,
            )),
        }
    }

    /// A 64-bit integer, as a number or as a decimal string.
    pub(super) fn amount(&mut self, name: &str) -> Result<Option<i64>, Problem> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => {
                let amount = integer(&text).and_then(|it| it.parse().ok());
                Ok(Some(amount.ok_or_else(|| not_an_amount(&text))?))
            }
            Some(other) => match other.as_i64() {
                Some(amount) => Ok(Some(amount)),
                None => Err(not_an_amount(&other.to_string())),
            },
        }
    }

    /// An amount of a budget or a limit, from 0 on, as a number or as a decimal string.
    pub(super) fn quantity(&mut self, name: &str) -> Result<u64, Problem> {
        let field = self.take(name);
        let text = match self.required(name, field)? {
            Value::String(text) => text,
            other => other.to_string(),
        };
        match integer(&text).and_then(|it| it.parse::<i128>().ok()) {
            Some(0) if digits(&text).is_none() => Err(not_an_amount(&text)),
            None => Err(not_an_amount(&text)),
            Some(amount) => u64::try_from(amount)
                .ok()
                .filter(|amount| *amount <= AMOUNT_MAX)
                .ok_or_else(|| {
                    let detail =
                        format!("`{name}` is {amount}, and an amount is 0 to {AMOUNT_MAX}");
                    Problem::new(&problems::AMOUNT_RANGE, detail)
                }),
        }
    }

    /// As [`quantity`](Fields::quantity), for an optional field.
    pub(super) fn quantity_if_any(&mut self, name: &str) -> Result<Option<u64>, Problem> {
        match self.fields.contains_key(name) {
            true => self.quantity(name).map(Some),
            false => Ok(None),
        }
    }

    /// A number of milliseconds, as a number or as a decimal string.
    pub(super) fn millis(&mut self, name: &str) -> Result<Option<u64>, Problem> {
        let wrong = |text: &str| {
            let shown: String = text.chars().take(40).collect();
            let detail = format!(
                "`{name}` is `{shown}` and must be a whole number of milliseconds from 0 on"
            );
            Problem::new(&problems::MILLIS, detail)
        };
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => {
                let millis = digits(&text).and_then(|it| it.parse().ok());
                Ok(Some(millis.ok_or_else(|| wrong(&text))?))
            }
            Some(other) => match other.as_u64() {
                Some(millis) => Ok(Some(millis)),
                None => Err(wrong(&other.to_string())),
            },
        }
    }

    /// Refuses the fields that are left, because they are unknown.
    pub(super) fn end(self) -> Result<(), Problem> {
        match self.fields.keys().next() {
            None => Ok(()),
            Some(field) => {
                let shown: String = field.chars().take(40).collect();
                let problem = format!("the field `{shown}` is not known here");
                Err(invalid(&problem, self.advice))
            }
        }
    }

    /// The problem with the fields as a whole.
    pub(super) fn invalid(&self, problem: &str) -> Problem {
        invalid(problem, self.advice)
    }
}

/// A text of decimal digits only. Rust's parsers also take a plus sign, which the description of
/// this interface excludes.
pub(super) fn digits(text: &str) -> Option<&str> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(text)
}

/// The same with a minus sign, perhaps.
fn integer(text: &str) -> Option<&str> {
    digits(text.strip_prefix('-').unwrap_or(text)).map(|_| text)
}

fn invalid(problem: &str, advice: &str) -> Problem {
    Problem::new(&problems::BODY, format!("{problem}; send {advice}"))
}

/// The problem of a text that is no amount.
pub(super) fn not_an_amount(text: &str) -> Problem {
    let shown: String = text.chars().take(40).collect();
    let detail = format!("`{shown}` is no integer from {} to {}", i64::MIN, i64::MAX);
    Problem::new(&problems::AMOUNT, detail)
}
