//! TLS for clients of HTTP and of the Redis protocol: the certificate and the key, read again when the
//! files change, and the listener.

use axum::serve::Listener;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a client may take to agree on keys. Shorter, and clients far away are turned off.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Most handshakes at once: each takes some tens of kilobytes and half a millisecond of a processor.
const HANDSHAKES_MAX: usize = 256;

/// Connections that wait to be served.
const ACCEPTED_MAX: usize = 64;

/// How often the files are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// How long is waited if the system can't accept, as when there are no file descriptors left.
const ACCEPT_AGAIN: Duration = Duration::from_secs(1);

/// Where the certificate and its key are, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by those that signed it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why a certificate can't be used.
#[derive(Debug)]
pub struct TlsError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
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

/// When the files were changed last.
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

    /// Reads the files again if they have changed. What can't be used is told once, and the one before
    /// stays.
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
        // Nobody panics between two changes.
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

/// Accepts connections, and agrees on keys with many clients at once.
pub(crate) struct TlsListener {
    accepted: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: SocketAddr,
}

impl TlsListener {
    /// Serves TLS at a listener that is bound. `protocols` are those that clients may choose from (ALPN);
    /// if there are none, what they ask for does not matter.
    ///
    /// # Errors
    /// When the files can't be used.
    pub(crate) fn start(
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

/// Accepts until nobody serves what was accepted.
async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    accepted: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    loop {
        // The semaphore is never closed.
        let Ok(permit) = handshakes.clone().acquire_owned().await else {
            return;
        };
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
        tokio::spawn(async move {
            let shaken = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await;
            drop(permit);
            match shaken {
                // It fails only when the node stops.
                Ok(Ok(stream)) => drop(accepted.send((stream, client)).await),
                Ok(Err(error)) => tracing::debug!(%client, %error, "no TLS"),
                Err(_) => tracing::debug!(%client, "a handshake took too long"),
            }
        });
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
