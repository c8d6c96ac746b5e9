//! The settings of a node, and the configuration that results from them.
//!
//! [`UpArgs`] are settings as they were written, on the command line, in the environment or in a
//! file. [`Layers`] puts these above each other. [`Config`] is the checked result with which a node
//! starts. The conversion reports all errors at once.

mod args;
mod descriptors;
mod error;
mod file;
mod layers;
mod network;
mod pages;

pub use args::{LogFormat, UpArgs};
pub use descriptors::fit;
pub use error::{ConfigError, ConfigErrors, Origin};
pub use layers::{Effective, Layers, Row};
pub use network::NetworkArgs;

use error::wrong;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;
use tallymesh_core::Space;
use tallymesh_node_engine::access::Grant;
use tallymesh_node_engine::browser::Pages;
use tallymesh_node_engine::settings::{GossipConfig, HTTP_CLIENTS, HttpRate, HttpRules};
use tallymesh_node_engine::tls::TlsFiles;
use tallymesh_node_ground::clock::WallClock;
use tallymesh_node_ground::identity::Address;
use tallymesh_node_ground::model::RESERVED;
use tallymesh_node_ground::resp_config::RespConfig;
use tallymesh_node_store::Durability;
use tracing_subscriber::EnvFilter;

/// The rate of HTTP requests for one client, at an address that other machines reach.
const HTTP_RATE_DEFAULT: &str = "1000/s";

/// The range of a lease, and of the window of idempotency keys.
const DURATION_RANGE: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(30 * 24 * 60 * 60);

/// Most spaces that one node opens.
pub const SPACES_MAX: usize = 10_000;

/// The configuration with which a node starts.
#[derive(Clone, Debug)]
pub struct Config {
    /// The folder for key and state.
    pub data: PathBuf,
    /// The address for HTTP. Port 0 takes a free one.
    pub http: SocketAddr,
    /// The certificate of HTTPS; `None` for HTTP in the clear.
    pub http_tls: Option<TlsFiles>,
    /// The rules for clients of HTTP: access and rate.
    pub http_rules: HttpRules,
    /// The durability of an acknowledged write.
    pub durability: Durability,
    /// The Redis protocol, if it is served.
    pub resp: Option<Resp>,
    /// The network part.
    pub gossip: GossipConfig,
    /// The spaces to open, each once and at least one. With `None`, the node opens the spaces of
    /// its tickets, or else the one named `default`.
    pub spaces: Option<Vec<Space>>,
    /// Tickets to join with.
    pub join: Vec<String>,
    /// How long a member waits for a guest before it takes over the guest's transactions, in
    /// milliseconds.
    pub guest_timeout_ms: u32,
    /// How long an idempotency key is stored. With too short a time, a client that retries late
    /// counts twice; longer takes memory.
    pub key_window: Duration,
    /// Whether links can be cut over HTTP.
    pub demo: bool,
    /// Where to write the bound addresses.
    pub ready_file: Option<PathBuf>,
    /// The clock by which counters expire.
    pub clock: WallClock,
}

/// How the Redis protocol is served.
#[derive(Clone, Debug)]
pub struct Resp {
    /// The address. Port 0 takes a free one.
    pub address: SocketAddr,
    /// The certificate; `None` for the protocol in the clear.
    pub tls: Option<TlsFiles>,
    /// Most clients at once.
    pub clients_max: usize,
    /// The rules for the clients of the protocol.
    pub rules: RespConfig,
}

