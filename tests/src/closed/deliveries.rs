//! The deliveries of a history. Hostile messages are made from them, and are merged into their receivers.

use super::World;
use tallymesh_core::{Replica, WriterId};

/// A message at its arrival.
#[derive(Clone)]
pub struct Delivery {
    /// The receiver before it merges the message.
    pub replica: Replica,
    /// The sender, which has a session of its own with the receiver.
    pub live: WriterId,
    /// The message.
    pub bytes: Vec<u8>,
}

/// Returns the deliveries of one seed's history, in order.
///
/// # Errors
/// The failure, as text.
pub fn deliveries(seed: u64) -> Result<Vec<Delivery>, String> {
    let mut world = World::new(seed, false);
    world.delivered = Some(Vec::new());
    world.play()?;
    Ok(world.delivered.unwrap_or_default())
}
