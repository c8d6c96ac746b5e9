//! The whole node: store, driver, network and HTTP, from start to stop.

use crate::ready_file;
use axum::serve::Listener;
use serde_json::json;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tallymesh_core::Space;
use tallymesh_node_config::{Config, Resp, SPACES_MAX};
use tallymesh_node_engine::access::{
    Grant, KnownTickets, Ledger, LedgerError, OperatorToken, TicketError, TicketId, TokenError,
};
use tallymesh_node_engine::driver::{self, Handle, Secured, TELL_PROGRESS};
use tallymesh_node_engine::metrics::{Metrics, Tickets, Watched};
use tallymesh_node_engine::network::{Cuts, NodeTable};
use tallymesh_node_engine::tls::{TlsError, TlsListener};
use tallymesh_node_gossip as gossip;
use tallymesh_node_gossip::GossipError;
use tallymesh_node_ground::identity::{Identity, OwnerKey};
use tallymesh_node_ground::listen::listen;
use tallymesh_node_http as http;
use tallymesh_node_http::App;
use tallymesh_node_http::bodies::Bodies;
use tallymesh_node_http::post::Sessions;
use tallymesh_node_http::rate::Rate;
use tallymesh_node_resp as resp;
use tallymesh_node_resp::Serve;
use tallymesh_node_store::{Durability, Health, IDENTITY_FILE, Log, Memory, Store, StoreError};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

/// Frames that wait between the driver and the network. Further frames are dropped, and sync
/// repairs that later.
const ORDERS_MAX: usize = 256;

/// How long open requests may take to end when the node stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The reason for which a node could not start, or stopped by itself.
#[derive(Debug)]
#[non_exhaustive]
pub enum NodeError {
    /// The store failed.
    Store(StoreError),
    /// The file of tickets can't be read.
    Ledger(LedgerError),
    /// The operator's token can't be read or made.
    Token(TokenError),
    /// The network could not be started.
    Gossip(GossipError),
    /// The address for HTTP can't be bound.
    Http {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        problem: io::Error,
    },
    /// The certificate of HTTPS can't be used.
    Tls(TlsError),
    /// The certificate for Redis clients can't be used.
    RespTls(TlsError),
    /// The address for the Redis protocol can't be bound.
    Resp {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        problem: io::Error,
    },
    /// A ticket gives this node access to no space.
    Ticket {
        /// A stable name of the problem.
        code: &'static str,
        /// The problem.
        problem: String,
    },
    /// The ready file can't be written.
    ReadyFile {
        /// The file.
        file: PathBuf,
        /// The error of the system.
        problem: io::Error,
    },
    /// A part of the node ended, which should never happen.
    Ended {
        /// The part.
        part: &'static str,
    },
}

impl NodeError {
    /// A stable name of the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            NodeError::Store(error) => error.code(),
            NodeError::Ledger(error) => error.code(),
            NodeError::Token(_) => "token_file",
            NodeError::Gossip(_) => "network",
            NodeError::Http { .. } => "http_address",
            NodeError::Tls(_) => "http_tls",
            NodeError::RespTls(_) => "resp_tls",
            NodeError::Resp { .. } => "resp_address",
            NodeError::Ticket { code, .. } => code,
            NodeError::ReadyFile { .. } => "ready_file",
            NodeError::Ended { .. } => "ended",
        }
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeError::Store(error) => error.fmt(f),
            NodeError::Ledger(error) => error.fmt(f),
            NodeError::Token(error) => error.fmt(f),
            NodeError::Gossip(error) => error.fmt(f),
            NodeError::Tls(error) | NodeError::RespTls(error) => error.fmt(f),
            NodeError::Http { address, problem } => write!(
                f,
                "can't serve HTTP at {address}: {problem}. Is another node there? Choose another \
                 address with --http; port 0 takes a free one"
            ),
            NodeError::Resp { address, problem } => write!(
                f,
                "can't serve the Redis protocol at {address}: {problem}. Is a Redis there? Choose \
                 another address with --resp; port 0 takes a free one"
            ),
            NodeError::Ticket { problem, .. } => write!(f, "can't join: {problem}"),
            NodeError::ReadyFile { file, problem } => {
                write!(
                    f,
                    "can't write the ready file {}: {problem}",
                    file.display()
                )
            }
            NodeError::Ended { part } => write!(
                f,
                "the {part} ended unexpectedly; see the log above, and report it"
            ),
        }
    }
}

