//! The share of the exploration of spaces with members that every run repeats; the program
//! `retirement` is the whole of it.

use tallymesh_tests::explore::Report;
use tallymesh_tests::retirement::{explore, share};

#[test]
fn no_order_of_farewells_fences_and_restarts_gives_a_wrong_answer() {
    println!("{}", Report::HEAD);
    for config in share() {
        let explored = explore(&config);
        let (report, more) = explored.unwrap_or_else(|failure| panic!("{failure}"));
        println!("{report}\n{more:?}");
        assert!(report.complete, "{report}");
    }
}
