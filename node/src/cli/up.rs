//! `tallymesh up`: runs a node until it is told to stop.

use super::failure::Failure;
use crate::config::UpArgs;
use crate::node::{Node, NodeError};
use crate::store::Durability;
use std::io::{self, IsTerminal, Write};
use tracing_subscriber::EnvFilter;

pub(super) fn run(args: UpArgs) -> Result<(), Failure> {
    log_to_stderr(&args.log)?;
    let config = args.config().map_err(|error| Failure::Usage {
        problem: error.to_string(),
    })?;
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
        node.run(stop).await.map_err(failed)
    })
}

fn failed(error: NodeError) -> Failure {
    Failure::Local {
        code: error.code(),
        problem: error.to_string(),
    }
}

fn log_to_stderr(filter: &str) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(filter).map_err(|error| Failure::Usage {
        problem: format!("--log: `{filter}`: {error}"),
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .init();
    Ok(())
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
