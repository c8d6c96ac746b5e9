//! The log of a process. No other part waits until its lines are written.
//!
//! A separate thread writes the lines to standard error. A caller passes a line to it and
//! continues.
//!
//! A pipe may have no reader, a disk may be full, and a reader may be gone. None of these may block
//! a node or end it, so a line that finds no room is dropped and counted. As soon as the log is
//! writable again, it reports how many were dropped.
//!
//! Why not `tracing-appender`: it bounds the number of lines and not their bytes, and its log never
//! reports that lines are missing.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

/// Most bytes of lines that wait to be written. Lower drops lines of a burst; higher takes memory
/// while the log has no reader.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// How long the thread waits before it writes again to a non-blocking destination without room.
const RETRY: Duration = Duration::from_millis(10);

/// The log of this process, once it has one.
static LOG: OnceLock<Lines> = OnceLock::new();

/// How many lines of this process's log were dropped.
pub fn dropped() -> u64 {
    LOG.get().map_or(0, |lines| lines.state().dropped)
}

/// Lines for one destination. Clones share it.
#[derive(Clone)]
pub struct Lines(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// There is a line to write.
    work: Condvar,
    /// All lines were written or dropped.
    done: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Box<[u8]>>,
    /// The bytes of the waiting lines.
    bytes: usize,
    /// Whether the thread writes a line right now.
    writing: bool,
    /// Lines that were dropped.
    dropped: u64,
}

impl Lines {
    /// Starts the thread that writes to `out`. It ends with the process.
    ///
    /// # Errors
    /// Fails when the system gives no thread.
    pub(crate) fn start(out: impl Write + Send + 'static) -> io::Result<Lines> {
        let lines = Lines(Arc::new(Shared {
            state: Mutex::default(),
            work: Condvar::new(),
            done: Condvar::new(),
        }));
        let theirs = lines.clone();
        let thread = thread::Builder::new().name("log".into());
        thread.spawn(move || theirs.write_to(out))?;
        Ok(lines)
    }

    /// Starts the thread that writes to standard error. A write takes no lock of this process. So
    /// other threads can still print there while it waits for a reader.
    ///
    /// # Errors
    /// Fails when the system gives no thread.
    pub fn to_stderr() -> io::Result<Lines> {
        Lines::start(Unlocked(io::stderr()))
    }

    /// Does the same for standard output.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn to_stdout() -> io::Result<Lines> {
        Lines::start(Unlocked(io::stdout()))
    }

    /// Makes these the lines that [`dropped`] counts.
    pub fn be_the_log(&self) {
        // A process has one log. A second one counts for itself.
        let _ = LOG.set(self.clone());
    }

    /// Queues a line with its end. The line is dropped if too many bytes wait already.
    pub fn put(&self, line: &[u8]) {
        let mut state = self.state();
        if state.bytes.saturating_add(line.len()) > WAITING_BYTES_MAX {
            state.dropped += 1;
            return;
        }
        state.bytes += line.len();
        state.waiting.push_back(line.into());
        drop(state);
        self.0.work.notify_one();
    }

    /// Waits until all lines are written or dropped, but no longer than `most`.
    pub fn finish(&self, most: Duration) {
        let state = self.state();
        let is_busy = |state: &mut State| state.writing || !state.waiting.is_empty();
        // After that time, lines that are not written are left.
        let _ = self.0.done.wait_timeout_while(state, most, is_busy);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock.
        let state = self.0.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    fn write_to(&self, mut out: impl Write) {
        let mut told = 0;
        // Set while the end of a line that was cut short is still to be written.
        let mut torn = false;
        loop {
            let line = self.next();
            let written = match torn {
                true => write(&mut out, b"\n").and_then(|()| write(&mut out, &line)),
                false => write(&mut out, &line),
            };
            torn = matches!(&written, Err(Cut::After)) || torn && written.is_err();
            let mut state = self.state();
            state.writing = false;
            state.dropped += u64::from(written.is_err());
            let (all, idle) = (state.dropped, state.waiting.is_empty());
            drop(state);
            if written.is_ok() && idle && all > told {
                tracing::warn!(
                    lines = all - told,
                    "the log lacks lines here: nobody read it, or there was no room"
                );
                told = all;
            }
            self.0.done.notify_all();
        }
    }

    /// Waits for a line.
    fn next(&self) -> Box<[u8]> {
        let is_idle = |state: &mut State| state.waiting.is_empty();
        let state = self.0.work.wait_while(self.state(), is_idle);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        let line = state.waiting.pop_front().unwrap_or_default();
        state.bytes -= line.len();
        state.writing = true;
        line
    }
}

