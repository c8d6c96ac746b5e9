//! Peers with limited rights. A message that they may not send is rejected with its code and changes nothing,
//! and the others go on. A message that they may send is merged, and no message goes round in circles.

#[path = "rights/world.rs"]
mod world;

use tallymesh_core::wire::{Body, Frame, Last};
use tallymesh_core::{
    Encode, Input, Message, Op, Owner, Replica, Role, Space, VersionVector, WriterId,
};
use world::{EVE, MEMBER, OTHER, World};

fn push(message: Message) -> Vec<u8> {
    frame(Body::Push(message))
}

fn frame(body: Body) -> Vec<u8> {
    let space = Space::default();
    Frame { space, body }.encode()
}

/// Eve has a link of this role to a member, sends the message of `lie`, and is rejected with this code. If
/// she is `careless`, her machine ignores what the member accepts.
fn refused((closed, role, careless): (bool, Role, bool), code: &str, lie: impl Fn(&mut World)) {
    let mut world = World::new(closed);
    world.careless = careless;
    let link = world.link(MEMBER, EVE, Some(role));
    if careless && role != Role::Reader {
        let (writer, nonce) = (world.peers[EVE].first, world.peers[EVE].nonce);
        world.say(EVE, &frame(Body::Own { writer, nonce }));
    }
    world.runs(10_000);
    assert_eq!(world.refused, [], "she sends a hello as others do");
    let before = world.bytes(MEMBER);
    lie(&mut world);
    world.runs(100);
    let refused = world.refused.iter().map(|it| (it.0, it.2));
    assert_eq!(refused.collect::<Vec<_>>(), [(MEMBER, code)], "{role:?}");
    let cut = world.refused[0].1;
    assert!(cut.is_none_or(|cut| cut == link));
    assert_eq!(world.bytes(MEMBER), before, "nothing changed");
    world.unlink(link);
    world.link(MEMBER, OTHER, None);
    world.add(MEMBER, "a", 1);
    world.add(OTHER, "a", 1);
    world.runs(3_000);
    assert_eq!(world.bytes(MEMBER), world.bytes(OTHER));
    assert_eq!(world.value(MEMBER, "a"), Some(12));
}

/// A message of an unknown writer that claims everything that the member has.
fn of_another(world: &World) -> Message {
    let mut other = Replica::new(Space::default(), WriterId::from_bytes([0xaa; 16]));
    other.merge(&world.state(MEMBER)).unwrap();
    other.add("a", 100).unwrap();
    other.delta(&world.peers[MEMBER].replica.vector())
}

#[test]
fn a_shard_of_another_is_refused() {
    for (closed, role) in [
        (false, Role::Writer),
        (true, Role::Writer),
        (true, Role::Editor),
    ] {
        refused((closed, role, false), "not_yours", |world| {
            let message = of_another(world);
            world.say(EVE, &push(message));
        });
    }
}

/// She claims later clocks of the member's own writer.
#[test]
fn a_shard_of_the_member_itself_is_refused() {
    refused((true, Role::Editor, false), "not_yours", |world| {
        let mut copy = world.peers[MEMBER].replica.clone();
        copy.add("a", 100).unwrap();
        let message = copy.delta(&world.peers[MEMBER].replica.vector());
        world.say(EVE, &push(message));
    });
}

#[test]
fn a_shard_of_another_is_refused_by_broadcast() {
    refused((true, Role::Editor, false), "not_yours", |world| {
        let bytes = push(of_another(world));
        world.broadcast(MEMBER, EVE, &bytes);
    });
}

/// Her machine answers with everything that it has, as a trusted one does.
#[test]
fn a_shard_of_another_is_refused_in_an_answer() {
    for (closed, role) in [(false, Role::Writer), (true, Role::Editor)] {
        refused((closed, role, true), "not_yours", |world| {
            world.unlink_all(OTHER);
            world.add(OTHER, "b", 5);
            let message = world.state(OTHER);
            world.peers[EVE].replica.merge(&message).unwrap();
            world.runs(2_000);
        });
    }
}

#[test]
fn what_a_writer_cancels_is_refused() {
    let ops = [
        Op::Reset,
        Op::Delete,
        Op::Set(7),
        Op::Expire(1 << 40),
        Op::Persist,
    ];
    for op in ops {
        for closed in [false, true] {
            refused((closed, Role::Writer, false), "beyond_role", |world| {
                world.apply(EVE, "a", op);
            });
        }
    }
}

#[test]
fn what_an_editor_cancels_is_taken() {
    for closed in [false, true] {
        let mut world = World::new(closed);
        world.link(MEMBER, EVE, Some(Role::Editor));
        world.runs(1_000);
        world.apply(EVE, "a", Op::Set(7));
        world.runs(2_000);
        assert_eq!(world.refused, []);
        assert_eq!(world.value(OTHER, "a"), Some(7));
    }
}

