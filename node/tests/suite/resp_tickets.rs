//! Tickets of Redis clients: what each role may do, what is no ticket, and what becomes of connections
//! whose ticket is over.

use crate::process::{Node, eventually};
use crate::redis::{self, Redis};
use crate::tickets::ticket;
use redis_protocol::resp2::types::OwnedFrame;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tallymesh_core::Space;
use tallymesh_node::access::{CLOCK_SKEW_MAX, Grant, TicketId};
use tallymesh_node::clock::WallClock;
use tallymesh_node::config::{Config, UpArgs};
use tallymesh_node::identity::{Identity, OwnerKey};
use tallymesh_node::model::Role;
use tallymesh_node::node;
use tallymesh_node::store::{Memory, Store};

const ASKING: [&str; 6] = [
    "--space",
    "default",
    "other",
    "--resp",
    "127.0.0.1:0",
    "--resp-tickets",
];

const ROLES: [&str; 4] = ["reader", "writer", "editor", "member"];

/// A node that asks Redis clients for tickets, and HTTP clients for nothing.
fn asking() -> Node {
    Node::start(&ASKING)
}

fn invite(node: &Node, role: &str, more: &[&str]) -> String {
    let arguments = [&["invite", "--role", role], more].concat();
    ticket(&node.run(&arguments, ""))
}

/// A connection that has shown a ticket.
fn with(node: &Node, ticket: &str) -> Redis {
    let mut redis = Redis::connect(node);
    assert_eq!(redis.text(&["AUTH", ticket]), Some("OK".into()));
    redis
}

/// The error that a command is answered with, if it is one.
fn refused(redis: &mut Redis, words: &[&str]) -> Option<String> {
    match redis.ask(words) {
        OwnedFrame::Error(text) => Some(text),
        _ => None,
    }
}

#[test]
fn the_operators_token_is_as_good_as_a_members_ticket() {
    let node = asking();
    let token = std::fs::read_to_string(node.data().join("token")).expect("a token");
    let reader = invite(&node, "reader", &[]);
    let mut redis = with(&node, &reader);
    assert!(refused(&mut redis, &["SET", "likes", "5"]).is_some());
    for words in [
        &["AUTH", token.trim()][..],
        &["AUTH", "me", token.trim()],
        &["HELLO", "2", "AUTH", "me", token.trim()],
    ] {
        assert_eq!(refused(&mut redis, words), None);
        assert_eq!(redis.text(&["SET", "likes", "5"]), Some("OK".into()));
        assert_eq!(refused(&mut redis, &["DBSIZE"]), None);
        assert_eq!(redis.text(&["RESET"]), Some("RESET".into()));
    }
    // A ticket takes the place of the token: a reader's ticket stays a reader's.
    assert_eq!(redis.text(&["AUTH", token.trim()]), Some("OK".into()));
    assert_eq!(redis.text(&["AUTH", &reader]), Some("OK".into()));
    assert!(refused(&mut redis, &["SET", "likes", "6"]).is_some());
}

#[test]
fn each_role_may_send_what_the_table_says() {
    let node = asking();
    let tickets = ROLES.map(|role| invite(&node, role, &[]));
    let every = invite(&node, "member", &["--every-space"]);
    let table: [(&[&str], usize); 14] = [
        (&["PING"], 0),
        (&["GET", "likes"], 0),
        (&["SCAN", "0"], 0),
        (&["DBSIZE"], 0),
        (&["INCR", "likes"], 1),
        (&["DECRBY", "likes", "2"], 1),
        (&["ONCE", "key", "INCRBY", "likes", "3"], 1),
        (&["SET", "likes", "5"], 2),
        (&["EXPIRE", "likes", "100"], 2),
        (&["GETSET", "likes", "6"], 2),
        (&["GETEX", "likes", "PERSIST"], 2),
        (&["MSET", "likes", "7"], 2),
        (&["ONCE", "other", "SET", "likes", "8"], 2),
        (&["DEL", "likes"], 2),
    ];
    let mut clients = tickets.each_ref().map(|ticket| with(&node, ticket));
    for (words, needed) in table {
        // From the least role on, so that what is refused would show in what follows.
        for (role, redis) in clients.iter_mut().enumerate() {
            let before = node.value("likes");
            let refused = refused(redis, words);
            match role >= needed {
                true => assert_eq!(refused, None, "{words:?} by role {role}"),
                false => {
                    let text = refused.unwrap_or_default();
                    assert!(text.starts_with("NOPERM forbidden: "), "{words:?}: {text}");
                    assert_eq!(node.value("likes"), before, "{words:?} by role {role}");
                }
            }
        }
    }
    for redis in &mut clients {
        let text = refused(redis, &["CLIENT", "LIST"]).expect("an error");
        assert!(text.starts_with("NOPERM forbidden: "), "{text}");
        let text = refused(redis, &["SELECT", "1"]).expect("an error");
        assert!(text.starts_with("NOPERM forbidden: the ticket does not speak of space `other`"));
        assert_eq!(refused(redis, &["SUBSCRIBE", "x"]), None);
    }
    // What names all spaces that are open here is not for every space.
    let named = json!({"role": "member", "spaces": ["default", "other"]}).to_string();
    let named = node.post("/v1/tickets", &named).1["ticket"].clone();
    let mut redis = with(&node, named.as_str().expect("a ticket"));
    let text = refused(&mut redis, &["CLIENT", "LIST"]).unwrap_or_default();
    assert!(text.contains("--every-space"), "{text}");
    let mut redis = with(&node, &every);
    assert_eq!(refused(&mut redis, &["CLIENT", "LIST"]), None);
    assert_eq!(refused(&mut redis, &["SELECT", "1"]), None);
    assert_eq!(redis.integer(&["INCR", "likes"]), 1);
}

