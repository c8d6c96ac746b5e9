//! Messages to a service manager: that the node is ready, and that it stops (`sd_notify(3)`).

/// All listeners are ready.
pub(super) const READY: &str = "READY=1";

/// The node is stopping.
pub(super) const STOPPING: &str = "STOPPING=1";

/// Sends a state to the service manager that started this process, if there is one. If the manager
/// can't be reached, the node works without it, so that is only logged.
#[cfg(target_os = "linux")]
pub(super) fn tell(state: &str) {
    if let Some(socket) = std::env::var_os("NOTIFY_SOCKET")
        && let Err(problem) = send(&socket, state)
    {
        tracing::warn!(%problem, state, "can't tell the service manager");
    }
}

/// Other systems have no such manager.
#[cfg(not(target_os = "linux"))]
pub(super) fn tell(_: &str) {}

#[cfg(target_os = "linux")]
fn send(socket: &std::ffi::OsStr, state: &str) -> std::io::Result<()> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    // A name that begins with @ is no file, but an abstract name of the kernel.
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    let socket = UnixDatagram::unbound()?;
    // A manager that does not read must not block the stop of a node.
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}
