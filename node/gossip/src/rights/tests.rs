use super::*;
use tallymesh_node_ground::identity::Identity;

const NOW: u64 = 1_000_000_000;

fn owner(number: u8) -> OwnerKey {
    OwnerKey(Identity::from_secret([number; 32]).public_key())
}

fn peer(number: u8) -> PeerId {
    peer_of(&owner(number)).expect("a key")
}

fn member_list(members: &[u8]) -> Option<MemberList> {
    member_list_at(1, members)
}

fn member_list_at(number: u64, members: &[u8]) -> Option<MemberList> {
    let mut members: Vec<OwnerKey> = members.iter().map(|it| owner(*it)).collect();
    members.sort_unstable();
    Some(MemberList {
        at: (0, number),
        owners: members.into(),
        earlier: Arc::default(),
    })
}

fn grant(id: u8, issuer: u8, role: Role, spaces: Option<&[&str]>) -> Grant {
    let space = |name: &&str| Space::new(name).expect("a name");
    Grant {
        spaces: spaces.map(|names| names.iter().map(space).collect()),
        issued: NOW / 1000,
        expires: Some(NOW / 1000 + 100),
        ..samples::ticket(id, owner(issuer), role)
    }
}

/// The rights at node 0. It has the spaces a, with members 0 and 1, b, with members 2 and 3, and c,
/// without members.
fn rights(open: bool) -> (Rights, Ledger) {
    let spaces = ["a", "b", "c"].map(|name| Space::new(name).expect("a name"));
    let member_lists: MemberLists = [member_list(&[0, 1]), member_list(&[2, 3]), None].into();
    let ledger = Ledger::open(None).expect("in memory");
    let rights = Rights::new(open, owner(0).0, &spaces, member_lists, ledger.clone(), NOW);
    (rights, ledger)
}

fn show(rights: &Rights, number: u8, grant: Grant) -> Result<Vec<SpaceId>, Worthless> {
    rights.show(peer(number), grant, std::net::Ipv4Addr::LOCALHOST.into())
}

/// The revocation of a ticket of member 1, which counts in one space.
fn revoked(id: u8, space: &str) -> tallymesh_node_engine::access::Revoked {
    samples::revoked(id, owner(1), space)
}

/// The places and roles of a peer's rights.
fn roles(rights: &Rights, number: u8, now: u64) -> Vec<(usize, Role)> {
    let rights = rights.of(&peer(number), now).into_iter();
    rights.map(|right| (right.space.0, right.role)).collect()
}

#[test]
fn the_key_of_a_peer_is_in_its_name() {
    assert_eq!(owner_of(&peer(7)), Some(owner(7)));
    assert_eq!(owner_of(&PeerId::random()), None);
}

#[test]
fn members_and_those_whom_the_operator_named_have_rights_and_strangers_have_none() {
    let everywhere = [(0, Role::Member), (1, Role::Member), (2, Role::Member)];
    let (rights, _) = rights(false);
    assert_eq!(roles(&rights, 1, NOW), [(0, Role::Member)]);
    assert_eq!(roles(&rights, 2, NOW), [(1, Role::Member)]);
    assert_eq!(roles(&rights, 9, NOW), []);
    assert!(!rights.is_full(&peer(1), NOW));
    rights.name(&peer(1));
    assert_eq!(roles(&rights, 1, NOW), everywhere);
    assert!(rights.is_full(&peer(1), NOW));
    rights.set_member_lists([member_list(&[0, 1]), member_list(&[9]), None].into(), NOW);
    assert_eq!(roles(&rights, 2, NOW), []);
    assert_eq!(roles(&rights, 9, NOW), [(1, Role::Member)]);
    let (open, _) = self::rights(true);
    assert_eq!(roles(&open, 9, NOW), everywhere);
    assert!(open.is_full(&peer(9), NOW));
}

