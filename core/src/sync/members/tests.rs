//! What a machine says to guests and members, and when.
