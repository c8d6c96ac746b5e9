//! The keys that no counter may have.

/// The first character of the keys of budgets, sequences and limits.
pub const RESERVED: char = '\0';
