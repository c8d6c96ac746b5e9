//! A copy of a member's data folder runs beside its original. No unit is spent twice, no number is drawn twice, and
//! no limit is passed; the copy says what it is, and peers name it.

use crate::members::{close, nodes, owner, peers_of, settled};
use crate::process::{DEADLINE, Node, agent, eventually, eventually_within, read};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const SPACE: &str = "/v1/spaces/default";

fn copy_folder(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.expect("cp").success());
}

/// A node on a copy of another one's data folder.
fn copy_of(node: &Node, peers: &[&Node]) -> Node {
    let arguments = peers_of(peers);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Node::start_on(&arguments, |data| copy_folder(&node.data(), data))
}

/// The nodes of one space as members, with a budget, a sequence and a limit that the last one holds.
fn members(count: usize) -> Vec<Node> {
    let nodes = nodes(count);
    close(&nodes.iter().collect::<Vec<_>>());
    let last = &nodes[count - 1];
    made(last, "budgets/gift/mint", r#"{"amount":100}"#);
    made(last, "sequences/visits", "");
    let limit = format!("{SPACE}/limits/login");
    let (status, answer) = last.put(&limit, r#"{"limit":"30","period_ms":"86400000"}"#);
    assert_eq!(status, 200, "{answer}");
    made(last, "sequences/visits/next", "");
    made(last, "limits/login/allow", r#"{"cost":1}"#);
    made(last, "budgets/gift/spend", r#"{"amount":1}"#);
    nodes
}

/// Makes a request until it is done.
fn made(node: &Node, path: &str, body: &str) -> Value {
    let begun = Instant::now();
    eventually(path, || {
        let (status, answer) = node.post(&format!("{SPACE}/{path}"), body);
        let late = begun.elapsed() > DEADLINE * 2 / 3;
        assert!(status == 200 || !late, "{path}: {answer}\n{}", node.log());
        (status == 200).then_some(answer)
    })
}

/// What a node gave out: how many units and uses of the limit, and which numbers.
#[derive(Debug, Default)]
struct Handouts {
    spent: u64,
    allowed: u64,
    numbers: Vec<u64>,
}

fn number(answer: &Value, field: &str) -> u64 {
    let value = &answer[field];
    let text = value.as_str().map(str::to_owned);
    let text = text.unwrap_or_else(|| value.to_string());
    text.parse().unwrap_or_else(|_| panic!("{field}: {answer}"))
}

/// Asks a node for all that a member gives, and counts what it gave.
fn asks(node: &Node, given: &mut Handouts) {
    let post = |path: &str, body: &str| node.post(&format!("{SPACE}/{path}"), body);
    given.spent += u64::from(post("budgets/gift/spend", r#"{"amount":1}"#).0 == 200);
    given.allowed += u64::from(post("limits/login/allow", r#"{"cost":1}"#).0 == 200);
    let (status, answer) = post("sequences/visits/next", "");
    if status == 200 {
        given.numbers.push(number(&answer, "number"));
    }
}

/// Whether the copy refuses all that only a member does, and what its clients hear.
fn is_refused(copy: &Node) {
    let own = json!({ "owner": owner(copy), "wait_ms": 0 }).to_string();
    for (path, body) in [
        ("budgets/gift/spend", r#"{"amount":1}"#),
        ("budgets/gift/mint", r#"{"amount":1}"#),
        ("sequences/visits/next", ""),
        ("sequences/others", ""),
        ("limits/login/allow", r#"{"cost":1}"#),
        ("members/init", "{}"),
        ("members/remove", &own),
        (
            "members/force",
            &json!({ "members": [owner(copy)] }).to_string(),
        ),
        ("retire", &own),
    ] {
        let (status, answer) = copy.post(&format!("{SPACE}/{path}"), body);
        let told = (status, answer["code"].as_str());
        assert_eq!(told, (409, Some("folder_copied")), "{path}: {answer}");
        let detail = answer["detail"].as_str().expect("a text");
        assert!(detail.contains("tallymesh adopt"), "{detail}");
    }
    assert_eq!(copy.space()["copied"], true);
    copy.has_logged(&["tallymesh adopt"]);
}

/// The output of a command, and whether it succeeded.
fn told(node: &Node, arguments: &[&str]) -> (String, bool) {
    let output = node.run(arguments, "");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let all = text(&output.stdout) + &text(&output.stderr);
    (all, output.status.success())
}

/// Whether a member that was linked with a copy names it wherever an operator looks.
fn names(node: &Node, copied: &str) {
    // It has a turn each minute, and may have missed the first one.
    let row = eventually_within(TURN * 2, "the copy is listed", || {
        let rows = node.space()["copies"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        rows.into_iter().find(|row| row["owner"] == copied)
    });
    let writer = row["writer"].as_str().expect("an id").to_owned();
    assert!(row["address"].is_string(), "{row}");
    for command in [&["doctor"][..], &["budget", "audit"], &["status"]] {
        let (all, _) = told(node, command);
        assert!(
            all.contains(&writer) && all.contains(copied),
            "{command:?}: {all}"
        );
    }
    let (all, is_fine) = told(node, &["doctor"]);
    assert!(!is_fine && all.contains("tallymesh adopt"), "{all}");
}

/// How many lines a node logged that are no plain information.
fn warnings(node: &Node) -> usize {
    let log = node.log();
    let lines = log
        .lines()
        .filter(|line| line.contains("WARN") || line.contains("ERROR"));
    lines.count()
}

/// Plays a copy beside the original for some rounds, with the copy linked with these of the other members. Before
/// it is made, the original stops or not.
fn beside(links: &[usize], is_stopped: bool) {
    let mut nodes = members(3);
    let original = nodes.pop().expect("three");
    let copied = owner(&original);
    let mut original = original;
    if is_stopped {
        assert!(original.terminate().success(), "{}", original.log());
    }
    let peers: Vec<&Node> = links.iter().map(|at| &nodes[*at]).collect();
    let mut copy = copy_of(&original, &peers);
    if is_stopped {
        original.start_again_with(peers_of(&nodes.iter().collect::<Vec<_>>()));
    }
    let before: Vec<usize> = nodes.iter().map(warnings).collect();
    let begun = Instant::now();
    let (mut by_original, mut by_copy) = (Handouts::default(), Handouts::default());
    made(&original, "budgets/gift/spend", r#"{"amount":1}"#);
    for round in 0..30 {
        asks(&original, &mut by_original);
        asks(&copy, &mut by_copy);
        if round == 10 {
            // A restart of the copy is one of a copy.
            copy.kill();
            copy.start_again();
        }
        if round == 20 {
            original.kill();
            original.start_again_with(peers_of(&nodes.iter().collect::<Vec<_>>()));
        }
    }
    is_refused(&copy);
    assert_eq!((by_copy.spent, by_copy.allowed), (0, 0), "{by_copy:?}");
    assert!(by_copy.numbers.is_empty(), "{by_copy:?}");
    copy.add("likes", 5);
    original.add("likes", 7);
    let all: Vec<&Node> = nodes.iter().chain([&original]).collect();
    let spent = i128::from(by_original.spent) + 2;
    let value = |node: &Node| {
        let budget = node.get(&format!("{SPACE}/budgets/gift")).1;
        budget["value"].as_str().and_then(|text| text.parse().ok())
    };
    eventually("each acknowledged spend is counted", || {
        let counted = |node: &&Node| value(node) == Some(100 - spent);
        all.iter().all(counted).then_some(())
    });
    let different: BTreeSet<u64> = by_original.numbers.iter().copied().collect();
    assert_eq!(
        different.len(),
        by_original.numbers.len(),
        "{by_original:?}"
    );
    assert!(by_original.allowed < 30);
    for at in links {
        names(&nodes[*at], &copied);
    }
    if !links.is_empty() {
        // The two can't connect to each other, and the others tell it, each by the start of the copy that it heard last.
        let what = format!("runs on a copy of the data folder of {copied}");
        for command in [&["doctor"][..], &["budget", "audit"], &["status"]] {
            eventually_within(TURN * 2, "the original names its copy", || {
                told(&original, command).0.contains(&what).then_some(())
            });
        }
    }
    for (node, before) in nodes.iter().zip(before) {
        // One line each about the copy and the link, and one a minute.
        let more = warnings(node) - before;
        let most = 2 + begun.elapsed().as_secs() as usize / 60;
        assert!(more <= most, "{more}\n{}", node.log());
    }
    let (all, is_fine) = told(&copy, &["doctor"]);
    assert!(!is_fine && all.contains("tallymesh adopt"), "{all}");
    let (all, _) = told(&copy, &["budget", "audit"]);
    assert!(all.contains("copy of another node's data folder"), "{all}");
}

#[test]
fn a_copy_beside_its_running_original_with_links_to_all() {
    beside(&[0, 1], false);
}

#[test]
fn a_copy_beside_its_original_with_a_link_to_one() {
    beside(&[1], false);
}

#[test]
fn a_copy_without_links_beside_its_original() {
    beside(&[], false);
}

#[test]
fn a_copy_made_after_a_clean_stop_with_links_to_all() {
    beside(&[0, 1], true);
}

/// What the copy adds comes to the others: in its turns, or while the original is away, as here.
/// A copy that was refused beside its original has a turn each minute. It tries less often by then.
const TURN: Duration = Duration::from_secs(60);

/// Plays a copy beside its original, then in its place, and then the original again. The copy adds once it has what
/// the others have, or before its first link.
fn syncs(before_its_first_link: bool) {
    let mut nodes = members(3);
    let mut original = nodes.pop().expect("three");
    let copy = copy_of(&original, &nodes.iter().collect::<Vec<_>>());
    let show = |nodes: &[&Node], value| {
        eventually_within(TURN * 3, "all show what was added", || {
            let shows = |node: &&Node| node.value("likes") >= Some(value);
            nodes.iter().all(shows).then_some(())
        });
    };
    if before_its_first_link {
        copy.add("likes", 5);
    }
    original.add("likes", 7);
    show(&[&nodes[0], &nodes[1], &original], 7);
    if !before_its_first_link {
        show(&[&copy], 7);
        copy.add("likes", 5);
    }
    original.kill();
    show(&[&nodes[0], &nodes[1], &copy], 12);
    original.start_again_with(peers_of(&nodes.iter().collect::<Vec<_>>()));
    show(&[&nodes[0], &nodes[1], &original], 12);
    made(&original, "budgets/gift/spend", r#"{"amount":1}"#);
}

#[test]
fn a_copy_adds_reads_and_syncs() {
    syncs(false);
}

#[test]
fn what_a_copy_counts_before_its_first_link_is_synced() {
    syncs(true);
}

fn adopt(copy: &Node) {
    let (all, is_fine) = told(copy, &["adopt"]);
    assert!(!is_fine && all.contains("Nothing was done"), "{all}");
    assert_eq!(copy.space()["copied"], true);
    let (all, is_fine) = told(copy, &["adopt", "--yes"]);
    assert!(is_fine && all.contains("takes the place"), "{all}");
    // The operator has just asked for it, so it is no alarm.
    copy.has_logged(&["by the operator's word"]);
    let log = copy.log();
    let mut lines = log
        .lines()
        .filter(|line| line.contains("takes the place of its original"));
    assert!(lines.all(|line| line.contains("INFO")), "{log}");
    assert_eq!(copy.space()["copied"], Value::Null);
    let (all, is_fine) = told(copy, &["adopt", "--yes"]);
    assert!(is_fine && all.contains("no copy"), "{all}");
}

/// The original is gone for good, and its copy takes its place: with its rights, its numbers and its vote.
#[test]
fn an_adopted_copy_takes_the_place_of_its_original() {
    let mut nodes = members(3);
    let mut original = nodes.pop().expect("three");
    made(&original, "budgets/gift/spend", r#"{"amount":9}"#);
    original.kill();
    let mut copy = copy_of(&original, &nodes.iter().collect::<Vec<_>>());
    is_refused(&copy);
    // A restart before it is adopted changes nothing.
    copy.kill();
    copy.start_again();
    is_refused(&copy);
    adopt(&copy);
    made(&copy, "budgets/gift/spend", r#"{"amount":90}"#);
    made(&copy, "sequences/visits/next", "");
    made(&copy, "limits/login/allow", r#"{"cost":1}"#);
    let all: Vec<&Node> = nodes.iter().chain([&copy]).collect();
    settled(&all);
    let (status, answer) = copy.post(&format!("{SPACE}/budgets/gift/spend"), r#"{"amount":1}"#);
    assert_eq!(status, 409, "{answer}");
    assert_eq!(answer["code"], "rights_short", "{answer}");
    // It is in its place from now on, and its restart has its vote with one other.
    noted(&copy);
    let dead = owner(&nodes[1]);
    nodes[1].kill();
    copy.kill();
    copy.start_again_with(peers_of(&[&nodes[0]]));
    let begun = Instant::now();
    let path = format!("{SPACE}/members/remove");
    let body = json!({ "owner": dead, "wait_ms": 20_000 }).to_string();
    let (status, answer) = copy.post(&path, &body);
    assert_eq!(status, 200, "{answer}\n{}", copy.log());
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert!(!copy.log().contains("begins again"), "{}", copy.log());
}

/// Spends at the level `quorum` until the node stands aside. Returns how many spends were acknowledged, and of how many
/// that is not known.
fn spends_until_it_stands_aside(node: &Node, mut between: impl FnMut()) -> (u64, u64) {
    let (mut spent, mut unknown) = (0, 0);
    eventually("it stands aside", || {
        let request = agent()
            .post(format!("{}{SPACE}/budgets/gift/spend", node.url))
            .header("tallymesh-level", "quorum")
            .header("tallymesh-wait-ms", "500");
        let (status, answer) = read(request.send(r#"{"amount":1}"#).expect("an answer"));
        spent += u64::from(status == 200);
        unknown += u64::from(answer["code"] == "level_not_reached");
        between();
        (answer["code"] == "folder_copied").then_some(())
    });
    (spent, unknown)
}

/// Waits until these nodes agree on what is left of the budget. That is so much, less at most what is not known.
fn leaves(nodes: &[&Node], left: u64, unknown: u64) {
    let value = |node: &&Node| number(&node.get(&format!("{SPACE}/budgets/gift")).1, "value");
    eventually("each acknowledged spend is counted", || {
        let counted = |node: &&Node| (left - unknown..=left).contains(&value(node));
        let first = value(&nodes[0]);
        let same = |node: &&Node| counted(node) && value(node) == first;
        nodes.iter().all(same).then_some(())
    });
}

/// The original was started again although its copy was adopted. The newest start goes on, and the other one stands
/// aside for good, over restarts.
#[test]
fn of_an_adopted_copy_and_its_original_the_newest_start_goes_on() {
    let mut nodes = members(3);
    let mut original = nodes.pop().expect("three");
    assert!(original.terminate().success(), "{}", original.log());
    let others: Vec<&Node> = nodes.iter().collect();
    let mut copy = copy_of(&original, &others);
    adopt(&copy);
    made(&copy, "budgets/gift/mint", r#"{"amount":900}"#);
    made(&copy, "budgets/gift/spend", r#"{"amount":1}"#);
    copy.add("likes", 5);
    // A restart in its place is its own start.
    copy.kill();
    copy.start_again();
    made(&copy, "budgets/gift/spend", r#"{"amount":1}"#);
    original.start_again_with(peers_of(&others));
    let mut given = Handouts::default();
    let (by_copy, unknown) = spends_until_it_stands_aside(&copy, || asks(&original, &mut given));
    is_refused(&copy);
    let (all, is_fine) = told(&copy, &["doctor"]);
    assert!(!is_fine && all.contains("took its place"), "{all}");
    copy.add("likes", 7);
    copy.kill();
    copy.start_again();
    is_refused(&copy);
    assert_eq!(original.space()["copied"], Value::Null);
    made(&original, "budgets/gift/spend", r#"{"amount":1}"#);
    let all: Vec<&Node> = nodes.iter().chain([&original]).collect();
    leaves(&all, 1_000 - 4 - by_copy - given.spent, unknown);
    eventually_within(TURN * 3, "what the copy counted comes in its turn", || {
        let shows = |node: &&Node| node.value("likes") == Some(12);
        all.iter().all(shows).then_some(())
    });
    // The operator may choose the other one again.
    original.kill();
    adopt(&copy);
    made(&copy, "budgets/gift/spend", r#"{"amount":1}"#);
}

/// The original runs on while its copy is adopted.
#[test]
fn an_original_that_runs_on_stands_aside_once_its_copy_is_adopted() {
    let mut nodes = members(3);
    let original = nodes.pop().expect("three");
    made(&original, "budgets/gift/mint", r#"{"amount":900}"#);
    leaves(&nodes.iter().collect::<Vec<_>>(), 999, 0);
    let copy = copy_of(&original, &nodes.iter().collect::<Vec<_>>());
    adopt(&copy);
    let (by_original, unknown) = spends_until_it_stands_aside(&original, || ());
    is_refused(&original);
    made(&copy, "budgets/gift/spend", r#"{"amount":1}"#);
    assert_eq!(copy.space()["copied"], Value::Null);
    let all: Vec<&Node> = nodes.iter().chain([&copy]).collect();
    leaves(&all, 999 - 1 - by_original, unknown);
}

/// Waits until a node has noted that its next start may follow this one.
fn noted(node: &Node) {
    eventually("the place is noted", || {
        let kept = fs::read_to_string(node.data().join("place.json")).unwrap_or_default();
        let writer = node.space()["writer"].clone();
        kept.contains(writer.as_str().expect("an id")).then_some(())
    });
}

/// The only member has no witness: its copy waits for the operator.
#[test]
fn a_copy_of_the_only_member_waits_for_the_operator() {
    let mut nodes = members(1);
    let mut original = nodes.pop().expect("one");
    let copy = copy_of(&original, &[]);
    let (mut by_original, mut by_copy) = (Handouts::default(), Handouts::default());
    for _ in 0..10 {
        asks(&original, &mut by_original);
        asks(&copy, &mut by_copy);
    }
    assert_eq!(by_original.spent, 10);
    assert_eq!((by_copy.spent, by_copy.allowed), (0, 0));
    is_refused(&copy);
    let (all, _) = told(&original, &["doctor"]);
    assert!(all.contains("only member"), "{all}");
    original.kill();
    adopt(&copy);
    made(&copy, "budgets/gift/spend", r#"{"amount":1}"#);
}

/// The bound of what can be noticed: an older copy in the place of the only member spends again what was spent
/// since, and no more.
#[test]
fn an_older_copy_in_place_of_the_only_member_spends_again_what_it_forgot() {
    let mut nodes = members(1);
    let mut node = nodes.pop().expect("one");
    assert!(node.terminate().success(), "{}", node.log());
    let older = node.data().with_file_name("older");
    copy_folder(&node.data(), &older);
    node.start_again();
    made(&node, "budgets/gift/spend", r#"{"amount":40}"#);
    assert!(node.terminate().success(), "{}", node.log());
    // Over the files that are there, so the lock file is the same.
    copy_folder(&older.join("."), &node.data());
    node.start_again();
    assert_eq!(node.space()["copied"], Value::Null);
    made(&node, "budgets/gift/spend", r#"{"amount":99}"#);
    let (status, answer) = node.post(&format!("{SPACE}/budgets/gift/spend"), r#"{"amount":1}"#);
    assert_eq!(status, 409, "{answer}");
}

/// The identity of a file, as the node writes it.
fn identity(path: &Path) -> String {
    use std::os::unix::fs::MetadataExt;
    let facts = fs::metadata(path).expect("a file");
    let born = facts.created().expect("a time of creation");
    let born = born.duration_since(std::time::UNIX_EPOCH).expect("a time");
    format!("{}-{}-{}", facts.dev(), facts.ino(), born.as_nanos())
}

/// Makes the files of a copied folder what they are in a clone of the volume: `place.json` names the lock file
/// beside it, and itself.
fn plant(data: &Path) {
    let place = data.join("place.json");
    let kept = fs::read(&place).expect("place.json");
    let mut kept: Value = serde_json::from_slice(&kept).expect("JSON");
    kept["file"] = json!(identity(&place));
    kept["lock"] = json!(identity(&data.join("lock")));
    fs::write(&place, kept.to_string()).expect("written");
}

/// The bound of what can be noticed: a clone that has all identities of its original, as one of a volume has, is
/// taken for the original.
#[test]
fn a_clone_of_a_volume_is_not_noticed() {
    let mut nodes = members(1);
    let mut original = nodes.pop().expect("one");
    assert!(original.terminate().success(), "{}", original.log());
    let clone = Node::start_on(&[], |data| {
        copy_folder(&original.data(), data);
        plant(data);
    });
    original.start_again();
    assert_eq!(clone.space()["copied"], Value::Null);
    made(&original, "budgets/gift/spend", r#"{"amount":60}"#);
    made(&clone, "budgets/gift/spend", r#"{"amount":60}"#);
    let (all, _) = told(&clone, &["doctor"]);
    assert!(all.contains("clone of its volume"), "{all}");
}

/// An adopted copy has no vote before both others know its start, and one of them is dead. Nobody is told to remove it:
/// that can't be decided.
#[test]
fn no_removal_is_advised_that_an_adopted_copy_cannot_decide() {
    let mut nodes = members(3);
    let mut original = nodes.pop().expect("three");
    let dead = owner(&nodes[1]);
    original.kill();
    nodes[1].kill();
    let copy = copy_of(&original, &[&nodes[0]]);
    adopt(&copy);
    let (all, _) = eventually("the dead member is missed", || {
        let told = told(&copy, &["doctor"]);
        told.0.contains("not there: ").then_some(told)
    });
    let short = &dead[..8];
    for part in [
        "this member has no vote: 2 of the 2 others have to know its start",
        "2 of 3 members are there and 1 of them may vote, and 2 are a majority; not there: ",
        "tallymesh members force",
    ] {
        assert!(all.contains(part) && all.contains(short), "{part}: {all}");
    }
    let (all, _) = eventually("what is stuck with it is told", || {
        let told = told(&copy, &["doctor"]);
        told.0.contains("no removal can be decided").then_some(told)
    });
    assert!(!all.contains("members remove"), "{all}");
}
