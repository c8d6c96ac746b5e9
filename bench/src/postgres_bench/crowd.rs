//! Clients that all ask at once, each on a thread of its own, one question at a time.

use crate::measure::median_of;
use anyhow::{Result, anyhow, bail};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// The longest that one crowd may take.
const LIMIT: Duration = Duration::from_secs(300);

/// What became of what a client asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Made,
    Refused,
}

/// One client: each call asks once, and waits for the answer.
pub(super) type Step = Box<dyn FnMut() -> Result<Answer> + Send>;

/// When a client stops.
#[derive(Clone, Copy)]
pub(super) enum Until {
    /// It was refused once.
    Refused,
    /// So much time has passed.
    Passed(Duration),
}

/// What a crowd came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figure {
    /// How many were made.
    pub(super) made: u64,
    /// From the beginning to the last that was made, and how many a second that is.
    pub(super) seconds: f64,
    pub(super) rate: f64,
    /// Milliseconds that half of those that were made took at most, and 99 of 100.
    pub(super) p50: f64,
    pub(super) p99: f64,
}

impl Figure {
    /// The medians of several; what was made is summed up.
    pub(super) fn middle(figures: &[Figure]) -> Figure {
        Figure {
            made: figures.iter().map(|it| it.made).sum(),
            seconds: median_of(figures, |it| it.seconds),
            rate: median_of(figures, |it| it.rate),
            p50: median_of(figures, |it| it.p50),
            p99: median_of(figures, |it| it.p99),
        }
    }
}

/// What one client did.
struct Done {
    millis: Vec<f64>,
    /// From the beginning to its last that was made.
    last: Duration,
}

/// Has all clients ask until each stops.
pub(super) fn ask_all(clients: Vec<Step>, until: Until) -> Result<Figure> {
    let ready = Barrier::new(clients.len());
    let done: Vec<Result<Done>> = thread::scope(|scope| {
        let ready = &ready;
        let begin = |mut client: Step| {
            scope.spawn(move || {
                ready.wait();
                ask_on(&mut client, until)
            })
        };
        let clients: Vec<_> = clients.into_iter().map(begin).collect();
        let ends = clients.into_iter().map(|it| it.join());
        ends.map(|it| it.unwrap_or_else(|_| Err(anyhow!("a client panicked"))))
            .collect()
    });
    let done = done.into_iter().collect::<Result<Vec<Done>>>()?;
    let last = done.iter().map(|it| it.last).max().unwrap_or_default();
    let seconds = last.as_secs_f64();
    let mut millis: Vec<f64> = done.into_iter().flat_map(|it| it.millis).collect();
    millis.sort_by(f64::total_cmp);
    if millis.is_empty() {
        bail!("nothing was made");
    }
    let at = |share: f64| millis[((millis.len() - 1) as f64 * share) as usize];
    Ok(Figure {
        made: millis.len() as u64,
        seconds,
        rate: millis.len() as f64 / seconds,
        p50: at(0.5),
        p99: at(0.99),
    })
}

fn ask_on(client: &mut Step, until: Until) -> Result<Done> {
    let begun = Instant::now();
    let mut done = Done {
        millis: Vec::new(),
        last: Duration::ZERO,
    };
    let mut now = begun;
    loop {
        let answer = client()?;
        let then = Instant::now();
        if answer == Answer::Made {
            done.millis.push((then - now).as_secs_f64() * 1e3);
            done.last = then - begun;
        }
        now = then;
        match until {
            Until::Refused if answer == Answer::Refused => return Ok(done),
            Until::Passed(time) if now - begun >= time => return Ok(done),
            _ if now - begun > LIMIT => bail!("clients did not come to an end"),
            _ => {}
        }
    }
}
