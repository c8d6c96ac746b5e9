//! Metrics of a run.

use std::fmt;

/// Metrics of one replica.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) transactions: u64,
    pub(crate) operations: u64,
    /// Transactions that had to be rejected.
    pub(crate) refused: u64,
    pub(crate) cuts: u64,
    pub(crate) reloads: u64,
    /// Whole states that were compared. `reads` is the number of single reads in them.
    pub(crate) tells: u64,
    pub(crate) reads: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) rows: Vec<Row>,
    /// Links between nodes that were cut.
    pub(crate) node_links: u64,
    /// States of one replica that had the same bytes as a state of another one.
    pub(crate) same_bytes: u64,
    /// Transactions that were lost, because their replica ended before it had sent them.
    pub(crate) gone: u64,
    /// For each healing, the time until all replicas saw the same, in milliseconds.
    pub(crate) healed_ms: Vec<u128>,
}

impl Metrics {
    /// Fails if too little happened to prove anything.
    pub(crate) fn check(&self, steps: u64) -> Result<(), String> {
        let idle = |row: &&Row| {
            row.transactions == 0 || row.tells == 0 || row.cuts == 0 || row.reloads == 0
        };
        match self.rows.iter().find(idle) {
            Some(row) if steps >= crate::STEPS => Err(format!("too little befell {row:?}")),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| replica | transactions | operations | refused | cuts | reloads | states compared | reads compared |"
        )?;
        writeln!(f, "|---|---:|---:|---:|---:|---:|---:|---:|")?;
        let mut all = Row {
            name: "all".to_owned(),
            ..Row::default()
        };
        for row in &self.rows {
            all.transactions += row.transactions;
            all.operations += row.operations;
            all.refused += row.refused;
            all.cuts += row.cuts;
            all.reloads += row.reloads;
            all.tells += row.tells;
            all.reads += row.reads;
        }
        for row in self.rows.iter().chain([&all]) {
            let Row {
                name,
                transactions,
                operations,
                refused,
                cuts,
                reloads,
                tells,
                reads,
            } = row;
            writeln!(
                f,
                "| {name} | {transactions} | {operations} | {refused} | {cuts} | {reloads} | {tells} | {reads} |"
            )?;
        }
        let Metrics {
            node_links,
            same_bytes,
            gone,
            healed_ms,
            ..
        } = self;
        let times = healed_ms.len();
        let longest = healed_ms.iter().max().copied().unwrap_or(0);
        write!(
            f,
            "\nLinks between nodes were cut {node_links} times. All was healed {times} times, and all saw \
             the same after {longest} ms at most. {same_bytes} states had the bytes of another replica that \
             saw the same. {gone} transactions were gone with their replicas before anybody had heard of \
             them."
        )
    }
}
