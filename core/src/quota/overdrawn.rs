//! Accounts with a value below zero. No correct writer causes one: two processes spent under one writer id,
//! or a member spent what it never had.

use super::period::is_over;
use crate::forks::{Evidence, Fault, ForkLog};
use crate::indexed_state::State;
use crate::ledger::account::{Account, is_reserved};
use crate::ledger::period::PeriodKey;
use crate::ledger::sequence::SequenceKey;
use crate::message::Message;
use crate::state::keys::KeyId;
use alloc::vec::Vec;

/// Adds the accounts that a message changes and that exist here.
pub(super) fn note_accounts(state: &State, message: &Message, accounts: &mut Vec<KeyId>) {
    let reserved = message.delta.keys.iter().take_while(|key| is_reserved(key));
    accounts.extend(reserved.filter_map(|key| state.keys().find(key)));
}

/// Reports the accounts with a value below zero.
pub(super) fn report(state: &State, forks: &mut ForkLog, accounts: Vec<KeyId>) {
    for key_id in accounts {
        let Some(held) = state.value_at(key_id).filter(|held| *held < 0) else {
            continue;
        };
        let whose = state.keys().get(key_id).and_then(|key| {
            if let Some(period) = PeriodKey::parse(key) {
                // In a period that is over, other members may have deleted the rights but not their uses.
                let open = !is_over(state, period.end());
                return Some((period.holder().filter(|_| open)?, period.name));
            }
            match Account::parse(key) {
                Some(account) => Some((account.part.holder()?, account.name)),
                None => SequenceKey::parse(key).and_then(|it| Some((it.holder()?, it.name))),
            }
        });
        let Some((writer, name)) = whose else {
            continue;
        };
        let (name, clock) = (name.into(), state.held(&writer));
        forks.note_fault(|| Fault {
            writer,
            clock,
            evidence: Evidence::Overdrawn { name, held },
        });
    }
}
