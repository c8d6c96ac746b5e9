//! The rules for clients of HTTP.

use crate::browser::Pages;
use std::num::NonZeroU32;
use std::time::Duration;

/// Most connections at once, unless the configuration says otherwise.
pub const HTTP_CLIENTS: u32 = 4096;

/// The time after which a silent link over single requests ends, unless the configuration says otherwise.
pub const SYNC_IDLE: Duration = Duration::from_secs(60);

/// The rules for clients of HTTP: access and rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRules {
    /// The host names and the pages for which HTTP is served.
    pub pages: Pages,
    /// Whether requests need tickets.
    pub tickets: bool,
    /// How fast one client may send requests; `None` without a limit.
    pub rate: Option<HttpRate>,
    /// Most connections at once.
    pub clients_max: usize,
    /// The time after which a silent link over single requests ends. If it is too short, a client
    /// that waits between its requests has to begin again each time. If it is too long, links of
    /// clients that went away take memory.
    pub sync_idle: Duration,
}

impl Default for HttpRules {
    fn default() -> HttpRules {
        HttpRules {
            pages: Pages::default(),
            tickets: false,
            rate: None,
            clients_max: HTTP_CLIENTS as usize,
            sync_idle: SYNC_IDLE,
        }
    }
}

/// The rate of requests that one client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpRate {
    /// Requests a second.
    pub per_second: NonZeroU32,
    /// Requests at once, before the rate applies.
    pub burst: NonZeroU32,
}
