//! What was typed, and what it means.
//!
//! [`UpArgs`] is the command line and the environment as they came; [`Config`] is what a node is
//! started with. Whatever can be wrong with the first is found on the way to the second.

mod network;

pub use network::NetworkArgs;

use crate::clock::WallClock;
use crate::gossip::{Address, GossipConfig, RESERVED};
use crate::resp::RespConfig;
use crate::store::Durability;
use clap::Args;
use clap::builder::FalseyValueParser;
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;
use tallymesh_core::Space;

/// Listeners if none are named: each transport on a free port of the loopback address.
const LISTEN_DEFAULT: [&str; 3] = [
    "/ip4/127.0.0.1/tcp/0",
    "/ip4/127.0.0.1/udp/0/quic-v1",
    "/ip4/127.0.0.1/tcp/0/ws",
];

const DURABILITY_DEFAULT: &str = "always";

/// How fast one client may send HTTP requests to an address that other machines reach.
const HTTP_RATE_DEFAULT: &str = "1000/s";

const LEASE_DEFAULT: &str = "10m";
const KEY_WINDOW_DEFAULT: &str = "24h";
/// What a lease and the window of keys may be.
const DURATION_RANGE: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(30 * 24 * 60 * 60);

/// Most spaces that one node opens.
const SPACES_MAX: usize = 64;

/// The arguments of `tallymesh up`.
#[derive(Args, Clone, Debug, Default)]
pub struct UpArgs {
    /// Folder for this node's key and state [default: tallymesh/ in the user's data folder, such
    /// as ~/.local/share]
    #[arg(long, value_name = "DIR", env = "TALLYMESH_DATA")]
    pub data: Option<PathBuf>,

    /// Address for HTTP; port 0 takes a free one
    #[arg(
        long,
        value_name = "ADDR:PORT",
        env = "TALLYMESH_HTTP",
        default_value = "127.0.0.1:4280"
    )]
    pub http: String,

    /// Let --http be an address that other machines reach: whoever reaches it can count, since
    /// nothing is authenticated yet
    #[arg(long, env = "TALLYMESH_HTTP_OPEN", value_parser = FalseyValueParser::new())]
    pub http_open: bool,

    /// Let pages of this origin, such as `https://shop.example`, talk to this node; repeatable
    #[arg(long, value_name = "URL", env = "TALLYMESH_CORS_ORIGINS", num_args = 1.., value_delimiter = ',')]
    pub cors_origin: Vec<String>,

    /// Most HTTP requests from one client address, such as 100/s, or `off` [default: off on a loopback
    /// address, else 1000/s]
    #[arg(long, value_name = "COUNT/s", env = "TALLYMESH_HTTP_RATE")]
    pub http_rate: Option<String>,

    /// Most HTTP requests from one client address at once, before --http-rate holds [default: those of
    /// one second]
    #[arg(long, value_name = "COUNT", env = "TALLYMESH_HTTP_BURST")]
    pub http_burst: Option<NonZeroU32>,

    /// What an acknowledged write survives: `always` a power cut; `interval:DURATION`, such as
    /// `interval:1s`, all but what came within that time before one; `memory` nothing, as nothing is
    /// written to the disk, and the node can be no member of a space [default: always]
    #[arg(long, value_name = "WHEN", env = "TALLYMESH_DURABILITY")]
    pub durability: Option<String>,

    /// Address for the Redis protocol, such as 127.0.0.1:6379 [default: not served]
    #[arg(long, value_name = "ADDR:PORT", env = "TALLYMESH_RESP")]
    pub resp: Option<String>,

    /// Password that Redis clients have to give; needed if --resp is reachable from other machines.
    /// Better given by the environment, since others see arguments
    #[arg(
        long,
        value_name = "TEXT",
        env = "TALLYMESH_RESP_PASSWORD",
        hide_env_values = true
    )]
    pub resp_password: Option<String>,

    /// Most Redis clients at once; each takes some kilobytes
    #[arg(
        long,
        value_name = "COUNT",
        env = "TALLYMESH_RESP_CLIENTS",
        default_value_t = 10_000
    )]
    pub resp_clients: usize,

    /// Refuse Redis commands whose condition or answer only one place for all could give: SET with
    /// NX, XX or GET, SETNX, GETSET, GETDEL, WATCH
    #[arg(long, env = "TALLYMESH_RESP_STRICT", value_parser = FalseyValueParser::new())]
    pub resp_strict: bool,

    /// Let Redis clients delete all counters with FLUSHDB and FLUSHALL
    #[arg(long, env = "TALLYMESH_RESP_FLUSH", value_parser = FalseyValueParser::new())]
    pub resp_flush: bool,

    /// Addresses for other nodes [default: TCP, QUIC and WebSocket on free loopback ports]
    #[arg(long, value_name = "MULTIADDR", env = "TALLYMESH_LISTEN", num_args = 1.., value_delimiter = ',')]
    pub listen: Vec<String>,

    /// Nodes to stay connected to
    #[arg(long, value_name = "MULTIADDR", env = "TALLYMESH_PEERS", num_args = 1.., value_delimiter = ',')]
    pub peer: Vec<String>,

    /// Spaces to open
    #[arg(long, value_name = "NAME", env = "TALLYMESH_SPACES", num_args = 1.., value_delimiter = ',', default_value = "default")]
    pub space: Vec<String>,

    /// How long a member waits for a guest, such as a page, that no link leads to or that does not
    /// get on, before it takes over what that counted; from 1s to 30d [default: 10m]
    #[arg(long, value_name = "DURATION", env = "TALLYMESH_LEASE")]
    pub lease: Option<String>,

    /// How long an idempotency key is known, so that a retry under it counts once; from 1s to 30d. Each
    /// takes about 150 bytes of memory, and of more than a million in a space the oldest are dropped
    /// [default: 24h]
    #[arg(long, value_name = "DURATION", env = "TALLYMESH_KEY_WINDOW")]
    pub key_window: Option<String>,

    /// Find nodes on the local network by itself
    #[arg(long, env = "TALLYMESH_MDNS", value_parser = FalseyValueParser::new())]
    pub mdns: bool,

    /// What peers may take, and whether this node is a relay
    #[command(flatten)]
    pub network: NetworkArgs,

    /// Let whoever reaches HTTP cut and heal this node's links, for demonstrations and tests
    #[arg(long, env = "TALLYMESH_DEMO", value_parser = FalseyValueParser::new())]
    pub demo: bool,

    /// Write the bound addresses to this file, as JSON, once everything listens
    #[arg(long, value_name = "FILE", env = "TALLYMESH_READY_FILE")]
    pub ready_file: Option<PathBuf>,

    /// What to log to standard error, such as info or debug,libp2p=warn. A peer that opens more streams
    /// than it may is told of by libp2p at each, so that is left out unless it is asked for
    #[arg(
        long,
        value_name = "FILTER",
        env = "TALLYMESH_LOG",
        default_value = "warn,libp2p_request_response=error,tallymesh_node=info"
    )]
    pub log: String,
}

