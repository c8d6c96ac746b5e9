//! Bounds that several faces share.

/// Longest idempotency key, in bytes.
pub const ONCE_KEY_BYTES_MAX: usize = 255;

/// Longest wait for a level, in milliseconds.
pub const LEVEL_WAIT_MS_MAX: u64 = 20_000;

/// Largest body of a bulk add or a transaction, in bytes.
pub const BULK_BYTES_MAX: usize = 8 << 20;
