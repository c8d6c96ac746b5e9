//! Rights and numbers that are with a member that is away.

use super::*;

/// A member is dead and not removed. Each refusal, the status and the doctor say what it holds, and the
/// command that they name frees it.
#[test]
fn what_is_stuck_with_a_dead_member_is_told_with_the_command_that_frees_it() {
    let one = Node::start(&["--resp", "127.0.0.1:0"]);
    let two = Node::start(&["--peer", &one.listen[0]]);
    let mut three = Node::start(&["--peer", &one.listen[0], &two.listen[0]]);
    close(&[&one, &two, &three]);
    mint(&one, "gift", 10);
    mint(&three, "gift", 40);
    let sequence = format!("{SPACE}/sequences/visits");
    assert_eq!(three.post(&sequence, "").0, 200);
    shows(&one, "gift", 50);
    eventually("it knows the sequence", || {
        (one.get(&sequence).0 == 200).then_some(())
    });
    let key = owner(&three);
    let command = format!("tallymesh members remove {key}");
    three.kill();
    eventually("it is away", || {
        let stuck = one.space()["stuck"].clone();
        let expected = json!([key, "40", 1, 1, false]);
        let row = &stuck[0];
        let told = ["owner", "rights", "budgets", "sequences", "more"].map(|it| row[it].clone());
        (json!(told) == expected).then_some(())
    });
    let says = |told: &str, what: &str| {
        assert!(told.contains(what) && told.contains(&command), "{told}");
    };
    let (status, problem) = spend(&one, "gift", 20);
    assert_eq!((status, &problem["code"]), (409, &json!("rights_short")));
    says(&problem["detail"].to_string(), "40 rights are with member");
    assert_eq!(problem["held"]["elsewhere"], "40");
    let (status, problem) = one.post(&format!("{sequence}/next"), "");
    assert_eq!((status, &problem["code"]), (409, &json!("numbers_short")));
    says(
        &problem["detail"].to_string(),
        "all numbers from 1 on are with member",
    );
    let mut redis = Redis::connect(&one);
    let told = redis
        .text(&["BUDGET.SPEND", "gift", "20"])
        .unwrap_or_default();
    assert!(told.starts_with("RIGHTSSHORT "), "{told}");
    says(&told, "40 rights are with member");
    for command in ["status", "doctor"] {
        let told = one.run(&[command], "");
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        says(
            &told,
            "40 rights of 1 budget, and all further numbers of 1 sequence are with member",
        );
    }
    let command: Vec<&str> = command.split(' ').skip(1).collect();
    assert!(one.run(&command, "").status.success());
    let waits = [("tallymesh-rights-wait-ms", "20000")];
    let body = json!({ "amount": 20 }).to_string();
    let (status, answer, _) = post(&one, &format!("{SPACE}/budgets/gift/spend"), &waits, &body);
    assert_eq!(status, 200, "{answer}");
    let (status, answer, _) = post(&one, &format!("{sequence}/next"), &waits, "");
    assert_eq!(status, 200, "{answer}");
    eventually("nothing is stuck", || {
        one.space()["stuck"].is_null().then_some(())
    });
}
