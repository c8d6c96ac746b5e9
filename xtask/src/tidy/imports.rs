//! The folders of `wasm/js`, and which others each may import. An import of types alone is free: the build
//! drops it.

use super::scripts::{self, Import};
use std::path::Path;

/// Each folder with the folders that it may import, from below to above.
const IMPORTS: [(&str, &[&str]); 6] = [
    ("internal", &[]),
    ("transports", &["internal"]),
    ("storages", &["internal"]),
    ("clients", &["internal"]),
    ("replica", &["internal", "transports"]),
    (
        "entries",
        &["clients", "internal", "replica", "storages", "transports"],
    ),
];

/// The imports of a file that its folder may not have, and a file outside of all folders.
pub(super) fn broken(name: &Path, text: &str) -> Vec<String> {
    let Ok(inside) = name.strip_prefix("wasm/js") else {
        return Vec::new();
    };
    // Types of files that are not scripts belong to no folder.
    if inside.to_string_lossy().ends_with(".d.ts") {
        return Vec::new();
    }
    let folder = inside.parent().unwrap_or(inside);
    let first = folder.components().next();
    let from = first.map_or_else(String::new, |it| it.as_os_str().to_string_lossy().into());
    let Some((from, allowed)) = IMPORTS.into_iter().find(|it| it.0 == from) else {
        return vec![format!(
            "{}: each file of wasm/js is in one of the folders in xtask/src/tidy/imports.rs",
            name.display()
        )];
    };
    let mut broken = Vec::new();
    for Import { line, from: path } in scripts::imports(text) {
        let Some(to) = imported(folder, &path) else {
            continue;
        };
        if to != from && !allowed.contains(&to.as_str()) {
            broken.push(format!(
                "{}:{line}: `{from}` may not import `{to}`: imports between folders of wasm/js run one way \
                 (xtask/src/tidy/imports.rs)",
                name.display()
            ));
        }
    }
    broken
}

/// The folder that a path from a folder leads to, if it is one of `wasm/js`.
fn imported(folder: &Path, path: &str) -> Option<String> {
    if !path.starts_with('.') {
        return None;
    }
    let inside = folder.iter().filter_map(|it| it.to_str());
    let mut at: Vec<&str> = ["wasm", "js"].into_iter().chain(inside).collect();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => _ = at.pop()?,
            name => at.push(name),
        }
    }
    match at[..] {
        ["wasm", "js", first, ..] => Some(first.to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, text: &str) -> usize {
        broken(Path::new(name), text).len()
    }

    #[test]
    fn an_import_upward_is_found() {
        let value = "import { Replica } from '../replica/replica.js';\n";
        let types = "import type { Replica } from '../replica/replica.js';\n";
        assert_eq!(found("wasm/js/transports/post.ts", value), 1);
        assert_eq!(found("wasm/js/transports/post.ts", types), 0);
        assert_eq!(found("wasm/js/entries/browser.ts", value), 0);
        let several = "import {\n  Replica,\n} from '../../replica/replica.js';\n";
        assert_eq!(found("wasm/js/transports/libp2p/hub.ts", several), 1);
        let beside = "export { ask } from '../messages.js';\nimport { a } from './frames.js';\n";
        assert_eq!(found("wasm/js/transports/libp2p/hub.ts", beside), 0);
        let later = "const it = await import('../replica/members.js');\n";
        assert_eq!(found("wasm/js/internal/address.ts", later), 1);
        let around = "import '../../js/replica/one.js';\n";
        assert_eq!(found("wasm/js/internal/address.ts", around), 1);
        let up = "import '../../src/one.js';\nimport 'ws';\n";
        assert_eq!(found("wasm/js/internal/address.ts", up), 0);
    }

    #[test]
    fn a_file_has_a_folder() {
        assert_eq!(found("wasm/js/address.ts", ""), 1);
        assert_eq!(found("wasm/js/wasm.d.ts", ""), 0);
        assert_eq!(found("web-demo/src/main.ts", ""), 0);
    }
}
