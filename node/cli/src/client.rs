//! The HTTP client of the commands.

use super::asking::Header;
use super::failure::Failure;
use super::reach;
use clap::Args;
use serde_json::Value;
use std::cell::OnceCell;
use std::env;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tallymesh_node_config::default_data;
use tallymesh_node_engine::access::TOKEN_FILE;
use tallymesh_node_engine::browser::is_loopback;
use tallymesh_node_ground::api::{Call, Method};
use ureq::config::RedirectAuthHeaders;
use ureq::http::Response;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, Error, RequestBuilder};

/// How long a node may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a node may take to answer. It is longer than the node's own limit, so that the node can
/// report an error.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(40);

/// Largest answer that is read, in bytes. A full page of the list with the longest keys fits.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// A client of one space of one node.
pub(super) struct Client {
    agent: Agent,
    node: String,
    space: String,
    /// The header with the given ticket, or with the operator's token.
    shown: Option<String>,
    /// The header with the operator's token, once this node has required a ticket.
    token: OnceCell<String>,
    /// Whether this is the first node, for which the operator's token is valid.
    is_first: bool,
    /// The given data folder, and the given file with the token.
    data: Option<PathBuf>,
    token_file: Option<PathBuf>,
    /// Headers for each request, in addition to its own.
    headers: Vec<Header>,
}

/// How a client comes in.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct Entry {
    /// The ticket to show, which nodes beyond loopback ask for. Better given by the environment, since
    /// others see arguments
    #[arg(
        long,
        global = true,
        value_name = "TICKET",
        env = "TALLYMESH_TICKET",
        hide_env_values = true
    )]
    ticket: Option<String>,

    /// The node's data folder, in which the operator's token is: for what makes tickets or changes members,
    /// and for nodes that ask for tickets [default: that of `tallymesh up`, for a node on this machine]
    #[arg(long, global = true, value_name = "DIR")]
    data: Option<PathBuf>,

    /// The file with the operator's token
    #[arg(long, global = true, value_name = "FILE", env = "TALLYMESH_TOKEN_FILE")]
    token_file: Option<PathBuf>,

    /// Trust the certificates in this PEM file instead of the well-known ones, for a node whose
    /// certificate you made yourself
    #[arg(long, global = true, value_name = "FILE", env = "TALLYMESH_CA")]
    ca: Option<PathBuf>,
}

impl Entry {
    /// The trusted certificates.
    fn roots(&self) -> Result<RootCerts, Failure> {
        let Some(file) = &self.ca else {
            return Ok(RootCerts::WebPki);
        };
        let wrong = |problem: String| Failure::Usage {
            problem: format!("--ca: can't use {}: {problem}", file.display()),
        };
        let text = fs::read(file).map_err(|error| wrong(error.to_string()))?;
        let items: Result<Vec<PemItem>, Error> = parse_pem(&text).collect();
        let items = items.map_err(|error| wrong(error.to_string()))?;
        let certificates = items.into_iter().filter_map(|item| match item {
            PemItem::Certificate(certificate) => Some(certificate),
            _ => None,
        });
        let certificates: Vec<Certificate<'static>> = certificates.collect();
        match certificates.is_empty() {
            true => Err(wrong("there is no certificate in it".into())),
            false => Ok(RootCerts::new_with_certs(&certificates)),
        }
    }
}

