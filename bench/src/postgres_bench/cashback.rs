//! Units that move between two accounts, here taken and there added in one transaction: how many a
//! second, and whether all is still there.

use super::crowd::{Answer, Figure, Step, Until, ask_all};
use super::mesh::{Mesh, Speech, Wish};
use super::{Plan, Servers};
use crate::random::Random;
use anyhow::{Result, bail};
use postgres::Client;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// How many clients there are.
const CLIENTS: [usize; 2] = [3, 6];
/// What is on each account at first: enough, whichever way chance goes.
const START: u64 = 160_000;
/// Into how many rows an account is split.
const PARTS: i64 = 8;

const HEAD: &str = "Two accounts with START units each. A client takes a unit from one of them, drawn at \
    random, and adds it to the other one, in one transaction, for SECONDS s. PostgreSQL takes the locks of \
    both rows in the order of their keys, by one `SELECT ... ORDER BY ... FOR UPDATE`, and then updates \
    both. Split: an account is PARTS rows, of which a transaction takes one at random, on both sides. \
    After each round both accounts have to have exactly what the answers come to, at each node, and \
    together what they had, or the run fails.\n\n\
    | clients | way | transfers a second | p50, ms | p99, ms | made |\n\
    |---:|---|---:|---:|---:|---:|\n";

/// A way to keep accounts.
#[derive(Clone, Copy)]
enum Way<'a> {
    /// In so many rows each.
    Postgres(i64),
    Node(&'a Mesh<'a>, Speech),
}

impl Way<'_> {
    fn name(self) -> String {
        match self {
            Way::Postgres(1) => "PostgreSQL, row locks in order".into(),
            Way::Postgres(parts) => format!("PostgreSQL, split into {parts} rows"),
            Way::Node(mesh, speech) => format!("{}, {}", mesh.name(), speech.name()),
        }
    }
}

/// Measures all ways in turn; the table is in Markdown.
///
/// # Errors
/// When units came or went, or when a server fails.
pub(super) fn run(plan: &Plan<'_>, servers: &Servers<'_>) -> Result<String> {
    let mut admin = servers.postgres.client()?;
    admin.batch_execute(
        "DROP TABLE IF EXISTS accounts;
         CREATE TABLE accounts (id bigint, part bigint, rest bigint NOT NULL, PRIMARY KEY (id, part))",
    )?;
    let mut ways = vec![Way::Postgres(1), Way::Postgres(PARTS)];
    for mesh in &servers.meshes {
        ways.extend([Speech::Resp, Speech::Http].map(|speech| Way::Node(mesh, speech)));
    }
    let mut text = HEAD.replace("START", &START.to_string());
    text = text.replace("PARTS", &PARTS.to_string());
    text = text.replace("SECONDS", &plan.seconds().to_string());
    let time = Duration::from_secs_f64(plan.seconds());
    let mut accounts = 0;
    for clients in CLIENTS {
        let mut all = vec![Vec::new(); ways.len()];
        // The first round warms up.
        for round in 0..=plan.rounds {
            for (way, figures) in ways.iter().zip(&mut all) {
                let figure = transfer(servers, *way, clients, &mut accounts, time)?;
                if round > 0 {
                    figures.push(figure);
                }
            }
        }
        for (way, figures) in ways.iter().zip(&all) {
            let middle = Figure::middle(figures);
            let line = format!(
                "| {clients} | {} | {:.0} | {:.2} | {:.2} | {} |",
                way.name(),
                middle.rate,
                middle.p50,
                middle.p99,
                middle.made,
            );
            println!("{line}");
            // Writing to a string does not fail.
            let _ = writeln!(text, "{line}");
        }
    }
    Ok(text)
}

/// What the answers say of the first of two accounts: how many units came to it.
type Came = Arc<AtomicI64>;

