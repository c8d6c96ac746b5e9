//! The stored tickets, over a restart, and within bounds.

use super::*;
use std::fs;
use tallymesh_node_ground::identity::Identity;

const NOW: u64 = 1_800_000_000;
const DAY: u64 = 24 * 60 * 60;

fn identity(byte: u8) -> Identity {
    Identity::from_secret([byte; 32])
}

fn space(name: &str) -> Space {
    Space::new(name).expect("a name")
}

fn id(number: u128) -> TicketId {
    TicketId::new(number.to_be_bytes())
}

fn a_grant(number: u128) -> Grant {
    Grant {
        id: id(number),
        issuer: OwnerKey(identity(1).public_key()),
        holder: Some(OwnerKey(identity(2).public_key())),
        role: Role::Writer,
        spaces: Some(vec![Space::default(), space("shop")]),
        issued: NOW,
        expires: Some(NOW + DAY),
        nodes: Vec::new(),
        knew: Default::default(),
    }
}

fn a_revocation(number: u128, expires: Option<u64>, counts_in: &[&str]) -> Revoked {
    let revocation = Revocation {
        id: id(number),
        issuer: OwnerKey(identity(1).public_key()),
        spaces: None,
        issued: NOW,
        expires,
    };
    let (statement, revocation) = revocation.sign(&identity(1)).remove(0);
    Revoked {
        statement,
        revocation,
        spaces: counts_in.iter().map(|name| space(name)).collect(),
    }
}

