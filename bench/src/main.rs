//! Figures of the core, of the Redis protocol, of HTTP and of stores, beside the floors and peers that
//! they are judged against, in one run; what a mesh of nodes costs; budgets beside PostgreSQL; a node
//! whose bounds are full beside an empty one; and many pages at one node.

mod alloc;
mod core_bench;
mod counts;
mod full_bench;
mod http_bench;
mod measure;
mod mesh_bench;
mod peers;
mod postgres_bench;
mod random;
mod report;
mod resp_bench;
mod resp_client;
#[cfg(feature = "stores")]
mod store_bench;
mod visitors_bench;

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use std::path::PathBuf;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

/// Measures Tallymesh beside its floors and peers.
#[derive(Parser)]
struct Args {
    /// Which figures
    #[arg(value_enum, default_value_t = What::Core)]
    what: What,
    /// The program `tallymesh`, for the Redis protocol, HTTP, the mesh, budgets, full nodes and visitors
    #[arg(long, default_value = "target/release/tallymesh")]
    node: PathBuf,
    /// Only these parts: of core add, merge, size, counts; of resp speed, memory, gossip, reopen; of http
    /// add; of store commits, reading; of mesh idle, changes, converge, curve,
    /// liveness; of postgres spends, cashback; of full open, members; of visitors
    /// together, click, connected, steady, nodes, workers, fresh, crowd, passing
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The program whose instructions are counted (core only); `cargo xtask` builds and names it
    #[arg(long, hide = true)]
    counts: Option<PathBuf>,
    /// Another build of `tallymesh`, which takes the place of the floor and of Redis (http and the part
    /// speed of resp); nothing is written to a report
    #[arg(long, value_name = "PROGRAM", conflicts_with = "report")]
    before: Option<PathBuf>,
    /// Another revision, beside which instructions are counted (core only)
    #[arg(long, value_name = "REV", requires = "counts_base")]
    base: Option<String>,
    /// The same program with the core of that revision; `cargo xtask` builds and names it
    #[arg(long, hide = true)]
    counts_base: Option<PathBuf>,
    /// Rounds of each measurement; the median counts
    #[arg(long, default_value_t = 11)]
    rounds: usize,
    /// Leave out the document CRDTs, which take the most time; of the others, do a tenth of the work
    #[arg(long)]
    quick: bool,
    /// Seconds that each measurement takes (full only)
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    #[command(flatten)]
    visitors: visitors_bench::Args,
    /// Print JSON (core only)
    #[arg(long)]
    json: bool,
    /// Put each part that was measured into its place in this file, such as docs/reports/resp.md
    /// (not of core)
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// What can be measured.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// The core, beside other CRDTs
    Core,
    /// The Redis protocol of a node, beside a real Redis
    Resp,
    /// The HTTP interface of a node, beside the least that its libraries can do
    Http,
    /// The node's log, beside other stores
    Store,
    /// What nodes send each other, and how long a change takes to all of them
    Mesh,
    /// Budgets of nodes, beside the ways to keep one in PostgreSQL
    Postgres,
    /// A node whose bounds are full, beside an empty one
    Full,
    /// Many pages at one node, beside y-websocket and a broadcast server
    Visitors,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let rounds = args.rounds.max(1);
    match args.what {
        What::Core => {
            let only = parts(&args.only, &core_bench::GROUPS)?;
            let mut report = measure::Report::new(rounds, !args.json);
            core_bench::run(&mut report, &only, args.quick);
            if only.contains(&core_bench::COUNTS) {
                count(&mut report, &args)?;
            }
            if args.json {
                println!("{}", report.json());
            }
            Ok(())
        }
        What::Resp => {
            let only = parts(&args.only, &resp_bench::SECTIONS)?;
            let plan = resp_bench::Plan {
                node: &args.node,
                before: args.before.as_deref(),
                rounds,
                quick: args.quick,
            };
            resp_bench::run(&plan, &only, &sections(&args))
        }
        What::Http => {
            parts(&args.only, &http_bench::SECTIONS)?;
            let plan = http_bench::Plan {
                node: &args.node,
                before: args.before.as_deref(),
                rounds,
                quick: args.quick,
            };
            http_bench::run(&plan, &sections(&args))
        }
        What::Mesh => {
            let only = parts(&args.only, &mesh_bench::SECTIONS)?;
            let plan = mesh_bench::Plan {
                node: &args.node,
                rounds,
                quick: args.quick,
            };
            mesh_bench::run(&plan, &only, &sections(&args))
        }
        What::Postgres => {
            let only = parts(&args.only, &postgres_bench::SECTIONS)?;
            let plan = postgres_bench::Plan {
                node: &args.node,
                rounds,
                quick: args.quick,
            };
            postgres_bench::run(&plan, &only, &sections(&args))
        }
        What::Full => {
            let only = parts(&args.only, &full_bench::SECTIONS)?;
            let plan = full_bench::Plan {
                node: &args.node,
                rounds,
                quick: args.quick,
                seconds: args.seconds,
            };
            full_bench::run(&plan, &only, &sections(&args))
        }
        What::Visitors => {
            let mut only = parts(&args.only, &visitors_bench::SECTIONS)?;
            only.retain(|it| *it != visitors_bench::PASSING || args.visitors.long);
            anyhow::ensure!(!only.is_empty(), "`passing` takes long: add --long");
            let plan = visitors_bench::Plan::new(&args.node, &args.visitors, args.quick)?;
            visitors_bench::run(&plan, &only, &sections(&args))
        }
        #[cfg(feature = "stores")]
        What::Store => {
            let only = parts(&args.only, &store_bench::SECTIONS)?;
            store_bench::run(rounds, args.quick, &only, &sections(&args))
        }
        #[cfg(not(feature = "stores"))]
        What::Store => bail!("this build has no other stores: run `cargo xtask bench -- store`"),
    }
}

/// Counts instructions of the core, if this machine can.
fn count(report: &mut measure::Report, args: &Args) -> Result<()> {
    let Some(now) = args.counts.clone() else {
        eprintln!(
            "instructions are not counted: `cargo xtask bench -- core` builds what is counted"
        );
        return Ok(());
    };
    if !counts::can_count() {
        eprintln!("instructions are not counted: there is no valgrind on the path");
        return Ok(());
    }
    let base = args.counts_base.clone();
    counts::run(report, &counts::Programs { now, base })
}

/// The parts that were asked for; all if none was named.
fn parts<'a>(only: &[String], all: &[&'a str]) -> Result<Vec<&'a str>> {
    if let Some(unknown) = only.iter().find(|name| !all.contains(&name.as_str())) {
        bail!(
            "there is no part `{unknown}`: name one of {}",
            all.join(", ")
        );
    }
    let wanted = |name: &&&str| only.is_empty() || only.iter().any(|it| it == **name);
    Ok(all.iter().filter(wanted).copied().collect())
}

fn sections(args: &Args) -> report::Sections {
    let what = args.what.to_possible_value();
    let what = what.map_or(String::new(), |what| what.get_name().to_owned());
    let quick = if args.quick { " --quick" } else { "" };
    let seconds = args.seconds.map(|it| format!(" --seconds {it}"));
    let seconds = seconds.unwrap_or_default();
    let options = match args.what {
        What::Visitors => args.visitors.shown(),
        _ => format!(" --rounds {}", args.rounds),
    };
    let command = format!("cargo xtask bench -- {what}{options}{quick}{seconds}");
    report::Sections {
        file: args.report.clone(),
        made_by: tallymesh_reports::made_by(&command, true),
    }
}