impl Client {
    pub(super) fn new(node: &str, space: &str, entry: &Entry) -> Result<Client, Failure> {
        let node = address(node)?;
        let tls = TlsConfig::builder().root_certs(entry.roots()?).build();
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(ANSWER_TIMEOUT))
            // A node on loopback is never behind a proxy.
            .proxy(None)
            .redirect_auth_headers(RedirectAuthHeaders::Never)
            .tls_config(tls)
            .user_agent(concat!("tallymesh/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Client {
            agent: reach::agent(config),
            node,
            space: encoded(space),
            shown: entry.ticket.as_deref().map(bearer),
            token: OnceCell::new(),
            is_first: true,
            data: entry.data.clone(),
            token_file: entry.token_file.clone(),
            headers: Vec::new(),
        })
    }

    /// The given data folder.
    pub(super) fn data(&self) -> Option<&Path> {
        self.data.as_deref()
    }

    /// The same client, with the operator's token. The token comes from a given file or folder.
    /// Without one, a given ticket is used, or else the token in the default folder. This last one
    /// is sent only to nodes of this machine.
    pub(super) fn as_operator(&self) -> Result<Client, Failure> {
        let mut client = self.asking(self.headers.clone());
        let named = self.named_token_file();
        let file = match self.shown {
            Some(_) => named,
            None => named.or_else(|| self.usual_token_file()),
        };
        if let Some(file) = file {
            client.shown = Some(token_in(&file)?);
        }
        Ok(client)
    }

    /// The given file with the token.
    fn named_token_file(&self) -> Option<PathBuf> {
        let in_folder = || Some(self.data.as_ref()?.join(TOKEN_FILE));
        self.token_file.clone().or_else(in_folder)
    }

    /// The file with the token in the default folder, if the node is on this machine.
    fn usual_token_file(&self) -> Option<PathBuf> {
        let folder = env::var_os("TALLYMESH_DATA").filter(|it| !it.is_empty());
        let folder = folder.map(PathBuf::from).or_else(|| default_data().ok());
        let file = folder.map(|folder| folder.join(TOKEN_FILE));
        file.filter(|file| self.is_near() && file.exists())
    }

    /// Whether the node is at a loopback address.
    fn is_near(&self) -> bool {
        let rest = self.node.split_once("://").map_or("", |(_, rest)| rest);
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        is_loopback(host)
    }

    /// A client of another node with the same ticket. It never sends the operator's token, which is
    /// only for the first node.
    pub(super) fn at(&self, node: &str) -> Result<Client, Failure> {
        Ok(Client {
            node: address(node)?,
            is_first: false,
            ..self.asking(Vec::new())
        })
    }

    /// The same client, with these headers for its requests.
    pub(super) fn asking(&self, headers: Vec<Header>) -> Client {
        Client {
            agent: self.agent.clone(),
            node: self.node.clone(),
            space: self.space.clone(),
            shown: self.shown.clone(),
            token: OnceCell::new(),
            is_first: self.is_first,
            data: self.data.clone(),
            token_file: self.token_file.clone(),
            headers,
        }
    }

    /// Sends a request. If it has no ticket or token, and the node requires one, it is sent again
    /// with the operator's token. The node checks this before it does anything else.
    fn send(
        &self,
        write: bool,
        request: impl Fn(Option<&str>) -> Result<Response<Body>, Error>,
    ) -> Result<Response<Body>, Failure> {
        let known = self.shown.as_ref().or(self.token.get());
        let response = self.checked(request(known.map(String::as_str)), write)?;
        if known.is_some() || response.status() != 401 || !self.is_first {
            return Ok(response);
        }
        let named = self.named_token_file();
        let is_named = named.is_some();
        let Some(file) = named.or_else(|| self.usual_token_file()) else {
            return Ok(response);
        };
        let token = token_in(&file)?;
        let again = self.checked(request(Some(&token)), write)?;
        // The default folder may belong to another node. Then its token is not valid here.
        if again.status() == 401 && !is_named {
            return Ok(response);
        }
        let _ = self.token.set(token);
        Ok(again)
    }

    /// Gets a path of the node.
    pub(super) fn get(&self, path: &str) -> Result<Value, Failure> {
        answer(self.fetch(path)?, false)
    }

    /// Gets a path of the node that returns a text.
    pub(super) fn text(&self, path: &str) -> Result<String, Failure> {
        let mut response = self.fetch(path)?;
        if !response.status().is_success() {
            return Err(refused(response));
        }
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        body.read_to_string().map_err(|error| Failure::Broken {
            problem: error.to_string(),
            write: false,
            advice: None,
        })
    }

    fn fetch(&self, path: &str) -> Result<Response<Body>, Failure> {
        named(path)?;
        let url = format!("{}{path}", self.node);
        self.send(false, |shown| {
            self.with_headers(self.agent.get(&url), shown).call()
        })
    }

    /// Gets a path of the space.
    pub(super) fn get_in_space(&self, path: &str) -> Result<Value, Failure> {
        self.get(&self.in_space(path))
    }

    /// Makes a call. The names fill the places of its path, in their order.
    pub(super) fn call(
        &self,
        call: &Call,
        names: &[&str],
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let mut names = names.iter();
        let parts = call.below_space().split('/');
        let parts = parts.map(|part| match part.starts_with('{') {
            true => encoded(names.next().unwrap_or(&"")),
            false => part.to_owned(),
        });
        let path = parts.collect::<Vec<String>>().join("/");
        let text = body.map(Value::to_string).unwrap_or_default();
        match call.method() {
            Method::Get => self.get_in_space(&path),
            Method::Delete => self.delete(&self.in_space(&path)),
            Method::Put => self.put(&self.in_space(&path), &text),
            Method::Post => self.post_in_space(&path, "application/json", text.as_bytes()),
        }
    }

    /// Deletes a path of the node.
    pub(super) fn delete(&self, path: &str) -> Result<Value, Failure> {
        named(path)?;
        let url = format!("{}{path}", self.node);
        let response = self.send(true, |shown| {
            self.with_headers(self.agent.delete(&url), shown).call()
        });
        answer(response?, true)
    }

    /// Posts to a path of the space.
    pub(super) fn post_in_space(
        &self,
        path: &str,
        kind: &str,
        body: &[u8],
    ) -> Result<Value, Failure> {
        self.post(&self.in_space(path), kind, body)
    }

    /// Posts JSON to a path of the node.
    pub(super) fn post_json(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.post(path, "application/json", body.to_string().as_bytes())
    }

    fn post(&self, path: &str, kind: &str, body: &[u8]) -> Result<Value, Failure> {
        named(path)?;
        let url = format!("{}{path}", self.node);
        let response = self.send(true, |shown| {
            let request = self.agent.post(&url).content_type(kind);
            self.with_headers(request, shown).send(body)
        });
        answer(response?, true)
    }

    /// Posts JSON to a path of the space.
    pub(super) fn post_json_in_space(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.post_in_space(path, "application/json", body.to_string().as_bytes())
    }

    fn put(&self, path: &str, body: &str) -> Result<Value, Failure> {
        named(path)?;
        let url = format!("{}{path}", self.node);
        let response = self.send(true, |shown| {
            let request = self.agent.put(&url).content_type("application/json");
            self.with_headers(request, shown).send(body)
        });
        answer(response?, true)
    }

    /// Opens a stream in the space.
    pub(super) fn stream_in_space(&self, path: &str) -> Result<impl Read + use<>, Failure> {
        let response = self.fetch(&self.in_space(path))?;
        match response.status().is_success() {
            true => Ok(response.into_body().into_reader()),
            false => Err(refused(response)),
        }
    }

    fn with_headers<B>(
        &self,
        request: RequestBuilder<B>,
        shown: Option<&str>,
    ) -> RequestBuilder<B> {
        let mut request = request;
        if let Some(shown) = shown {
            request = request.header("authorization", shown);
        }
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        request
    }

    fn in_space(&self, path: &str) -> String {
        format!("/v1/spaces/{}/{path}", self.space)
    }

    /// Distinguishes a node that does not exist from one that broke the connection.
    fn checked(
        &self,
        response: Result<Response<Body>, Error>,
        write: bool,
    ) -> Result<Response<Body>, Failure> {
        response.map_err(|error| reach::failure(error, &self.node, write))
    }
}