impl std::error::Error for NodeError {}

impl From<StoreError> for NodeError {
    fn from(error: StoreError) -> NodeError {
        NodeError::Store(error)
    }
}

impl From<LedgerError> for NodeError {
    fn from(error: LedgerError) -> NodeError {
        NodeError::Ledger(error)
    }
}

impl From<TokenError> for NodeError {
    fn from(error: TokenError) -> NodeError {
        NodeError::Token(error)
    }
}

impl From<TicketError> for NodeError {
    fn from(error: TicketError) -> NodeError {
        NodeError::Ticket {
            code: error.code(),
            problem: error.to_string(),
        }
    }
}

impl From<TlsError> for NodeError {
    fn from(error: TlsError) -> NodeError {
        NodeError::Tls(error)
    }
}

impl From<GossipError> for NodeError {
    fn from(error: GossipError) -> NodeError {
        NodeError::Gossip(error)
    }
}

/// A node that runs. Dropping it stops it without waiting; [`Node::run`] ends in order.
pub struct Node {
    http: SocketAddr,
    tls: bool,
    resp: Option<SocketAddr>,
    /// The task that makes TLS handshakes with Redis clients, if they use TLS.
    secured: Option<JoinHandle<()>>,
    peer_id: String,
    token: OperatorToken,
    listen: Vec<String>,
    handle: Handle,
    driver_ended: oneshot::Receiver<Result<(), StoreError>>,
    gossip: JoinHandle<()>,
    server: JoinHandle<io::Result<()>>,
    stopping: watch::Sender<bool>,
    health: Health,
}

/// The description of the HTTP interface, for programs.
pub fn http_description() -> serde_json::Value {
    http::openapi::document()
}

impl Node {
    /// Starts a node on its data folder. Returns when each listener is bound.
    /// # Errors
    /// Fails when the folder, an address or the ready file can't be used.
    pub async fn start(config: Config) -> Result<Node, NodeError> {
        match config.durability {
            // Only the token is written: without it, no one could make a ticket there.
            Durability::Memory => {
                let token = OperatorToken::open(Some(&config.data))?;
                Node::start_with(Box::new(Memory::default()), None, token, config).await
            }
            Durability::Always | Durability::Interval(_) => {
                let (store, folder) = (open(&config.data)?, config.data.clone());
                let token = OperatorToken::open(Some(&folder))?;
                Node::start_with(Box::new(store), Some(folder), token, config).await
            }
        }
    }

    /// Starts a node on any store. `config.data` is not read.
    ///
    /// # Errors
    /// Fails as [`Node::start`] does.
    pub async fn start_on(store: Box<dyn Store>, config: Config) -> Result<Node, NodeError> {
        Node::start_with(store, None, OperatorToken::open(None)?, config).await
    }

