//! A Redis client of the few commands that are needed beside `redis-benchmark`.

use anyhow::{Result, bail};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

/// Commands that are sent before their answers are taken. Both fit into a socket's buffers.
const PIPELINE: usize = 1_000;

/// A connection to a server.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(port: u16) -> std::io::Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        Ok(Client {
            stream: BufReader::new(stream),
        })
    }

    /// Sends a command whose answer is one line, and gives that line.
    pub(crate) fn ask(&mut self, command: &[&str]) -> Result<String> {
        self.send(command)?;
        self.line()
    }

    /// Adds one to each of the first `keys` counters, but for the first `but`, in an order without order,
    /// and checks that there are no others. Their number is a power of 10.
    pub(crate) fn count_all(&mut self, keys: usize, but: usize) -> Result<()> {
        // A power of 3 has no divisor in common with a power of 10, so each key comes once.
        const STRIDE: usize = 387_420_489;
        let numbers = (0..keys).map(|number| number * STRIDE % keys);
        let numbers: Vec<usize> = numbers.filter(|number| *number >= but).collect();
        let mut text = String::new();
        for numbers in numbers.chunks(PIPELINE) {
            text.clear();
            for number in numbers {
                encode(&mut text, &["INCR", &counter(*number)]);
            }
            self.stream.get_mut().write_all(text.as_bytes())?;
            for _ in numbers {
                let answer = self.line()?;
                if !answer.starts_with(':') {
                    bail!("INCR was answered with `{answer}`");
                }
            }
        }
        let size = self.ask(&["DBSIZE"])?;
        match size == format!(":{keys}") {
            true => Ok(()),
            false => bail!("DBSIZE is `{size}` after {keys} counters were made"),
        }
    }

    /// Sends a command, and leaves its answer for later.
    pub(crate) fn send(&mut self, command: &[&str]) -> Result<()> {
        let mut text = String::new();
        encode(&mut text, command);
        Ok(self.stream.get_mut().write_all(text.as_bytes())?)
    }

    /// The next line of an answer.
    pub(crate) fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            bail!("the server closed the connection");
        }
        Ok(line.trim_end().to_owned())
    }
}

/// The name of a counter, as `redis-benchmark` names its random keys: 20 bytes.
pub(crate) fn counter(number: usize) -> String {
    format!("counter:{number:012}")
}

fn encode(text: &mut String, command: &[&str]) {
    // Writing to a string does not fail.
    let _ = write!(text, "*{}\r\n", command.len());
    for part in command {
        let _ = write!(text, "${}\r\n{part}\r\n", part.len());
    }
}
