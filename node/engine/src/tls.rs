//! TLS for clients of HTTP and of the Redis protocol: the listener, and its certificate and key,
//! which are read again when the files change.

use axum::serve::Listener;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::fmt;
use std::future::pending;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tallymesh_node_ground::rate::client;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a client may take for the handshake. With a shorter time, distant clients are refused.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Most handshakes at once. Each takes some tens of kilobytes and half a millisecond of a
/// processor.
const HANDSHAKES_MAX: usize = 256;

/// How long a handshake keeps its place while all are taken and others wait. A shorter time refuses
/// distant clients. A longer one lets silent clients delay all others.
const GIVES_WAY_AFTER: Duration = Duration::from_secs(1);

/// Connections that wait to be served.
const ACCEPTED_MAX: usize = 64;

/// How often to check whether the files have changed.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// The pause if the system can't accept, for example without free file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_secs(1);

/// The files with the certificate and its key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by the certificates that signed it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// The reason why a certificate can't be used.
#[derive(Debug)]
pub struct TlsError {
    /// The file.
    pub file: PathBuf,
    /// The problem with it.
    pub problem: String,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "can't use {}: {}", self.file.display(), self.problem)
    }
}

impl std::error::Error for TlsError {}

/// The certificate in use.
#[derive(Debug)]
struct Certificate {
    files: TlsFiles,
    current: Mutex<(Arc<CertifiedKey>, Option<Times>)>,
}

/// When the files were last changed.
type Times = (SystemTime, SystemTime);

impl Certificate {
    fn read(files: TlsFiles) -> Result<Certificate, TlsError> {
        let times = times(&files);
        let key = certified(&files)?;
        Ok(Certificate {
            files,
            current: Mutex::new((key, times)),
        })
    }

    /// Reads the files again if they have changed. An unusable one is reported once, and the
    /// previous certificate stays.
    fn look(&self) {
        let times = times(&self.files);
        if self.current().1 == times {
            return;
        }
        let read = certified(&self.files);
        let mut current = self.current();
        current.1 = times;
        match read {
            Ok(key) => {
                current.0 = key;
                tracing::info!(file = %self.files.certificate.display(), "took a new certificate");
            }
            Err(error) => tracing::warn!(%error, "goes on with the certificate before"),
        }
    }

    fn current(&self) -> std::sync::MutexGuard<'_, (Arc<CertifiedKey>, Option<Times>)> {
        // No code panics between two changes.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current().0.clone())
    }
}

fn times(files: &TlsFiles) -> Option<Times> {
    let time = |file: &PathBuf| file.metadata()?.modified();
    Some((time(&files.certificate).ok()?, time(&files.key).ok()?))
}

fn certified(files: &TlsFiles) -> Result<Arc<CertifiedKey>, TlsError> {
    let failed = |file: &PathBuf, problem: String| TlsError {
        file: file.clone(),
        problem,
    };
    let chain = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect)
        .map_err(|error| failed(&files.certificate, error.to_string()))?;
    let chain: Vec<CertificateDer<'static>> = chain;
    if chain.is_empty() {
        let problem = "there is no certificate in it, between lines `-----BEGIN CERTIFICATE-----` \
                       and `-----END CERTIFICATE-----`";
        return Err(failed(&files.certificate, problem.into()));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| failed(&files.key, error.to_string()))?;
    let certified = CertifiedKey::from_der(chain, key, &provider());
    let certified = certified.map_err(|error| failed(&files.key, error.to_string()))?;
    Ok(Arc::new(certified))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Accepts connections, and makes the handshakes with many clients at once.
pub struct TlsListener {
    accepted: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: SocketAddr,
}

