//! `tallymesh up`: runs a node until it is told to stop.

use super::failure::Failure;
use super::notify;
use crate::config::{self, Effective, Layers, LogFormat};
use crate::node::{Node, NodeError};
use crate::store::Durability;
use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};

pub(super) fn run(layers: Layers) -> Result<(), Failure> {
    let effective = layers.effective().map_err(|errors| Failure::Usage {
        problem: errors.to_string(),
    })?;
    log_to_stderr(&effective)?;
    let config = effective.config;
    // Named once for all of TLS, so that no second provider can make the choice ambiguous. It
    // fails only if one was named before, which does as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().map_err(|error| Failure::Local {
        code: "runtime",
        problem: format!("can't start the runtime: {error}"),
    })?;
    runtime.block_on(async {
        let data = config.data.clone();
        let durability = config.durability;
        let demo = config.demo;
        // Before the node starts, so that no signal is missed once it listens.
        let stop = stop_signal().map_err(|error| Failure::Local {
            code: "signals",
            problem: format!("can't listen for signals: {error}"),
        })?;
        let node = Node::start(config).await.map_err(failed)?;
        let mut lines = vec![format!("page     {}/", node.url())];
        match durability {
            Durability::Memory => {
                lines.push("data     none: what is counted is gone when this ends".into())
            }
            _ => lines.push(format!("data     {}", data.display())),
        }
        lines.extend(node.resp().map(|address| format!("redis    {address}")));
        lines.push(format!("peer id  {}", node.peer_id()));
        let listen = node.listen().iter();
        lines.extend(listen.map(|address| format!("listen   {address}")));
        if demo {
            lines.push("demo     whoever reaches the page can cut this node's links".into());
        }
        // A node goes on without anybody who reads this.
        let _ = writeln!(io::stdout(), "{}", lines.join("\n"));
        notify::tell(notify::READY);
        let stop = async {
            stop.await;
            notify::tell(notify::STOPPING);
        };
        node.run(stop).await.map_err(failed)
    })
}

fn failed(error: NodeError) -> Failure {
    Failure::Local {
        code: error.code(),
        problem: error.to_string(),
    }
}

fn log_to_stderr(effective: &Effective) -> Result<(), Failure> {
    let filter = effective.args.log.as_deref().unwrap_or_default();
    let filter = config::log(filter).map_err(|error| Failure::Usage {
        problem: error.to_string(),
    })?;
    // Times are in UTC, in both forms.
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr);
    match effective.args.log_format.unwrap_or_default() {
        LogFormat::Json => log.json().flatten_event(true).init(),
        LogFormat::Text => {
            let no_color = std::env::var_os("NO_COLOR");
            let colours = is_coloured(io::stderr().is_terminal(), no_color.as_deref());
            log.with_ansi(colours).init();
        }
    }
    Ok(())
}

/// Whether text has colours: on a terminal, unless somebody set `NO_COLOR` to anything
/// (no-color.org).
fn is_coloured(terminal: bool, no_color: Option<&OsStr>) -> bool {
    terminal && no_color.is_none_or(OsStr::is_empty)
}

/// One future for every way of being told to stop. The signals are taken over when this is called,
/// not when the future is first polled.
#[cfg(unix)]
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// One future for every way of being told to stop.
#[cfg(not(unix))]
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    let mut interrupt = tokio::signal::windows::ctrl_c()?;
    Ok(async move {
        interrupt.recv().await;
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_of_people_who_want_them() {
        let told = |text| Some(OsStr::new(text));
        assert!(is_coloured(true, None));
        assert!(is_coloured(true, told("")), "empty is as good as not set");
        for no_color in ["1", "0", "false"] {
            assert!(!is_coloured(true, told(no_color)), "{no_color}");
        }
        assert!(!is_coloured(false, None));
    }
}
