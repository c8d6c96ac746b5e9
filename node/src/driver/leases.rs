//! The rows that show leases of rights.

use super::answers::{Decimal, decimal};
use serde::Serialize;
use tallymesh_core::Lease;
use utoipa::ToSchema;

/// The rest of a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Lease)]
pub struct LeaseRow {
    /// Its id, as 32 hex digits.
    pub id: String,
    /// The writer of the member that gave it or took it over, as 32 hex digits.
    pub writer: String,
    /// How many rights are left of it.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub left: i128,
    /// When the rights that are left come back to the member, in milliseconds since 1970 by its
    /// clock. They come back after the end of the lease and the bound on its holder's clock.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub until: u64,
}

impl From<Lease> for LeaseRow {
    fn from(it: Lease) -> LeaseRow {
        LeaseRow {
            id: it.id.to_string(),
            writer: it.writer.to_string(),
            left: it.left,
            until: it.until,
        }
    }
}
