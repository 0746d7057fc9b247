//! [`tables`]: all results as a page of Markdown.

use std::fmt::Write;
use std::time::Duration;

use super::warning;
use crate::load::Latency;
use crate::measure::{Calls, Measured, Results, Round, Row};
use crate::spread::WIDTH_MAX;

pub(super) fn tables(results: &Results) -> String {
    let mut page = String::from("# corehttp beside everyone: all figures\n\n");
    page.push_str(&warning(results));
    introduce(&mut page, results);
    page.push_str("\n## Servers\n");
    for measured in &results.server {
        add(&mut page, measured, "load");
    }
    page.push_str("\n## Clients\n");
    for measured in &results.client {
        add(&mut page, measured, "server");
    }
    page
}

fn introduce(page: &mut String, results: &Results) {
    let machine = &results.machine;
    let (date, processor) = (&machine.date, &machine.processor);
    let (kernel, congestion) = (&machine.kernel, &machine.congestion);
    let size = format!("{} cores, {} MiB", machine.cores, machine.memory);
    let load = machine.load;
    line(
        page,
        &format!(
            "{date} on {processor}, {size}, Linux {kernel} with {congestion}; load average {load:.1} before the run.\n"
        ),
    );
    let versions = machine.versions.iter().map(|(name, version)| format!("{name} {version}"));
    let versions = versions.collect::<Vec<_>>().join(", ");
    line(page, &format!("corehttp at {}; {versions}.\n", machine.commit));
    for (who, why) in &results.skipped {
        line(page, &format!("Skipped: {who}: {why}.\n"));
    }
    let seconds = |time: Duration| time.as_secs_f64().to_string();
    let method = METHOD
        .replace("WARM", &seconds(results.pace.warm_up))
        .replace("CLOSED", &seconds(results.pace.round))
        .replace("OPEN", &seconds(results.pace.offer))
        .replace("ROUNDS", &results.pace.rounds.to_string())
        .replace("WIDTH", &format!("{:.0}", WIDTH_MAX * 100.0));
    page.push_str(&method);
}

const METHOD: &str = include_str!("method.md");

/// A row of the load generator: what it takes to ask the limit, which is the limit of what it can ask.
fn load_cells(limit: &Row, len: usize) -> Option<Vec<String>> {
    let each = |round: &Round| round.other_cpu * 1e6 / round.exchanges as f64;
    let mut cells = vec![String::new(); len];
    cells[0] = "(load)".into();
    cells[2] = limit.spread(|round| Some(each(round)))?.to_string();
    cells[4] = format!("{:.0}", limit.median(|round| Some(1e6 / each(round)))?);
    Some(cells)
}

fn add(page: &mut String, measured: &Measured, other: &str) {
    let has_latency = measured.rows.iter().any(|row| row.rounds.iter().any(|round| round.latency.is_some()));
    let has_idle = measured.rows.iter().any(|row| row.idle_connection.is_some());
    let mut head = vec![
        "",
        "rank",
        "CPU µs",
        "over",
        "per second",
        "busy",
        other,
        "calls",
        "allocations",
        "peak MiB",
        "after",
    ];
    if has_latency {
        head.extend(["p50 µs", "p99", "of 1,000", "p99.9", "max"]);
    }
    if has_idle {
        head.push("bytes per idle connection");
    }
    line(page, &format!("\n### {} (`{}`)\n", measured.title, measured.name));
    add_row(page, head.iter().map(|cell| (*cell).to_owned()));
    let rules = std::iter::once("---").chain(std::iter::repeat("---:"));
    add_row(page, rules.take(head.len()).map(str::to_owned));
    for (row, rank) in measured.rows.iter().zip(measured.ranks()) {
        let mut cells = cells(row, rank, &measured.rows[0]);
        if has_latency {
            cells.extend(latency_cells(row));
        }
        if has_idle {
            cells.push(text(row.idle_connection, |bytes| bytes.to_string()));
        }
        add_row(page, cells.into_iter());
    }
    let load = measured.rows.first().filter(|limit| other == "load" && limit.failed.is_none());
    if let Some(cells) = load.and_then(|limit| load_cells(limit, head.len())) {
        add_row(page, cells.into_iter());
    }
    add_notes(page, measured);
}

fn cells(row: &Row, rank: Option<usize>, limit: &Row) -> Vec<String> {
    let is_wide = row.cpu().is_some_and(|it| it.is_wide());
    let rank = match rank {
        _ if std::ptr::eq(row, limit) => String::new(),
        Some(rank) => rank.to_string(),
        None if is_wide => "wide".into(),
        None => "failed".into(),
    };
    let percent = |share: f64| format!("{:.0}%", share * 100.0);
    let mebibytes = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
    vec![
        row.peer.to_owned(),
        rank,
        text(row.cpu(), |spread| spread.to_string()),
        text(row.over(limit), |spread| format!("{:.2}", spread.median)),
        text(row.spread(|round| Some(round.rate())), |spread| spread.brief()),
        text(row.median(|round| Some(round.busy())), percent),
        text(row.median(|round| Some(round.other_busy())), percent),
        text(row.calls.as_ref(), |calls| format!("{:.2}", calls.all)),
        text(row.median(Round::allocations_each), |each| format!("{each:.2}")),
        text(row.peak, mebibytes),
        text(row.settled, mebibytes),
    ]
}

fn latency_cells(row: &Row) -> Vec<String> {
    let values: [fn(&Latency) -> f64; 5] =
        [|it| it.p50, |it| it.p99, |it| it.of_thousand, |it| it.p999, |it| it.max];
    let spreads = values.map(|value| row.spread(|round| round.latency.as_ref().map(value)));
    let mut cells: Vec<String> = spreads.map(|spread| text(spread, |spread| spread.brief())).into();
    if row.rounds.iter().filter_map(|round| round.latency).any(|latency| !latency.is_met()) {
        cells[0].push_str(" (overloaded)");
    }
    cells
}

fn add_notes(page: &mut String, measured: &Measured) {
    if let Some(latency) = measured.rows.iter().flat_map(|row| &row.rounds).find_map(|round| round.latency) {
        line(page, &format!("\nLatency is at {} requests per second.", latency.offered));
    }
    for row in &measured.rows {
        if let Some(why) = &row.failed {
            line(page, &format!("\n{} failed: {}", row.peer, why.replace('\n', " ")));
        }
    }
    let answers = measured.rows.iter().filter_map(|row| Some(format!("{} {}", row.peer, row.answer?)));
    let answers: Vec<String> = answers.collect();
    if !answers.is_empty() {
        line(page, &format!("\nBytes of an answer: {}.", answers.join(", ")));
    }
    let traced: Vec<&Row> = measured.rows.iter().filter(|row| row.calls.is_some()).collect();
    if !traced.is_empty() {
        line(page, "\n<details><summary>System calls per exchange</summary>\n");
    }
    for row in &traced {
        let Some(Calls { all, in_vain, each }) = &row.calls else { continue };
        let each: Vec<String> = each.iter().map(|(name, count)| format!("{name} {count:.2}")).collect();
        line(page, &format!("- {}: {all:.2}, {in_vain:.2} in vain: {}", row.peer, each.join(", ")));
    }
    if !traced.is_empty() {
        line(page, "\n</details>");
    }
}

fn text<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "–".into(), show)
}

fn add_row(page: &mut String, cells: impl Iterator<Item = String>) {
    let cells: Vec<String> = cells.collect();
    line(page, &format!("| {} |", cells.join(" | ")));
}

fn line(page: &mut String, text: &str) {
    writeln!(page, "{text}").expect("a string takes all");
}
