//! The files that tell of a run: a summary, the tables, the raw numbers and charts.

mod chart;
mod charts;
mod summary;
mod table;

use std::path::Path;
use std::{fs, io};

use chart::Chart;
use charts::charts;

use crate::measure::Results;
use crate::pinned_core::UNPINNED;

/// Writes all of them.
///
/// # Errors
///
/// Says where they cannot be written.
pub(crate) fn write(results: &Results, folder: &Path) -> io::Result<()> {
    let because = |error: io::Error| format!("{} cannot be written: {error}", folder.display());
    write_files(results, folder).map_err(|error| io::Error::new(error.kind(), because(error)))
}

fn write_files(results: &Results, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("README.md"), summary::summary(results))?;
    fs::write(folder.join("tables.md"), table::tables(results))?;
    fs::write(folder.join("raw.json"), serde_json::to_string(results)? + "\n")?;
    for (name, chart) in charts(results) {
        write_chart(folder, name, chart.as_ref().map(Chart::svg))?;
    }
    Ok(())
}

/// Prints the summary, and says where the rest is.
pub(crate) fn tell(results: &Results, folder: &Path) {
    println!("{}", summary::summary(results));
    eprintln!("written to {}", folder.display());
}

/// Writes a chart, or takes the one away that this run has no figures for.
fn write_chart(folder: &Path, name: &str, svg: Option<String>) -> io::Result<()> {
    let file = folder.join(name);
    match svg {
        Some(svg) => fs::write(file, svg),
        None if file.exists() => fs::remove_file(file),
        None => Ok(()),
    }
}

/// The first sentence of a page that does not hold everything: empty, or the reason.
fn warning(results: &Results) -> String {
    let done = results.measured().count();
    let quick = "**A quick run: its rounds are too short to rank anybody. It shows that all works.**\n\n";
    let mut warning = String::from(if results.is_quick { quick } else { "" });
    if !results.is_pinned {
        warning.push_str(&format!("**Not to be trusted: {UNPINNED}.**\n\n"));
    }
    if done < results.workloads {
        warning
            .push_str(&format!("**Not finished: {done} of {} workloads are here.**\n\n", results.workloads));
    }
    warning
}
