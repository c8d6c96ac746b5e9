//! JSON in which no object has a field twice.
//!
//! If a field occurs twice, parsers use the first, the last or neither (RFC 8259, section 4). So a
//! proxy and a node could read different amounts in the same body. This parser refuses both.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// A JSON value whose objects have each field once.
pub(super) struct Unique(pub(super) Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Unique, D::Error> {
        from.deserialize_any(Values).map(Unique)
    }
}

struct Values;

impl<'de> Visitor<'de> for Values {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            if object.contains_key(&name) {
                let name = tallymesh_node_ground::escape::value(&name);
                return Err(A::Error::custom(format!(
                    "the field `{name}` is there twice"
                )));
            }
            let Unique(value) = fields.next_value()?;
            object.insert(name, value);
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_that_the_parser_makes_if_no_field_is_there_twice() {
        for text in [
            "null",
            "true",
            "-9223372036854775808",
            "18446744073709551615",
            "1.5e300",
            "\"a\\u0000\\\"\"",
            "[]",
            "{}",
            "[1,[2,{\"a\":{\"a\":[{\"a\":1},{\"a\":2}]},\"b\":null}]]",
        ] {
            let Unique(value) = serde_json::from_str(text).expect(text);
            assert_eq!(value, serde_json::from_str::<Value>(text).expect(text));
        }
        for text in ["", "{", "{\"a\":}", "[1,]", "1 2", "nan"] {
            assert!(serde_json::from_str::<Unique>(text).is_err(), "{text}");
        }
        for text in [
            "{\"a\":1,\"a\":1}",
            "{\"a\":1,\"\\u0061\":2}",
            "[{\"b\":{\"a\":1,\"c\":2,\"a\":null}}]",
        ] {
            let error = serde_json::from_str::<Unique>(text).err().expect(text);
            let told = error.to_string();
            assert!(told.contains("the field `a` is there twice"), "{told}");
        }
    }
}
