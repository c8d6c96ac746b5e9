//! `cargo xtask size`: the download of a page that counts and syncs over WebSocket, by entry and by part. It
//! is compared with other JavaScript counters.

mod entries;
mod parts;
mod peers;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use crate::pack;
use crate::repo::{self, Repo};

use entries::Load;
use parts::Part;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
    /// Weigh the entries only, against the limit: no peers, and no parts
    #[arg(long)]
    quick: bool,
    /// Put the tables into their places in this file, such as docs/reports/javascript.md
    #[arg(long, value_name = "FILE", conflicts_with = "quick")]
    report: Option<PathBuf>,
}

impl Args {
    /// The arguments of a test run: only the measurement that has a limit.
    pub(crate) fn limit_only() -> Args {
        Args {
            json: false,
            quick: true,
            report: None,
        }
    }
}

/// xtask/size.toml.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Limit {
    brotli_bytes_max: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
struct Weight {
    raw: usize,
    gzip: usize,
    brotli: usize,
}

#[derive(Serialize)]
struct Report {
    entries: Vec<Load>,
    peers: Vec<Load>,
    parts: Vec<Part>,
    brotli_bytes_max: usize,
}

pub(crate) fn command(repo: &Repo, args: &Args) -> Result<()> {
    pack::build(repo)?;
    let limit: Limit =
        toml::from_str(&repo::read(&repo.path("xtask/size.toml"))?).context("xtask/size.toml")?;
    let entries = entries::weigh(repo)?;
    let (peers, parts) = match args.quick {
        true => (Vec::new(), Vec::new()),
        false => (peers::weigh(repo)?, parts::weigh(repo, &entries[0])?),
    };
    let report = Report {
        entries,
        peers,
        parts,
        brotli_bytes_max: limit.brotli_bytes_max,
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        let text = tables(&report);
        println!("{text}");
        if let Some(file) = &args.report {
            let made_by = tallymesh_reports::made_by("cargo xtask size", false);
            tallymesh_reports::put(file, "size", &format!("{made_by}\n\n{text}"))?;
        }
    }
    let first = report.entries[0].weight.brotli;
    if first > report.brotli_bytes_max {
        bail!(
            "the download is {first} bytes with brotli, {} over the limit of {} in xtask/size.toml",
            first - report.brotli_bytes_max,
            report.brotli_bytes_max
        );
    }
    Ok(())
}

/// All tables, as Markdown that is readable in a terminal too.
fn tables(report: &Report) -> String {
    let mut text = loads("what a page loads", &report.entries);
    text += &format!(
        "\nThe limit of the first line is {} bytes.\n",
        grouped(report.brotli_bytes_max)
    );
    if !report.peers.is_empty() {
        text += &format!(
            "\n{}",
            loads("beside it, as esbuild bundles it", &report.peers)
        );
    }
    if !report.parts.is_empty() {
        text += &format!("\n{}", parts::table_of(&report.parts));
    }
    text
}

fn loads(title: &str, loads: &[Load]) -> String {
    let mut rows = vec![[title, "files", "raw", "gzip", "brotli"].map(str::to_owned)];
    for Load {
        name,
        files,
        weight,
    } in loads
    {
        let [raw, gzip, brotli] = [weight.raw, weight.gzip, weight.brotli].map(grouped);
        rows.push([name.clone(), files.join(", "), raw, gzip, brotli]);
    }
    table(&rows, 2)
}

/// A table in Markdown with columns of one width. The columns after the first `left` are aligned to the
/// right.
fn table<const N: usize>(rows: &[[String; N]], left: usize) -> String {
    let widths: [usize; N] = std::array::from_fn(|at| {
        let width = |row: &[String; N]| row[at].chars().count();
        rows.iter().map(width).max().unwrap_or_default().max(4)
    });
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
            text += &match at < left {
                true => format!("| {cell:<width$} "),
                false => format!("| {cell:>width$} "),
            };
        }
        text += "|\n";
        if number == 0 {
            for (at, width) in widths.iter().enumerate() {
                let line = "-".repeat(width + 1);
                text += &match at < left {
                    true => format!("|{line}-"),
                    false => format!("|{line}:"),
                };
            }
            text += "|\n";
        }
    }
    text
}

/// A number with a comma before each three digits.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The sum of the sizes of files, each compressed on its own, as a server sends them.
fn weight_of(files: &[PathBuf]) -> Result<Weight> {
    let mut sum = Weight::default();
    for file in files {
        let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(&bytes)?;
        sum.raw += bytes.len();
        sum.gzip += gzip.finish()?.len();
        sum.brotli += brotli_of(&bytes)?;
    }
    Ok(sum)
}

fn brotli_of(bytes: &[u8]) -> Result<usize> {
    let mut packed = Vec::new();
    let parameters = brotli::enc::BrotliEncoderParams {
        quality: 11,
        lgwin: 22,
        ..Default::default()
    };
    brotli::BrotliCompress(&mut &bytes[..], &mut packed, &parameters)?;
    Ok(packed.len())
}

fn name_of(file: &Path) -> String {
    let name = file.file_name().unwrap_or(file.as_os_str());
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let shown = [0, 999, 1_000, 35_750, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "35,750", "1,234,567"]);
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["what", "bytes"], ["a", "1"], ["a longer one", "35,750"]];
        let shown = table(&rows.map(|row| row.map(str::to_owned)), 1);
        assert_eq!(
            shown,
            "| what         |  bytes |\n\
             |--------------|-------:|\n\
             | a            |      1 |\n\
             | a longer one | 35,750 |\n"
        );
    }
}
