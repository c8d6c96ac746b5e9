//! One budget that many clients spend a unit at a time until nothing is left: how many a second, and
//! whether it was exactly as many as there were.

use super::crowd::{Answer, Figure, Step, Until, ask_all};
use super::mesh::{Mesh, Speech, Wish};
use super::{Plan, Servers};
use anyhow::{Result, bail};
use postgres::{Client, Statement};
use std::fmt::Write;

/// How many clients there are.
const CLIENTS: [usize; 4] = [3, 6, 9, 100];
/// What is spent to find out how much can be spent in the time of a round; and the least of a round.
const FIRST: u64 = 200;

const HEAD: &str = "One budget, from which all clients spend a unit at a time until they are refused; how \
    much there is is chosen so that a round takes about SECONDS s. Milliseconds are those of a spend \
    that was made. Over: how many spends were made beyond what there was, in all rounds together; of \
    all but the first way it has to be 0, and what was made and what is left has to be what there was, \
    or the run fails.\n\n\
    | clients | way | spends a second | p50, ms | p99, ms | made | of | over |\n\
    |---:|---|---:|---:|---:|---:|---:|---:|\n";

/// A way to keep a budget in PostgreSQL.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lock {
    /// Reads what is left, and writes what is left then, in one transaction of READ COMMITTED.
    Naive,
    /// The same, and reads with `FOR UPDATE`.
    ForUpdate,
    /// One `UPDATE` that changes no row if too little is left.
    Conditional,
}

/// A way to keep a budget.
#[derive(Clone, Copy)]
enum Way<'a> {
    Postgres(Lock),
    Node(&'a Mesh<'a>, Speech),
}

impl Way<'_> {
    fn name(self) -> String {
        match self {
            Way::Postgres(Lock::Naive) => "PostgreSQL, read then write".into(),
            Way::Postgres(Lock::ForUpdate) => "PostgreSQL, `FOR UPDATE`".into(),
            Way::Postgres(Lock::Conditional) => "PostgreSQL, `UPDATE ... WHERE`".into(),
            Way::Node(mesh, speech) => format!("{}, {}", mesh.name(), speech.name()),
        }
    }
}

/// What a way came to with so many clients.
struct Rounds {
    figures: Vec<Figure>,
    /// What there was to be spent, in all rounds.
    there: u64,
    /// How much to spend in the next one.
    next: u64,
}

impl Rounds {
    fn over(&self) -> u64 {
        let made: u64 = self.figures.iter().map(|it| it.made).sum();
        made.saturating_sub(self.there)
    }
}

/// Measures all ways in turn; the table is in Markdown.
///
/// # Errors
/// When more was spent than there was, or less was left than has to be; when reading and then writing
/// never spent too much, so that it could not be seen; or when a server fails.
pub(super) fn run(plan: &Plan<'_>, servers: &Servers<'_>) -> Result<String> {
    let mut admin = servers.postgres.client()?;
    admin.batch_execute(
        "DROP TABLE IF EXISTS budgets;
         CREATE TABLE budgets (id bigint PRIMARY KEY, rest bigint NOT NULL)",
    )?;
    let mut ways = vec![
        Way::Postgres(Lock::Naive),
        Way::Postgres(Lock::ForUpdate),
        Way::Postgres(Lock::Conditional),
    ];
    for mesh in &servers.meshes {
        ways.extend([Speech::Resp, Speech::Http].map(|speech| Way::Node(mesh, speech)));
    }
    let mut text = HEAD.replace("SECONDS", &plan.seconds().to_string());
    let (mut budgets, mut naive_over) = (0, 0);
    for clients in CLIENTS {
        let mut all = Vec::new();
        for way in &ways {
            let first = spend(servers, *way, clients, &mut budgets, FIRST)?;
            all.push(Rounds {
                figures: Vec::new(),
                there: 0,
                // By how fast the budget went: who spends a unit twice makes more than there is.
                next: FIRST.max((FIRST as f64 * plan.seconds() / first.seconds) as u64),
            });
        }
        for _ in 0..plan.rounds {
            for (way, rounds) in ways.iter().zip(&mut all) {
                let figure = spend(servers, *way, clients, &mut budgets, rounds.next)?;
                rounds.there += rounds.next;
                rounds.figures.push(figure);
            }
        }
        for (way, rounds) in ways.iter().zip(&all) {
            let middle = Figure::middle(&rounds.figures);
            if let Way::Postgres(Lock::Naive) = way {
                naive_over += rounds.over();
            }
            let line = format!(
                "| {clients} | {} | {:.0} | {:.2} | {:.2} | {} | {} | {} |",
                way.name(),
                middle.rate,
                middle.p50,
                middle.p99,
                middle.made,
                rounds.there,
                rounds.over(),
            );
            println!("{line}");
            // Writing to a string does not fail.
            let _ = writeln!(text, "{line}");
        }
    }
    match naive_over {
        0 => {
            bail!("to read and then to write spent no unit twice, so nothing would have been seen")
        }
        _ => Ok(text),
    }
}

