//! How people tell a member from others.

use crate::identity::OwnerKey;
use std::fmt;

/// A member as texts name it: by the first digits of its key, and the address of its node if that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberName {
    /// Its key.
    pub owner: OwnerKey,
    /// The last known address of its node.
    pub address: Option<String>,
}

/// The number of bytes of a key that a text has.
const SHOWN: usize = 4;

impl fmt::Display for MemberName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.owner.0.iter().take(SHOWN);
        shown.try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("…")?;
        match &self.address {
            Some(address) => write!(f, " at {address}"),
            None => Ok(()),
        }
    }
}

/// The names of members, with commas between.
pub struct MemberNames<'a>(pub &'a [MemberName]);

impl fmt::Display for MemberNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(at, name)| {
            f.write_str(if at == 0 { "" } else { ", " })?;
            name.fmt(f)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_named_as_the_doctor_names_it() {
        let owner = OwnerKey([0xab; 32]);
        let there = MemberName {
            owner,
            address: Some("/ip4/127.0.0.1/tcp/1".to_owned()),
        };
        let unknown = MemberName {
            owner,
            address: None,
        };
        assert_eq!(
            MemberNames(&[there, unknown]).to_string(),
            "abababab… at /ip4/127.0.0.1/tcp/1, abababab…"
        );
    }
}
