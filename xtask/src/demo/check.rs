//! placeholder

use crate::repo::Repo;
use anyhow::Result;

pub(crate) fn check(_repo: &Repo) -> Result<()> {
    Ok(())
}
