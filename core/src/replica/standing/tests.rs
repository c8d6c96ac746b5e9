//! Messages by hand, and what they are to a replica.
