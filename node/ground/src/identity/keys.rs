//! Ed25519 with strict rules: only keys that have a secret half, and only signatures that the
//! secret half alone can make.
//!
//! RFC 8032 leaves some cases open, which Chalkias, Garillot and Nikolaenko describe in "Taming the
//! many EdDSAs" (2020). A key of small order has signatures that anyone can make. A point has
//! encodings beside its own, and a signature may have a second spelling. This module refuses all of
//! these.

use ed25519_dalek::{Signature, VerifyingKey};

/// Whether this is a public key that can have a secret half. It must be the one encoding of a point
/// of the curve, and not of small order.
pub(crate) fn is_sound(key: &[u8; 32]) -> bool {
    sound(key).is_some()
}

fn sound(key: &[u8; 32]) -> Option<VerifyingKey> {
    let parsed = VerifyingKey::from_bytes(key).ok()?;
    let is_canonical = parsed.to_edwards().compress().to_bytes() == *key;
    (is_canonical && !parsed.is_weak()).then_some(parsed)
}

/// Whether this signature of a message was made with the secret half of a key.
pub fn is_signed_by(key: &[u8; 32], message: &[u8], signature: &[u8]) -> bool {
    let signature = Signature::from_slice(signature);
    match (sound(key), signature) {
        (Some(key), Ok(signature)) => key.verify_strict(message, &signature).is_ok(),
        _ => false,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::identity::Identity;
    use ed25519_dalek::Verifier;

    /// Encodings of points of small order, canonical and not, and encodings of no point.
    pub(crate) const UNSOUND: [&str; 12] = [
        "0100000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000080",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000080",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "0200000000000000000000000000000000000000000000000000000000000000",
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    ];

    /// The bytes of hex digits.
    fn bytes<const N: usize>(digits: &str) -> [u8; N] {
        std::array::from_fn(|at| {
            u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("hex digits")
        })
    }

    #[test]
    fn keys_that_nobody_has_sign_nothing() {
        let mut nothing = [0; 64];
        nothing[0] = 1; // The neutral point, and 0.
        for digits in UNSOUND {
            let key = bytes(digits);
            assert!(!is_sound(&key), "{digits}");
            for message in [&b"a"[..], b"b", b"c", b"d", b"e", b"f", b"g", b"h"] {
                assert!(!is_signed_by(&key, message, &nothing), "{digits}");
            }
        }
    }

    #[test]
    fn a_signature_has_one_spelling() {
        let identity = Identity::from_secret([3; 32]);
        let key = identity.public_key();
        let signature = identity.sign(b"a").expect("signed");
        assert!(is_sound(&key) && is_signed_by(&key, b"a", &signature));
        assert!(!is_signed_by(&key, b"b", &signature));
        assert!(!is_signed_by(&key, b"a", &signature[..63]));
        // The order of the base point, added to the second half, gives the same number modulo it.
        let order: [u8; 32] =
            bytes("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
        let mut again = signature.clone();
        let mut carry = 0;
        for (byte, add) in again[32..].iter_mut().zip(order) {
            let sum = u16::from(*byte) + u16::from(add) + carry;
            (*byte, carry) = (sum.to_le_bytes()[0], sum >> 8);
        }
        assert!(again != signature && !is_signed_by(&key, b"a", &again));
        // The neutral point is the first half, and the second half belongs to it. The equation of
        // the signature holds, which is all that lax verification checks.
        let second = "f4175667f19a5e5a43ca329bfd094a041328a48f9cacafca1ae86bb0cf7aee0a";
        let small = [bytes::<32>(UNSOUND[0]), bytes(second)].concat();
        let parsed = Signature::from_slice(&small).expect("64 bytes");
        let lax = VerifyingKey::from_bytes(&key).map(|key| key.verify(b"a", &parsed).is_ok());
        assert!(lax.is_ok_and(|it| it), "it proves nothing");
        assert!(!is_signed_by(&key, b"a", &small));
    }
}
