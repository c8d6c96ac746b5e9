//! The transports between nodes, and from pages to this node: TCP, QUIC and WebSocket.

use super::browser_check::BrowserCheck;
use super::silence::Watched;
use libp2p::core::muxing::StreamMuxerBox;
use libp2p::core::transport::{Boxed, Transport};
use libp2p::core::upgrade::Version;
use libp2p::identity::Keypair;
use libp2p::{PeerId, dns, noise, quic, tcp, websocket, yamux};
use std::error::Error;
use std::time::Duration;

/// How often QUIC sends something on a silent connection, and how long nothing may arrive after that,
/// in milliseconds. Together they are as long as [`SILENCE_MAX`](super::silence::SILENCE_MAX), or
/// somewhat longer.
const QUIC_ALIVE: Duration = Duration::from_secs(1);
const QUIC_IDLE_MS: u32 = 3_500;

type Transports = Boxed<(PeerId, StreamMuxerBox)>;

/// All transports. Names are resolved for each. A secure WebSocket is dialled by name, so WebSocket
/// comes before name resolution. Connections to its listeners pass the browser check first.
pub(super) fn build(
    key: &Keypair,
    browser_check: BrowserCheck,
) -> Result<Transports, Box<dyn Error + Send + Sync>> {
    let tcp = || tcp::tokio::Transport::new(tcp::Config::default().nodelay(true));
    let plain = tcp()
        .upgrade(Version::V1Lazy)
        .authenticate(noise::Config::new(key)?)
        .multiplex(yamux::Config::default())
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(Watched::new(muxer))));
    let mut config = quic::Config::new(key);
    (config.keep_alive_interval, config.max_idle_timeout) = (QUIC_ALIVE, QUIC_IDLE_MS);
    let quic = quic::tokio::Transport::new(config)
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
    let direct = plain
        .or_transport(quic)
        .map(|either, _| either.into_inner());
    let direct = dns::tokio::Transport::system(direct.boxed())?;
    let looked = tcp().and_then(move |stream, endpoint| browser_check.look(stream, endpoint));
    let sockets = websocket::Config::new(dns::tokio::Transport::system(looked.boxed())?)
        .upgrade(Version::V1Lazy)
        .authenticate(noise::Config::new(key)?)
        .multiplex(yamux::Config::default())
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(Watched::new(muxer))));
    let all = sockets.or_transport(direct);
    Ok(all.map(|either, _| either.into_inner()).boxed())
}
