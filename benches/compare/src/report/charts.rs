//! [`charts`]: which pictures there are.

use super::chart::{Bar, Chart, Kind, Panel};
use crate::measure::{Measured, Results, Row};
use crate::spread::Spread;

/// The files' names, and what they show.
const CHARTS: [(&str, &str); CHARTS_COUNT] = [
    ("server.svg", "Servers: CPU time per request"),
    ("rate.svg", "Servers: requests per second"),
    ("latency.svg", "Servers: latency, the slowest of 1,000"),
    ("memory.svg", "Servers: memory"),
    ("client.svg", "Clients: CPU time per exchange"),
    ("applications.svg", "Applications: CPU time per request"),
    ("applications-rate.svg", "Applications: requests per second"),
];
const CHARTS_COUNT: usize = 7;

/// All charts in that order; none where there is nothing to show.
pub(super) fn charts(results: &Results) -> [(&'static str, Option<Chart>); CHARTS_COUNT] {
    let (server, client) = (results.server.iter(), results.client.iter());
    let cpu = |measured| panel(measured, "µs per request", Row::cpu);
    let rate = |row: &Row| row.spread(|round| Some(round.rate() / 1e3));
    let offered = |it: &Measured| it.rows.iter().flat_map(|row| &row.rounds).find_map(|it| it.latency);
    let latency = |measured| {
        let offered = offered(measured)?.offered;
        let panel = panel(measured, "µs", Row::of_thousand)?;
        Some(Panel { title: format!("{}, {offered} per second", panel.title), ..panel })
    };
    let panels = [
        server.clone().filter_map(cpu).collect(),
        server.clone().filter_map(|it| panel(it, "1,000 per second", rate)).collect(),
        server.clone().filter_map(latency).collect(),
        memory(results),
        client.filter_map(cpu).collect(),
        results.applications.iter().filter_map(cpu).collect(),
        results.applications.iter().filter_map(|it| panel(it, "1,000 per second", rate)).collect(),
    ];
    let quick = if results.is_quick { " A quick run: it ranks nobody." } else { "" };
    let notes = [
        "On one core; the line is from quartile to quartile. Less is better.",
        "On one core, all connections busy; the line is from quartile to quartile. More is better.",
        "From the moment a request was due, at a fixed load. Less is better.",
        "Resident in the process; the kernel's buffers are in none of it. Less is better.",
        "On one core; the line is from quartile to quartile. Less is better.",
        "On one core, the database not counted; the line is from quartile to quartile. Less is better.",
        "On one core, all connections busy; the line is from quartile to quartile. More is better.",
    ];
    let mut charts = CHARTS.into_iter().zip(notes).zip(panels).map(|(((name, title), note), panels)| {
        let note = format!("{note}{quick}");
        (name, (!panels.is_empty()).then(|| Chart { title: title.into(), note, panels }))
    });
    std::array::from_fn(|_| charts.next().expect("as many panels and notes as charts"))
}

fn memory(results: &Results) -> Vec<Panel> {
    let idle = |row: &Row| Spread::from_values(row.idle_connection.map(|bytes| bytes as f64 / 1024.0));
    let peak = |row: &Row| Spread::from_values(row.peak.map(|bytes| bytes as f64 / f64::from(1 << 20)));
    let connections = results.server.iter().filter_map(|it| {
        it.rows.iter().any(|row| row.idle_connection.is_some()).then_some(())?;
        Some(Panel { title: "an idle connection".into(), ..panel(it, "KiB", idle)? })
    });
    let heavy = ["plaintext-512", "plaintext-4000", "echo-1m"];
    let heavy = results.server.iter().filter(|it| heavy.contains(&it.name));
    let peaks = heavy.filter_map(|it| {
        let panel = panel(it, "MiB", peak)?;
        Some(Panel { title: format!("peak: {}", it.title), ..panel })
    });
    connections.chain(peaks).collect()
}

/// Rows without a value keep their places.
fn panel(measured: &Measured, unit: &'static str, value: impl Fn(&Row) -> Option<Spread>) -> Option<Panel> {
    let bars: Vec<Bar> = measured.rows.iter().map(|row| bar(row, value(row))).collect();
    let has_value = bars.iter().any(|bar| bar.value.is_some());
    has_value.then(|| Panel { title: measured.title.into(), unit, bars })
}

fn bar(row: &Row, value: Option<Spread>) -> Bar {
    let kind = match row.peer {
        _ if row.is_limit() => Kind::Limit,
        "corehttp" => Kind::Ours,
        _ => Kind::Other,
    };
    let missing = match () {
        _ if row.failed.is_some() => "failed",
        _ if row.is_overloaded() => "overloaded",
        _ => "too few requests",
    };
    Bar { label: row.peer, value, missing, kind }
}
