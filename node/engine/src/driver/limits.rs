//! Reads of rate limits and their periods.

use super::space::OpenSpace;
use tallymesh_core::{Error, MemberError};
use tallymesh_node_ground::model::{LimitList, LimitRow, PeriodRow, Refusal};

impl OpenSpace {
    /// The limits of the space; none in a space without members.
    pub(super) fn limits(&self) -> LimitList {
        let present = self.replica.members().configuration();
        let limits = present.map_or(&[][..], |it| &it.limits);
        LimitList {
            number: present.map_or(0, |it| it.number),
            limits: limits.iter().map(LimitRow::from).collect(),
        }
    }

    /// The present period of a key.
    pub(super) fn period(&self, key: &str) -> Result<PeriodRow, Refusal> {
        let period = self
            .replica
            .quota()
            .period(key)
            .map_err(|error| Refusal::Op {
                index: 0,
                on: "limit of",
                key: key.to_owned(),
                error: match error {
                    Error::Member(MemberError::NotAMember) => self.not_a_member(),
                    error => error.into(),
                },
            })?;
        Ok(PeriodRow::new(key, period))
    }
}