/// Makes a fresh budget, and has all clients spend it.
fn spend(
    servers: &Servers<'_>,
    way: Way<'_>,
    clients: usize,
    budgets: &mut i64,
    there: u64,
) -> Result<Figure> {
    *budgets += 1;
    let id = *budgets;
    let name = format!("pot-{id}");
    match way {
        Way::Node(mesh, speech) => {
            mesh.mint(&name, there)?;
            let crowd = (0..clients).map(|client| -> Result<Step> {
                let mut ask = mesh.client(client, speech)?;
                let wish = Wish::Spend(name.clone());
                Ok(Box::new(move || ask(&wish)))
            });
            let figure = ask_all(crowd.collect::<Result<_>>()?, Until::Refused)?;
            // If more was made than there was, no value can be right.
            let left = there.checked_sub(figure.made);
            let Some(left) = left else {
                bail!(
                    "{}: {} units of {there} were spent",
                    way.name(),
                    figure.made
                );
            };
            mesh.agree_on(&[(&name, left)])?;
            Ok(figure)
        }
        Way::Postgres(lock) => {
            let mut admin = servers.postgres.client()?;
            let start = i64::try_from(there)?;
            admin.execute("INSERT INTO budgets VALUES ($1, $2)", &[&id, &start])?;
            let crowd = (0..clients).map(|_| spender(servers.postgres.client()?, lock, id));
            let figure = ask_all(crowd.collect::<Result<_>>()?, Until::Refused)?;
            let row = admin.query_one("SELECT rest FROM budgets WHERE id = $1", &[&id])?;
            let rest: i64 = row.get(0);
            let adds_up = i128::from(rest) + i128::from(figure.made) == i128::from(there);
            if lock != Lock::Naive && (rest < 0 || !adds_up) {
                bail!(
                    "{}: {} units of {there} were spent, and {rest} are left",
                    way.name(),
                    figure.made
                );
            }
            Ok(figure)
        }
    }
}

fn spender(mut client: Client, lock: Lock, id: i64) -> Result<Step> {
    let read = match lock {
        Lock::ForUpdate => "SELECT rest FROM budgets WHERE id = $1 FOR UPDATE",
        _ => "SELECT rest FROM budgets WHERE id = $1",
    };
    let write = match lock {
        Lock::Conditional => "UPDATE budgets SET rest = rest - $2 WHERE id = $1 AND rest >= $2",
        _ => "UPDATE budgets SET rest = $2 WHERE id = $1",
    };
    let (read, write) = (client.prepare(read)?, client.prepare(write)?);
    Ok(Box::new(move || match lock {
        Lock::Conditional => {
            let changed = client.execute(&write, &[&id, &1_i64])?;
            Ok(if changed == 1 {
                Answer::Made
            } else {
                Answer::Refused
            })
        }
        _ => read_then_write(&mut client, &read, &write, id),
    }))
}

fn read_then_write(
    client: &mut Client,
    read: &Statement,
    write: &Statement,
    id: i64,
) -> Result<Answer> {
    let mut transaction = client.transaction()?;
    let rest: i64 = transaction.query_one(read, &[&id])?.get(0);
    if rest < 1 {
        transaction.rollback()?;
        return Ok(Answer::Refused);
    }
    transaction.execute(write, &[&id, &(rest - 1)])?;
    transaction.commit()?;
    Ok(Answer::Made)
}
