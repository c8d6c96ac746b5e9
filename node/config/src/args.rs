//! The settings of a node, as they are written: on the command line, in the environment, or in a
//! file.

use super::{NetworkArgs, switch};
use clap::{Args, Command};
use serde::{Deserialize, Serialize, Serializer};
use std::num::NonZeroU32;
use std::path::PathBuf;
use tallymesh_node_engine::settings::HTTP_CLIENTS;

/// The default listeners: transports of nodes on free ports of the loopback address. WebSocket is
/// for pages, and so it must be requested.
const LISTEN_DEFAULT: [&str; 2] = ["/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1"];

/// The form of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people; coloured on a terminal, unless NO_COLOR is set
    #[default]
    Text,
    /// For programs: one JSON object a line
    Json,
}

/// The settings of a node: the arguments of `tallymesh up`, and the keys of its configuration file,
/// which have the same names. What is `None` was not said.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct UpArgs {
    /// Folder for this node's key and state [default: tallymesh/ in the user's data folder, such
    /// as ~/.local/share]
    #[arg(long, value_name = "DIR", env = "TALLYMESH_DATA")]
    #[serde(serialize_with = "path")]
    pub data: Option<PathBuf>,

    /// Address for HTTP; port 0 takes a free one [default: 127.0.0.1:4280]
    #[arg(long, value_name = "ADDR:PORT", env = "TALLYMESH_HTTP")]
    pub http: Option<String>,

    /// Ask no client of HTTP for a ticket, also at an address that other machines reach: whoever
    /// reaches it can count
    #[arg(long, value_name = "YES", env = "TALLYMESH_HTTP_OPEN", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
    pub http_open: Option<bool>,

    /// Ask clients of HTTP for tickets at a loopback address, too; or beyond it without TLS, where
    /// something in front of the node does that
    #[arg(long, value_name = "YES", env = "TALLYMESH_HTTP_TICKETS", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
    pub http_tickets: Option<bool>,

    /// Serve HTTPS with this certificate, a PEM file with those that signed it after it; a changed file
    /// is read again
    #[arg(long, value_name = "FILE", env = "TALLYMESH_HTTP_TLS_CERT")]
    #[serde(serialize_with = "path")]
    pub http_tls_cert: Option<PathBuf>,

    /// The private key of --http-tls-cert, a PEM file
    #[arg(long, value_name = "FILE", env = "TALLYMESH_HTTP_TLS_KEY")]
    #[serde(serialize_with = "path")]
    pub http_tls_key: Option<PathBuf>,

    /// Answer to this host name, such as `counts.example`, beside those of loopback; repeatable. Where
    /// others reach the node by it, let --http-tickets ask them for tickets [default: none; every name
    /// where tickets are asked for]
    #[arg(long, value_name = "NAME", env = "TALLYMESH_HTTP_HOSTS", num_args = 1.., value_delimiter = ',')]
    pub http_host: Option<Vec<String>>,

    /// Let pages of this origin talk to this node, such as `https://shop.example`, `tauri://localhost`
    /// of an app, or `null` for pages that have none; repeatable
    #[arg(long, value_name = "URL", env = "TALLYMESH_CORS_ORIGINS", num_args = 1.., value_delimiter = ',')]
    pub cors_origin: Option<Vec<String>>,

    /// Most HTTP requests from one client address, such as 100/s, or `off` [default: off on a loopback
    /// address, else 1000/s]
    #[arg(long, value_name = "COUNT/s", env = "TALLYMESH_HTTP_RATE")]
    pub http_rate: Option<String>,

    /// Most HTTP requests from one client address at once, before --http-rate holds [default: those of
    /// one second]
    #[arg(long, value_name = "COUNT", env = "TALLYMESH_HTTP_BURST")]
    pub http_burst: Option<NonZeroU32>,

    /// Most HTTP connections at once, those of pages too; further ones wait until there is room. Each takes
    /// up to 130 KB [default: 4096]
    #[arg(long, value_name = "COUNT", env = "TALLYMESH_HTTP_CLIENTS")]
    pub http_clients: Option<NonZeroU32>,

    /// What an acknowledged write survives: `always` a power cut; `interval:DURATION`, such as
    /// `interval:1s`, all but what came within that time before one; `memory` nothing, as nothing is
    /// written to the disk, and the node can be no member of a space [default: always]
    #[arg(long, value_name = "WHEN", env = "TALLYMESH_DURABILITY")]
    pub durability: Option<String>,

    /// Address for the Redis protocol, such as 127.0.0.1:6379 [default: not served]
    #[arg(long, value_name = "ADDR:PORT", env = "TALLYMESH_RESP")]
    pub resp: Option<String>,

    /// Ask no Redis client for a ticket, also at an address that other machines reach: whoever reaches
    /// it, and knows the password if there is one, can count
    #[arg(long, value_name = "YES", env = "TALLYMESH_RESP_OPEN", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
    pub resp_open: Option<bool>,

    /// Ask Redis clients for tickets at a loopback address, too; or beyond it without TLS, where
    /// something in front of the node does that
    #[arg(long, value_name = "YES", env = "TALLYMESH_RESP_TICKETS", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
    pub resp_tickets: Option<bool>,

    /// Serve Redis clients over TLS with this certificate, a PEM file with those that signed it after
    /// it; a changed file is read again
    #[arg(long, value_name = "FILE", env = "TALLYMESH_RESP_TLS_CERT")]
    #[serde(serialize_with = "path")]
    pub resp_tls_cert: Option<PathBuf>,

    /// The private key of --resp-tls-cert, a PEM file
    #[arg(long, value_name = "FILE", env = "TALLYMESH_RESP_TLS_KEY")]
    #[serde(serialize_with = "path")]
    pub resp_tls_key: Option<PathBuf>,

    /// Password that Redis clients have to give where they are not asked for tickets. Better given by
    /// the environment or the configuration file, since others see arguments
    #[arg(
        long,
        value_name = "TEXT",
        env = "TALLYMESH_RESP_PASSWORD",
        hide_env_values = true
    )]
    pub resp_password: Option<String>,

    /// Most Redis clients at once; each takes some kilobytes [default: 10000]
    #[arg(long, value_name = "COUNT", env = "TALLYMESH_RESP_CLIENTS")]
    pub resp_clients: Option<usize>,

    /// Refuse Redis commands whose condition or answer only one place for all could give: SET with
    /// NX, XX or GET, SETNX, GETSET, GETDEL, WATCH
    #[arg(long, value_name = "YES", env = "TALLYMESH_RESP_STRICT", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
    pub resp_strict: Option<bool>,

    /// Let Redis clients delete all counters with FLUSHDB and FLUSHALL
    #[arg(long, value_name = "YES", env = "TALLYMESH_RESP_FLUSH", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
    pub resp_flush: Option<bool>,

    /// Addresses for other nodes, and for pages with js-libp2p if they end in `/ws`; a page there takes a
    /// ticket, also on loopback [default: TCP and QUIC on free loopback ports]
    #[arg(long, value_name = "MULTIADDR", env = "TALLYMESH_LISTEN", num_args = 1.., value_delimiter = ',')]
    pub listen: Option<Vec<String>>,

    /// Ask no node for a ticket, also at an address that other machines reach: whoever reaches it is
    /// trusted as a member of all spaces
    #[arg(long, value_name = "YES", env = "TALLYMESH_LISTEN_OPEN", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
    pub listen_open: Option<bool>,

    /// Ask nodes for tickets at loopback addresses, too
    #[arg(long, value_name = "YES", env = "TALLYMESH_LISTEN_TICKETS", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
    pub listen_tickets: Option<bool>,

    /// Join with this ticket, which `tallymesh invite` printed at a node: dial the nodes that it names,
    /// and open its spaces if none are named. It is kept in the data folder, so once is enough
    #[arg(long, value_name = "TICKET", env = "TALLYMESH_JOIN", num_args = 1.., value_delimiter = ',', hide_env_values = true)]
    pub join: Option<Vec<String>>,

    /// Nodes to stay connected to. One whose address ends in its name, `/p2p/...`, is trusted as a
    /// member of all spaces
    #[arg(long, value_name = "MULTIADDR", env = "TALLYMESH_PEERS", num_args = 1.., value_delimiter = ',')]
    pub peer: Option<Vec<String>>,

    /// Spaces to open [default: those of the tickets that the node joins with, or else `default`]
    #[arg(long, value_name = "NAME", env = "TALLYMESH_SPACES", num_args = 1.., value_delimiter = ',')]
    pub space: Option<Vec<String>>,

    /// How long a member waits for a guest, such as a page, that no link leads to or that does not
    /// get on, before it takes over what that counted; from 1s to 30d [default: 10m]
    #[arg(long, value_name = "DURATION", env = "TALLYMESH_LEASE")]
    pub lease: Option<String>,

    /// How long an idempotency key is known, so that a retry under it counts once; from 1s to 30d. Each
    /// takes about 220 bytes of memory, and of more than a million in a space the oldest are dropped
    /// [default: 24h]
    #[arg(long, value_name = "DURATION", env = "TALLYMESH_KEY_WINDOW")]
    pub key_window: Option<String>,

    /// Find nodes on the local network by itself
    #[arg(long, value_name = "YES", env = "TALLYMESH_MDNS", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
    pub mdns: Option<bool>,

    /// What peers may take, and whether this node is a relay
    #[command(flatten)]
    #[serde(flatten)]
    pub network: NetworkArgs,

    /// Let whoever reaches HTTP cut and heal this node's links, for demonstrations and tests
    #[arg(long, value_name = "YES", env = "TALLYMESH_DEMO", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
    pub demo: Option<bool>,

    /// Write the bound addresses to this file, as JSON, once everything listens
    #[arg(long, value_name = "FILE", env = "TALLYMESH_READY_FILE")]
    #[serde(serialize_with = "path")]
    pub ready_file: Option<PathBuf>,

    /// What to log to standard error, such as info or debug,libp2p=warn [default:
    /// warn,libp2p_request_response=error,tallymesh_node=info]
    #[arg(long, value_name = "FILTER", env = "TALLYMESH_LOG")]
    pub log: Option<String>,

    /// The form of log lines [default: text]
    #[arg(long, value_name = "FORMAT", value_enum, env = "TALLYMESH_LOG_FORMAT")]
    pub log_format: Option<LogFormat>,
}