#[test]
fn a_ticket_gives_its_role_where_its_issuer_has_a_say() {
    let (rights, _) = rights(false);
    let id = |place: usize| SpaceId(place);
    for (issuer, spaces, worth) in [
        (1, Some(&["a", "b"][..]), Ok(vec![id(0)])),
        (1, None, Ok(vec![id(0)])),
        // In a space without members, only this node is trusted. In a space with other members, it
        // is not.
        (0, None, Ok(vec![id(0), id(2)])),
        (2, Some(&["a", "b", "elsewhere"]), Ok(vec![id(1)])),
        (2, Some(&["a", "c"]), Err(Worthless::Issuer)),
        (2, Some(&["elsewhere"]), Err(Worthless::Space)),
        (9, None, Err(Worthless::Issuer)),
    ] {
        let grant = grant(1, issuer, Role::Member, spaces);
        assert_eq!(show(&rights, 8, grant), worth, "{issuer} {spaces:?}");
    }
    let reads = grant(2, 1, Role::Reader, None);
    assert_eq!(show(&rights, 9, reads), Ok(vec![id(0)]));
    assert_eq!(roles(&rights, 9, NOW), [(0, Role::Reader)]);
    let writes = grant(3, 1, Role::Writer, None);
    assert_eq!(show(&rights, 9, writes), Ok(vec![id(0)]));
    assert_eq!(
        roles(&rights, 9, NOW),
        [(0, Role::Writer)],
        "the most counts"
    );
}

#[test]
fn a_link_counts_for_the_ticket_that_lets_its_peer_do_most() {
    let (rights, ledger) = rights(false);
    let id = |number: u8| TicketId::new([number; 16]);
    assert_eq!(rights.ticket_of(&peer(9), NOW), None, "a stranger");
    for (number, role) in [(1, Role::Reader), (2, Role::Writer), (3, Role::Reader)] {
        assert!(show(&rights, 9, grant(number, 1, role, None)).is_ok());
    }
    assert_eq!(rights.ticket_of(&peer(9), NOW), Some(id(2)));
    assert_eq!(rights.ticket_of(&peer(8), NOW), None, "another");
    ledger.revoke(vec![revoked(2, "a")]).expect("room");
    assert_eq!(rights.ticket_of(&peer(9), NOW), Some(id(3)));
    // A member has its rights by itself, whatever it shows.
    assert!(show(&rights, 1, grant(4, 1, Role::Reader, Some(&["a"]))).is_ok());
    assert_eq!(rights.ticket_of(&peer(1), NOW), None);
}

#[test]
fn a_ticket_is_for_its_holder_and_ends() {
    let (rights, ledger) = rights(false);
    let bound = Grant {
        holder: Some(owner(8)),
        ..grant(1, 1, Role::Member, None)
    };
    assert_eq!(show(&rights, 9, bound.clone()), Err(Worthless::Holder));
    assert!(show(&rights, 8, bound.clone()).is_ok());
    assert_eq!(roles(&rights, 8, NOW), [(0, Role::Member)]);
    assert_eq!(roles(&rights, 9, NOW), []);
    // Its end is at 100 s, and clocks may differ by 60.
    assert_eq!(roles(&rights, 8, NOW + 159_999), [(0, Role::Member)]);
    assert_eq!(roles(&rights, 8, NOW + 160_000), []);
    assert!(rights.has_shown());
    rights.tidy(NOW + 160_000);
    assert!(!rights.has_shown());
    // Its issuer is no longer a member.
    assert!(show(&rights, 8, bound).is_ok());
    rights.set_member_lists([member_list(&[0]), None, None].into(), NOW);
    assert_eq!(roles(&rights, 8, NOW), []);
    assert!(!ledger.is_revoked(TicketId::new([1; 16]), "a"));
}

#[test]
fn no_peer_fills_up_what_is_remembered() {
    let (rights, _) = rights(false);
    for id in 0..20 {
        let role = if id == 0 { Role::Editor } else { Role::Reader };
        assert!(show(&rights, 9, grant(id, 1, role, None)).is_ok());
    }
    assert_eq!(
        roles(&rights, 9, NOW),
        [(0, Role::Reader)],
        "the first is gone"
    );
    let known = rights.known();
    assert_eq!(known.shown.of(&peer(9)).len(), 8);
}

