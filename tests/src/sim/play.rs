//! Plays a mesh event by event.

use super::{Event, Mesh, STEPS_MAX, Scenario};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tallymesh_core::{Input, Link, Millis};

/// Milliseconds between two checks of a condition.
const LOOK_MS: Millis = 10;

/// Plays a mesh. A panic of the core is a failure.
///
/// # Errors
/// The failure, its time and the seed, as text.
pub fn run<S: Scenario, F>(
    seed: u64,
    mut mesh: Mesh<S>,
    play: impl FnOnce(&mut Mesh<S>) -> Result<F, String>,
) -> Result<F, String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| play(&mut mesh)));
    let failure = match outcome {
        Ok(Ok(metrics)) => return Ok(metrics),
        Ok(Err(failure)) => failure,
        Err(panic) => match panic.downcast_ref::<String>() {
            Some(text) => format!("panicked: {text}"),
            None => format!("panicked: {:?}", panic.downcast_ref::<&str>()),
        },
    };
    Err(format!("TALLYMESH_SEED={seed}: {} ms: {failure}", mesh.now))
}

impl<S: Scenario> Mesh<S> {
    /// Lets time pass.
    ///
    /// # Errors
    /// A failure of the scenario.
    pub fn pass(&mut self, ms: Millis) -> Result<(), String> {
        self.play(self.now + ms, None).map(drop)
    }

    /// Lets time pass until a condition is true, at most for this many milliseconds. Returns whether it
    /// became true.
    ///
    /// # Errors
    /// A failure of the scenario.
    pub fn until(&mut self, ms: Millis, done: impl Fn(&Self) -> bool) -> Result<bool, String> {
        self.play(self.now + ms, Some(&done))
    }

    fn play(
        &mut self,
        until: Millis,
        done: Option<&dyn Fn(&Self) -> bool>,
    ) -> Result<bool, String> {
        let mut look_at = self.now;
        while let Some((&(when, _), _)) = self.events.first_key_value() {
            if let Some(done) = done.filter(|_| when >= look_at) {
                if done(self) {
                    return Ok(true);
                }
                look_at = when + LOOK_MS;
            }
            if when > until {
                break;
            }
            let Some((_, event)) = self.events.pop_first() else {
                break;
            };
            self.now = when;
            self.counts.steps += 1;
            if self.counts.steps > STEPS_MAX {
                return Err(format!("no end after {STEPS_MAX} steps"));
            }
            self.step(event)?;
        }
        self.now = self.now.max(until);
        Ok(done.is_some_and(|done| done(self)))
    }

    fn step(&mut self, event: Event<S::Event>) -> Result<(), String> {
        match event {
            Event::Own(event) => S::event(self, event),
            Event::Look(at) => {
                if self.nodes[at].look_at != Some(self.now) {
                    return Ok(()); // there was an earlier one
                }
                self.nodes[at].look_at = None;
                // The scenario looks at it after the coming flush.
                match self.nodes[at].alive && self.is_written(at) {
                    true => S::look(self, at),
                    false => Ok(()),
                }
            }
            Event::Fault if self.troubled => self.fault(),
            Event::Fault => Ok(()),
            Event::Heal if self.heal_at <= self.now => {
                self.heal();
                Ok(())
            }
            Event::Heal => Ok(()),
            Event::Start(at) if self.nodes[at].alive || self.nodes[at].gone => Ok(()),
            Event::Start(at) => self.start(at),
            Event::Tick(at, epoch) => {
                if self.lives(at, epoch) && self.nodes[at].tick_at == Some(self.now) {
                    self.nodes[at].tick_at = None;
                    self.note_busy(at);
                    return self.input(at, Input::Tick);
                }
                Ok(())
            }
            Event::Tend(at, epoch) if self.lives(at, epoch) => self.tend(at),
            Event::Flush(at, epoch) if self.lives(at, epoch) => self.flush(at),
            Event::Tend(..) | Event::Flush(..) => Ok(()),
            Event::Frame { conn, end, bytes } => match self.receiver(conn, end) {
                Some(at) => {
                    let (link, bytes) = (Link(conn), &bytes);
                    self.input(at, Input::Frame { link, bytes })
                }
                None => Ok(()),
            },
            Event::Gossip { to, from, bytes } => {
                let bytes = &bytes;
                self.input(to, Input::Broadcast { from, bytes })
            }
            Event::Open(edge) => self.open(edge),
            Event::Close { conn, end } => self.closed(conn, end),
            Event::Handshake(conn) => {
                self.time_out_handshake(conn);
                Ok(())
            }
        }
    }
}
