//! The names under which a node is served, and the origins whose pages may use it.

use super::ConfigError;
use super::error::wrong;
use tallymesh_node_engine::browser;

/// Host names in the form in which they are compared.
pub(super) fn hosts(texts: &[String]) -> Result<Vec<String>, ConfigError> {
    let parse = |text: &String| {
        browser::host_name(text).ok_or_else(|| {
            let problem = format!(
                "`{text}` is no host name: write it without scheme, port and path, such as \
                 counts.example, and each one by itself"
            );
            wrong("http-host", problem)
        })
    };
    texts.iter().map(parse).collect()
}

/// Origins as browsers write them.
pub(super) fn origins(texts: &[String]) -> Result<Vec<String>, ConfigError> {
    let parse = |text: &String| {
        browser::origin(text).ok_or_else(|| {
            let problem = format!(
                "`{text}` is no origin: name a scheme and a host in ASCII, such as \
                 https://shop.example or tauri://localhost, or `null`, and each one by itself"
            );
            wrong("cors-origin", problem)
        })
    };
    texts.iter().map(parse).collect()
}
