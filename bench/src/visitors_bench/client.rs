//! A page, as the load process sees it: a machine that gets what arrived and the time, and says what it
//! sends. Pages of this project, of Yjs and of the floor are clients.

use super::socket::Message;
use anyhow::Result;
use tallymesh_core::Millis;

/// A page without its socket.
pub(super) trait Client {
    /// The path of the socket that it opens.
    fn path(&self) -> String;
    /// The server has accepted its socket.
    fn opened(&mut self, now: Millis);
    /// A text arrived.
    ///
    /// # Errors
    /// If it is not one that this client knows.
    fn text(&mut self, now: Millis, text: &str) -> Result<()>;
    /// A binary message arrived.
    ///
    /// # Errors
    /// If the server broke the protocol.
    fn frame(&mut self, now: Millis, bytes: &[u8]) -> Result<()>;
    /// Its socket is closed.
    fn closed(&mut self, now: Millis);
    /// Time passed: [`Client::deadline`] is over.
    fn tick(&mut self, now: Millis);
    /// When the next tick is due.
    fn deadline(&self) -> Option<Millis>;
    /// The next message to send.
    fn poll(&mut self) -> Option<Message>;
    /// Adds 1 to the counter.
    ///
    /// # Errors
    /// If the counter is not changed.
    fn add(&mut self, now: Millis) -> Result<()>;
    /// Says that it writes no more, if it says so at all.
    fn leave(&mut self, now: Millis);
    /// The counter's value here.
    fn value(&mut self) -> i128;
    /// Whether a server is known to hold all that was counted here, if this client can tell.
    fn is_acknowledged(&self) -> Option<bool>;
    /// Whether it has exchanged hellos, and may count as any page that is online.
    fn is_online(&self) -> bool;
}
