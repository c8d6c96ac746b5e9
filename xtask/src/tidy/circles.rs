//! No circle between the modules of a crate's root: each can be read before those that name it. The root itself
//! may name and be named by all of them, because it lists them and has the types that they share.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::paths::Paths;

/// The arrows between modules, each with the first place at which it stands.
type Arrows = BTreeMap<String, BTreeMap<String, String>>;

/// One circle of each group of modules that name each other.
pub(super) fn broken(paths: &Paths) -> Vec<String> {
    let arrows = arrows(paths);
    let mut told = BTreeSet::new();
    let mut broken = Vec::new();
    for module in arrows.keys() {
        if told.contains(module) {
            continue;
        }
        let Some(circle) = circle(&arrows, module) else {
            continue;
        };
        let step = |pair: &[String]| {
            let place = &arrows[&pair[0]][&pair[1]];
            format!("`{}` names `{}` ({place})", pair[0], pair[1])
        };
        let steps: Vec<String> = circle.windows(2).map(step).collect();
        broken.push(format!(
            "a circle of modules: {} (xtask/src/tidy/circles.rs)",
            steps.join(", ")
        ));
        told.extend(circle);
    }
    broken
}

fn arrows(paths: &Paths) -> Arrows {
    let mut arrows = Arrows::new();
    let modules: BTreeSet<String> = paths.named().filter_map(|it| it.from).collect();
    for named in paths.named() {
        let Some(from) = named.from else { continue };
        let to = paths.reached(&named.path);
        let Some(to) = to.filter(|it| *it != from && modules.contains(it)) else {
            continue;
        };
        let place = format!("{}:{}", named.file.display(), named.line);
        arrows.entry(from).or_default().entry(to).or_insert(place);
    }
    arrows
}

/// The shortest circle through a module, which begins and ends with it.
fn circle(arrows: &Arrows, module: &str) -> Option<Vec<String>> {
    let mut ways = VecDeque::from([vec![module.to_owned()]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        let next = way.last().and_then(|last| arrows.get(last));
        for to in next.into_iter().flat_map(BTreeMap::keys) {
            let longer = [&way[..], std::slice::from_ref(to)].concat();
            if to == module {
                return Some(longer);
            }
            if seen.insert(to) {
                ways.push_back(longer);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::crates::Crates;
    use std::path::Path;

    fn all(files: &[(&str, &str)]) -> Vec<String> {
        let mut crates = Crates::default();
        for (name, text) in files {
            crates.add(&Path::new("node/http/src").join(name), text);
        }
        crates.broken()
    }

    #[test]
    fn a_circle_is_found_with_its_places() {
        let one = ("one.rs", "\nuse super::two::Two;\n");
        let two = ("two/inner.rs", "fn f() {\n\n    crate::three::f()\n}\n");
        let three = ("three.rs", "use crate::one;\n");
        assert_eq!(all(&[one, two]), [""; 0]);
        let steps = [
            "`one` names `two` (node/http/src/one.rs:2)",
            "`two` names `three` (node/http/src/two/inner.rs:3)",
            "`three` names `one` (node/http/src/three.rs:1)",
        ];
        let told = all(&[one, two, three]);
        assert_eq!(told.len(), 1);
        assert!(steps.iter().all(|it| told[0].contains(it)), "{told:?}");
        let tests = ("two.rs", "#[cfg(test)]\nuse super::one::One;\n");
        assert_eq!(all(&[one, tests]), [""; 0]);
    }

    #[test]
    fn a_circle_by_a_name_of_the_root_is_found() {
        let root = (
            "lib.rs",
            "mod one;\nmod two;\nuse one::One;\npub struct Shared;\n",
        );
        let one = ("one.rs", "use super::two::Two;\n");
        assert_eq!(all(&[root, one, ("two.rs", "use super::One;\n")]).len(), 1);
        assert_eq!(
            all(&[root, one, ("two.rs", "use super::Shared;\n")]).len(),
            0
        );
        let inside = (
            "lib.rs",
            "mod one;\nmod two {\n    use super::one::One;\n}\n",
        );
        assert_eq!(all(&[inside, one]).len(), 1);
    }
}