    /// Starts a node; `data` is the folder of the store, if it has one.
    async fn start_with(
        mut store: Box<dyn Store>,
        data: Option<PathBuf>,
        token: OperatorToken,
        config: Config,
    ) -> Result<Node, NodeError> {
        if let Some(file) = &config.ready_file {
            forget_ready_file(file)?;
        }
        let identity = identity(store.as_mut())?;
        let ledger = Ledger::open(data.as_deref())?;
        let fresh = hold(&ledger, &config.join, &identity)?;
        let spaces = config.spaces.unwrap_or_else(|| spaces_of(&ledger));
        let metrics = Metrics::of(Watched {
            routes: http::paths(),
            data: data.clone(),
        });
        let tickets = Tickets {
            ledger: ledger.clone(),
            clock: config.clock.clone(),
            own: OwnerKey(identity.public_key()),
            spaces: spaces.clone(),
        };
        metrics.register(|registry| registry.register_collector(Box::new(tickets)));
        let health = metrics.health().clone();
        let (orders, inbox) = mpsc::channel(ORDERS_MAX);
        let (cuts, cut_orders) = watch::channel(Cuts::default());
        let (stopping, stopped) = watch::channel(false);
        let listener = listen(config.http).and_then(|listener| {
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)
        });
        let listener = listener.map_err(|problem| NodeError::Http {
            address: config.http,
            problem,
        })?;
        let http = listener.local_addr().map_err(|problem| NodeError::Http {
            address: config.http,
            problem,
        })?;
        let resp = config
            .resp
            .map(|resp| listen_resp(resp, &ledger, &token))
            .transpose()?;
        let resp_address = resp.as_ref().map(|resp| resp.address);
        let resp_open = resp.as_ref().is_some_and(|resp| !resp.serve.rules.asks());
        let (resp, secured) = resp.map_or((None, None), |resp| (Some(resp.serve), resp.secured));
        let (used, spaces_used) = mpsc::unbounded_channel();
        let node_table = NodeTable::default();
        let driver = driver::start(driver::Start {
            spaces,
            owner: identity.public_key(),
            guest_timeout_ms: config.guest_timeout_ms,
            key_window: config.key_window,
            keyed_bounds: Default::default(),
            durability: config.durability,
            store,
            folder: data,
            ledger: ledger.clone(),
            sockets: resp.map(resp::begin),
            broadcast: orders.clone(),
            used,
            metrics: metrics.clone(),
            node_table: node_table.clone(),
            clock: config.clock.clone(),
        })?;
        let handle = driver.handle;
        if let Err(error) = can_join(&config.join, &handle, config.clock.now()) {
            for id in fresh {
                ledger.forget(id)?;
            }
            return Err(error);
        }
        let listen_open = config.gossip.open;
        let network = gossip::start(gossip::Start {
            identity: &identity,
            config: config.gossip,
            admit: http::guard::admit,
            handle: handle.clone(),
            orders,
            inbox,
            spaces_used,
            cuts: cut_orders,
            node_table: node_table.clone(),
            clock: config.clock.clone(),
            metrics: metrics.clone(),
            ledger: ledger.clone(),
            folder: (config.durability != Durability::Memory).then_some(config.data),
        })
        .await?;
        let app = Arc::new(App {
            node: handle.clone(),
            http,
            started: config.clock.now(),
            clock: config.clock,
            ledger,
            tickets: KnownTickets::default(),
            peer_id: identity.peer_id(),
            owner: OwnerKey(identity.public_key()),
            identity: identity.clone(),
            token: token.clone(),
            listen: network.listen.clone(),
            reach: network.reach,
            listen_open,
            resp: resp_address,
            resp_open,
            durability: config.durability,
            demo: config.demo,
            rate: config.http_rules.rate.map(Rate::new),
            auditor: network.auditor,
            node_table,
            sessions: Sessions::new(config.http_rules.sync_idle),
            bodies: Bodies::new(metrics.clone()),
            rules: config.http_rules,
            metrics,
            cuts,
            stopping: stopped,
        });
        let tls = config.http_tls.is_some();
        let server = match config.http_tls {
            None => tokio::spawn(http::serve(listener, app)),
            Some(files) => {
                let listener = TlsListener::start(listener, http, files, &[b"http/1.1"])?;
                tokio::spawn(http::serve(listener, app))
            }
        };
        let node = Node {
            http,
            tls,
            resp: resp_address,
            secured: secured.map(|it| tokio::spawn(hand_over(it, handle.clone()))),
            peer_id: identity.peer_id(),
            token,
            listen: network.listen,
            handle,
            driver_ended: driver.ended,
            gossip: network.task,
            server,
            stopping,
            health,
        };
        if let Some(file) = &config.ready_file {
            node.write_ready_file(file)?;
        }
        Ok(node)
    }

    /// The address at which HTTP is served.
    pub fn http(&self) -> SocketAddr {
        self.http
    }

    /// The address of HTTP with its scheme.
    pub fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.http)
    }

    /// The address at which the Redis protocol is served, if it is.
    pub fn resp(&self) -> Option<SocketAddr> {
        self.resp
    }

    /// The name of this node in the network.
    pub fn peer_id(&self) -> &str {
        &self.peer_id
    }

    /// The token by which a request proves that it comes from this node's operator.
    pub fn token(&self) -> &OperatorToken {
        &self.token
    }

    /// The addresses for other nodes, with this node's name at the end.
    pub fn listen(&self) -> &[String] {
        &self.listen
    }

    /// A client of this node that does not use HTTP.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs until `stop` resolves, and then ends in order: streams and requests, the network, and
    /// last the driver. So every acknowledged write is stored.
    ///
    /// # Errors
    /// Fails when a part of the node fails before that.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Result<(), NodeError> {
        let failed = tokio::select! {
            () = stop => None,
            ended = &mut self.driver_ended => Some(driver_error(ended)),
            _ = &mut self.gossip => Some(NodeError::Ended { part: "network" }),
            _ = &mut self.server => Some(NodeError::Ended { part: "HTTP server" }),
        };
        // If all parts are gone already, no receiver is left.
        let _ = self.stopping.send(true);
        self.health.stop();
        if !self.server.is_finished() {
            let server = &mut self.server;
            if tokio::time::timeout(STOP_TIMEOUT, server).await.is_err() {
                self.server.abort();
            }
        }
        self.gossip.abort();
        self.secured.iter().for_each(JoinHandle::abort);
        if let Some(error) = failed {
            return Err(error);
        }
        self.handle.stop().await;
        match self.driver_ended.await {
            Ok(Ok(())) => Ok(()),
            ended => Err(driver_error(ended)),
        }
    }

    fn write_ready_file(&self, file: &Path) -> Result<(), NodeError> {
        let facts = json!({
            "http": self.url(),
            "resp": self.resp.map(|address| address.to_string()),
            "peer_id": self.peer_id,
            "listen": self.listen,
        });
        // Readers that wait for the file must never see half of it.
        let written = ready_file::write(file, &format!("{facts}\n"));
        written.map_err(|problem| NodeError::ReadyFile {
            file: file.to_path_buf(),
            problem,
        })
    }
}