#[test]
fn without_a_good_ticket_nothing_is_told_or_changed() {
    let node = asking();
    let stranger = Node::start(&[]);
    let good = invite(&node, "writer", &[]);
    let foreign = invite(&stranger, "member", &[]);
    let holder = ticket(&stranger.run(&["id"], ""));
    let bound = invite(&node, "writer", &["--holder", &holder]);
    let mut changed = good.clone();
    changed.replace_range(changed.len() - 10..changed.len() - 9, "_");
    changed.replace_range(changed.len() - 11..changed.len() - 10, "-");
    let mut redis = Redis::connect(&node);
    for words in [
        &["PING"][..],
        &["GET", "likes"],
        &["INCR", "likes"],
        &["MULTI"],
        &["SUBSCRIBE", "x"],
        &["HELLO", "3"],
    ] {
        let text = refused(&mut redis, words).unwrap_or_default();
        assert!(text.starts_with("NOAUTH "), "{words:?}: {text}");
    }
    for (shown, code) in [
        ("", "ticket"),
        ("nonsense", "ticket"),
        (&foreign, "ticket_issuer"),
        (&changed, "ticket_signature"),
        (&bound, "ticket_holder"),
        (&"a".repeat(9000), "ticket"),
    ] {
        let begin = format!("WRONGPASS {code}: ");
        for words in [
            &["AUTH", shown][..],
            &["AUTH", "default", shown],
            &["HELLO", "3", "AUTH", "me", shown],
        ] {
            let text = refused(&mut redis, words).unwrap_or_default();
            assert!(text.starts_with(&begin), "{code}: {text}");
        }
        let text = refused(&mut redis, &["INCR", "likes"]);
        assert_eq!(text.as_deref(), Some("NOAUTH Authentication required."));
    }
    let other = format!("tmo_{}", "0".repeat(64));
    let text = refused(&mut redis, &["AUTH", &other]).unwrap_or_default();
    assert!(text.starts_with("WRONGPASS token_wrong: "), "{text}");
    assert_eq!(node.value("likes"), None);
    // Far more failed than may: bad ones are slowed down, and a good one is let in all the same.
    for _ in 0..3 {
        refused(&mut redis, &["AUTH", "nonsense"]);
    }
    let mut other = Redis::connect(&node);
    assert_eq!(other.text(&["AUTH", &good]), Some("OK".into()));
    assert_eq!(redis.text(&["AUTH", "me", &good]), Some("OK".into()));
    assert_eq!(redis.integer(&["INCR", "likes"]), 1);
    assert_eq!(redis.text(&["RESET"]), Some("RESET".into()));
    assert!(refused(&mut redis, &["INCR", "likes"]).is_some());
    let (_, figures) = node.get("/metrics");
    let figures = figures.as_str().expect("text");
    for code in ["ticket_issuer\"} 3", "ticket_holder\"} 3", "no_auth\"} "] {
        let row = format!("tallymesh_refusals_total{{protocol=\"redis\",code=\"{code}");
        assert!(figures.contains(&row), "{row} is not in\n{figures}");
    }
    // Once for each code.
    node.has_logged_often("a Redis client was not let in", 5);
}

