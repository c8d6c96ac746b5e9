//! What a service manager is told: that the node is ready, and that it stops (`sd_notify(3)`).

/// Everything listens.
pub(super) const READY: &str = "READY=1";

/// It was asked to stop, and does.
pub(super) const STOPPING: &str = "STOPPING=1";

/// Tells the manager that started this process, if there is one that wants to be told. One that can't
/// be reached takes nothing from the node, so that is logged only.
#[cfg(target_os = "linux")]
pub(super) fn tell(state: &str) {
    if let Some(socket) = std::env::var_os("NOTIFY_SOCKET")
        && let Err(problem) = send(&socket, state)
    {
        tracing::warn!(%problem, state, "can't tell the service manager");
    }
}

/// There is no such manager elsewhere.
#[cfg(not(target_os = "linux"))]
pub(super) fn tell(_: &str) {}

#[cfg(target_os = "linux")]
fn send(socket: &std::ffi::OsStr, state: &str) -> std::io::Result<()> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    // A name that begins with @ is no file, but one of the kernel's own.
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    let socket = UnixDatagram::unbound()?;
    // A manager that reads nothing must not keep a node from stopping.
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}