#[test]
fn whoever_signed_a_ticket_that_is_held_is_trusted_until_members_are_known() {
    let (rights, ledger) = rights(false);
    let grant = grant(1, 9, Role::Member, Some(&["c"]));
    ledger.hold("the ticket", &grant).expect("room");
    assert_eq!(roles(&rights, 9, NOW), [(2, Role::Member)]);
    assert_eq!(rights.to_show(&peer(9), NOW), ["the ticket"]);
    assert_eq!(
        rights.to_show(&peer(1), NOW),
        [""; 0],
        "it is no business of 1"
    );
    assert_eq!(
        rights.to_show(&peer(9), NOW + 160_000),
        [""; 0],
        "it has ended"
    );
    rights.set_member_lists([None, None, member_list(&[1])].into(), NOW);
    assert_eq!(roles(&rights, 9, NOW), [], "it is no member");
    assert_eq!(roles(&rights, 1, NOW), [(2, Role::Member)]);
    assert_eq!(rights.to_show(&peer(1), NOW), ["the ticket"]);
    // A member needs no ticket.
    rights.set_member_lists([None, None, member_list(&[0, 1])].into(), NOW);
    assert_eq!(rights.to_show(&peer(1), NOW), [""; 0]);
}

#[test]
fn fellows_are_the_members_of_spaces_that_this_node_is_a_member_of() {
    let (rights, _) = rights(false);
    assert_eq!(rights.fellows(), [peer(0), peer(1)].into());
}

#[test]
fn what_others_made_is_passed_on_where_this_node_may_do_all() {
    let (rights, ledger) = rights(false);
    let all = |rights: &Rights| [0, 1, 2].map(|place| rights.passes_on(SpaceId(place)));
    assert_eq!(all(&rights), [true, true, true]);
    let of_member = grant(1, 2, Role::Writer, Some(&["a", "b"]));
    ledger.hold("the ticket", &of_member).expect("room");
    rights.tidy(NOW);
    assert_eq!(all(&rights), [true, false, true], "it is a member of a");
    let member_lists: MemberLists = [member_list(&[0, 1]), member_list(&[0, 2, 3]), None].into();
    rights.set_member_lists(member_lists, NOW);
    assert_eq!(all(&rights), [true, true, true], "and now of b");
}

#[test]
fn who_was_removed_is_no_member_again_by_a_ticket_from_before() {
    let (rights, _) = rights(false);
    let old = Grant {
        expires: None,
        ..grant(1, 1, Role::Member, Some(&["a"]))
    };
    let space = SpaceId(0);
    let admits = |grant: &Grant, after: u64| {
        let now = Instant::now() + Duration::from_secs(after);
        rights.admits(space, &peer(9), grant, NOW, now)
    };
    let now = Admission::Now(owner(9), (0, 1));
    assert!(
        matches!(admits(&old, 0), Admission::Later(_)),
        "what came before is not known"
    );
    assert_eq!(admits(&old, 6), now);
    assert!(show(&rights, 9, old.clone()).is_ok());
    let set = |number, members: &[u8]| {
        let member_lists = [member_list_at(number, members), None, None].into();
        rights.set_member_lists(member_lists, NOW);
    };
    set(2, &[0, 1, 9]);
    assert_eq!(admits(&old, 6), Admission::Never, "it is one");
    set(3, &[0, 1]);
    assert_eq!(admits(&old, 6), Admission::Never);
    assert_eq!(show(&rights, 9, old.clone()), Err(Worthless::Removed));
    assert_eq!(roles(&rights, 9, NOW), []);
    assert!(show(&rights, 8, old).is_ok(), "for others it is good");
    let signed = |issuer| Grant {
        issued: NOW / 1000 + 1,
        ..grant(2, issuer, Role::Member, Some(&["a"]))
    };
    // The clock of another issuer may be ahead; this node's own is not.
    assert!(matches!(admits(&signed(1), 0), Admission::Later(_)));
    let at = |number| Admission::Now(owner(9), (0, number));
    assert_eq!(admits(&signed(1), 6), at(3));
    assert_eq!(admits(&signed(0), 6), at(3));
    assert!(show(&rights, 9, signed(1)).is_ok());
    // In a configuration that was not seen, any owner may have been a member.
    set(5, &[0, 1]);
    assert!(matches!(admits(&signed(0), 0), Admission::Later(_)));
    let reads = grant(3, 1, Role::Reader, Some(&["a"]));
    assert_eq!(admits(&reads, 6), Admission::Never);
}

