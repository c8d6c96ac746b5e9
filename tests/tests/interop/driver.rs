//! A replica behind a program that answers each line with a line.

use crate::node::{DEADLINE, told};
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// How to start a driver.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    pub(crate) folder: PathBuf,
    /// The file of its standard error.
    pub(crate) log: PathBuf,
    /// Whether it can restart its replica itself on request. Otherwise the whole driver is ended and started
    /// again.
    pub(crate) reloads: bool,
}

/// A driver that runs. It is killed when it is dropped.
pub(crate) struct Driver {
    start: Start,
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Driver {
    pub(crate) fn start(start: Start) -> Result<Driver, String> {
        let (program, arguments) = start.command.split_first().ok_or("no command")?;
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(&start.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log(&start.log)?)
            .env("DO_NOT_TRACK", "1")
            .env("DENO_NO_UPDATE_CHECK", "1")
            .env("DENO_DIR", start.folder.join(".deno"))
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        let output = child.stdout.take().ok_or("no output")?;
        Ok(Driver {
            input: child.stdin.take(),
            output: BufReader::new(output).lines(),
            child,
            start,
        })
    }

    /// Sends it a request, and waits for the answer.
    pub(crate) async fn ask(&mut self, request: &Value) -> Result<Value, String> {
        let asked = timeout(DEADLINE, self.exchange(request)).await;
        let answer = asked.unwrap_or_else(|_| Err("no answer".to_owned()));
        answer.map_err(|why| {
            let log = std::fs::read_to_string(&self.start.log).unwrap_or_default();
            let last = log.len().saturating_sub(4_000);
            let log = log.get(last..).unwrap_or(&log);
            format!(
                "{} to {request}: {why}\n{log}",
                self.start.command.join(" ")
            )
        })
    }

    async fn exchange(&mut self, request: &Value) -> Result<Value, String> {
        let input = self.input.as_mut().ok_or("it was ended")?;
        let line = format!("{request}\n");
        input.write_all(line.as_bytes()).await.map_err(told)?;
        input.flush().await.map_err(told)?;
        let line = self.output.next_line().await.map_err(told)?;
        let line = line.ok_or("it ended")?;
        let answer: Value =
            serde_json::from_str(&line).map_err(|error| format!("{error}: {line}"))?;
        match answer["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(answer),
        }
    }

    /// Restarts its replica, which ended without a leave.
    pub(crate) async fn reload(&mut self) -> Result<(), String> {
        if self.start.reloads {
            self.ask(&serde_json::json!({ "do": "reload" })).await?;
            return Ok(());
        }
        self.child.kill().await.map_err(told)?;
        *self = Driver::start(self.start.clone())?;
        Ok(())
    }

    /// Ends it by the end of its input. So it can end the processes that it has started.
    pub(crate) async fn end(&mut self) -> Result<(), String> {
        self.input = None;
        let ended = timeout(DEADLINE, self.child.wait()).await;
        ended.map_err(|_| "a driver does not end")?.map_err(told)?;
        Ok(())
    }
}

fn log(path: &Path) -> Result<File, String> {
    let log = File::options().create(true).append(true).open(path);
    log.map_err(|error| format!("{}: {error}", path.display()))
}
