use crate::deeds::{Deed, Outcome};
use crate::world::World;

const DELAY_MS: u64 = 500;

fn world(seed: u64) -> World {
    World::new(3, seed, DELAY_MS).expect("three members")
}

fn spend(world: &mut World, at: usize, amount: u64) -> Option<&Outcome> {
    let name = "gift".into();
    world
        .ask(at, Deed::Spend { name, amount }, 1_500)
        .expect("a deed");
    world.run(world.now() + 3_000).expect("time");
    world.events.last().map(|it| &it.outcome)
}

#[test]
fn the_same_seed_is_the_same_run() {
    let told = |seed| {
        let mut world = world(seed);
        world.mint(0, "gift", 90).expect("a budget");
        world.run(world.now() + 700).expect("time");
        let (state, flights) = (
            crate::page_json::state(&world),
            crate::page_json::flights(&world),
        );
        format!("{} {state} {flights}", world.now())
    };
    assert_eq!(told(7), told(7));
    assert_ne!(told(7), told(8));
}

#[test]
fn what_is_held_is_spent_in_a_cut_and_the_rest_after_it() {
    let mut world = world(7);
    world.mint(0, "gift", 90).expect("a budget");
    world.grant(0, "gift", 2, 30).expect("a grant");
    world.run(world.now() + 2_000).expect("time");
    for pair in [[0, 2], [1, 2]] {
        world.cut(pair, true);
    }
    assert!(matches!(spend(&mut world, 2, 30), Some(Outcome::Spent)));
    match spend(&mut world, 2, 10) {
        Some(Outcome::RightsShort(held)) => assert_eq!((held.here, held.elsewhere), (0, 60)),
        _ => panic!("it is refused"),
    }
    for pair in [[0, 2], [1, 2]] {
        world.cut(pair, false);
    }
    world.run(world.now() + 3_000).expect("time");
    assert!(matches!(spend(&mut world, 2, 60), Some(Outcome::Spent)));
    for member in &world.members {
        assert_eq!(
            member.replica.quota().budget("gift").map(|it| it.value),
            Some(0)
        );
    }
    assert_eq!(world.found.lowest.get("gift"), Some(&0));
    assert_eq!((world.found.astray, world.found.faults), (0, 0));
}

#[test]
fn no_number_is_handed_out_twice_and_the_watched_one_once() {
    let mut world = world(7);
    world.begin(0, "visits").expect("a sequence");
    world.watch(0, "visits", 9).expect("a watch");
    world.run(world.now() + 3_000).expect("time");
    for round in 0..12 {
        for pair in [[0, 2], [1, 2]] {
            world.cut(pair, (3..7).contains(&round));
        }
        for at in 0..3 {
            let name = "visits".into();
            world.ask(at, Deed::Next { name }, 2_000).expect("a deed");
        }
        world.run(world.now() + 2_500).expect("time");
    }
    let issued = &world.found.issued;
    assert_eq!(issued.iter().filter(|it| it.0 == 9).count(), 1);
    assert!(issued.len() > 20, "{issued:?}");
    assert_eq!((world.found.twice, world.found.faults), (0, 0));
}