#[test]
fn whatever_a_reader_says_is_refused() {
    for closed in [false, true] {
        let reader = (closed, Role::Reader, true);
        refused(reader, "beyond_role", |world| world.add(EVE, "a", 1));
        refused(reader, "beyond_role", |world| {
            world.apply(EVE, "a", Op::Delete);
        });
        refused(reader, "beyond_role", |world| {
            let message = of_another(world);
            world.say(EVE, &push(message));
        });
    }
}

/// She claims to be a start of a member.
#[test]
fn who_says_to_be_a_member_is_refused() {
    refused((true, Role::Editor, false), "not_yours", |world| {
        let owner: Owner = world.peers[MEMBER].owner;
        let replica = &mut world.peers[EVE].replica;
        replica
            .members_mut()
            .announce(&owner, &[0; 16], 1 << 50)
            .unwrap();
        world.changed(EVE);
    });
}

/// She admits a guest, as only a member may.
#[test]
fn what_is_said_of_others_is_refused() {
    refused((true, Role::Editor, false), "not_yours", |world| {
        let mut member = world.peers[OTHER].replica.clone();
        member
            .members_mut()
            .admit(&WriterId::from_bytes([0xbb; 16]))
            .unwrap();
        let message = member.delta(&world.peers[MEMBER].replica.vector());
        world.say(EVE, &push(message));
    });
}

#[test]
fn a_whole_state_is_refused() {
    refused((true, Role::Editor, false), "not_yours", |world| {
        let message = world.state(MEMBER);
        world.say(EVE, &push(message));
    });
}

/// A message with an unknown writer that made nothing. It would occupy a place in the writer table that
/// others may need.
#[test]
fn nobody_makes_room_for_writers_that_made_nothing() {
    refused((false, Role::Editor, false), "not_yours", |world| {
        let mut message = vec![2];
        message.extend([0; 16]);
        message.extend([0, 0]); // lo and hi - lo
        message.extend(world.peers[EVE].first.as_bytes());
        message.extend([0, 1]);
        // The key a, a column of its own writer, and its clock and total. Nothing else.
        message.extend([1, 0, 1, b'a', 1, 1, 0, 0, 5, 0, 0]);
        let message = Message::decode(&message).unwrap();
        world.say(EVE, &push(message));
    });
}

#[test]
fn a_wrong_nonce_is_refused() {
    for role in [Role::Reader, Role::Writer, Role::Editor] {
        refused((true, role, false), "not_yours", |world| {
            let writer = world.peers[EVE].replica.writer();
            let nonce = [0xcc; 16];
            world.say(EVE, &frame(Body::Own { writer, nonce }));
        });
    }
}

/// The nonce is the writer's, but it belongs to another owner.
#[test]
fn a_nonce_of_another_owner_is_refused() {
    refused((true, Role::Editor, false), "not_yours", |world| {
        let it = &world.peers[OTHER];
        let (writer, nonce) = (it.first, it.nonce);
        world.say(EVE, &frame(Body::Own { writer, nonce }));
    });
}

#[test]
fn the_end_of_anothers_writer_is_refused() {
    refused((true, Role::Editor, false), "not_yours", |world| {
        let writer = world.peers[OTHER].replica.writer();
        let (intro, owner) = (None, None);
        world.say(
            EVE,
            &frame(Body::Return {
                writer,
                intro,
                owner,
            }),
        );
    });
    refused((true, Role::Editor, false), "not_yours", |world| {
        let writer = world.peers[EVE].replica.writer();
        let (intro, owner) = (None, Some(world.peers[MEMBER].owner));
        world.say(
            EVE,
            &frame(Body::Return {
                writer,
                intro,
                owner,
            }),
        );
    });
}

#[test]
fn a_limited_peer_ends_no_member() {
    for last in [Last::Unsure(u64::MAX), Last::Upto(1), Last::Forgotten(true)] {
        refused((true, Role::Editor, false), "not_yours", |world| {
            let writer = world.peers[MEMBER].replica.writer();
            world.say(EVE, &frame(Body::Ended { writer, last }));
        });
    }
}

/// She claims clocks of the member that it has not reached, and claims to be another's writer. The member
/// does not accept this.
#[test]
fn what_a_limited_peer_says_of_others_is_not_believed() {
    for closed in [false, true] {
        let mut world = World::new(closed);
        world.link(MEMBER, EVE, Some(Role::Writer));
        world.runs(1_000);
        let (own, other) = (
            world.peers[MEMBER].replica.writer(),
            world.peers[OTHER].replica.writer(),
        );
        let before = world.bytes(MEMBER);
        world.say(EVE, &frame(Body::Writer(other)));
        for vector in [
            VersionVector::of(own, 1 << 40),
            VersionVector::of(other, 1 << 40),
        ] {
            let (id, chunk) = (1_000, 0);
            let pull = tallymesh_core::wire::Pull { id, chunk, vector };
            world.say(EVE, &frame(Body::Pull(pull)));
        }
        world.settle();
        assert_eq!(world.refused, []);
        assert_eq!(world.bytes(MEMBER), before);
        assert_eq!(world.peers[MEMBER].replica.writer(), own, "it keeps its id");
    }
}

