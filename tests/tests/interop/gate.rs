//! The network between a replica and the nodes: a port of the test, which leads to one of the nodes or
//! nowhere.

use crate::node::told;
use std::net::SocketAddr;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The port. It exists until it is dropped.
pub(crate) struct Gate {
    to: watch::Sender<Option<SocketAddr>>,
    /// Its address, in the form of a node's address.
    pub(crate) address: String,
    /// Ends with the gate.
    _listener: JoinSet<()>,
}

impl Gate {
    /// Opens a gate that leads nowhere.
    pub(crate) async fn open() -> Result<Gate, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(told)?;
        let address = format!("http://{}", listener.local_addr().map_err(told)?);
        let to = watch::Sender::new(None);
        let mut tasks = JoinSet::new();
        tasks.spawn(listen(listener, to.subscribe()));
        Ok(Gate {
            to,
            address,
            _listener: tasks,
        })
    }

    /// Sets the node to which connections lead from now on, or none. Existing connections break.
    pub(crate) fn lead(&self, to: Option<SocketAddr>) {
        self.to.send_replace(to);
    }
}

async fn listen(listener: TcpListener, to: watch::Receiver<Option<SocketAddr>>) {
    let mut connections = JoinSet::new();
    while let Ok((near, _)) = listener.accept().await {
        connections.spawn(carry(near, to.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn carry(mut near: TcpStream, mut to: watch::Receiver<Option<SocketAddr>>) {
    let Some(node) = *to.borrow_and_update() else {
        return;
    };
    let Ok(mut far) = TcpStream::connect(node).await else {
        return;
    };
    tokio::select! {
        _ = copy_bidirectional(&mut near, &mut far) => {}
        _ = to.changed() => {}
    }
}
