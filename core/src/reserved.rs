//! The keys that no counter may have.

/// What keys of budgets, sequences and limits begin with.
pub const RESERVED: char = '\0';
