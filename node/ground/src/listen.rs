//! Listening at addresses.

use std::io;
use std::net::{SocketAddr, TcpListener};

/// Connections that the system queues until they are accepted. The standard library asks for 128.
/// If a pool of clients reconnects at once, it then loses packets, and waits a second for each.
pub(crate) const BACKLOG: i32 = 1024;

/// Binds an address, and listens at it with a queue of `BACKLOG`. The system may limit the queue
/// further (`net.core.somaxconn` of Linux, 4,096 as a rule).
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    // A second call of `listen` only changes the length of the queue.
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
        // With a full queue, a connection is not made until one is accepted. The failure is a
        // timeout.
        let limit = std::time::Duration::from_secs(5);
        let pool: Vec<TcpStream> = (0..300)
            .map(|_| TcpStream::connect_timeout(&address, limit).expect("room in the queue"))
            .collect();
        assert_eq!(pool.len(), 300);
    }
}