/// Opens the data folder. If that takes long, it logs the progress.
fn open(folder: &Path) -> Result<Log, StoreError> {
    let mut told = Instant::now();
    let log = Log::open(folder, &mut |progress| {
        if told.elapsed() >= TELL_PROGRESS {
            told = Instant::now();
            let (done, total) = (progress.done, progress.total);
            tracing::info!(done, total, "checking the data folder, in bytes");
        }
    })?;
    if let Some(torn) = log.torn() {
        let (file, offset, bytes) = (&torn.file, torn.offset, torn.bytes);
        tracing::warn!(
            file,
            offset,
            bytes,
            "left out a commit that was under way at the last stop"
        );
    }
    if log.last_commit() > 0 && !folder.join(IDENTITY_FILE).exists() {
        tracing::warn!(
            "the data folder has counters and no key (`identity`): this node takes a new key, and is no \
             member that it was. Put the file back from a backup, or let a member take the node in"
        );
    }
    Ok(log)
}

/// Stores the tickets with which the node is to join. Returns those that it did not have before.
fn hold(
    ledger: &Ledger,
    tickets: &[String],
    identity: &Identity,
) -> Result<Vec<TicketId>, NodeError> {
    let own = OwnerKey(identity.public_key());
    let wrong = |code, problem| Err(NodeError::Ticket { code, problem });
    let held = ledger.held();
    let mut fresh = Vec::new();
    for ticket in tickets {
        let grant = Grant::parse(ticket)?;
        if let Some(holder) = grant.holder.filter(|holder| *holder != own) {
            let problem = format!(
                "the ticket is for the node {holder}, and this one is {own}; ask for one of its own"
            );
            return wrong("ticket_holder", problem);
        }
        if grant.issuer == own {
            let problem = "this node signed the ticket itself; give it to another".to_owned();
            return wrong("ticket_issuer", problem);
        }
        ledger.hold(ticket, &grant)?;
        if !held.iter().any(|(_, before)| before.id == grant.id) {
            fresh.push(grant.id);
        }
    }
    Ok(fresh)
}