/// Clocks do not matter if a ticket names the configuration of its issuer.
#[test]
fn a_ticket_of_one_who_knew_of_the_removal_counts_whatever_clocks_say() {
    let (rights, ledger) = rights(false);
    let set = |number, members: &[u8]| {
        let member_lists = [member_list_at(number, members), None, None].into();
        rights.set_member_lists(member_lists, NOW);
    };
    let a = Space::new("a").expect("a name");
    let knew = |number, issued| Grant {
        issued,
        knew: [(a.clone(), (0, number))].into(),
        ..grant(3, 1, Role::Member, None)
    };
    let admits = |grant: &Grant| rights.admits(SpaceId(0), &peer(9), grant, NOW, Instant::now());
    set(4, &[0, 1, 9]);
    set(5, &[0, 1]);
    let (seen, long_ago) = (NOW / 1000, NOW / 1000 - 1000);
    for (grant, shown) in [
        (knew(5, long_ago), Ok(vec![SpaceId(0)])),
        (knew(4, seen + 30), Err(Worthless::Removed)),
    ] {
        assert_eq!(show(&rights, 9, grant.clone()), shown);
    }
    let now = Admission::Now(owner(9), (0, 5));
    assert_eq!(admits(&knew(5, long_ago)), now, "nothing is waited for");
    assert_eq!(admits(&knew(4, seen + 30)), Admission::Never);
    // A member that was away states the same removal later, and less exactly.
    let late = Gone {
        at: seen + 50,
        by: (0, 7),
        width: 4,
    };
    ledger
        .remove(&[(a.clone(), owner(9), late)], seen + 50)
        .expect("in memory");
    assert_eq!(admits(&knew(5, long_ago)), now);
    // A second removal is a new one.
    set(6, &[0, 1, 9]);
    set(7, &[0, 1]);
    assert_eq!(admits(&knew(5, seen)), Admission::Never);
    assert_eq!(admits(&knew(6, seen + 59)), Admission::Never);
    assert_eq!(
        admits(&knew(7, seen)),
        Admission::Now(owner(9), (0, 7)),
        "a new one"
    );
}

/// A ticket is shown too early: the node that receives it still has its holder as a member.
#[test]
fn a_ticket_that_was_shown_too_early_makes_a_member_later() {
    let (rights, _) = rights(false);
    let to_admit = || {
        let now = Instant::now() + UNSURE;
        let wanted = rights.to_admit(&peer(9), NOW, now).into_iter();
        wanted
            .map(|(space, grant)| (space.0, grant.issued - NOW / 1000))
            .collect::<Vec<_>>()
    };
    let set = |number, members: &[u8]| {
        let member_lists = [member_list_at(number, members), member_list(&[2, 3]), None].into();
        rights.set_member_lists(member_lists, NOW);
    };
    let signed = |id, after| Grant {
        issued: NOW / 1000 + after,
        ..grant(id, 1, Role::Member, None)
    };
    set(2, &[0, 1, 9]);
    assert!(show(&rights, 9, signed(1, 0)).is_ok());
    assert!(show(&rights, 9, signed(2, 1)).is_ok());
    assert_eq!(to_admit(), [], "it is one");
    set(3, &[0, 1]);
    // The shown ticket was signed before that, as far as the node could tell then.
    let is_later = |grant| show(&rights, 9, grant).is_ok();
    assert!(is_later(signed(3, 2)));
    assert_eq!(to_admit(), [(0, 2)]);
    rights.set_browser(&peer(9), true);
    assert_eq!(to_admit(), [], "a page is no member");
    rights.set_browser(&peer(9), false);
    set(4, &[0, 1, 9]);
    assert_eq!(to_admit(), []);
}

