//! Connects commands to a node. It distinguishes a failure before a request was sent from a later
//! one.

use super::failure::Failure;
use rustls::CertificateError;
use std::fmt;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, DefaultConnector, NextTimeout, Transport,
};
use ureq::{Agent, Error};

/// The first bytes of a TLS record that answers an unencrypted request: an alert or a handshake, of
/// any version.
const TLS_ANSWERS: [[u8; 2]; 2] = [[0x15, 3], [0x16, 3]];

/// An agent whose failures contain whether a request was sent.
pub(super) fn agent(config: Config) -> Agent {
    Agent::with_parts(config, Connecting::default(), Names::default())
}

/// The reason for which a request failed.
pub(super) fn failure(error: Error, node: &str, write: bool) -> Failure {
    let node = node.to_owned();
    let broken = |problem| Failure::Broken {
        problem,
        write,
        advice: None,
    };
    let unsent = match error {
        Error::Other(other) => match other.downcast::<Unsent>() {
            Ok(unsent) => *unsent,
            Err(other) => {
                let problem = other.to_string();
                return broken(problem);
            }
        },
        Error::HostNotFound | Error::BadUri(_) | Error::Http(_) | Error::Tls(_) => {
            Unsent::Connecting(error)
        }
        error => {
            let problem = error.to_string();
            return broken(problem);
        }
    };
    let (problem, advice) = match &unsent {
        Unsent::WantsTls => (
            "it speaks TLS".to_owned(),
            "name it with https:// in place of http://",
        ),
        Unsent::Connecting(error) => match tls(error) {
            None => {
                let problem = error.to_string();
                return Failure::NoNode { node, problem };
            }
            Some(tls) => (tls.to_string(), advice(tls)),
        },
    };
    Failure::Unsent {
        node,
        problem,
        advice,
    }
}

/// The fault of TLS, if it is one.
fn tls(error: &Error) -> Option<&rustls::Error> {
    match error {
        Error::Rustls(error) => Some(error),
        Error::Io(error) => error.get_ref()?.downcast_ref(),
        _ => None,
    }
}

/// The advice after a failed handshake.
fn advice(error: &rustls::Error) -> &'static str {
    match error {
        rustls::Error::InvalidMessage(_) => {
            "it speaks no TLS: if it is a node, name it with http:// in place of https://"
        }
        rustls::Error::InvalidCertificate(problem) => match problem {
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for other names: name it by one of those"
            }
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => {
                "renew its certificate, or set this machine's clock"
            }
            CertificateError::Other(_) if problem.to_string().contains("CaUsedAsEndEntity") => {
                "its certificate is one of an authority (CA:TRUE), which no server may show: make one with \
                 CA:FALSE, and name that with --ca FILE"
            }
            _ => {
                "its certificate is not trusted here: name the file with it, or with the authority that \
                 signed it, with --ca FILE"
            }
        },
        _ => "look at the node's log for what it says of the handshake",
    }
}

/// A failure before a request was sent to the node.
#[derive(Debug)]
enum Unsent {
    /// The node was not reached.
    Connecting(Error),
    /// The node answered an unencrypted request with a TLS record, so it read no request.
    WantsTls,
}

impl fmt::Display for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsent::Connecting(error) => error.fmt(f),
            Unsent::WantsTls => f.write_str("it speaks TLS"),
        }
    }
}

impl std::error::Error for Unsent {}

impl From<Unsent> for Error {
    fn from(unsent: Unsent) -> Error {
        Error::Other(Box::new(unsent))
    }
}

/// Resolves names.
#[derive(Debug, Default)]
struct Names(DefaultResolver);

impl Resolver for Names {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let found = self.0.resolve(uri, config, timeout);
        found.map_err(|error| Unsent::Connecting(error).into())
    }
}

/// Connects, including the TLS handshake.
#[derive(Debug, Default)]
struct Connecting(DefaultConnector);

impl Connector for Connecting {
    type Out = Connected;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<()>,
    ) -> Result<Option<Connected>, Error> {
        let connected = self.0.connect(details, chained);
        let connected = connected.map_err(Unsent::Connecting)?;
        Ok(connected.map(|transport| Connected {
            is_fresh: !transport.is_tls(),
            transport,
        }))
    }
}

/// A connection.
#[derive(Debug)]
struct Connected {
    transport: Box<dyn Transport>,
    /// Whether it is unencrypted, and no byte was received yet.
    is_fresh: bool,
}

impl Transport for Connected {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.transport.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.transport.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let came = self.transport.await_input(timeout)?;
        if self.is_fresh
            && let Some(first) = self.transport.buffers().input().first_chunk()
        {
            self.is_fresh = false;
            if TLS_ANSWERS.contains(first) {
                return Err(Unsent::WantsTls.into());
            }
        }
        Ok(came)
    }

    fn is_open(&mut self) -> bool {
        self.transport.is_open()
    }

    fn is_tls(&self) -> bool {
        self.transport.is_tls()
    }
}

#[cfg(test)]
mod tests {
    use super::{agent, failure};
    use crate::failure::Failure;
    use std::io::{BufRead, BufReader, Write};
    use std::net::{Shutdown, TcpListener};
    use std::thread;
    use ureq::Agent;

    /// The failure of a write at a peer that reads a first line, sends this answer, and closes.
    fn asked(scheme: &str, answer: &'static [u8]) -> Failure {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound");
        let peer = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut heard = Vec::new();
            let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
            // The first byte of a handshake, or a request up to its empty line.
            while !heard.ends_with(b"\r\n\r\n") && heard.first() != Some(&0x16) {
                let byte = reader.fill_buf().expect("a request")[0];
                reader.consume(1);
                heard.push(byte);
            }
            stream.write_all(answer).expect("sent");
            let _ = stream.shutdown(Shutdown::Write);
            // It reads the rest, so that no reset overtakes the answer.
            let _ = std::io::copy(&mut reader, &mut std::io::sink());
        });
        let node = format!("{scheme}://{address}");
        let failed = said(&node);
        peer.join().expect("the peer ends");
        failed
    }

    fn said(node: &str) -> Failure {
        let agent = agent(Agent::config_builder().proxy(None).build());
        let error = agent
            .post(format!("{node}/add"))
            .send("")
            .expect_err("no node");
        failure(error, node, true)
    }

    #[test]
    fn only_a_write_that_was_sent_may_count() {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
        let free = free.expect("a port that is free by now");
        for (failed, exit_code, part) in [
            (said(&format!("http://{free}")), 3, "no node at"),
            (said("http://no name"), 3, "no node at"),
            (asked("https", b""), 3, "no node at"),
            (
                asked("https", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
                3,
                "http:// in place of https://",
            ),
            (
                asked("https", b"\x15\x03\x03\x00\x02\x02\x28"),
                3,
                "nothing was sent",
            ),
            (
                asked("http", b"\x15\x03\x03\x00\x02\x02\x16"),
                3,
                "https:// in place of http://",
            ),
            (
                asked("http", b"\x15\x03\x01\x00\x02\x02\x46"),
                3,
                "https:// in place of http://",
            ),
            (asked("http", b""), 5, "not known"),
            (asked("http", b"\x15\x07no TLS"), 5, "not known"),
        ] {
            let text = failed.text();
            assert_eq!(failed.exit_code(), exit_code, "{text}");
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
