//! `tallymesh up`: runs a node until a signal stops it.

mod signals;

use super::failure::Failure;
use super::whole_node::WholeNode;
use super::{log_fields, notify};
use std::backtrace::{Backtrace, BacktraceStatus};
use std::ffi::OsStr;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;
use tallymesh_node_config::{self as config, Effective, Layers, LogFormat};
use tallymesh_node_ground::escape;
use tallymesh_node_ground::logging::Lines;
use tallymesh_node_store::Durability;

/// How long the process waits for its last lines when it ends. An active reader takes them at once.
const LAST_LINES: Duration = Duration::from_millis(500);

/// How long tasks of the runtime may take to end, such as a name resolution.
const RUNTIME_END: Duration = Duration::from_millis(500);

/// Runs a node, and turns its end into an exit code.
pub(super) fn run(layers: Layers, whole: &WholeNode) -> ExitCode {
    let (log, told) = match (Lines::to_stderr(), Lines::to_stdout()) {
        (Ok(log), Ok(told)) => (log, told),
        // If there is no thread for the log, there is none for the node either.
        (Err(_), _) | (_, Err(_)) => return ExitCode::FAILURE,
    };
    log.be_the_log();
    let ended = run_with(layers, whole, &log, &told);
    let code = ended.as_ref().err().map_or(0, Failure::exit_code);
    if let Err(failure) = ended {
        log.put(format!("error: {}\n", failure.text()).as_bytes());
    }
    told.finish(LAST_LINES);
    log.finish(LAST_LINES);
    ExitCode::from(code)
}

/// Runs a node with lines for standard error and for standard output. It waits for neither of them.
fn run_with(layers: Layers, whole: &WholeNode, log: &Lines, told: &Lines) -> Result<(), Failure> {
    let effective = layers.effective().map_err(|errors| Failure::Lines {
        problem: errors.to_string(),
    })?;
    log_to(log, &effective)?;
    let mut config = effective.config;
    config::fit(&mut config).map_err(|error| Failure::Local {
        code: "descriptors",
        problem: error.to_string(),
    })?;
    // One provider is set for all uses of TLS, so that a second provider can't make the choice
    // ambiguous. The call fails only if one was already set, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().map_err(|error| Failure::Local {
        code: "runtime",
        problem: format!("can't start the runtime: {error}"),
    })?;
    let ended = runtime.block_on(async {
        let data = config.data.clone();
        let durability = config.durability;
        let demo = config.demo;
        // This is before the node starts, so that no signal is missed once it listens.
        let stop = signals::take_over(log.clone()).map_err(|error| Failure::Local {
            code: "signals",
            problem: format!("can't listen for signals: {error}"),
        })?;
        let node = (whole.start)(config).await?;
        let mut lines = vec![format!("page     {}/", node.url)];
        match durability {
            Durability::Memory => {
                lines.push("data     none: what is counted is gone when this ends".into())
            }
            _ => {
                let data = data.display().to_string();
                lines.push(format!("data     {}", escape::value(&data)));
            }
        }
        lines.extend(node.resp.map(|address| format!("redis    {address}")));
        lines.push(format!("peer id  {}", node.peer_id));
        let listen = node.listen.iter();
        lines.extend(listen.map(|address| format!("listen   {address}")));
        if demo {
            lines.push("demo     whoever reaches the page can cut this node's links".into());
        }
        told.put((lines.join("\n") + "\n").as_bytes());
        notify::tell(notify::READY);
        let stop = async {
            stop.await;
            notify::tell(notify::STOPPING);
        };
        Ok((node.run)(Box::pin(stop)).await?)
    });
    runtime.shutdown_timeout(RUNTIME_END);
    ended
}

/// Sends the log to lines, including the messages of panics.
fn log_to(lines: &Lines, effective: &Effective) -> Result<(), Failure> {
    let filter = effective.args.log.as_deref().unwrap_or_default();
    let filter = config::log(filter).map_err(|error| Failure::Usage {
        problem: error.to_string(),
    })?;
    let lines = lines.clone();
    // Times are in UTC, in both forms. A failed log line is not printed elsewhere: that would wait,
    // or panic.
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .log_internal_errors(false)
        .with_writer(move || lines.clone());
    match effective.args.log_format.unwrap_or_default() {
        LogFormat::Json => log.json().flatten_event(true).init(),
        LogFormat::Text => {
            let no_color = std::env::var_os("NO_COLOR");
            let colours = is_coloured(io::stderr().is_terminal(), no_color.as_deref());
            log.with_ansi(colours).fmt_fields(log_fields::Fields).init();
        }
    }
    std::panic::set_hook(Box::new(|panic| {
        let backtrace = Backtrace::capture();
        let backtrace =
            (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or_default();
        let place = panic.location().map(ToString::to_string);
        let message = panic.payload();
        let message = message
            .downcast_ref::<&str>()
            .map(|it| (*it).to_owned())
            .or_else(|| message.downcast_ref::<String>().cloned());
        tracing::error!(place, message, thread, backtrace, "a thread panicked");
    }));
    Ok(())
}

/// Whether text has colours: on a terminal, unless `NO_COLOR` is set to a non-empty value
/// (no-color.org).
fn is_coloured(terminal: bool, no_color: Option<&OsStr>) -> bool {
    terminal && no_color.is_none_or(OsStr::is_empty)
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