/// What a node is started with.
#[derive(Clone, Debug)]
pub struct Config {
    /// The folder for key and state.
    pub data: PathBuf,
    /// The address for HTTP. Port 0 takes a free one.
    pub http: SocketAddr,
    /// Who is let in over HTTP, and how fast.
    pub http_rules: HttpRules,
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// The Redis protocol, if it is served.
    pub resp: Option<Resp>,
    /// The network part.
    pub gossip: GossipConfig,
    /// The spaces to open, each once and at least one.
    pub spaces: Vec<Space>,
    /// How long a member waits for a guest before it takes over from it, in milliseconds.
    pub lease_ms: u32,
    /// How long an idempotency key is known. Too short, and a client that retries late counts twice;
    /// longer takes memory.
    pub key_window: Duration,
    /// Whether links can be cut over HTTP.
    pub demo: bool,
    /// Where to write the bound addresses.
    pub ready_file: Option<PathBuf>,
    /// The clock by which counters expire.
    pub clock: WallClock,
}

/// Who is let in over HTTP, and how fast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRules {
    /// Whether HTTP may be reached from other machines, and so under any host name.
    pub open: bool,
    /// Origins of which pages may talk to the node, beside loopback's and its own.
    pub origins: Vec<String>,
    /// How fast one client may send requests; `None` without a limit.
    pub rate: Option<HttpRate>,
    /// How long a link over single requests may be silent before it ends. Too short, and a client
    /// that waits between its requests begins again each time; too long, and clients that went away
    /// take memory.
    pub sync_idle: Duration,
}

impl Default for HttpRules {
    fn default() -> HttpRules {
        HttpRules {
            open: false,
            origins: Vec::new(),
            rate: None,
            sync_idle: crate::http::post::IDLE,
        }
    }
}

