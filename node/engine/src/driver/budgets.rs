//! Reads of budgets and of the rights in them.

use super::space::OpenSpace;
use std::collections::{BTreeSet, HashMap};
use tallymesh_core::WriterId;
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::model::{BudgetPage, BudgetRow, HolderRow, LeaseRow, Query};

impl OpenSpace {
    /// A budget without its holders; `None` if no budget has this name.
    pub(super) fn budget_row(&self, name: &str) -> Option<BudgetRow> {
        let budget = self.replica.quota().budget(name)?;
        Some(BudgetRow::new(name.to_owned(), budget))
    }

    /// A budget with its holders; `None` if no budget has this name.
    pub(super) fn budget(&self, name: &str) -> Option<BudgetRow> {
        let mut rows = self.with_holders(self.budget_row(name).into_iter().collect());
        rows.pop()
    }

    /// Looks at each budget and keeps the first `limit`.
    pub(super) fn budgets(&self, query: &Query) -> BudgetPage {
        let mut names: BTreeSet<String> = BTreeSet::new();
        let mut more = false;
        self.replica.quota().each_budget(&mut |name| {
            let fits =
                || names.len() < query.limit || names.last().is_some_and(|it| name < it.as_str());
            if !query.wants(name) {
                return;
            }
            if !fits() {
                // A name under which there are budgets of two kinds occurs twice.
                more |= !names.contains(name);
                return;
            }
            names.insert(name.to_owned());
            if names.len() > query.limit {
                names.pop_last();
                more = true;
            }
        });
        let next = names.last().filter(|_| more).cloned();
        let rows = names.iter().filter_map(|name| self.budget_row(name));
        BudgetPage {
            budgets: self.with_holders(rows.collect()),
            next,
        }
    }

    fn with_holders(&self, mut rows: Vec<BudgetRow>) -> Vec<BudgetRow> {
        if rows.is_empty() {
            return rows;
        }
        let member_list = self.replica.members().writer_table();
        let owners = member_list.filter_map(|it| Some((it.writer, OwnerKey(it.owner?))));
        let owners: HashMap<WriterId, OwnerKey> = owners.collect();
        let own = self.replica.writer();
        for row in &mut rows {
            let holders = self.replica.quota().holders_of(&row.key).into_iter();
            let holders = holders.map(|it| HolderRow {
                writer: it.writer.to_string(),
                owner: owners.get(&it.writer).copied(),
                own: it.writer == own,
                rights: it.rights,
                leased: it.leased,
                room: row.cap.map(|_| it.room),
            });
            row.holders = Some(holders.collect());
            let mut leases = self.replica.quota().leases_of(&row.key);
            leases.sort_unstable_by_key(|it| (it.until, it.id));
            row.leases = leases.into_iter().map(LeaseRow::from).collect();
        }
        rows
    }
}
