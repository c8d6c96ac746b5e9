//! The signals that stop a node.
//!
//! SIGTERM, SIGINT and SIGHUP stop it in order. A second SIGTERM or SIGINT ends the process at
//! once, for an operator whose disk hangs. A second SIGHUP does not, because a closed terminal
//! often sends two.

use std::future::Future;
use std::io;
use std::time::Duration;
use tallymesh_node_ground::logging::Lines;
use tokio::sync::oneshot;

/// The time for a stop in order, even after a second signal. A terminal and the program that
/// started the node may both send one for the same key.
const ORDERLY_MIN: Duration = Duration::from_secs(1);

/// How long a forced end waits for the last lines of the log.
const LAST_LINES: Duration = Duration::from_millis(100);

/// Takes over the signals. The returned future resolves at the first one.
#[cfg(unix)]
pub(super) fn take_over(log: Lines) -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{Signal, SignalKind, signal};

    /// The next signal, by its number.
    async fn next(signals: &mut [(SignalKind, Signal)]) -> i32 {
        let each = signals.iter_mut().map(|(kind, signal)| {
            Box::pin(async move {
                signal.recv().await;
                kind.as_raw_value()
            })
        });
        futures::future::select_all(each).await.0
    }

    let mut signals = Vec::new();
    // Programs such as `nohup` start a process with this signal ignored.
    let hangup = (!is_ignored(libc::SIGHUP)).then(SignalKind::hangup);
    let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
    for kind in kinds.into_iter().chain(hangup) {
        signals.push((kind, signal(kind)?));
    }
    let (told, stop) = oneshot::channel();
    tokio::spawn(async move {
        let first = next(&mut signals).await;
        tracing::info!(signal = first, "stops in order");
        // It fails only when the node has ended by itself.
        let _ = told.send(());
        let orderly = tokio::time::sleep(ORDERLY_MIN);
        signals.retain(|(kind, _)| *kind != SignalKind::hangup());
        let second = next(&mut signals).await;
        orderly.await;
        tracing::warn!(signal = second, "ends at once, as a second signal came");
        log.finish(LAST_LINES);
        std::process::exit(128 + second);
    });
    Ok(async move {
        // The task exists as long as the runtime.
        let _ = stop.await;
    })
}

/// Whether this process was started with a signal ignored.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null action changes nothing. The present action is written to memory of its type,
    // for which zeros are a valid value if the call fails.
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

/// Takes over the signals. The returned future resolves at the first one.
#[cfg(not(unix))]
pub(super) fn take_over(_: Lines) -> io::Result<impl Future<Output = ()>> {
    let mut interrupt = tokio::signal::windows::ctrl_c()?;
    Ok(async move {
        interrupt.recv().await;
    })
}
