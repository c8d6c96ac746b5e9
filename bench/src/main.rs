//! Figures of the core beside the floors and peers that they are judged against, in one run.

mod alloc;
mod core_bench;
mod measure;
mod peers;

use clap::Parser;
use measure::Report;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

/// Measures Tallymesh beside its floors and peers.
#[derive(Parser)]
struct Args {
    /// Which figures: core
    #[arg(default_value = "core", value_parser = ["core"])]
    what: String,
    /// Only these groups: add, merge, size
    #[arg(long, value_delimiter = ',', default_value = "add,merge,size")]
    only: Vec<String>,
    /// Rounds of each measurement; the median counts
    #[arg(long, default_value_t = 11)]
    rounds: usize,
    /// Leave out the document CRDTs, which take the most time
    #[arg(long)]
    quick: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn main() {
    let args = Args::parse();
    let mut report = Report::new(args.rounds.max(1), !args.json);
    core_bench::run(&mut report, &args.only, args.quick);
    if args.json {
        println!("{}", report.json());
    }
}
