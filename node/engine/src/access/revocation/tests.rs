//! Revocations with the content that was signed, and invalid ones.

use super::*;
use serde_json::{Value, json};

const NOW: u64 = 1_800_000_000;

fn identity(byte: u8) -> Identity {
    Identity::from_secret([byte; 32])
}

fn key(byte: u8) -> OwnerKey {
    OwnerKey(identity(byte).public_key())
}

fn spaces(count: usize) -> Vec<Space> {
    let space = |number| Space::new(&format!("{number:064}")).expect("a name");
    (0..count).map(space).collect()
}

fn a_revocation() -> Revocation {
    Revocation {
        id: TicketId::new([7; 16]),
        issuer: key(1),
        spaces: None,
        issued: NOW,
        expires: Some(NOW + 3600),
    }
}

/// A token with these claims, signed by the first key.
fn token(typ: &str, claims: &Value) -> String {
    let _ = PROVIDER.install_default();
    let header = Header {
        typ: Some(typ.into()),
        ..Header::new(Algorithm::EdDSA)
    };
    let key = EncodingKey::from_ed_der(&identity(1).secret());
    jsonwebtoken::encode(&header, claims, &key).expect("signed")
}

#[test]
fn a_statement_says_what_was_signed_and_fits_a_key() {
    for named in [None, Some(spaces(1)), Some(spaces(3))] {
        for expires in [None, Some(u64::MAX)] {
            let revocation = Revocation {
                spaces: named.clone(),
                expires,
                ..a_revocation()
            };
            let statements = revocation.sign(&identity(1));
            let mut told = Vec::new();
            for (statement, part) in &statements {
                assert!(format!("{KEY}{statement}").len() <= KEY_BYTES_MAX);
                assert_eq!(Revocation::read(statement).as_ref(), Some(part));
                assert_eq!((part.id, part.expires), (revocation.id, expires));
                told.extend(part.spaces.clone().unwrap_or_default());
            }
            assert_eq!(told, named.clone().unwrap_or_default());
            assert!(!statements.is_empty());
        }
    }
    let short = ["a", "b", "c"].map(|name| Space::new(name).expect("a name"));
    let several = Revocation {
        spaces: Some(short.to_vec()),
        ..a_revocation()
    };
    assert_eq!(several.sign(&identity(1)).len(), 1, "these fit one");
    assert!(several.covers(&short[2]) && !several.covers(&Space::default()));
    assert!(a_revocation().covers(&Space::default()));
}

#[test]
fn nothing_in_it_can_be_changed() {
    let (statement, _) = a_revocation().sign(&identity(1)).remove(0);
    assert!(Revocation::read(&statement).is_some());
    for at in 0..statement.len() {
        let mut bytes = statement.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).expect("ASCII");
        assert_eq!(Revocation::read(&changed), None, "{at}");
    }
}

#[test]
fn what_is_no_revocation_is_passed_over() {
    let good = json!({
        "jti": "07070707070707070707070707070707",
        "iss": key(1).to_string(), "spaces": ["*"], "iat": NOW,
    });
    assert!(Revocation::read(&token(TYPE, &good)).is_some());
    for typ in ["JWT", "tallymesh-ticket+jwt"] {
        assert_eq!(Revocation::read(&token(typ, &good)), None, "{typ}");
    }
    let table = [
        ("jti", json!("7")),
        ("iss", json!("somebody")),
        ("iss", json!(key(2).to_string())),
        ("spaces", json!([])),
        ("spaces", json!(["a b"])),
        ("spaces", json!(["a", "*"])),
        ("iat", json!(-1)),
        ("exp", json!("soon")),
        ("role", json!("member")),
    ];
    for (name, value) in table {
        let mut claims = good.clone();
        claims[name] = value;
        assert_eq!(Revocation::read(&token(TYPE, &claims)), None, "{claims}");
    }
    for text in ["", ".", "..", "a.b.c", "\u{fe}.\u{fe}.\u{fe}"] {
        assert_eq!(Revocation::read(text), None, "{text}");
    }
}

#[test]
fn it_is_over_when_the_ticket_has_ended_by_any_clock() {
    let of = |expires, now: u64| {
        let revocation = Revocation {
            expires,
            ..a_revocation()
        };
        revocation.is_over(now * 1000)
    };
    assert!(!of(Some(NOW), NOW + 119) && of(Some(NOW), NOW + 120));
    assert!(!of(None, u64::MAX / 1000) && !of(Some(u64::MAX), NOW));
}
