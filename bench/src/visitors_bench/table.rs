//! The table of a row: what is measured, its target, and the figure of each server.

use super::Plan;
use super::servers::Who;
use super::stage::Stopped;
use anyhow::Result;
use std::fmt::Write;

/// One line of a table.
pub(super) struct Measure {
    pub(super) name: &'static str,
    /// The most that the figure may be, and how many pages that speaks of. None is no target.
    pub(super) target: Option<(f64, usize)>,
    pub(super) unit: &'static str,
}

/// A line without a target.
pub(super) const fn plain(name: &'static str, unit: &'static str) -> Measure {
    Measure {
        name,
        target: None,
        unit,
    }
}

/// A line with a target.
pub(super) const fn aim(
    name: &'static str,
    most: f64,
    unit: &'static str,
    pages: usize,
) -> Measure {
    Measure {
        name,
        target: Some((most, pages)),
        unit,
    }
}

/// The figures of one server in the order of the measures, and why there are no more.
#[derive(Default)]
pub(super) struct Column {
    figures: Vec<f64>,
    stopped: Option<String>,
    notes: Vec<String>,
}

impl Column {
    /// Notes the next figure.
    pub(super) fn put(&mut self, figure: f64) {
        self.figures.push(figure);
    }

    /// Adds a line after the table.
    pub(super) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Measures, and takes note if that stopped at a bound.
    pub(super) fn of(measure: impl FnOnce(&mut Column) -> Result<()>) -> Result<Column> {
        let mut found = Column::default();
        if let Err(error) = measure(&mut found) {
            let stopped = error.downcast::<Stopped>()?;
            found.stopped = Some(stopped.0);
        }
        Ok(found)
    }

    fn cell(&self, at: usize) -> String {
        match self.figures.get(at) {
            Some(figure) => number(*figure),
            None if self.stopped.is_some() && at == self.figures.len() => "stopped".into(),
            None => String::new(),
        }
    }
}

/// The table, with `pages` for what size it was measured.
pub(super) fn table(pages: usize, measures: &[Measure], found: &[(Who, Column)]) -> String {
    let mut text = String::from("| | target |");
    for (who, _) in found {
        // Writing to a string does not fail.
        let _ = write!(text, " {} |", who.name());
    }
    let _ = write!(
        text,
        " verdict |\n|---|---:|{}---|\n",
        "---:|".repeat(found.len())
    );
    for (at, measure) in measures.iter().enumerate() {
        let target = measure.target.map_or(String::new(), |(most, of)| {
            let unit = after(" ", measure.unit);
            format!("{}{unit} at {}", number(most), number(of as f64))
        });
        let _ = write!(
            text,
            "| {}{} | {target} |",
            measure.name,
            after(", ", measure.unit)
        );
        for (_, found) in found {
            let _ = write!(text, " {} |", found.cell(at));
        }
        let ours = found.iter().find(|(who, _)| *who == Who::Ours);
        let _ = writeln!(
            text,
            " {} |",
            ours.map_or("", |it| verdict(pages, measure, &it.1, at))
        );
    }
    for (who, found) in found {
        if let Some(stopped) = &found.stopped {
            let _ = write!(text, "\n{} stopped at {stopped}.\n", who.name());
        }
        for note in &found.notes {
            let _ = write!(text, "\n{}: {note}\n", who.name());
        }
    }
    text
}

/// A unit after what separates it, or nothing where there is no unit.
fn after(gap: &str, unit: &str) -> String {
    match unit {
        "" => String::new(),
        unit => format!("{gap}{unit}"),
    }
}

/// A figure that is met with fewer pages than its target speaks of proves nothing.
fn verdict(pages: usize, measure: &Measure, found: &Column, at: usize) -> &'static str {
    let Some((most, of)) = measure.target else {
        return "";
    };
    match found.figures.get(at) {
        Some(figure) if *figure > most => "**missed**",
        Some(_) if pages >= of => "met",
        Some(_) => "not shown: fewer pages",
        None if at == found.figures.len() => "**not reached**",
        None => "not measured",
    }
}

/// A figure with three digits that count, thousands apart.
fn number(figure: f64) -> String {
    if figure.abs() < 100.0 && figure.fract() != 0.0 {
        let digits = if figure.abs() < 10.0 { 2 } else { 1 };
        return format!("{figure:.digits$}");
    }
    let digits = format!("{:.0}", figure.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    match figure < 0.0 {
        true => format!("-{text}"),
        false => text,
    }
}

/// The line before a table: how many pages there are, and of what space.
pub(super) fn head(plan: &Plan<'_>, pages: usize, text: &str) -> String {
    let space = match plan.args.open {
        true => "a space without members",
        false => "a space with members, of which they are guests",
    };
    format!(
        "{} pages of {space}; each step stops at {} s or {} MiB of the server. {text}\n\n",
        number(pages as f64),
        plan.args.bound_s,
        plan.args.memory_mib
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_only_at_its_size() {
        let measures = [aim("first", 2.0, "s", 1_000), aim("again", 2.0, "s", 1_000)];
        let found = Column::of(|found| {
            found.put(1.0);
            anyhow::bail!(Stopped("60 s: 3 of 9 agree".into()))
        });
        let found = [(Who::Ours, found.expect("stopped"))];
        let small = table(10, &measures, &found);
        assert!(
            small.contains("| 2 s at 1,000 | 1 | not shown: fewer pages |"),
            "{small}"
        );
        assert!(small.contains("| stopped | **not reached** |"), "{small}");
        assert!(
            small.contains("Tallymesh stopped at 60 s: 3 of 9 agree."),
            "{small}"
        );
        assert!(table(1_000, &measures, &found).contains("| 1 | met |"));
        assert!(Column::of(|_| anyhow::bail!("wrong")).is_err());
    }

    #[test]
    fn figures_are_rounded_to_what_counts() {
        let shown = [0.123, 12.34, 300.0, 1_234_567.0, -4_500.0].map(number);
        assert_eq!(shown, ["0.12", "12.3", "300", "1,234,567", "-4,500"]);
    }
}
