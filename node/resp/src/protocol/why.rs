//! The reasons why commands of Redis are not available.

/// The reason why a command of Redis is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is for lists, hashes, sets, streams and the like.
    OtherType,
    /// It needs a value as text, bits or a float.
    NotInteger,
    /// It runs a program at the server.
    Script,
    /// It depends on the state of other replicas, and has a form that does not.
    Conditional,
    /// It sends messages of the client's own.
    Publish,
}

impl Why {
    pub(super) fn text(self) -> &'static str {
        match self {
            Why::OtherType => "counters are the only type here",
            Why::NotInteger => {
                "a counter holds an integer, which replicas add up; there is no text, bit or \
                 fraction of it to change. Use INCRBY, DECRBY or SET"
            }
            Why::Script => {
                "a script would decide by what this replica happens to have seen; use MULTI, whose \
                 commands all replicas see together"
            }
            Why::Conditional => {
                "whether a counter exists is known to no replica for all others; use DEL, SET or \
                 MSET"
            }
            Why::Publish => {
                "channels here tell of changed counters only: __keyspace@N__:key and \
                 __keyevent@N__:event"
            }
        }
    }
}
