//! How addresses are listened at.

use std::io;
use std::net::{SocketAddr, TcpListener};

/// Connections that the system keeps until they are accepted. The standard library asks for 128: a pool
/// of clients that comes back at once then meets dropped packets, and waits a second for each.
pub(crate) const BACKLOG: i32 = 1024;

/// Binds an address, and listens at it with a queue of [`BACKLOG`]. The system may keep fewer
/// (`net.core.somaxconn` of Linux, 4,096 as a rule).
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    // To listen again only changes how long the queue is.
    socket2::SockRef::from(&listener).listen(BACKLOG)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn a_pool_of_clients_is_taken_in_while_nobody_accepts() {
        let listener = listen("127.0.0.1:0".parse().expect("an address")).expect("bound");
        let address = listener.local_addr().expect("bound");
        // Beyond the queue a connection is not made until somebody accepts. A timeout is the failure.
        let limit = std::time::Duration::from_secs(5);
        let pool: Vec<TcpStream> = (0..300)
            .map(|_| TcpStream::connect_timeout(&address, limit).expect("room in the queue"))
            .collect();
        assert_eq!(pool.len(), 300);
    }
}
