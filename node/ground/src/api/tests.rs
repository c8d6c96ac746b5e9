//! The table is whole, and gives each operation the role that it had before it was a table.

use super::*;
use std::collections::BTreeSet;

#[test]
fn names_are_those_of_one_call() {
    let names: BTreeSet<&str> = TABLE.iter().map(|it| it.name).collect();
    assert_eq!(names.len(), TABLE.len());
    let ops: BTreeSet<&str> = TABLE.iter().filter_map(|it| it.op).collect();
    assert_eq!(ops.len(), TABLE.iter().filter(|it| it.op.is_some()).count());
    for call in TABLE {
        let fields: Vec<&str> = call.fields.iter().map(|it| it.name).collect();
        let path = call.route.map_or("", |it| it.1);
        let parts = path
            .split('/')
            .filter_map(|it| it.strip_prefix('{')?.strip_suffix('}'));
        let parts: Vec<&str> = parts.collect();
        assert!(fields.starts_with(&parts), "{}: {path}", call.name);
        assert_eq!(named(call.name).map(|it| it.name), Some(call.name));
        assert!(call.route.is_some() || call.op.is_some(), "{}", call.name);
        let changes = call.role > Role::Reader;
        assert!(changes || call.options != Options::Write, "{}", call.name);
    }
}

/// One role for all writes of a path is what lets [`role_at`] look at the path alone.
#[test]
fn writes_of_one_path_need_one_role() {
    for call in TABLE {
        let Some((method, path)) = call.route else {
            continue;
        };
        let parts: Vec<&str> = path.split('/').collect();
        if method != Method::Get {
            assert_eq!(role_at(&parts), call.role, "{path}");
        }
    }
    for (path, role) in [
        ("counters/k", Role::Editor),
        ("counters/add/add", Role::Writer),
        ("counters/k/add/more", Role::Editor),
        ("counters", Role::Editor),
        ("limits/k/new", Role::Member),
        ("add", Role::Writer),
        ("add/more", Role::Member),
        ("new", Role::Member),
        ("", Role::Member),
    ] {
        let parts: Vec<&str> = path.split('/').collect();
        assert_eq!(role_at(&parts), role, "{path}");
    }
}

#[test]
fn who_adds_and_spends_may_not_pay_in_nor_move_rights() {
    for op in [
        "add",
        "allow",
        "end_lease",
        "lease",
        "next",
        "spend",
        "transfer",
    ] {
        assert_eq!(role_of_op(op), Role::Writer, "{op}");
    }
    for op in [
        "delete",
        "set",
        "mint",
        "grant",
        "grant_room",
        "lower_floor",
        "raise_cap",
    ] {
        assert_eq!(role_of_op(op), Role::Editor, "{op}");
    }
    assert_eq!(role_of_op("new"), Role::Member);
}