#[test]
fn a_member_that_was_removed_while_it_was_away_is_told_by_members_only() {
    let place = |rights: &Rights| rights.places(|_| vec![peer(1)], NOW)[0].1;
    let (member, _) = self::rights(false);
    let member_lists =
        |number, members: &[u8]| MemberLists::from([member_list_at(number, members), None, None]);
    member.set_member_lists(member_lists(2, &[0, 1, 9]), NOW);
    assert_eq!(member.to_tell(&peer(9)), [], "it is one");
    member.set_member_lists(member_lists(3, &[0, 1]), NOW);
    assert_eq!(member.to_tell(&peer(8)), [], "a stranger");
    let told = member.to_tell(&peer(9));
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].era, told[0].number), (0, 3));

    // The same at another node 0, which was removed.
    let (away, ledger) = self::rights(false);
    let held = grant(1, 1, Role::Member, Some(&["a"]));
    ledger.hold("the ticket", &held).expect("room");
    assert_eq!(place(&away), Participation::In);
    assert_eq!(away.to_show(&peer(1), NOW), [""; 0]);
    assert!(!away.told(&peer(2), &told, NOW), "no member says so");
    assert_eq!(place(&away), Participation::In);
    assert!(away.told(&peer(1), &told, NOW));
    assert!(!away.told(&peer(1), &told, NOW), "it is known");
    assert_eq!(place(&away), Participation::Removed);
    assert_eq!(away.to_show(&peer(1), NOW), ["the ticket"]);
    let of_later = Grant {
        issued: NOW / 1000 + 1,
        ..grant(2, 1, Role::Member, Some(&["a"]))
    };
    ledger.hold("a later one", &of_later).expect("room");
    assert_eq!(place(&away), Participation::Admitted);
    // A configuration that is as new or newer overrides the report.
    away.set_member_lists(member_lists(2, &[0, 1]), NOW);
    assert_eq!(place(&away), Participation::Admitted);
    away.set_member_lists(member_lists(3, &[0, 1]), NOW);
    away.set_member_lists(member_lists(4, &[0, 1]), NOW);
    assert!(!away.told(&peer(1), &told, NOW), "it is over");
    assert_eq!(place(&away), Participation::In);
}

/// Thousands of keys show one reader's ticket, and each of them disconnects again.
#[test]
fn who_has_a_readers_ticket_keeps_nobody_from_joining() {
    let (rights, ledger) = rights(false);
    let address = std::net::Ipv4Addr::LOCALHOST.into();
    let reads = grant(1, 1, Role::Reader, None);
    for _ in 0..5000 {
        let peer = PeerId::random();
        let showed = rights.show(peer, reads.clone(), address);
        assert!(showed.is_ok(), "{showed:?}");
        rights.gone(&peer);
    }
    assert!(show(&rights, 9, grant(2, 1, Role::Editor, None)).is_ok());
    assert_eq!(roles(&rights, 9, NOW), [(0, Role::Editor)]);
    // A revoked ticket is forgotten at once.
    let stays = PeerId::random();
    rights.show(stays, reads.clone(), address).expect("room");
    assert_eq!(reads.id, TicketId::new([1; 16]));
    ledger.revoke(vec![revoked(1, "a")]).expect("room");
    rights.tidy(NOW);
    assert!(rights.known().shown.of(&stays).is_empty());
    assert_eq!(roles(&rights, 9, NOW), [(0, Role::Editor)]);
}

#[test]
fn a_page_is_a_member_by_its_own_key_only() {
    for open in [true, false] {
        let (rights, _) = rights(open);
        for number in [1, 8, 9] {
            assert!(rights.set_browser(&peer(number), true));
        }
        assert!(!rights.set_browser(&peer(9), true));
        assert_eq!(roles(&rights, 9, NOW), [], "open: {open}");
        assert_eq!(roles(&rights, 1, NOW), [(0, Role::Member)]);
        rights.name(&peer(8));
        assert!(rights.is_full(&peer(8), NOW), "the operator named it");
        let ticket = grant(1, 1, Role::Member, None);
        assert!(show(&rights, 9, ticket).is_ok());
        assert_eq!(roles(&rights, 9, NOW), [(0, Role::Editor)]);
        assert!(rights.set_browser(&peer(9), false));
        let role = if open { 3 } else { 1 };
        let members = roles(&rights, 9, NOW);
        assert_eq!(members.len(), role);
        assert!(members.iter().all(|it| it.1 == Role::Member));
    }
}