/// How fast one client may send requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpRate {
    /// How many a second.
    pub per_second: NonZeroU32,
    /// How many at once, before that holds.
    pub burst: NonZeroU32,
}

/// How the Redis protocol is served.
#[derive(Clone, Debug)]
pub struct Resp {
    /// The address. Port 0 takes a free one.
    pub address: SocketAddr,
    /// Most clients at once.
    pub clients_max: usize,
    /// What is allowed to whom.
    pub rules: RespConfig,
}

/// An argument that means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The argument, such as `--http`.
    pub argument: &'static str,
    /// What is wrong with it, and what to do.
    pub problem: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.argument, self.problem)
    }
}

impl std::error::Error for ConfigError {}

impl UpArgs {
    /// Finds out what was meant.
    ///
    /// # Errors
    /// At the first argument that means nothing.
    pub fn config(self) -> Result<Config, ConfigError> {
        let http = http_address(&self.http, self.http_open)?;
        let durability = durability(self.durability.as_deref().unwrap_or(DURABILITY_DEFAULT))?;
        let resp = match self.resp {
            None => None,
            Some(address) => {
                let rules = RespConfig {
                    password: self.resp_password.filter(|text| !text.is_empty()),
                    strict: self.resp_strict,
                    flush: self.resp_flush,
                    ..RespConfig::default()
                };
                let address = resp_address(&address, &rules)?;
                Some(Resp {
                    address,
                    clients_max: self.resp_clients,
                    rules,
                })
            }
        };
        let data = match self.data {
            Some(folder) => folder,
            None => default_data()?,
        };
        let listen = match self.listen.is_empty() {
            true => LISTEN_DEFAULT.map(str::to_owned).to_vec(),
            false => self.listen,
        };
        Ok(Config {
            data,
            http,
            http_rules: HttpRules {
                open: self.http_open,
                origins: origins(&self.cors_origin)?,
                rate: rate(self.http_rate.as_deref(), self.http_burst, http)?,
                ..HttpRules::default()
            },
            durability,
            resp,
            gossip: GossipConfig {
                listen: addresses("--listen", &listen)?,
                peers: addresses("--peer", &self.peer)?,
                mdns: self.mdns,
                book: self.network.address_book.unwrap_or(true),
                announce: addresses("--announce", &self.network.announce)?,
                limits: self.network.limits()?,
                relay: self.network.relay()?,
            },
            spaces: spaces(&self.space)?,
            lease_ms: lease(self.lease.as_deref().unwrap_or(LEASE_DEFAULT))?,
            key_window: {
                let text = self.key_window.as_deref().unwrap_or(KEY_WINDOW_DEFAULT);
                duration("--key-window", text)?
            },
            demo: self.demo,
            ready_file: self.ready_file,
            clock: WallClock::default(),
        })
    }
}

fn wrong(argument: &'static str, problem: String) -> ConfigError {
    ConfigError { argument, problem }
}

fn address(argument: &'static str, text: &str) -> Result<SocketAddr, ConfigError> {
    text.parse().map_err(|_| {
        let problem =
            format!("`{text}` is no address with a port, such as 127.0.0.1:4280 or [::1]:0");
        wrong(argument, problem)
    })
}

fn durability(text: &str) -> Result<Durability, ConfigError> {
    let parsed = text.parse();
    parsed.map_err(|problem| wrong("--durability", format!("`{text}`: {problem}")))
}

fn resp_address(text: &str, rules: &RespConfig) -> Result<SocketAddr, ConfigError> {
    let address = address("--resp", text)?;
    if !address.ip().is_loopback() && rules.password.is_none() {
        let problem = format!(
            "{address} is reachable from other machines; use a loopback address, or set a password \
             in TALLYMESH_RESP_PASSWORD"
        );
        return Err(wrong("--resp", problem));
    }
    Ok(address)
}

fn http_address(text: &str, open: bool) -> Result<SocketAddr, ConfigError> {
    let wrong = |problem| wrong("--http", problem);
    let address = address("--http", text)?;
    if !address.ip().is_loopback() && !open {
        return Err(wrong(format!(
            "{address} is reachable from other machines, and nothing is authenticated yet; use a \
             loopback address, or add --http-open if your network keeps strangers away"
        )));
    }
    Ok(address)
}