impl UpArgs {
    /// Checks the settings and converts them.
    ///
    /// # Errors
    /// Returns all errors of the settings.
    pub fn config(self) -> Result<Config, ConfigErrors> {
        let mut args = self.or(UpArgs::defaults());
        let mut errors = ConfigErrors::default();
        let resp = resp(&mut args, &mut errors);
        let http = errors.note(address("http", &args.http.unwrap_or_default()));
        let tls = errors.note(tls(
            "http",
            args.http_tls_cert.take(),
            args.http_tls_key.take(),
        ));
        let open = args.http_open.unwrap_or_default();
        let tickets = args.http_tickets.unwrap_or_default();
        errors.note(entry("http", http, tls.as_ref(), open, tickets));
        let tickets = tickets || !open && http.is_some_and(is_beyond);
        let durability = durability(&args.durability.unwrap_or_default());
        let durability = errors.note(durability);
        let data = errors.note(args.data.map_or_else(default_data, Ok));
        let hosts = errors.note(pages::hosts(&args.http_host.unwrap_or_default()));
        let origins = errors.note(pages::origins(&args.cors_origin.unwrap_or_default()));
        let rate = rate(args.http_rate.as_deref(), args.http_burst, http);
        let rate = errors.note(rate);
        let listen = errors.note(addresses("listen", &args.listen.unwrap_or_default()));
        let peers = errors.note(dialled("peer", &args.peer.unwrap_or_default()));
        let announce = args.network.announce.as_deref().unwrap_or_default();
        let announce = errors.note(dialled("announce", announce));
        let limits = errors.note(args.network.limits());
        let relay = errors.note(args.network.relay());
        let spaces = errors.note(
            args.space
                .filter(|names| !names.is_empty())
                .map(spaces)
                .transpose(),
        );
        let listen_open = args.listen_open.unwrap_or_default();
        let listen_tickets = args.listen_tickets.unwrap_or_default();
        if listen_open && listen_tickets {
            let problem = "--listen-open asks no node for a ticket, and --listen-tickets every one: \
                           leave one out";
            errors.0.push(wrong("listen-open", problem));
        }
        // A client that reaches a relay also reaches the nodes that listen there.
        let is_near = |it: &Address| it.is_loopback() && !it.is_at_relay();
        let is_near = |listen: &Vec<Address>| listen.iter().all(is_near);
        let near = listen.as_ref().is_none_or(is_near);
        let join = errors.note(tickets_to_join_with(&args.join.unwrap_or_default()));
        let lease = errors.note(duration("lease", &args.lease.unwrap_or_default()));
        let key_window = errors.note(duration("key-window", &args.key_window.unwrap_or_default()));
        errors.note(log(&args.log.unwrap_or_default()));
        let pages = |tickets, is_near: bool| {
            let hosts = hosts.clone()?;
            Some(Pages {
                any_host: tickets && hosts.is_empty(),
                ip_hosts: !is_near,
                hosts,
                origins: origins.clone()?,
            })
        };
        let config = || {
            Some(Config {
                data: data?,
                http: http?,
                http_tls: tls?,
                http_rules: HttpRules {
                    pages: pages(tickets, !http.is_some_and(is_beyond))?,
                    tickets,
                    rate: rate?,
                    clients_max: args.http_clients.map_or(HTTP_CLIENTS, NonZeroU32::get) as usize,
                    ..HttpRules::default()
                },
                durability: durability?,
                resp: resp?,
                gossip: GossipConfig {
                    pages: pages(!listen_open && (!near || listen_tickets), near)?,
                    listen: listen?,
                    peers: peers?,
                    open: listen_open || near && !listen_tickets,
                    mdns: args.mdns.unwrap_or_default(),
                    book: args.network.address_book.unwrap_or_default(),
                    announce: announce?,
                    limits: limits?,
                    relay: relay?,
                },
                spaces: spaces?,
                join: join?,
                guest_timeout_ms: lease?.as_millis() as u32, // 30 days are fewer than 2^32
                key_window: key_window?,
                demo: args.demo.unwrap_or_default(),
                ready_file: args.ready_file,
                clock: WallClock::default(),
            })
        };
        match config() {
            Some(config) if errors.0.is_empty() => Ok(config),
            _ => Err(errors),
        }
    }
}

/// Reads a switch. An empty text is off, because a variable may be empty.
fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "" | "0" | "false" | "no" | "off" => Ok(false),
        _ => Err("a switch is true or false".into()),
    }
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
    parsed.map_err(|problem| wrong("durability", format!("`{text}`: {problem}")))
}