#[test]
fn what_a_writer_adds_gets_in_and_it_hears_everything() {
    for closed in [false, true] {
        let mut world = World::new(closed);
        world.peers[EVE].replica.members_mut().set_adds_only(true);
        world.add(EVE, "a", 100);
        world.link(MEMBER, EVE, Some(Role::Writer));
        world.runs(1_000);
        world.add(EVE, "a", 1_000);
        world.add(OTHER, "b", 7);
        world.runs(3_000);
        assert_eq!(world.refused, []);
        for at in 0..3 {
            assert_eq!(world.value(at, "a"), Some(1_110), "{at}");
            assert_eq!(world.value(at, "b"), Some(7), "{at}");
        }
    }
}

#[test]
fn a_reader_hears_everything_and_is_not_asked() {
    for closed in [false, true] {
        let mut world = World::new(closed);
        world.link(MEMBER, EVE, Some(Role::Reader));
        world.add(EVE, "mine", 1); // as only a program with faults does
        world.add(OTHER, "b", 7);
        world.runs(3_000);
        assert_eq!(world.value(EVE, "b"), Some(7));
        assert_eq!(world.value(MEMBER, "mine"), None);
        let before = world.sent.clone();
        world.runs(60_000);
        assert_eq!(world.refused, []);
        assert_eq!(
            world.pulls_since(&before),
            0,
            "what is not told is not asked for"
        );
    }
}

/// Two tabs, of which one has a link to a node. The changes of the other tab reach the node only if it is
/// proved to be of the same owner. In a space with members, a member must admit each tab before.
#[test]
fn a_tab_passes_on_what_is_of_its_owner() {
    for shared in [true, false] {
        let mut world = World::new(false);
        let tab = world.start(world.peers[EVE].owner);
        world.link(MEMBER, EVE, Some(Role::Writer));
        world.link(EVE, tab, None);
        let (writer, nonce) = (world.peers[tab].first, world.peers[tab].nonce);
        if shared {
            world.input(EVE, Input::Own { writer, nonce });
        }
        world.runs(1_000);
        world.add(tab, "tab", 1);
        world.add(OTHER, "b", 7);
        world.runs(3_000);
        assert_eq!(world.value(EVE, "tab"), Some(1));
        assert_eq!(world.value(tab, "b"), Some(7));
        assert_eq!(world.value(OTHER, "tab"), shared.then_some(1));
        let before = world.sent.clone();
        world.runs(60_000);
        assert_eq!(world.refused, []);
        assert_eq!(world.pulls_since(&before), 0, "shared {shared}");
    }
}

/// Her changes build on changes that only a tab of another owner has. The member merges them once it has
/// those.
#[test]
fn what_builds_on_what_is_missing_waits_for_it() {
    let mut world = World::new(false);
    let tab = world.start([0x77; 32]);
    world.link(MEMBER, EVE, Some(Role::Writer));
    world.link(EVE, tab, None);
    world.runs(1_000);
    world.add(tab, "tab", 1);
    world.runs(1_000);
    world.add(EVE, "a", 100);
    world.runs(3_000);
    assert_eq!(world.value(MEMBER, "a"), Some(10));
    world.link(MEMBER, tab, Some(Role::Writer));
    world.runs(3_000);
    for at in 0..4 {
        assert_eq!(world.value(at, "a"), Some(110), "{at}");
        assert_eq!(world.value(at, "tab"), Some(1), "{at}");
    }
    assert_eq!(world.refused, []);
}

/// She is away for longer than the guest timeout. Her changes from this time count once when she is back.
#[test]
fn who_was_given_up_comes_back_with_limited_rights() {
    let mut world = World::new(true);
    world.peers[EVE].replica.members_mut().set_adds_only(true);
    let link = world.link(MEMBER, EVE, Some(Role::Writer));
    world.runs(1_000);
    world.add(EVE, "a", 100);
    world.runs(1_000);
    let before = world.peers[EVE].replica.writer();
    world.unlink(link);
    world.add(EVE, "a", 1_000);
    world.add(MEMBER, "b", 1);
    world.runs(20_000);
    assert_eq!(world.value(MEMBER, "a"), Some(110));
    world.link(OTHER, EVE, Some(Role::Writer));
    world.runs(20_000);
    assert_ne!(world.peers[EVE].replica.writer(), before);
    world.add(EVE, "a", 10_000);
    world.runs(5_000);
    assert_eq!(world.refused, []);
    for at in 0..3 {
        assert_eq!(world.value(at, "a"), Some(11_110), "{at}");
    }
}