impl UpArgs {
    /// The defaults. A setting without a value here has none, or depends on others: `data`,
    /// `http-rate`, `http-burst`, `space`.
    pub(super) fn defaults() -> UpArgs {
        let text = |text: &str| Some(text.to_owned());
        UpArgs {
            data: None,
            http: text("127.0.0.1:4280"),
            http_open: Some(false),
            http_tickets: Some(false),
            http_tls_cert: None,
            http_tls_key: None,
            http_host: Some(Vec::new()),
            cors_origin: Some(Vec::new()),
            http_rate: None,
            http_burst: None,
            http_clients: NonZeroU32::new(HTTP_CLIENTS),
            durability: text("always"),
            resp: None,
            resp_open: Some(false),
            resp_tickets: Some(false),
            resp_tls_cert: None,
            resp_tls_key: None,
            resp_password: None,
            resp_clients: Some(10_000),
            resp_strict: Some(false),
            resp_flush: Some(false),
            listen: Some(LISTEN_DEFAULT.map(str::to_owned).to_vec()),
            listen_open: Some(false),
            listen_tickets: Some(false),
            join: Some(Vec::new()),
            peer: Some(Vec::new()),
            space: None,
            lease: text("10m"),
            key_window: text("24h"),
            mdns: Some(false),
            network: NetworkArgs::defaults(),
            demo: Some(false),
            ready_file: None,
            log: text("warn,libp2p_request_response=error,tallymesh_node=info"),
            log_format: Some(LogFormat::Text),
        }
    }