/// The configuration of the Redis protocol, if it is served.
fn resp(args: &mut UpArgs, errors: &mut ConfigErrors) -> Option<Option<Resp>> {
    let bound = args.resp.take().map(|text| address("resp", &text));
    let bound = errors.note(bound.transpose());
    let (certificate, key) = (args.resp_tls_cert.take(), args.resp_tls_key.take());
    let tls = errors.note(tls("resp", certificate, key));
    let open = args.resp_open.unwrap_or_default();
    let tickets = args.resp_tickets.unwrap_or_default();
    let password = args.resp_password.take().filter(|text| !text.is_empty());
    errors.note(entry("resp", bound.flatten(), tls.as_ref(), open, tickets))?;
    let tickets = tickets || !open && bound.flatten().is_some_and(is_beyond);
    errors.note(one_secret(tickets, password.as_deref()))?;
    let rules = RespConfig {
        password,
        tickets,
        strict: args.resp_strict.unwrap_or_default(),
        flush: args.resp_flush.unwrap_or_default(),
        ..RespConfig::default()
    };
    let (bound, tls) = (bound?, tls?);
    if bound.is_none() {
        let clients_default = UpArgs::defaults().resp_clients;
        let given = [
            ("resp-clients", args.resp_clients != clients_default),
            ("resp-flush", rules.flush),
            ("resp-open", open),
            ("resp-password", rules.password.is_some()),
            ("resp-strict", rules.strict),
            ("resp-tickets", rules.tickets),
            ("resp-tls-cert", tls.is_some()),
        ];
        let alone = given.iter().filter(|(_, is_given)| *is_given);
        let problem = "the Redis protocol is not served, so this holds for nobody: name its address \
                       with --resp, such as 127.0.0.1:6379, or leave this out";
        errors.0.extend(alone.map(|(key, _)| wrong(key, problem)));
    }
    Some(bound.map(|address| Resp {
        address,
        tls,
        clients_max: args.resp_clients.unwrap_or_default(),
        rules,
    }))
}

/// Checks that Redis clients need a ticket or a password, and not both.
fn one_secret(tickets: bool, password: Option<&str>) -> Result<(), ConfigError> {
    if !tickets || password.is_none() {
        return Ok(());
    }
    let problem = "clients are asked for tickets here, and whoever knows a password could do \
                   everything: leave it out, or ask for nothing else with --resp-open";
    Err(wrong("resp-password", problem))
}

fn is_beyond(address: SocketAddr) -> bool {
    !address.ip().is_loopback()
}

/// The certificate and the key of a protocol, `http` or `resp`.
fn tls(
    protocol: &str,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
) -> Result<Option<TlsFiles>, ConfigError> {
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
        (None, None) => Ok(None),
        (Some(_), None) => Err(wrong(
            &format!("{protocol}-tls-cert"),
            format!("its key is missing: name it with --{protocol}-tls-key"),
        )),
        (None, Some(_)) => Err(wrong(
            &format!("{protocol}-tls-key"),
            format!("its certificate is missing: name it with --{protocol}-tls-cert"),
        )),
    }
}

/// Checks that a protocol asks for a secret where it must, and that the secret is encrypted on the
/// network.
fn entry(
    protocol: &str,
    address: Option<SocketAddr>,
    tls: Option<&Option<TlsFiles>>,
    open: bool,
    tickets: bool,
) -> Result<(), ConfigError> {
    if open && tickets {
        let problem = format!(
            "--{protocol}-open asks nobody for a ticket, and --{protocol}-tickets everybody: leave \
             one out"
        );
        return Err(wrong(&format!("{protocol}-open"), problem));
    }
    let beyond = address.filter(|address| is_beyond(*address));
    match beyond.filter(|_| tls == Some(&None) && !open && !tickets) {
        None => Ok(()),
        Some(address) => Err(wrong(
            protocol,
            format!(
                "{address} is reachable from other machines, and tickets would cross the network in \
                 the clear; name a certificate with --{protocol}-tls-cert and --{protocol}-tls-key, \
                 or use a loopback address. If something in front of the node does TLS, add \
                 --{protocol}-tickets; if your network keeps strangers away, --{protocol}-open asks \
                 nobody for a ticket"
            ),
        )),
    }
}