#[test]
fn a_ticket_for_another_space_takes_its_connection_there() {
    let node = asking();
    let other = invite(&node, "editor", &["--space", "other"]);
    let mut redis = with(&node, &other);
    let mut heard = with(&node, &other);
    let text = refused(&mut redis, &["INCR", "likes"]).unwrap_or_default();
    assert!(text.starts_with("NOPERM forbidden: the ticket does not speak of space `default`"));
    for redis in [&mut redis, &mut heard] {
        assert_eq!(redis.text(&["SELECT", "1"]), Some("OK".into()));
    }
    // Of both spaces by its words, of one by its ticket.
    assert_eq!(
        refused(&mut heard, &["PSUBSCRIBE", "__keyspace@*__:likes"]),
        None
    );
    node.add("likes", 7);
    assert_eq!(redis.integer(&["INCR", "likes"]), 1);
    let OwnedFrame::Array(message) = heard.reply() else {
        panic!("no message");
    };
    let words: Vec<String> = message.into_iter().filter_map(redis::text).collect();
    assert_eq!(words[2], "__keyspace@1__:likes");
    let closed = Node::start(&["--space", "closed"]);
    let closed = invite(&closed, "editor", &["--space", "closed"]);
    let text = refused(&mut redis, &["AUTH", &closed]).unwrap_or_default();
    assert!(text.starts_with("WRONGPASS forbidden: "), "{text}");
    assert_eq!(redis.integer(&["INCR", "likes"]), 2);
}

#[test]
fn a_ticket_that_is_revoked_ends_what_its_connection_may_do() {
    let node = asking();
    let shown = invite(&node, "writer", &[]);
    let mut redis = with(&node, &shown);
    assert_eq!(redis.ask(&["INCR", "likes"]), OwnedFrame::Integer(1));
    let revoked = node.run(&["revoke", &shown], "");
    assert!(revoked.status.success(), "{revoked:?}");
    let told = refused(&mut redis, &["INCR", "likes"]).expect("refused");
    assert!(
        told.starts_with("NOAUTH") && told.contains("revoked"),
        "{told}"
    );
    let told = refused(&mut Redis::connect(&node), &["AUTH", &shown]).expect("refused");
    assert!(
        told.starts_with("WRONGPASS") && told.contains("revoked"),
        "{told}"
    );
    assert_eq!(node.value("likes"), Some(1));
}

#[test]
fn a_member_that_is_taken_out_takes_its_tickets_with_it() {
    let node = asking();
    let made = invite(&node, "editor", &[]);
    let mut redis = with(&node, &made);
    let mut heard = with(&node, &made);
    assert_eq!(
        refused(&mut heard, &["SUBSCRIBE", "__keyspace@0__:likes"]),
        None
    );
    assert_eq!(node.post("/v1/spaces/default/members/init", "").0, 200);
    assert_eq!(redis.integer(&["INCR", "likes"]), 1);
    assert!(matches!(heard.reply(), OwnedFrame::Array(_)));
    assert_eq!(redis.text(&["MULTI"]), Some("OK".into()));
    assert_eq!(redis.text(&["INCR", "likes"]), Some("QUEUED".into()));
    let force = json!({"members": ["11".repeat(32)]}).to_string();
    assert_eq!(node.post("/v1/spaces/default/members/force", &force).0, 200);
    let text = refused(&mut redis, &["EXEC"]).unwrap_or_default();
    assert!(
        text.starts_with("EXECABORT Transaction discarded because of: ticket_issuer: "),
        "{text}"
    );
    for words in [&["GET", "likes"][..], &["INCR", "likes"], &["DEL", "likes"]] {
        let text = refused(&mut redis, words).unwrap_or_default();
        assert!(text.starts_with("NOAUTH ticket_issuer: "), "{text}");
    }
    node.add("likes", 1);
    let OwnedFrame::Error(text) = heard.reply() else {
        panic!("it is told of the counter");
    };
    assert!(text.starts_with("NOAUTH ticket_issuer: "), "{text}");
    assert!(heard.try_reply().is_err(), "it is cut off");
    let text = refused(&mut redis, &["AUTH", &made]).unwrap_or_default();
    assert!(text.starts_with("WRONGPASS ticket_issuer: "), "{text}");
}

/// A time at which tickets are signed, in seconds since 1970.
const NOW: u64 = 1_800_000_000;

