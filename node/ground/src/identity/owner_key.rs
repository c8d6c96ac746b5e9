//! The public key of an owner, as people and programs name it.

use crate::identity::keys;
use serde::{Serialize, Serializer};
use std::fmt;
use tallymesh_core::Owner;
use utoipa::ToSchema;

/// An owner's key as 64 hex digits, the way it is typed and shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ToSchema)]
#[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
pub struct OwnerKey(pub Owner);

impl OwnerKey {
    /// Reads a key of 64 hex digits, of either case, that can have a secret half.
    pub fn parse(text: &str) -> Option<OwnerKey> {
        OwnerKey::digits(text).filter(|key| keys::is_sound(&key.0))
    }

    /// Reads 64 hex digits, of either case, without a check of the key. It is for text that earlier
    /// versions stored before they checked keys.
    pub fn digits(text: &str) -> Option<OwnerKey> {
        let digits = text.as_bytes();
        if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let mut owner = [0; 32];
        for (byte, pair) in owner.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).ok()?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        Some(OwnerKey(owner))
    }
}

impl fmt::Display for OwnerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for OwnerKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_64_hex_digits() {
        let text = "00ff".repeat(16);
        let key = OwnerKey::digits(&text).expect("valid");
        assert_eq!(key.to_string(), text);
        assert_eq!(OwnerKey::digits(&text.to_uppercase()), Some(key));
        for wrong in ["", "00", &"+f".repeat(32), &"ä".repeat(32), &text[1..]] {
            assert_eq!(OwnerKey::digits(wrong), None, "{wrong}");
        }
        let sound = "11".repeat(32);
        assert!(OwnerKey::parse(&sound).is_some());
        for weak in crate::identity::keys::tests::UNSOUND {
            assert!(OwnerKey::digits(weak).is_some());
            assert_eq!(OwnerKey::parse(weak), None, "{weak}");
        }
    }
}
