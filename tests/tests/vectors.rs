//! The golden vectors: code and files must be the same. `TALLYMESH_BLESS=1` rewrites the files.

use serde_json::{Value, json};
use std::path::PathBuf;
use tallymesh_core::wire::{AuditAnswer, AuditQuestion, Frame};
use tallymesh_core::{Encode, Error, Message, Space, Token, WriterId};
use tallymesh_tests::vectors::{
    Vector, answers, frames, messages, questions, refusals, stored, tokens,
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compares with a file under `vectors/`, or writes it.
fn golden(file: &str, value: &Value) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("vectors")
        .join(file);
    let text = serde_json::to_string_pretty(value).unwrap() + "\n";
    if std::env::var_os("TALLYMESH_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap();
    assert!(
        stored == text,
        "{} differs; if the change is meant, set TALLYMESH_BLESS=1.\nstored:\n{stored}\nnow:\n{text}",
        path.display()
    );
}

fn json_of(vectors: &[Vector]) -> Value {
    let entry = |vector: &Vector| {
        let mut entry = json!({
            "name": vector.name,
            "says": vector.says,
            "hex": hex(&vector.bytes),
        });
        if let Some(code) = vector.refused {
            entry["refused"] = json!(code);
        }
        entry
    };
    vectors.iter().map(entry).collect()
}

#[test]
fn messages_are_as_specified() {
    for vector in messages() {
        let message = Message::decode(&vector.bytes).expect(vector.name);
        assert_eq!(message.encode(), vector.bytes, "{}", vector.name);
    }
    golden("messages.json", &json_of(&messages()));
}

#[test]
fn records_of_stores_are_as_specified() {
    for vector in stored() {
        let message = Message::decode_stored(&vector.bytes).expect(vector.name);
        assert_eq!(message.encode_stored(), vector.bytes, "{}", vector.name);
    }
    golden("stored.json", &json_of(&stored()));
}

#[test]
fn tokens_are_as_specified() {
    let mut entries = Vec::new();
    for it in tokens() {
        let mut entry = json!({
            "name": it.name,
            "says": it.says,
            "text": it.text,
            "hex": hex(&it.bytes),
        });
        match it.text.parse::<Token>() {
            Ok(token) => assert_eq!(token.to_string(), it.text, "{}", it.name),
            Err(error) => entry["refused"] = json!(error.code()),
        }
        assert_eq!(entry.get("refused").is_some(), it.refused, "{}", it.name);
        entries.push(entry);
    }
    golden("tokens.json", &entries.into());
}

#[test]
fn frames_are_as_specified() {
    for vector in frames() {
        let frame = Frame::decode(&vector.bytes).expect(vector.name);
        assert_eq!(frame.encode(), vector.bytes, "{}", vector.name);
    }
    golden("frames.json", &json_of(&frames()));
}

#[test]
fn audits_are_as_specified() {
    let check = |vector: &Vector, again: Result<Vec<u8>, Error>| match again {
        Ok(bytes) => assert_eq!((bytes, None), (vector.bytes.clone(), vector.refused)),
        Err(error) => assert_eq!(Some(error.code()), vector.refused, "{}", vector.name),
    };
    for vector in questions() {
        let question = AuditQuestion::decode(&vector.bytes);
        check(&vector, question.map(|it| it.encode()));
    }
    for vector in answers() {
        let answer = AuditAnswer::decode(&vector.bytes);
        check(&vector, answer.map(|it| it.encode()));
    }
    let all = [questions(), answers()].concat();
    golden("audits.json", &json_of(&all));
}

#[test]
fn refusals_are_as_specified() {
    for vector in refusals() {
        let (name, bytes) = (vector.name, &vector.bytes[..]);
        let result: Result<(), Error> = if name.starts_with("message_") {
            Message::decode(bytes).map(|_| ())
        } else if name.starts_with("stored_") {
            Message::decode_stored(bytes).map(|_| ())
        } else {
            Frame::decode(bytes).map(|_| ())
        };
        let code = result.err().map(|error| error.code());
        assert_eq!(code, vector.refused, "{}", vector.name);
    }
    golden("refusals.json", &json_of(&refusals()));
}

#[test]
fn ids_are_as_specified() {
    let space = Space::default();
    let id = |key: u8, nonce: u8| {
        let id = WriterId::mint(&space, &[key; 32], &[nonce; 16]);
        json!({
            "space": space.as_str(),
            "owner_public_key": hex(&[key; 32]),
            "nonce": hex(&[nonce; 16]),
            "writer_id": id.to_string(),
        })
    };
    golden("writer_ids.json", &json!([id(0, 0), id(7, 1), id(7, 2)]));
}
