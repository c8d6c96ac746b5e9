//! `CLIENT RIGHTS-WAIT`: the commands that wait for rights, and the ends of their waits.

use super::*;
use tallymesh_core::{Flow as BudgetFlow, RightKind};

/// A client that waits, at a node that is the only member of its first space and has minted 10.
fn client() -> Client {
    let mut client = Client::new(RespConfig::default());
    client.node.replicas[0]
        .members_mut()
        .found(&[7; 32], &[0; 16], NOW)
        .expect("a member");
    assert_eq!(client.send("BUDGET.MINT gift 10"), ":10|");
    assert_eq!(client.send("CLIENT RIGHTS-WAIT 700"), "+OK|");
    client
}

impl Client {
    /// Sends a command that has to wait for this amount, for this long.
    fn lacks(&mut self, sent: &[u8], (kind, amount): (RightKind, u64), timeout_ms: u64) {
        let (out, flow) = self.feed(sent);
        assert_eq!((show(&out), flow), (String::new(), Flow::Waits));
        let wait = Wait::Rights {
            space: 0,
            timeout_ms,
        };
        assert_eq!(self.session.wait(), Some(wait));
        let lack = self.session.lack().expect("it says what");
        assert_eq!(
            (lack.name.as_str(), lack.kind, lack.amount),
            ("gift", Some(kind), amount)
        );
    }

    /// Ends the client's wait, and continues.
    fn go_on(&mut self, left_ms: u64) -> String {
        self.session.answer_rights(left_ms);
        let (out, flow) = self.feed(b"");
        assert_eq!(flow, Flow::Open);
        show(&out)
    }

    fn flow(&mut self, flow: BudgetFlow) {
        let made = self.node.replicas[0].quota_mut().flow("gift", flow);
        made.expect("it is held");
    }
}

#[test]
fn how_long_is_waited_is_told_and_set() {
    play_same(&[
        ("CLIENT RIGHTS-WAIT", ":0|"),
        ("client rights-wait 250", "+OK|"),
        ("CLIENT RIGHTS-WAIT", ":250|"),
        ("CLIENT RIGHTS-WAIT 20001", "+OK|"),
        ("CLIENT RIGHTS-WAIT", ":20000|"),
        (
            "CLIENT RIGHTS-WAIT soon",
            "-ERR timeout is not an integer or out of range|",
        ),
        ("CLIENT RIGHTS-WAIT -1", "-ERR timeout is negative|"),
        ("CLIENT RIGHTS-WAIT 1 2", "-ERR syntax error|"),
        ("RESET", "+RESET|"),
        ("CLIENT RIGHTS-WAIT", ":0|"),
    ]);
}

#[test]
fn a_spend_is_made_when_there_is_enough() {
    let mut client = client();
    let mut sent = request("BUDGET.SPEND gift 12");
    sent.extend(request("BUDGET.SPEND gift 1"));
    client.lacks(&sent, (RightKind::Rights, 12), 700);
    // No command is executed meanwhile.
    assert_eq!(client.feed(&request("PING")), (Vec::new(), Flow::Waits));
    client.flow(BudgetFlow::Mint(5));
    let commands = client.session.commands();
    assert_eq!(client.go_on(300), ":3|:2|+PONG|");
    assert_eq!(client.session.commands(), commands + 2, "each is one");
    assert_eq!(client.session.lack(), None);
}

#[test]
fn who_came_too_late_waits_for_the_rest_of_its_time() {
    let mut client = client();
    client.lacks(
        &request("BUDGET.SPEND gift 12"),
        (RightKind::Rights, 12),
        700,
    );
    client.flow(BudgetFlow::Mint(2));
    client.flow(BudgetFlow::Spend(1)); // by somebody else
    client.session.answer_rights(200);
    client.lacks(b"", (RightKind::Rights, 12), 200);
    let refused =
        "-RIGHTSSHORT 12 are asked for, and 11 are held here, 0 elsewhere as far as is known here|";
    assert_eq!(client.go_on(0), refused);
    // The next one has all of its own.
    client.lacks(
        &request("BUDGET.SPEND gift 13"),
        (RightKind::Rights, 13),
        700,
    );
}

#[test]
fn a_spend_under_a_key_waits_and_counts_once() {
    let mut client = client();
    let sent = "ONCE k BUDGET.SPEND gift 12";
    client.lacks(&request(sent), (RightKind::Rights, 12), 700);
    client.flow(BudgetFlow::Mint(5));
    assert_eq!(client.go_on(300), ":3|");
    assert_eq!(client.send(sent), ":3|");
}

