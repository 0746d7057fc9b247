//! [`charts`]: which pictures there are.

use super::Results;
use super::chart::{Bar, Chart, Kind, Panel};
use crate::measure::{Measured, Row};
use crate::spread::Spread;

/// All charts by their files' names; none where there is nothing to show.
pub(super) fn charts(results: &Results) -> [(&'static str, Option<Chart>); 4] {
    let quick = if results.is_quick { " A quick run: it ranks nobody." } else { "" };
    let note = |text: &str| format!("{text}{quick}");
    let cpu = |measured: &Measured| panel(measured, measured.title, Row::cpu);
    let p999 = |row: &Row| Spread::of(row.rounds.iter().filter_map(|round| Some(round.latency?.p999)));
    let latency = |measured: &Measured| {
        let offered = measured.rows.iter().flat_map(|row| &row.rounds).find_map(|it| it.latency)?.offered;
        panel(measured, &format!("{}, {offered} per second", measured.title), p999)
    };
    let idle = |row: &Row| Spread::of(row.idle_connection.map(|bytes| bytes as f64));
    let peak = |row: &Row| Spread::of(row.peak.map(|bytes| bytes as f64 / f64::from(1 << 20)));
    let idle_panels = results.server.iter().filter_map(|it| panel(it, "bytes per idle connection", idle));
    let heavy = results.server.iter().filter(|it| ["plaintext-512", "echo-1m"].contains(&it.name));
    let peak_panels = heavy.filter_map(|it| panel(it, &format!("peak MiB: {}", it.title), peak));
    [
        (
            "server.svg",
            chart(
                "Servers: CPU time per request",
                note("Microseconds on one core; the line is from quartile to quartile. Less is better."),
                results.server.iter().filter_map(cpu).collect(),
            ),
        ),
        (
            "latency.svg",
            chart(
                "Servers: latency, p99.9",
                note("Microseconds from the moment a request was due, at a fixed load. Less is better."),
                results.server.iter().filter_map(latency).collect(),
            ),
        ),
        (
            "memory.svg",
            chart(
                "Servers: memory",
                note("Resident in the process; the kernel's buffers are in none of it. Less is better."),
                idle_panels.chain(peak_panels).collect(),
            ),
        ),
        (
            "client.svg",
            chart(
                "Clients: CPU time per exchange",
                note("Microseconds on one core; the line is from quartile to quartile. Less is better."),
                results.client.iter().filter_map(cpu).collect(),
            ),
        ),
    ]
}

fn chart(title: &str, note: String, panels: Vec<Panel>) -> Option<Chart> {
    (!panels.is_empty()).then(|| Chart { title: title.into(), note, panels })
}

fn panel(measured: &Measured, title: &str, value: impl Fn(&Row) -> Option<Spread>) -> Option<Panel> {
    let bars: Vec<Bar> = measured.rows.iter().filter_map(|row| Some(bar(row, value(row)?))).collect();
    (!bars.is_empty()).then(|| Panel { title: title.into(), bars })
}

fn bar(row: &Row, spread: Spread) -> Bar {
    let kind = match row.peer {
        "limit" | "raw" => Kind::Limit,
        "corehttp" => Kind::Ours,
        _ => Kind::Other,
    };
    let range = (spread.low < spread.high).then_some((spread.low, spread.high));
    Bar { label: row.peer, value: spread.median, range, kind, is_wide: spread.is_wide() }
}