/// Makes two fresh accounts, and has all clients move units between them.
fn transfer(
    servers: &Servers<'_>,
    way: Way<'_>,
    clients: usize,
    accounts: &mut i64,
    time: Duration,
) -> Result<Figure> {
    let pair = [*accounts + 1, *accounts + 2];
    *accounts += 2;
    let came = Came::default();
    let counted = |client: usize, step: Box<Move>| -> Step {
        let came = came.clone();
        let mut step = step;
        let mut random = Random::new(pair[0].unsigned_abs() << 32 | client as u64);
        Box::new(move || {
            let forth = random.below(2) == 0;
            let answer = step(forth, &mut random)?;
            if answer == Answer::Made {
                came.fetch_add(if forth { -1 } else { 1 }, Ordering::Relaxed);
            }
            Ok(answer)
        })
    };
    let names = pair.map(|id| format!("account-{id}"));
    let mut admin = servers.postgres.client()?;
    let mut crowd = Vec::new();
    match way {
        Way::Node(mesh, speech) => {
            for name in &names {
                mesh.mint(name, START)?;
            }
            for client in 0..clients {
                crowd.push(counted(
                    client,
                    at_node(mesh, client, speech, names.clone())?,
                ));
            }
        }
        Way::Postgres(parts) => {
            let start = START as i64 / parts;
            for id in pair {
                admin.execute(
                    "INSERT INTO accounts SELECT $1, part, $2 FROM generate_series(1::bigint, $3::bigint) AS part",
                    &[&id, &start, &parts],
                )?;
            }
            for client in 0..clients {
                let connection = servers.postgres.client()?;
                crowd.push(counted(client, at_postgres(connection, pair, parts)?));
            }
        }
    }
    let figure = ask_all(crowd, Until::Passed(time))?;
    let came = came.load(Ordering::Relaxed);
    let wanted = [START as i64 + came, START as i64 - came];
    match way {
        Way::Node(mesh, _) => {
            let [first, second] = wanted.map(i64::unsigned_abs);
            mesh.agree_on(&[(&names[0], first), (&names[1], second)])?;
        }
        Way::Postgres(_) => {
            for (id, wanted) in pair.iter().zip(wanted) {
                let row = admin.query_one(
                    "SELECT sum(rest)::bigint, min(rest) FROM accounts WHERE id = $1",
                    &[id],
                )?;
                let (sum, least): (i64, i64) = (row.get(0), row.get(1));
                if sum != wanted || least < 0 {
                    bail!("{}: an account has {sum}, not {wanted}", way.name());
                }
            }
        }
    }
    Ok(figure)
}

/// Moves a unit from the first account to the second, or back.
type Move = dyn FnMut(bool, &mut Random) -> Result<Answer> + Send;

fn at_node(
    mesh: &Mesh<'_>,
    client: usize,
    speech: Speech,
    [first, second]: [String; 2],
) -> Result<Box<Move>> {
    let mut ask = mesh.client(client, speech)?;
    let there = Wish::Transfer(first.clone(), second.clone());
    let back = Wish::Transfer(second, first);
    Ok(Box::new(move |forth, _| {
        ask(if forth { &there } else { &back })
    }))
}

fn at_postgres(mut client: Client, pair: [i64; 2], parts: i64) -> Result<Box<Move>> {
    let lock = client.prepare(
        "SELECT id, rest FROM accounts WHERE (id = $1 AND part = $2) OR (id = $3 AND part = $4)
         ORDER BY id, part FOR UPDATE",
    )?;
    let add = client.prepare("UPDATE accounts SET rest = rest + $3 WHERE id = $1 AND part = $2")?;
    Ok(Box::new(move |forth, random| {
        let [from, to] = if forth { pair } else { [pair[1], pair[0]] };
        let mut part = || 1 + random.below(parts as usize) as i64;
        let (first, there) = (part(), part());
        // If a row has nothing left, another one of the account may have.
        for tried in 0..parts {
            let here = 1 + (first - 1 + tried) % parts;
            let mut transaction = client.transaction()?;
            let rows = transaction.query(&lock, &[&from, &here, &to, &there])?;
            let of = |id: i64| rows.iter().find(|row| row.get::<_, i64>(0) == id);
            if of(from).is_none_or(|row| row.get::<_, i64>(1) < 1) {
                transaction.rollback()?;
                continue;
            }
            transaction.execute(&add, &[&from, &here, &-1_i64])?;
            transaction.execute(&add, &[&to, &there, &1_i64])?;
            transaction.commit()?;
            return Ok(Answer::Made);
        }
        Ok(Answer::Refused)
    }))
}