#[tokio::test]
async fn a_ticket_ends_while_a_connection_lasts() {
    let time = Arc::new(AtomicU64::new(NOW * 1000));
    let clock = time.clone();
    let args = UpArgs {
        data: Some("unused".into()),
        http: Some("127.0.0.1:0".into()),
        resp: Some("127.0.0.1:0".into()),
        resp_tickets: Some(true),
        ..UpArgs::default()
    };
    let mut config = Config {
        clock: WallClock::new(move || clock.load(Ordering::SeqCst)),
        ..args.config().expect("a valid configuration")
    };
    config.gossip.book = false;
    let mut store = Memory::default();
    let identity = Identity::from_secret(store.identity([7; 32]).expect("a key"));
    let node = node::Node::start_on(Box::new(store), config).await;
    let node = node.expect("start");
    let address = node.resp().expect("served").to_string();
    let sign = |issued, expires| {
        let grant = Grant {
            id: TicketId::new([7; 16]),
            issuer: OwnerKey(identity.public_key()),
            holder: None,
            role: Role::Editor,
            spaces: Some(vec![Space::default()]),
            issued,
            expires: Some(expires),
            nodes: Vec::new(),
            knew: Default::default(),
        };
        grant.sign(&identity).expect("signed")
    };
    let skew = CLOCK_SKEW_MAX.as_secs();
    let mut redis = Redis::connect_to(&address);
    let mut heard = Redis::connect_to(&address);
    for (shown, code) in [
        (sign(NOW - 100, NOW - skew), "ticket_expired"),
        (sign(NOW + skew + 1, NOW + 1000), "ticket_early"),
    ] {
        let text = refused(&mut redis, &["AUTH", &shown]).unwrap_or_default();
        assert!(text.starts_with(&format!("WRONGPASS {code}: ")), "{text}");
    }
    let good = sign(NOW, NOW + 10);
    for redis in [&mut redis, &mut heard] {
        assert_eq!(redis.text(&["AUTH", &good]), Some("OK".into()));
    }
    assert_eq!(
        refused(&mut heard, &["SUBSCRIBE", "__keyspace@0__:likes"]),
        None
    );
    time.store((NOW + 10 + skew) * 1000 - 1, Ordering::SeqCst);
    assert_eq!(redis.integer(&["INCR", "likes"]), 1);
    assert!(matches!(heard.reply(), OwnedFrame::Array(_)));
    time.store((NOW + 10 + skew) * 1000, Ordering::SeqCst);
    for words in [&["INCR", "likes"][..], &["GET", "likes"], &["PING"]] {
        let text = refused(&mut redis, words).unwrap_or_default();
        assert!(text.starts_with("NOAUTH ticket_expired: "), "{text}");
    }
    // Another one goes on where that ended.
    let next = sign(NOW, NOW + 100);
    assert_eq!(redis.text(&["AUTH", &next]), Some("OK".into()));
    assert_eq!(redis.integer(&["INCR", "likes"]), 2);
    let OwnedFrame::Error(text) = heard.reply() else {
        panic!("it is told of the counter");
    };
    assert!(text.starts_with("NOAUTH ticket_expired: "), "{text}");
    assert!(heard.try_reply().is_err(), "it is cut off");
}

#[test]
fn who_does_not_say_who_it_is_keeps_nobody_out() {
    let mut node = Node::start(&["--resp", "127.0.0.1:0"]);
    let made = invite(&node, "writer", &[]);
    node.terminate();
    let arguments = [
        "--resp",
        "127.0.0.1:0",
        "--resp-tickets",
        "--resp-clients",
        "2",
    ];
    node.start_again_with(arguments.map(str::to_owned).to_vec());
    let mut known = with(&node, &made);
    let mut stranger = Redis::connect(&node);
    assert!(refused(&mut stranger, &["PING"]).is_some());
    let mut next = eventually("the stranger gives way", || {
        let mut redis = Redis::connect(&node);
        (redis.text(&["AUTH", &made])? == "OK").then_some(redis)
    });
    assert!(stranger.try_reply().is_err());
    assert_eq!(known.integer(&["INCR", "likes"]), 1);
    assert_eq!(next.integer(&["INCR", "likes"]), 2);
    // Who is known does not.
    let mut other = Redis::connect(&node);
    let OwnedFrame::Error(text) = other.reply() else {
        panic!("it is served");
    };
    assert_eq!(text, "ERR max number of clients reached");
}
