//! The share of the exploration of spaces with members that every run repeats. The program `retirement` runs
//! the whole of it.

use tallymesh_tests::explore::Report;
use tallymesh_tests::retirement::{explore, share};
use tallymesh_tests::seeds;

#[test]
fn no_order_of_leaves_fences_and_restarts_gives_a_wrong_answer() {
    println!("{}", Report::HEAD);
    let configs = share();
    seeds::each(configs.len() as u64, |at| {
        let explored = explore(&configs[at as usize]);
        let (report, more) = explored.map_err(|failure| failure.to_string())?;
        println!("{report}\n{more:?}");
        match report.complete {
            true => Ok(()),
            false => Err(report.to_string()),
        }
    });
}