impl TlsListener {
    /// Serves TLS at a bound listener. `protocols` are those that clients may choose from (ALPN).
    /// If there are none, the choice of the client is ignored.
    ///
    /// # Errors
    /// When the files can't be used.
    pub fn start(
        listener: TcpListener,
        address: SocketAddr,
        files: TlsFiles,
        protocols: &[&[u8]],
    ) -> Result<TlsListener, TlsError> {
        let certificate = Arc::new(Certificate::read(files.clone())?);
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError {
                file: files.certificate,
                problem: error.to_string(),
            })?;
        let mut config = config
            .with_no_client_auth()
            .with_cert_resolver(certificate.clone());
        config.alpn_protocols = protocols.iter().map(|it| it.to_vec()).collect();
        let (sender, accepted) = mpsc::channel(ACCEPTED_MAX);
        tokio::spawn(accept(
            listener,
            TlsAcceptor::from(Arc::new(config)),
            sender.clone(),
        ));
        tokio::spawn(async move {
            let mut looks = interval(LOOK_INTERVAL);
            looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    _ = looks.tick() => certificate.look(),
                    () = sender.closed() => return,
                }
            }
        });
        Ok(TlsListener { accepted, address })
    }
}

/// Accepts connections until the receiver of accepted ones is gone.
async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    accepted: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    let mut handshakes = Handshakes::default();
    loop {
        handshakes.make_room().await;
        let stream = tokio::select! {
            stream = listener.accept() => stream,
            () = accepted.closed() => return,
        };
        let (stream, client) = match stream {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!(%error, "no connection was accepted");
                sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        let (acceptor, accepted) = (acceptor.clone(), accepted.clone());
        handshakes.begin(client.ip(), async move {
            match timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    // The connection waits for its turn, and occupies no place meanwhile. Sending
                    // fails only when the node stops.
                    tokio::spawn(async move { accepted.send((stream, client)).await });
                }
                Ok(Err(error)) => tracing::debug!(%client, %error, "no TLS"),
                Err(_) => tracing::debug!(%client, "a handshake took too long"),
            }
        });
    }
}

/// The open handshakes, each with the address of its client and when it began.
#[derive(Default)]
struct Handshakes {
    tasks: JoinSet<()>,
    open: HashMap<Id, (IpAddr, Instant, AbortHandle)>,
}

impl Handshakes {
    fn begin(&mut self, from: IpAddr, handshake: impl Future<Output = ()> + Send + 'static) {
        let task = self.tasks.spawn(handshake);
        let row = (client(from), Instant::now(), task.clone());
        self.open.insert(task.id(), row);
    }

    /// Waits until there is a place. If all are taken, the oldest handshake at the address with the
    /// most of them gives way after its time. So silent clients keep no other client out.
    async fn make_room(&mut self) {
        loop {
            while let Some(ended) = self.tasks.try_join_next_with_id() {
                self.ended(ended);
            }
            if self.tasks.len() < HANDSHAKES_MAX {
                return;
            }
            let Some((began, task)) = self.next_to_give_way() else {
                return;
            };
            tokio::select! {
                Some(ended) = self.tasks.join_next_with_id() => self.ended(ended),
                () = sleep_until(began + GIVES_WAY_AFTER) => task.abort(),
            }
        }
    }

    fn next_to_give_way(&self) -> Option<(Instant, AbortHandle)> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for (from, ..) in self.open.values() {
            *counts.entry(*from).or_default() += 1;
        }
        let most = counts.values().max().copied()?;
        let those = self
            .open
            .values()
            .filter(|it| counts.get(&it.0) == Some(&most));
        let oldest = those.min_by_key(|it| it.1)?;
        Some((oldest.1, oldest.2.clone()))
    }

    fn ended(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match ended {
            Ok((id, ())) => id,
            Err(error) => error.id(),
        };
        self.open.remove(&id);
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        match self.accepted.recv().await {
            Some(accepted) => accepted,
            None => pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn of_silent_handshakes_those_of_the_busiest_address_give_way() {
        let mut handshakes = Handshakes::default();
        let [busy, other] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        handshakes.begin(other, pending());
        for _ in 1..HANDSHAKES_MAX - 1 {
            handshakes.begin(busy, pending());
        }
        let began = Instant::now();
        handshakes.make_room().await;
        assert_eq!(handshakes.open.len(), HANDSHAKES_MAX - 1);
        handshakes.begin(busy, pending());
        handshakes.make_room().await;
        assert!(began.elapsed() > GIVES_WAY_AFTER / 2, "it had its time");
        let others = handshakes.open.values().filter(|it| it.0 == other);
        assert_eq!(
            (handshakes.open.len(), others.count()),
            (HANDSHAKES_MAX - 1, 1)
        );
    }
}