/// The spaces of the tickets that this node has, or the default space.
fn spaces_of(ledger: &Ledger) -> Vec<Space> {
    let held = ledger.held().into_iter();
    let mut spaces: Vec<Space> = Vec::new();
    for space in held.flat_map(|(_, grant)| grant.spaces.unwrap_or_default()) {
        if !spaces.contains(&space) && spaces.len() < SPACES_MAX {
            spaces.push(space);
        }
    }
    if spaces.is_empty() {
        spaces.push(Space::default());
    }
    spaces
}

/// Refuses tickets of spaces that are not open here. It also refuses tickets that ended before they
/// let this node join: with them the node has no members of the space.
fn can_join(tickets: &[String], handle: &Handle, now_ms: u64) -> Result<(), NodeError> {
    let member_lists = handle.member_lists().borrow().clone();
    for ticket in tickets {
        let grant = Grant::parse(ticket)?;
        let spaces = handle.spaces().iter().zip(member_lists.iter());
        let covered = spaces.filter(|(space, _)| grant.covers(space.as_str()));
        let known: Vec<bool> = covered
            .map(|(_, member_list)| member_list.is_some())
            .collect();
        if known.is_empty() {
            let names = grant.spaces.unwrap_or_default();
            let names: Vec<&str> = names.iter().map(Space::as_str).collect();
            return Err(NodeError::Ticket {
                code: "space_not_open",
                problem: format!(
                    "the ticket is for the space {}, which this node does not open; name it with --space",
                    names.join(", ")
                ),
            });
        }
        if !known.contains(&true) {
            grant.is_timely(now_ms)?;
        }
    }
    Ok(())
}

/// The Redis protocol, whose address is bound.
struct Listening {
    address: SocketAddr,
    serve: Serve,
    /// The listener for TLS, if clients have to use it.
    secured: Option<TlsListener>,
}

/// Binds the address of the Redis protocol.
fn listen_resp(resp: Resp, ledger: &Ledger, token: &OperatorToken) -> Result<Listening, NodeError> {
    let problem = |problem| NodeError::Resp {
        address: resp.address,
        problem,
    };
    let listener = listen(resp.address).map_err(problem)?;
    let address = listener.local_addr().map_err(problem)?;
    let (plain, secured) = match resp.tls {
        None => (Some(listener), None),
        Some(files) => {
            listener.set_nonblocking(true).map_err(problem)?;
            let listener = TcpListener::from_std(listener).map_err(problem)?;
            let secured = TlsListener::start(listener, address, files, &[]);
            (None, Some(secured.map_err(NodeError::RespTls)?))
        }
    };
    Ok(Listening {
        address,
        serve: Serve {
            listener: plain,
            port: address.port(),
            rules: resp.rules,
            clients_max: resp.clients_max,
            ledger: ledger.clone(),
            token: token.clone(),
        },
        secured,
    })
}

/// Passes Redis clients to the driver after their TLS handshake, which takes too long for the
/// driver's thread.
async fn hand_over(mut listener: TlsListener, handle: Handle) {
    loop {
        let (stream, from) = listener.accept().await;
        let (socket, tls) = stream.into_inner();
        match socket.into_std() {
            Ok(socket) => handle.secured(Secured { socket, tls, from }).await,
            Err(error) => tracing::warn!(%error, peer = %from, "can't serve a Redis connection"),
        }
    }
}

/// Removes the file of an earlier start, so that no program reads its addresses as this node's.
fn forget_ready_file(file: &Path) -> Result<(), NodeError> {
    ready_file::forget(file).map_err(|problem| NodeError::ReadyFile {
        file: file.to_path_buf(),
        problem,
    })
}

fn driver_error(ended: Result<Result<(), StoreError>, oneshot::error::RecvError>) -> NodeError {
    match ended {
        Ok(Err(error)) => NodeError::Store(error),
        Ok(Ok(())) | Err(_) => NodeError::Ended { part: "driver" },
    }
}

/// The key that the store has, or a new one at the first start.
fn identity(store: &mut dyn Store) -> Result<Identity, NodeError> {
    let mut fresh = [0; 32];
    getrandom::fill(&mut fresh).map_err(|error| StoreError::Io {
        doing: "draw random bytes".into(),
        problem: error.to_string(),
    })?;
    Ok(Identity::from_secret(store.identity(fresh)?))
}
