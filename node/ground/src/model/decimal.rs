//! Numbers of 64 bits and more in JSON. They are decimal strings, because numbers of JavaScript are
//! exact only up to 2^53.

use serde::Serializer;
use std::fmt::Display;
use utoipa::PartialSchema;
use utoipa::ToSchema;
use utoipa::openapi::ObjectBuilder;
use utoipa::openapi::RefOr;
use utoipa::openapi::Schema;
use utoipa::openapi::Type;

/// The JSON form of a number of 64 bits and more.
pub struct Decimal;

impl ToSchema for Decimal {}

impl PartialSchema for Decimal {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("A whole number as a decimal string."))
            .pattern(Some("^-?[0-9]+$"))
            .examples(["12"])
            .into()
    }
}

/// Writes a digest as hex digits.
pub(crate) fn hex_digits<S: Serializer>(
    digest: &[u8; 16],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{:032x}", u128::from_be_bytes(*digest)))
}

/// Writes a number as a decimal string.
pub fn decimal<S: Serializer>(number: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

/// Writes a number, if there is one, as a decimal text.
pub fn decimal_if_any<S: Serializer>(
    number: &Option<impl Display>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) => decimal(number, serializer),
        None => serializer.serialize_none(),
    }
}