    /// These settings, with those of `below` where one is missing.
    pub(super) fn or(self, below: UpArgs) -> UpArgs {
        UpArgs {
            data: self.data.or(below.data),
            http: self.http.or(below.http),
            http_open: self.http_open.or(below.http_open),
            http_tickets: self.http_tickets.or(below.http_tickets),
            http_tls_cert: self.http_tls_cert.or(below.http_tls_cert),
            http_tls_key: self.http_tls_key.or(below.http_tls_key),
            http_host: self.http_host.or(below.http_host),
            cors_origin: self.cors_origin.or(below.cors_origin),
            http_rate: self.http_rate.or(below.http_rate),
            http_burst: self.http_burst.or(below.http_burst),
            http_clients: self.http_clients.or(below.http_clients),
            durability: self.durability.or(below.durability),
            resp: self.resp.or(below.resp),
            resp_open: self.resp_open.or(below.resp_open),
            resp_tickets: self.resp_tickets.or(below.resp_tickets),
            resp_tls_cert: self.resp_tls_cert.or(below.resp_tls_cert),
            resp_tls_key: self.resp_tls_key.or(below.resp_tls_key),
            resp_password: self.resp_password.or(below.resp_password),
            resp_clients: self.resp_clients.or(below.resp_clients),
            resp_strict: self.resp_strict.or(below.resp_strict),
            resp_flush: self.resp_flush.or(below.resp_flush),
            listen: self.listen.or(below.listen),
            listen_open: self.listen_open.or(below.listen_open),
            listen_tickets: self.listen_tickets.or(below.listen_tickets),
            join: self.join.or(below.join),
            peer: self.peer.or(below.peer),
            space: self.space.or(below.space),
            lease: self.lease.or(below.lease),
            key_window: self.key_window.or(below.key_window),
            mdns: self.mdns.or(below.mdns),
            network: self.network.or(below.network),
            demo: self.demo.or(below.demo),
            ready_file: self.ready_file.or(below.ready_file),
            log: self.log.or(below.log),
            log_format: self.log_format.or(below.log_format),
        }
    }
}

/// A path for people: invalid UTF-8 is replaced.
fn path<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref()
        .map(|path| path.to_string_lossy())
        .serialize(serializer)
}

/// The settings as the flags of a command.
pub(super) fn command() -> Command {
    UpArgs::augment_args(Command::new("settings"))
}

/// The names of all settings, as flags and in a file.
pub(super) fn names() -> Vec<String> {
    let command = command();
    let names = command.get_arguments().filter_map(|arg| arg.get_long());
    names.map(str::to_owned).collect()
}