impl Write for Lines {
    /// Takes one line, because the log writes each line in one call.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.put(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where a line was cut off.
enum Cut {
    /// Nothing of it was written.
    Before,
    /// A part of it was written.
    After,
}

/// Writes all of a line, and takes as long as that needs.
fn write(out: &mut impl Write, line: &[u8]) -> Result<(), Cut> {
    let mut rest = line;
    while !rest.is_empty() {
        match out.write(rest) {
            Ok(written @ 1..) => rest = &rest[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(RETRY),
            Ok(0) | Err(_) if rest.len() == line.len() => return Err(Cut::Before),
            Ok(0) | Err(_) => return Err(Cut::After),
        }
    }
    Ok(())
}

/// A standard stream that is written to without its lock.
struct Unlocked<T>(T);

#[cfg(unix)]
impl<T: std::os::fd::AsFd> Write for Unlocked<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.0, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(not(unix))]
impl<T: Write> Write for Unlocked<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// How long a test waits for an expected result.
    const DEADLINE: Duration = Duration::from_secs(10);

    /// A destination whose results the test chooses, call by call: it takes a number of bytes, or
    /// fails.
    struct Played {
        told: mpsc::Receiver<io::Result<usize>>,
        took: mpsc::Sender<Vec<u8>>,
    }

    impl Write for Played {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let told = self.told.recv().unwrap_or(Ok(usize::MAX));
            let taken = told?.min(bytes.len());
            // The test may have ended.
            let _ = self.took.send(bytes[..taken].to_vec());
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    type Replies = mpsc::Sender<io::Result<usize>>;

    fn played() -> (Lines, Replies, mpsc::Receiver<Vec<u8>>) {
        let (tell, told) = mpsc::channel();
        let (took, taken) = mpsc::channel();
        let lines = Lines::start(Played { told, took }).expect("a thread");
        (lines, tell, taken)
    }

    #[test]
    fn lines_beyond_the_room_are_dropped_and_nobody_waits() {
        let (lines, tell, taken) = played();
        let line = [b'x'; 1024];
        // The thread takes one line, and blocks at it.
        let put = 1 + WAITING_BYTES_MAX / line.len() + 7;
        lines.put(&line);
        while !lines.state().writing {
            thread::yield_now();
        }
        (1..put).for_each(|_| lines.put(&line));
        assert_eq!(lines.state().dropped, 7);
        lines.finish(Duration::from_millis(1));
        assert!(lines.state().writing, "it was not waited for");
        drop(tell);
        lines.finish(DEADLINE);
        assert_eq!(taken.try_iter().count(), put - 7);
    }

    #[test]
    fn a_destination_that_fails_takes_later_lines() {
        let (lines, tell, taken) = played();
        let full = || Err(io::ErrorKind::StorageFull.into());
        for step in [Ok(2), full(), full(), Err(io::ErrorKind::WouldBlock.into())] {
            tell.send(step).expect("it is written to");
        }
        drop(tell);
        // The first is cut off after two bytes, and nothing of the second is written.
        lines.put(b"first\n");
        lines.put(b"second\n");
        lines.put(b"third\n");
        lines.finish(DEADLINE);
        let taken: Vec<u8> = taken.try_iter().flatten().collect();
        assert_eq!(String::from_utf8_lossy(&taken), "fi\nthird\n");
        assert_eq!(lines.state().dropped, 2);
    }
}
