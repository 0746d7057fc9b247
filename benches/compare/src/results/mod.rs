//! [`Results`]: a run, and the files that tell of it.

mod chart;
mod charts;
mod summary;
mod table;

use std::path::Path;
use std::{fs, io};

use serde::Serialize;

use crate::machine::Machine;
use crate::measure::Measured;
use crate::options::Pace;

#[derive(Serialize)]
pub(crate) struct Results {
    /// Rounds were too short to rank anybody.
    pub(crate) is_quick: bool,
    /// How many workloads are asked for; some of them may not have had their turn.
    pub(crate) workloads: usize,
    pub(crate) pace: Pace,
    pub(crate) machine: Machine,
    /// Who could not be measured, and why.
    pub(crate) skipped: Vec<(&'static str, String)>,
    pub(crate) server: Vec<Measured>,
    pub(crate) client: Vec<Measured>,
}

impl Results {
    /// Those of a run that begins now.
    pub(crate) fn new(
        is_quick: bool,
        workloads: usize,
        pace: Pace,
        machine: Machine,
        skipped: Vec<(&'static str, String)>,
    ) -> Results {
        Results { is_quick, workloads, pace, machine, skipped, server: Vec::new(), client: Vec::new() }
    }

    /// Writes a summary, the tables, the raw numbers and charts.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("README.md"), summary::summary(self))?;
        fs::write(folder.join("tables.md"), table::tables(self))?;
        fs::write(folder.join("raw.json"), serde_json::to_string(self)? + "\n")?;
        for (name, chart) in charts::charts(self) {
            write_chart(folder, name, chart.as_ref().map(chart::Chart::svg))?;
        }
        Ok(())
    }

    /// Prints the summary, and says where the rest is.
    pub(crate) fn tell(&self, folder: &Path) -> io::Result<()> {
        println!("{}", summary::summary(self));
        eprintln!("written to {}", folder.display());
        Ok(())
    }

    pub(crate) fn measured(&self) -> impl Iterator<Item = &Measured> {
        self.server.iter().chain(&self.client)
    }
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

/// What a page says first if it does not say all: nothing, or why.
fn warning(results: &Results) -> String {
    let done = results.measured().count();
    let quick = "**A quick run: its rounds are too short to rank anybody. It shows that all works.**\n\n";
    let mut warning = String::from(if results.is_quick { quick } else { "" });
    if done < results.workloads {
        warning
            .push_str(&format!("**Not finished: {done} of {} workloads are here.**\n\n", results.workloads));
    }
    warning
}