/// `http` is the address, if it is valid: an invalid address needs no default rate.
fn rate(
    text: Option<&str>,
    burst: Option<NonZeroU32>,
    http: Option<SocketAddr>,
) -> Result<Option<HttpRate>, ConfigError> {
    let text = match text {
        Some(text) => text,
        None if http.is_none_or(|http| http.ip().is_loopback()) => "off",
        None => HTTP_RATE_DEFAULT,
    };
    if text == "off" {
        return match burst {
            None => Ok(None),
            Some(_) => {
                let problem = "requests have no rate here, so this holds for nobody: name one with \
                               --http-rate, or leave this out";
                Err(wrong("http-burst", problem))
            }
        };
    }
    let per_second = text.strip_suffix("/s").and_then(|count| count.parse().ok());
    let Some(per_second) = per_second else {
        let problem = format!("`{text}` is no rate, such as 100/s, and not `off`");
        return Err(wrong("http-rate", problem));
    };
    let burst = burst.unwrap_or(per_second);
    Ok(Some(HttpRate { per_second, burst }))
}

/// The folder of the state for a node of this user that names none.
///
/// # Errors
/// When the system has no such folder for this user.
pub fn default_data() -> Result<PathBuf, ConfigError> {
    let folder = dirs::data_local_dir().map(|folder| folder.join("tallymesh"));
    folder.ok_or_else(|| {
        let problem = "this user has no data folder; name one with --data DIR";
        wrong("data", problem)
    })
}

/// Addresses to dial: each has a machine and a port.
fn dialled(argument: &'static str, texts: &[String]) -> Result<Vec<Address>, ConfigError> {
    let addresses = addresses(argument, texts)?;
    for (address, text) in addresses.iter().zip(texts) {
        if let Err(problem) = address.check_dialled() {
            return Err(wrong(argument, format!("`{text}`: {problem}")));
        }
    }
    Ok(addresses)
}

fn addresses(argument: &'static str, texts: &[String]) -> Result<Vec<Address>, ConfigError> {
    let parse = |text: &String| {
        let parsed = text.trim().parse();
        parsed.map_err(|problem| wrong(argument, format!("`{text}`: {problem}")))
    };
    texts.iter().map(parse).collect()
}

fn duration(argument: &'static str, text: &str) -> Result<Duration, ConfigError> {
    let wrong = |problem| wrong(argument, format!("`{text}`: {problem}"));
    let duration = tallymesh_node_ground::clock::duration(text).map_err(wrong)?;
    match DURATION_RANGE.contains(&duration) {
        true => Ok(duration),
        false => Err(wrong("it is from 1s to 30d".into())),
    }
}

/// The filter of the log.
pub fn log(filter: &str) -> Result<EnvFilter, ConfigError> {
    EnvFilter::try_new(filter).map_err(|error| wrong("log", format!("`{filter}`: {error}")))
}

fn spaces(names: Vec<String>) -> Result<Vec<Space>, ConfigError> {
    let mut spaces = Vec::new();
    for name in &names {
        if name.starts_with(RESERVED) {
            let problem = format!(
                "`{name}`: names that begin with `{RESERVED}` are for the node's own spaces; choose \
                 another"
            );
            return Err(wrong("space", problem));
        }
        let space =
            Space::new(name).map_err(|error| wrong("space", format!("`{name}`: {error}")))?;
        if !spaces.contains(&space) {
            spaces.push(space);
        }
    }
    match spaces.len() {
        ..=SPACES_MAX => Ok(spaces),
        count => Err(wrong(
            "space",
            format!("{count} spaces are over the limit of {SPACES_MAX}"),
        )),
    }
}

/// Checks tickets without asking other nodes, and without a time. A ticket that has ended may have
/// let the node join before. If it did not, the node reports that later.
fn tickets_to_join_with(texts: &[String]) -> Result<Vec<String>, ConfigError> {
    let check = |text: &String| match Grant::parse(text) {
        Ok(_) => Ok(text.trim().to_owned()),
        Err(error) => Err(wrong("join", error.to_string())),
    };
    texts.iter().map(check).collect()
}

#[cfg(test)]
mod tests;
