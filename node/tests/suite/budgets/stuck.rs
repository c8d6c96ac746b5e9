//! Rights, numbers and shares of limits that are with a member that is away.

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
        let expected = json!([key, "40", 1, 1, 0, false]);
        let row = &stuck[0];
        let fields = ["owner", "rights", "budgets", "sequences", "limits", "more"];
        let told = fields.map(|it| row[it].clone());
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

/// The same of a limit: a dead member's share is missing in each period, whether or not it had brought the share
/// in. A Redis client gets no text with a refusal of `INCREX` alone.
#[test]
fn a_dead_member_s_share_of_a_limit_is_told_with_the_command_that_frees_it() {
    let one = Node::start(&[]);
    let two = Node::start(&["--peer", &one.listen[0]]);
    let mut three = Node::start(&["--peer", &one.listen[0], &two.listen[0]]);
    close(&[&one, &two, &three]);
    let limit = |name: &str, period_ms: u64| {
        let body = json!({ "limit": 30, "period_ms": period_ms }).to_string();
        let (status, answer) = one.put(&format!("{SPACE}/limits/{name}"), &body);
        assert_eq!(status, 200, "{answer}");
    };
    // It is a multiple of a day, so that the period does not end meanwhile.
    limit("login", 366 * 86_400_000);
    limit("brief", 3_000);
    let allow = |node: &Node, key: &str, cost: u64, wait: &str| {
        let waits = [("tallymesh-rights-wait-ms", wait)];
        let body = json!({ "cost": cost }).to_string();
        let path = format!("{SPACE}/limits/{key}/allow");
        let (status, answer, _) = post(node, &path, &waits, &body);
        (status, answer)
    };
    eventually("it allows of its share", || {
        (allow(&three, "login:used", 3, "0").0 == 200).then_some(())
    });
    // Members lend each other some of it, so it is told how much each of the others has.
    let path = format!("{SPACE}/limits/login:used");
    let left = |node: &Node| {
        let left = node.get(&path).1["left"].clone();
        ["here", "elsewhere"].map(|it| left[it].as_str().and_then(|it| it.parse::<u64>().ok()))
    };
    eventually("the others know of that", || {
        let all = [&one, &two].map(left);
        let known = |it: &[Option<u64>; 2]| it[0].zip(it[1]).is_some_and(|it| it.0 + it.1 == 27);
        all.iter().all(known).then_some(())
    });
    let key = owner(&three);
    let command = format!("tallymesh members remove {key}");
    three.kill();
    eventually("it is away", || {
        let row = one.space()["stuck"][0].clone();
        let told = ["owner", "rights", "limits"].map(|it| row[it].clone());
        (json!(told) == json!([key, "0", 2])).then_some(())
    });
    let held: u64 = [&one, &two].iter().filter_map(|it| left(it)[0]).sum();
    for (name, held) in [("login:used", 27 - held), ("login:fresh", 10)] {
        let what = format!("{held} of the limit are with member");
        let (status, problem) = allow(&one, name, 25, "0");
        assert_eq!((status, &problem["code"]), (429, &json!("limit_reached")));
        let told = problem["detail"].to_string();
        assert!(told.contains(&what) && told.contains(&command), "{told}");
    }
    for words in [&["status"][..], &["doctor"], &["doctor", "--keys"]] {
        let told = one.run(words, "");
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        let what = "shares of 2 limits in each period are with member";
        assert!(told.contains(what) && told.contains(&command), "{told}");
        let is_whole = told.contains(&format!("with member {key}"));
        assert_eq!(is_whole, words.contains(&"--keys"), "{told}");
    }
    let told = one.run(&["doctor", "--json"], "");
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains(&format!("with member {key}")), "{told}");
    let (status, _) = allow(&one, "brief", 21, "1000");
    assert_eq!(status, 429, "only what the two hold");
    let command: Vec<&str> = command.split(' ').skip(1).collect();
    assert!(one.run(&command, "").status.success());
    eventually("all of it is allowed again", || {
        (allow(&one, "brief", 30, "1500").0 == 200).then_some(())
    });
    eventually("nothing is stuck", || {
        one.space()["stuck"].is_null().then_some(())
    });
}

/// What was paid in under an idempotency key waits for all members, and one of them is dead. The member that took it
/// starts again. Each answer names the dead member, and the command that frees it.
#[test]
fn a_payment_that_waits_for_a_dead_member_is_told_with_the_command_that_frees_it() {
    let one = Node::start(&[]);
    let mut two = Node::start(&["--peer", &one.listen[0]]);
    let mut three = Node::start(&["--peer", &one.listen[0], &two.listen[0]]);
    close(&[&one, &two, &three]);
    mint(&two, "gift", 1);
    shows(&three, "gift", 1);
    let key = owner(&three);
    let command = format!("tallymesh members remove {key}");
    three.kill();
    let once = [("idempotency-key", "paid")];
    let body = json!({ "amount": 40 }).to_string();
    let path = format!("{SPACE}/budgets/gift");
    let (status, answer, _) = post(&two, &format!("{path}/mint"), &once, &body);
    assert_eq!(status, 200, "{answer}");
    shows(&one, "gift", 41);
    let is_named = |node: &Node| {
        let what = "40 rights wait for the acknowledgement of member";
        let detail = eventually("it is away", || {
            let (status, problem) = spend(node, "gift", 30);
            assert_ne!(status, 200, "{problem}");
            let detail = problem["detail"].as_str().expect("a text").to_owned();
            detail.contains(what).then_some((detail, problem))
        });
        let (detail, problem) = detail;
        assert!(detail.contains(&command), "{detail}");
        assert_eq!(problem["code"], "rights_short");
        assert_eq!(problem["members"], json!([key]), "{problem}");
        for command_of in ["status", "doctor"] {
            let told = node.run(&[command_of], "");
            let told = String::from_utf8_lossy(&told.stdout).into_owned();
            let what = "40 rights can't be spent before the acknowledgement of member";
            assert!(told.contains(what) && told.contains(&command), "{told}");
        }
    };
    is_named(&two);
    assert!(two.terminate().success());
    two.start_again_with(vec!["--peer".to_owned(), one.listen[0].clone()]);
    is_named(&two);
    is_named(&one);
    let command: Vec<&str> = command.split(' ').skip(1).collect();
    assert!(two.run(&command, "").status.success());
    let waits = [("tallymesh-rights-wait-ms", "20000")];
    let body = json!({ "amount": 30 }).to_string();
    let (status, answer, _) = post(&two, &format!("{path}/spend"), &waits, &body);
    assert_eq!(status, 200, "{answer}");
    eventually("nothing is stuck", || {
        two.space()["stuck"].is_null().then_some(())
    });
}
