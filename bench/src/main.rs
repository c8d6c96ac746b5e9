//! Figures of the core beside the floors and peers that they are judged against, in one run.

mod alloc;
mod core_bench;
mod measure;
mod peers;
mod resp_bench;

use clap::Parser;
use measure::Report;
use std::path::PathBuf;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

/// Measures Tallymesh beside its floors and peers.
#[derive(Parser)]
struct Args {
    /// Which figures: of the core, or of the Redis protocol beside a real Redis
    #[arg(default_value = "core", value_parser = ["core", "resp"])]
    what: String,
    /// The program `tallymesh`, for the Redis protocol
    #[arg(long, default_value = "target/release/tallymesh")]
    node: PathBuf,
    /// Only these groups: add, merge, size
    #[arg(long, value_delimiter = ',', default_value = "add,merge,size")]
    only: Vec<String>,
    /// Rounds of each measurement; the median counts
    #[arg(long, default_value_t = 11)]
    rounds: usize,
    /// Leave out the document CRDTs, which take the most time; of the Redis protocol, do a tenth of the
    /// work
    #[arg(long)]
    quick: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if args.what == "resp" {
        return resp_bench::run(&args.node, args.rounds, args.quick);
    }
    let mut report = Report::new(args.rounds.max(1), !args.json);
    core_bench::run(&mut report, &args.only, args.quick);
    if args.json {
        println!("{}", report.json());
    }
    Ok(())
}
