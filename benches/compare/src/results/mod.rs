//! [`Results`]: a whole run, and the files that tell of it.

mod chart;
mod charts;
mod table;

use std::path::Path;
use std::{fs, io};

use serde::Serialize;

use crate::machine::Machine;
use crate::measure::Measured;
use crate::options::Options;

#[derive(Serialize)]
pub(crate) struct Results {
    /// Rounds were too short to rank anybody.
    pub(crate) is_quick: bool,
    pub(crate) machine: Machine,
    /// Who could not be measured, and why.
    pub(crate) skipped: Vec<(&'static str, String)>,
    pub(crate) server: Vec<Measured>,
    pub(crate) client: Vec<Measured>,
}

impl Results {
    /// Writes a table, the raw numbers and charts, and prints the table.
    pub(crate) fn write(&self, options: &Options) -> io::Result<()> {
        let folder = options.folder();
        fs::create_dir_all(&folder)?;
        let table = table::table(self);
        println!("{table}");
        fs::write(folder.join("README.md"), table)?;
        fs::write(folder.join("raw.json"), serde_json::to_string(self)? + "\n")?;
        for (name, chart) in charts::charts(self) {
            write_chart(&folder, name, chart.as_ref().map(chart::Chart::svg))?;
        }
        eprintln!("written to {}", folder.display());
        Ok(())
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