#[test]
fn room_is_waited_for_and_other_refusals_are_told_at_once() {
    let mut client = client();
    client.send("BUDGET.CAP seats RAISE 3");
    let (out, flow) = client.feed(&request("BUDGET.MINT seats 4"));
    assert_eq!((show(&out), flow), (String::new(), Flow::Waits));
    let lack = client.session.lack().expect("it says what");
    assert_eq!((lack.kind, lack.amount), (Some(RightKind::Room), 4));
    assert!(client.go_on(0).starts_with("-ROOMSHORT "));
    assert!(client.send("BUDGET.SPEND none 1").starts_with("-NOBUDGET "));
    for (sent, answer) in [
        ("MULTI", "+OK|"),
        ("BUDGET.SPEND gift 11", "+QUEUED|"),
        (
            "EXEC",
            "*1|-RIGHTSSHORT 11 are asked for, and 10 are held here, 0 elsewhere as far as is known here|",
        ),
    ] {
        assert_eq!(client.send(sent), answer);
    }
}

/// A client that retries finds more rights here, if other members have them.
#[test]
fn others_are_asked_for_all_that_a_transaction_is_refused_for_want_of() {
    let mut client = client();
    for (sent, answer) in [
        ("BUDGET.CAP seats RAISE 3", ":3|"),
        ("MULTI", "+OK|"),
        ("BUDGET.SPEND gift 6", "+QUEUED|"),
        ("BUDGET.SPEND gift 5", "+QUEUED|"),
        ("BUDGET.MINT seats 4", "+QUEUED|"),
    ] {
        assert_eq!(client.send(sent), answer);
    }
    let answers = client.send("EXEC");
    let short =
        "-RIGHTSSHORT 5 are asked for, and 4 are held here, 0 elsewhere as far as is known here|";
    assert!(
        answers.starts_with(&format!("*3|:4|{short}-ROOMSHORT ")),
        "{answers}"
    );
    let lack = |name: &str, kind, amount| Lack {
        name: name.to_owned(),
        kind: Some(kind),
        amount,
    };
    let both = [
        lack("gift", RightKind::Rights, 5),
        lack("seats", RightKind::Room, 4),
    ];
    assert_eq!(client.node.lacked, both);
    // Under an idempotency key nothing is made, and no command after the refused one is tried.
    client.node.lacked.clear();
    for (sent, answer) in [
        ("MULTI", "+OK|"),
        ("BUDGET.SPEND gift 7", "+QUEUED|"),
        ("BUDGET.MINT seats 4", "+QUEUED|"),
    ] {
        assert_eq!(client.send(sent), answer);
    }
    let answer = client.send("ONCE k EXEC");
    assert!(answer.starts_with("-EXECABORT "), "{answer}");
    assert_eq!(client.node.lacked, [lack("gift", RightKind::Rights, 7)]);
}

/// A member that starts is none yet. A command that only a member makes waits for that, as for rights.
#[test]
fn while_a_member_starts_a_command_waits_for_it() {
    let mut client = Client::new(RespConfig::default());
    client.node.starts = true;
    let early = client.send("BUDGET.MINT gift 10");
    assert!(early.starts_with("-TRYAGAIN "), "{early}");
    assert_eq!(client.send("CLIENT RIGHTS-WAIT 700"), "+OK|");
    let sent = request("BUDGET.MINT gift 10");
    let wait = Wait::Membership {
        space: 0,
        timeout_ms: 700,
    };
    let waits = |client: &mut Client, sent: &[u8]| {
        let (out, flow) = client.feed(sent);
        assert_eq!((show(&out), flow), (String::new(), Flow::Waits));
        client.session.wait()
    };
    assert_eq!(waits(&mut client, &sent), Some(wait));
    assert_eq!(client.go_on(0), early);
    assert_eq!(waits(&mut client, &sent), Some(wait));
    let mut members = client.node.replicas[0].members_mut();
    members.found(&[7; 32], &[0; 16], NOW).expect("a member");
    assert_eq!(client.go_on(300), ":10|");
    // In a transaction nothing waits.
    client.node.replicas[0] = Client::new(RespConfig::default()).node.replicas.remove(0);
    assert_eq!(client.send("MULTI"), "+OK|");
    assert_eq!(client.send("BUDGET.MINT gift 10"), "+QUEUED|");
    let told = client.send("EXEC");
    assert!(told.contains(&early), "{told}");
}
