//! The deliveries of a history: what hostile messages are made from, and whom they hit.

use super::World;
use tallymesh_core::{Replica, WriterId};

/// A message that arrives.
#[derive(Clone)]
pub struct Delivery {
    /// The receiver as it was before.
    pub replica: Replica,
    /// Who sent it, in a session of its own.
    pub live: WriterId,
    /// The message.
    pub bytes: Vec<u8>,
}

/// The deliveries of one seed's history, in order.
///
/// # Errors
/// Says what went wrong.
pub fn deliveries(seed: u64) -> Result<Vec<Delivery>, String> {
    let mut world = World::new(seed, false);
    world.delivered = Some(Vec::new());
    world.play()?;
    Ok(world.delivered.unwrap_or_default())
}
