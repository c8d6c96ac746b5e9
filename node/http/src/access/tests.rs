//! The role that each route needs, and a check that no route is forgotten.

use super::*;

#[test]
fn every_route_takes_a_role() {
    let document = crate::openapi::document();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for method in item.as_object().expect("operations").keys() {
            let name: Method = method.to_uppercase().parse().expect("a method");
            let concrete = path.replace("{space}", "s").replace("{key}", "k");
            let needs = match needs(&name, &concrete) {
                Needs::Nothing => "nothing".to_owned(),
                Needs::InSpace("s", role) => role.to_string(),
                Needs::InSpace(other, _) => panic!("{path}: {other}"),
                Needs::Everywhere(role) => format!("{role} everywhere"),
                Needs::Operator(_) => "operator".to_owned(),
            };
            found.push(format!("{method} {path}: {needs}"));
        }
    }
    found.sort_unstable();
    assert_eq!(found, include_str!("roles.txt").lines().collect::<Vec<_>>());
}

#[test]
fn what_nobody_knows_takes_the_most() {
    let most = Needs::InSpace("s", Role::Member);
    for path in ["/v1/spaces/s/new", "/v1/spaces/s"] {
        assert_eq!(needs(&Method::POST, path), most, "{path}");
    }
    for path in [
        "/v1/spaces/s/members/add/x",
        "/v1/spaces/s/members",
        "/v1/spaces/s/retire/x",
    ] {
        let operators = Needs::Operator(Some("s"));
        assert_eq!(needs(&Method::POST, path), operators, "{path}");
    }
    assert_eq!(
        needs(&Method::PATCH, "/v1/new"),
        Needs::Everywhere(Role::Member)
    );
    assert_eq!(
        needs(&Method::POST, "/v1//spaces/s/add"),
        Needs::Everywhere(Role::Member)
    );
    assert_eq!(
        needs(&Method::GET, "/v1/spaces//sync"),
        Needs::InSpace("", Role::Reader)
    );
    assert_eq!(
        needs(&Method::GET, "/v1/spaces/%73/read"),
        Needs::InSpace("%73", Role::Reader)
    );
}