/// Origins as browsers write them.
fn origins(texts: &[String]) -> Result<Vec<String>, ConfigError> {
    let parse = |text: &String| {
        let origin = text.trim().trim_end_matches('/').to_ascii_lowercase();
        let host = origin
            .strip_prefix("https://")
            .or(origin.strip_prefix("http://"));
        match host {
            Some(host) if !host.is_empty() && !host.contains(['/', '*', '@', '?', '#', ' ']) => {
                Ok(origin)
            }
            _ => {
                let problem = format!(
                    "`{text}` is no origin: name a scheme and a host, such as \
                     https://shop.example, and each one by itself"
                );
                Err(wrong("--cors-origin", problem))
            }
        }
    };
    texts.iter().map(parse).collect()
}

fn rate(
    text: Option<&str>,
    burst: Option<NonZeroU32>,
    http: SocketAddr,
) -> Result<Option<HttpRate>, ConfigError> {
    let text = match text {
        Some(text) => text,
        None if http.ip().is_loopback() => "off",
        None => HTTP_RATE_DEFAULT,
    };
    if text == "off" {
        return Ok(None);
    }
    let per_second = text.strip_suffix("/s").and_then(|count| count.parse().ok());
    let Some(per_second) = per_second else {
        let problem = format!("`{text}` is no rate, such as 100/s, and not `off`");
        return Err(wrong("--http-rate", problem));
    };
    let burst = burst.unwrap_or(per_second);
    Ok(Some(HttpRate { per_second, burst }))
}

pub(crate) fn default_data() -> Result<PathBuf, ConfigError> {
    let folder = dirs::data_local_dir().map(|folder| folder.join("tallymesh"));
    folder.ok_or_else(|| {
        let problem = "this user has no data folder; name one with --data DIR";
        wrong("--data", problem.into())
    })
}

fn addresses(argument: &'static str, texts: &[String]) -> Result<Vec<Address>, ConfigError> {
    let parse = |text: &String| {
        let parsed = text.trim().parse();
        parsed.map_err(|problem| wrong(argument, format!("`{text}`: {problem}")))
    };
    texts.iter().map(parse).collect()
}

fn lease(text: &str) -> Result<u32, ConfigError> {
    let lease = duration("--lease", text)?;
    Ok(lease.as_millis() as u32) // 30 days are fewer than 2^32
}

fn duration(argument: &'static str, text: &str) -> Result<Duration, ConfigError> {
    let wrong = |problem| wrong(argument, format!("`{text}`: {problem}"));
    let duration = crate::cli::duration(text).map_err(wrong)?;
    match DURATION_RANGE.contains(&duration) {
        true => Ok(duration),
        false => Err(wrong("it is from 1s to 30d".into())),
    }
}