#[test]
fn what_is_kept_outlives_a_restart_and_is_for_its_owner_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = Ledger::open(Some(folder.path())).expect("an empty one");
    let (issued, held) = (a_grant(1), a_grant(2));
    let ticket = held.sign(&identity(1)).expect("fits");
    ledger.note(&issued).expect("kept");
    ledger.hold(&format!(" {ticket}\n"), &held).expect("kept");
    let revoked = a_revocation(3, None, &["default"]);
    assert!(ledger.revoke(vec![revoked.clone()]).expect("kept"));
    assert!(!ledger.revoke(vec![revoked.clone()]).expect("known"));
    let more = a_revocation(3, None, &["shop"]);
    assert!(ledger.revoke(vec![more]).expect("kept"));

    for ledger in [&ledger, &Ledger::open(Some(folder.path())).expect("read")] {
        assert_eq!(ledger.issued(), [Issued::from(&issued)]);
        assert_eq!(ledger.held(), [(ticket.clone(), held.clone())]);
        assert!(ledger.is_revoked(id(3), "default") && ledger.is_revoked(id(3), "shop"));
        assert!(!ledger.is_revoked(id(3), "other") && !ledger.is_revoked(id(1), "default"));
        assert_eq!(ledger.revoked_in(id(3)), [space("default"), space("shop")]);
    }
    assert!(ledger.forget(held.id).expect("kept"));
    assert!(!ledger.forget(held.id).expect("nothing to do"));
    let again = Ledger::open(Some(folder.path())).expect("read");
    assert!(again.held().is_empty());
    let text = fs::read_to_string(folder.path().join(LEDGER_FILE)).expect("the file");
    assert!(
        !text.contains(&ticket),
        "a ticket that was forgotten is gone"
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let facts = fs::metadata(folder.path().join(LEDGER_FILE)).expect("the file");
        assert_eq!(facts.permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn a_file_that_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join(LEDGER_FILE);
    let code = |text: &str| {
        fs::write(&file, text).expect("written");
        let opened = Ledger::open(Some(folder.path()));
        opened.map(|_| ()).map_err(|error| error.code())
    };
    let empty = r#"{"version":1,"issued":[],"held":[],"revoked":[]}"#;
    assert_eq!(code(empty), Ok(()));
    assert_eq!(code(&empty.replace(":1", ":2")), Ok(()));
    assert_eq!(code(&empty.replace(":1", ":3")), Err("tickets_version"));
    for text in [
        "",
        "[nonsense",
        "{}",
        r#"{"version":1}"#,
        &empty.replace(r#""held":[]"#, r#""held":["x"]"#),
        &empty.replace(
            r#""revoked":[]"#,
            r#""revoked":[{"statement":"x","spaces":["default"]}]"#,
        ),
        &empty.replace("}", r#","more":1}"#),
    ] {
        assert_eq!(code(text), Err("tickets_damaged"), "{text}");
    }
    fs::remove_file(&file).expect("removed");
    fs::create_dir(&file).expect("a folder in its place");
    let error = Ledger::open(Some(folder.path())).expect_err("no file");
    assert_eq!(error.code(), "tickets_io");
}

#[test]
fn what_could_not_be_kept_is_not_given_away_but_stays_revoked() {
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = Ledger::open(Some(folder.path())).expect("an empty one");
    fs::create_dir(folder.path().join(LEDGER_FILE)).expect("a folder in its place");
    assert!(ledger.note(&a_grant(1)).is_err() && ledger.issued().is_empty());
    assert!(ledger.hold("x", &a_grant(1)).is_err() && ledger.held().is_empty());
    let revoked = a_revocation(1, None, &["default"]);
    assert!(ledger.revoke(vec![revoked]).is_err());
    assert!(ledger.is_revoked(id(1), "default"));
}

#[test]
fn what_is_over_is_forgotten_and_nothing_else() {
    let ledger = Ledger::open(None).expect("in memory");
    let endless = |number| Grant {
        expires: None,
        ..a_grant(number)
    };
    for grant in [a_grant(1), endless(2), endless(3)] {
        ledger.note(&grant).expect("room");
    }
    let revoked = vec![
        a_revocation(1, Some(NOW + DAY), &["default"]),
        a_revocation(3, None, &["default"]),
    ];
    ledger.revoke(revoked).expect("room");
    let generation = ledger.generation();
    let issued = |ledger: &Ledger| ledger.issued().iter().map(|it| it.id).collect::<Vec<_>>();
    let tend = |days: u64| ledger.tend((NOW + days * DAY + 119) * 1000).expect("kept");
    tend(1);
    assert!(
        ledger.is_revoked(id(1), "default"),
        "by slow clocks it is good"
    );
    assert_eq!(
        (issued(&ledger).len(), ledger.generation()),
        (3, generation)
    );
    tend(2);
    assert!(!ledger.is_revoked(id(1), "default"));
    assert_ne!(ledger.generation(), generation);
    assert_eq!(issued(&ledger).len(), 3, "they are listed for some days");
    tend(8);
    assert_eq!(issued(&ledger), [id(2)]);
    tend(10_000);
    assert_eq!(issued(&ledger), [id(2)]);
    assert!(ledger.is_revoked(id(3), "default"), "what has no end stays");
}

#[test]
fn there_is_room_for_so_many_of_each_kind() {
    let ledger = Ledger::open(None).expect("in memory");
    let full = |result: Result<(), LedgerError>| {
        let error = result.expect_err("no room");
        assert_eq!(error.code(), "tickets_full");
    };
    for number in 0..ISSUED_MAX as u128 {
        ledger.note(&a_grant(number)).expect("room");
    }
    full(ledger.note(&a_grant(ISSUED_MAX as u128)));
    for number in 0..HELD_MAX as u128 {
        ledger.hold("x", &a_grant(number)).expect("room");
    }
    ledger
        .hold("y", &a_grant(0))
        .expect("in place of the first");
    full(ledger.hold("x", &a_grant(HELD_MAX as u128)));
    assert_eq!(ledger.held().len(), HELD_MAX);
    // Unsigned statements are enough here, because they are not read again.
    let like = a_revocation(0, None, &["default"]);
    let of = |number: usize| Revoked {
        statement: number.to_string(),
        revocation: Revocation {
            id: id(number as u128),
            ..like.revocation.clone()
        },
        ..like.clone()
    };
    full(
        ledger
            .revoke((0..REVOKED_MAX + 1).map(of).collect())
            .map(|_| ()),
    );
    assert_eq!(ledger.revoked().len(), REVOKED_MAX);
    assert!(ledger.is_revoked(id(REVOKED_MAX as u128 - 1), "default"));
    assert!(!ledger.is_revoked(id(REVOKED_MAX as u128), "default"));
}

#[test]
fn a_ticket_is_about_to_end_in_the_last_tenth_of_its_life_or_week() {
    let at = |now: u64, expires, revoked| TicketState::at(now * 1000, NOW, expires, revoked);
    let short = Some(NOW + 10 * DAY);
    assert_eq!(at(NOW + 9 * DAY - 1, short, false), TicketState::Good);
    assert_eq!(at(NOW + 9 * DAY, short, false), TicketState::Ending);
    assert_eq!(at(NOW + 10 * DAY + 59, short, false), TicketState::Ending);
    assert_eq!(at(NOW + 10 * DAY + 60, short, false), TicketState::Ended);
    assert_eq!(at(NOW, short, true), TicketState::Revoked);
    let long = Some(NOW + 1000 * DAY);
    assert_eq!(at(NOW + 993 * DAY - 1, long, false), TicketState::Good);
    assert_eq!(at(NOW + 993 * DAY, long, false), TicketState::Ending);
    assert_eq!(at(NOW + 10_000 * DAY, None, false), TicketState::Good);
    let names = TicketState::ALL.map(TicketState::name);
    assert_eq!(names, ["good", "ending", "ended", "revoked"]);
}
