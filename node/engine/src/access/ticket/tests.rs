//! Valid tickets, and all ways in which one can be invalid.

use super::*;
use jsonwebtoken::encode;
use serde_json::{Value, json};

const NOW: u64 = 1_800_000_000;
const NOW_MS: u64 = NOW * 1000;

fn identity(byte: u8) -> Identity {
    Identity::from_secret([byte; 32])
}

fn key(byte: u8) -> OwnerKey {
    OwnerKey(identity(byte).public_key())
}

fn a_grant() -> Grant {
    Grant {
        id: TicketId::new([7; 16]),
        issuer: key(1),
        holder: Some(key(2)),
        role: Role::Editor,
        spaces: Some(vec![Space::default(), Space::new("shop").expect("a name")]),
        issued: NOW,
        expires: Some(NOW + 3600),
        nodes: vec!["/ip4/127.0.0.1/tcp/4001".parse().expect("an address")],
        knew: [(Space::new("shop").expect("a name"), (0, 7))].into(),
    }
}

/// A token with these claims, signed by the first key.
fn token(typ: &str, claims: &Value) -> String {
    install();
    let header = Header {
        typ: Some(typ.into()),
        ..Header::new(Algorithm::EdDSA)
    };
    let key = EncodingKey::from_ed_der(&identity(1).secret());
    encode(&header, claims, &key).expect("signed")
}

fn claims() -> Value {
    json!({
        "jti": "07070707070707070707070707070707",
        "iss": key(1).to_string(),
        "role": "writer",
        "spaces": ["default"],
        "iat": NOW,
    })
}

#[test]
fn a_ticket_says_what_was_signed() {
    for role in Role::ALL {
        for (holder, spaces, expires) in [
            (None, None, None),
            (Some(key(3)), a_grant().spaces, Some(NOW + 1)),
        ] {
            let grant = Grant {
                role,
                holder,
                spaces,
                expires,
                ..a_grant()
            };
            let ticket = grant.sign(&identity(1)).expect("fits");
            assert_eq!(Grant::read(&ticket, NOW_MS), Ok(grant.clone()));
            assert_eq!(Grant::read(&format!(" {ticket}\n"), NOW_MS), Ok(grant));
            assert_eq!(role.name().parse(), Ok(role));
        }
    }
    let every = Grant {
        spaces: None,
        ..a_grant()
    };
    assert!(every.covers("other") && a_grant().covers("shop") && !a_grant().covers("other"));
}

#[test]
fn a_time_is_right_within_the_skew_of_clocks() {
    let ticket = a_grant().sign(&identity(1)).expect("fits");
    let read = |now: u64| Grant::read(&ticket, now * 1000).map_err(|error| error.code());
    assert!(read(NOW - 60).is_ok() && read(NOW + 3659).is_ok());
    assert_eq!(read(NOW - 61), Err("ticket_early"));
    assert_eq!(read(NOW + 3660), Err("ticket_expired"));
    let error = Grant::read(&ticket, (NOW + 7200) * 1000).expect_err("ended");
    assert!(error.to_string().contains("1h ago"), "{error}");
}

#[test]
fn nothing_in_it_can_be_changed() {
    let ticket = a_grant().sign(&identity(1)).expect("fits");
    for at in 0..ticket.len() {
        let mut bytes = ticket.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).expect("ASCII");
        assert!(Grant::read(&changed, NOW_MS).is_err(), "{at}");
    }
    let mut stolen = claims();
    stolen["iss"] = key(2).to_string().into();
    let error = Grant::read(&token(TYPE, &stolen), NOW_MS).expect_err("not signed by that one");
    assert_eq!(error, TicketError::Signature { issuer: key(2) });
    assert_eq!(error.code(), "ticket_signature");
}

#[test]
fn what_is_no_ticket_is_refused() {
    assert!(Grant::read(&token(TYPE, &claims()), NOW_MS).is_ok());
    assert!(Grant::read(&token("JWT", &claims()), NOW_MS).is_err());
    let many = |name: &str, count: usize| json!({ name: vec!["a"; count] });
    let table = [
        ("jti", json!({ "jti": "7" })),
        ("jti", json!({ "jti": "+7070707070707070707070707070707" })),
        ("jti", json!({ "jti": "0707070707070707070707070707070A" })),
        ("iss", json!({ "iss": "somebody" })),
        ("sub", json!({ "sub": "somebody" })),
        ("role", json!({ "role": "owner" })),
        ("spaces", json!({ "spaces": [] })),
        ("spaces", json!({ "spaces": ["a b"] })),
        ("spaces", json!({ "spaces": ["a", "*"] })),
        ("spaces", many("spaces", SPACES_MAX + 1)),
        ("iat", json!({ "iat": -1 })),
        ("exp", json!({ "exp": "soon" })),
        ("nodes", json!({ "nodes": ["here"] })),
        ("nodes", many("nodes", NODES_MAX + 1)),
        ("unknown", json!({ "only_on": "Sundays" })),
    ];
    for (what, change) in table {
        let mut claims = claims();
        for (name, value) in change.as_object().into_iter().flatten() {
            claims[name] = value.clone();
        }
        let error = Grant::read(&token(TYPE, &claims), NOW_MS).expect_err(what);
        assert_eq!(error.code(), "ticket", "{what}: {error}");
    }
    for text in ["", ".", "..", "a.b.c", "\u{fe}.\u{fe}.\u{fe}"] {
        assert_eq!(
            Grant::read(text, NOW_MS).map_err(|it| it.code()),
            Err("ticket"),
            "{text}"
        );
    }
    let long = "a".repeat(TICKET_BYTES_MAX + 1);
    let error = Grant::read(&long, NOW_MS).expect_err("too long");
    assert_eq!(
        error,
        TicketError::TooLong {
            bytes: TICKET_BYTES_MAX + 1
        }
    );
}

#[test]
fn no_other_signature_passes_for_ours() {
    // {"typ":"tallymesh-ticket+jwt","alg":"none"}, and a token that names HMAC.
    let good = token(TYPE, &claims());
    let (_, rest) = good.split_once('.').expect("three parts");
    let (body, _) = rest.split_once('.').expect("three parts");
    for head in [
        "eyJ0eXAiOiJ0YWxseW1lc2gtdGlja2V0K2p3dCIsImFsZyI6Im5vbmUifQ",
        "eyJ0eXAiOiJ0YWxseW1lc2gtdGlja2V0K2p3dCIsImFsZyI6IkhTMjU2In0",
    ] {
        for signature in ["", "AAAA"] {
            let forged = format!("{head}.{body}.{signature}");
            let error = Grant::read(&forged, NOW_MS).expect_err("forged");
            assert_eq!(error.code(), "ticket", "{error}");
        }
    }
}

#[test]
fn a_grant_that_names_too_much_is_not_signed() {
    let space = |number: usize| Space::new(&format!("{number:064}")).expect("a name");
    let spaces = |count: usize| Some((0..count).map(space).collect::<Vec<_>>());
    let sign = |spaces, nodes| {
        Grant {
            spaces,
            nodes,
            ..a_grant()
        }
        .sign(&identity(1))
    };
    assert!(sign(spaces(SPACES_MAX), Vec::new()).is_ok());
    assert!(sign(spaces(SPACES_MAX + 1), Vec::new()).is_err());
    let node: Address = "/ip4/127.0.0.1/tcp/4001".parse().expect("an address");
    assert!(sign(None, vec![node.clone(); NODES_MAX]).is_ok());
    assert!(sign(None, vec![node; NODES_MAX + 1]).is_err());
}