fn spaces(names: &[String]) -> Result<Vec<Space>, ConfigError> {
    let mut spaces = Vec::new();
    for name in names {
        if name.starts_with(RESERVED) {
            let problem = format!(
                "`{name}`: names that begin with `{RESERVED}` are for the node's own spaces; choose \
                 another"
            );
            return Err(wrong("--space", problem));
        }
        let space =
            Space::new(name).map_err(|error| wrong("--space", format!("`{name}`: {error}")))?;
        if !spaces.contains(&space) {
            spaces.push(space);
        }
    }
    match spaces.len() {
        0 => Ok(vec![Space::default()]),
        1..=SPACES_MAX => Ok(spaces),
        count => Err(wrong(
            "--space",
            format!("{count} spaces are over the limit of {SPACES_MAX}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> UpArgs {
        UpArgs {
            data: Some("data".into()),
            http: "127.0.0.1:0".into(),
            ..UpArgs::default()
        }
    }

    #[test]
    fn what_is_not_named_has_a_default() {
        let config = args().config().expect("valid");
        assert_eq!(config.spaces, [Space::default()]);
        assert_eq!(config.gossip.listen.len(), 3);
        assert!(config.gossip.peers.is_empty() && !config.demo && !config.gossip.mdns);
        assert_eq!(config.lease_ms, 600_000);
        assert_eq!(config.key_window, Duration::from_secs(86_400));
        assert_eq!(config.durability, Durability::Always);
        assert!(config.resp.is_none());
    }

    #[test]
    fn a_lease_and_a_window_are_durations() {
        for (text, millis) in [("1s", 1_000), ("1h 30m", 5_400_000), ("30d", 2_592_000_000)] {
            let mut args = args();
            (args.lease, args.key_window) = (Some(text.into()), Some(text.into()));
            let config = args.config().expect(text);
            assert_eq!(config.lease_ms, millis);
            assert_eq!(config.key_window, Duration::from_millis(millis.into()));
        }
    }

    #[test]
    fn requests_are_limited_where_other_machines_send_them() {
        let rate = |http: &str, rate: Option<&str>, burst| {
            let mut args = args();
            (args.http, args.http_open) = (http.into(), true);
            (args.http_rate, args.http_burst) = (rate.map(str::to_owned), burst);
            let rate = args.config().expect(http).http_rules.rate;
            rate.map(|it| (it.per_second.get(), it.burst.get()))
        };
        assert_eq!(rate("127.0.0.1:0", None, None), None);
        assert_eq!(rate("0.0.0.0:0", None, None), Some((1000, 1000)));
        assert_eq!(rate("0.0.0.0:0", Some("off"), None), None);
        assert_eq!(rate("[::1]:0", Some("5/s"), None), Some((5, 5)));
        let burst = NonZeroU32::new(20);
        assert_eq!(rate("[::1]:0", Some("5/s"), burst), Some((5, 20)));
    }

    #[test]
    fn origins_are_written_as_browsers_write_them() {
        let mut args = args();
        args.cors_origin = vec!["https://Shop.example/".into(), "http://b.example:81".into()];
        let origins = args.config().expect("valid").http_rules.origins;
        assert_eq!(origins, ["https://shop.example", "http://b.example:81"]);
    }

    #[test]
    fn a_space_named_twice_is_opened_once() {
        let mut args = args();
        args.space = vec!["a".into(), "b".into(), "a".into()];
        assert_eq!(args.config().expect("valid").spaces.len(), 2);
    }

    #[test]
    fn what_means_nothing_is_named() {
        type Spoil = fn(&mut UpArgs);
        let table: [(&str, &str, Spoil); 22] = [
            ("--cors-origin", "`*`", |args| {
                args.cors_origin = vec!["*".into()]
            }),
            ("--cors-origin", "`null`", |args| {
                args.cors_origin = vec!["https://a.example".into(), "null".into()];
            }),
            ("--cors-origin", "`https://a.example/b`", |args| {
                args.cors_origin = vec!["https://a.example/b".into()];
            }),
            ("--http-rate", "`100`", |args| {
                args.http_rate = Some("100".into())
            }),
            ("--http-rate", "`0/s`", |args| {
                args.http_rate = Some("0/s".into())
            }),
            ("--durability", "`often`", |args| {
                args.durability = Some("often".into());
            }),
            ("--durability", "`interval:`", |args| {
                args.durability = Some("interval:".into());
            }),
            ("--resp", "`6379`", |args| args.resp = Some("6379".into())),
            ("--resp", "TALLYMESH_RESP_PASSWORD", |args| {
                args.resp = Some("0.0.0.0:0".into());
            }),
            ("--lease", "`soon`", |args| args.lease = Some("soon".into())),
            ("--lease", "1s to 30d", |args| {
                args.lease = Some("999ms".into())
            }),
            ("--lease", "1s to 30d", |args| {
                args.lease = Some("31d".into())
            }),
            ("--key-window", "`always`", |args| {
                args.key_window = Some("always".into());
            }),
            ("--key-window", "1s to 30d", |args| {
                args.key_window = Some("0s".into());
            }),
            ("--http", "localhost", |args| args.http = "localhost".into()),
            ("--http", "--http-open", |args| {
                args.http = "0.0.0.0:80".into()
            }),
            ("--listen", "`/ip4/x`", |args| {
                args.listen = vec!["/ip4/x".into()]
            }),
            ("--peer", "`here`", |args| args.peer = vec!["here".into()]),
            ("--space", "`a b`", |args| args.space = vec!["a b".into()]),
            ("--space", "`_mesh`", |args| {
                args.space = vec!["_mesh".into()]
            }),
            ("--announce", "`here`", |args| {
                args.network.announce = vec!["here".into()];
            }),
            ("--space", "limit of 64", |args| {
                args.space = (0..65).map(|n| format!("s{n}")).collect();
            }),
        ];
        for (argument, part, spoil) in table {
            let mut args = args();
            spoil(&mut args);
            let error = args.config().expect_err(part);
            assert_eq!(error.argument, argument);
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn an_open_address_must_be_asked_for() {
        let mut args = args();
        (args.http, args.http_open) = ("0.0.0.0:0".into(), true);
        (args.resp, args.resp_password) = (Some("0.0.0.0:0".into()), Some("secret".into()));
        assert!(args.config().is_ok());
    }
}
