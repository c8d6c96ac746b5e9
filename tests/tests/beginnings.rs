//! How a space gets its members. `TALLYMESH_SEED=n` replays one seed with a trace, `TALLYMESH_SEEDS=n`
//! runs so many.

use tallymesh_tests::beginnings::run;
use tallymesh_tests::seeds;

/// Among them are 613, 1070, 2303 and 2769, in which one that had counted before, or had heard of who had,
/// once stayed apart for ever.
const SEEDS: u64 = 3_000;

/// How long each of the seeds took.
#[derive(Debug, Default)]
struct Took(Vec<u64>);

#[test]
fn members_are_decided_soon_whoever_has_counted_before() {
    let run = |seed, traced| run(seed, traced).map(|took| Took(vec![took]));
    let add = |all: &mut Took, one: &Took| all.0.extend(&one.0);
    let Some((count, Took(mut all))) = seeds::play(SEEDS, run, add) else {
        return;
    };
    all.sort_unstable();
    let most = all[all.len() * 9 / 10];
    assert!(
        most < 1_000 || count < SEEDS,
        "nine in ten took up to {most} ms"
    );
}