/// The header for a ticket or a token.
fn bearer(text: &str) -> String {
    format!("Bearer {}", text.trim())
}

/// The header for the operator's token in a file.
fn token_in(file: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(file).map_err(|error| Failure::Usage {
        problem: format!(
            "can't read the operator's token in {}: {error}; run this as the node's user, or name the file \
             with --token-file",
            file.display()
        ),
    })?;
    Ok(bearer(&text))
}

/// The address of a node, as a prefix for paths.
fn address(node: &str) -> Result<String, Failure> {
    if !node.starts_with("http://") && !node.starts_with("https://") {
        let problem = format!("--node is `{node}` and must be a URL such as http://127.0.0.1:4280");
        return Err(Failure::Usage { problem });
    }
    Ok(node.trim_end_matches('/').to_owned())
}

/// Refuses a path whose last name is empty: it is the path of another resource, or of none.
fn named(path: &str) -> Result<(), Failure> {
    let names = path.split('?').next().unwrap_or_default();
    let Some(before) = names.strip_suffix('/') else {
        return Ok(());
    };
    let kind = before.rsplit('/').next().unwrap_or_default();
    let kind = kind.strip_suffix('s').unwrap_or(kind);
    let problem = format!("the name of the {kind} is empty: it has at least one byte");
    Err(Failure::Usage { problem })
}

/// Reads an answer, which is JSON also for a refusal.
fn answer(mut response: Response<Body>, write: bool) -> Result<Value, Failure> {
    if !response.status().is_success() {
        return Err(refused(response));
    }
    let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX);
    body.read_json().map_err(|error| Failure::Broken {
        problem: error.to_string(),
        write,
        advice: None,
    })
}

fn refused(mut response: Response<Body>) -> Failure {
    let status = response.status();
    let problem: Value = response.body_mut().read_json().unwrap_or_default();
    let text = |field: &str| problem[field].as_str().map(str::to_owned);
    Failure::Refused {
        code: text("code").unwrap_or_else(|| "http".into()),
        detail: text("detail").unwrap_or_else(|| {
            format!("the answer was {status}; is this address a Tallymesh node?")
        }),
        applied: text("applied"),
        line: problem["line"].as_u64(),
        op: problem["op"].as_u64().and_then(|op| op.try_into().ok()),
        members: Box::new(problem["members"].clone()),
    }
}

/// Percent-encodes one part of a path or query.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(byte.into());
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    // One or two dots alone would be a step in the path.
    match encoded.as_str() {
        "." => "%2E".into(),
        ".." => "%2E%2E".into(),
        _ => encoded,
    }
}

#[cfg(test)]
mod tests {
    use super::{encoded, named};

    #[test]
    fn a_name_that_is_empty_is_refused() {
        for (path, kind) in [
            ("/v1/spaces/default/counters/", Some("counter")),
            ("/v1/spaces/default/budgets/?spaces=a", Some("budget")),
            ("limits/", Some("limit")),
            ("counters/a", None),
            ("/v1/spaces/default/counters?prefix=a/", None),
            ("add", None),
        ] {
            let refused = named(path).err().map(|it| it.text());
            let expected =
                kind.map(|it| format!("the name of the {it} is empty: it has at least one byte"));
            assert_eq!(refused, expected, "{path}");
        }
    }

    #[test]
    fn what_means_something_in_a_url_is_encoded() {
        for (text, expected) in [
            ("likes", "likes"),
            ("a/b?c=d e", "a%2Fb%3Fc%3Dd%20e"),
            ("ä%", "%C3%A4%25"),
            ("..", "%2E%2E"),
            ("a.b", "a.b"),
        ] {
            assert_eq!(encoded(text), expected);
        }
    }
}
