//! [`tables`]: all results as a page of Markdown.

use std::fmt::Write;
use std::time::Duration;

use super::summary::scores;
use super::warning;
use crate::load::Latency;
use crate::measure::{Calls, Measured, Rank, Results, Round, Row};
use crate::spread::WIDTH_MAX;

pub(super) fn tables(results: &Results) -> String {
    let mut page = String::from("# corehttp beside everyone: all figures\n\n");
    page.push_str(&warning(results));
    introduce(&mut page, results);
    let groups = [
        ("Servers", &results.server, "load"),
        ("Clients", &results.client, "server"),
        ("Applications", &results.applications, "load"),
    ];
    for (title, group, other) in groups.into_iter().filter(|(_, group, _)| !group.is_empty()) {
        line(&mut page, &format!("\n## {title}"));
        group.iter().for_each(|measured| add(&mut page, measured, other));
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
        .replace("LEAST", &results.pace.offer_min.to_string())
        .replace("REST", &seconds(results.pace.settle))
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
        let mut cells = cells(row, &rank, measured.limit());
        if has_latency {
            cells.extend(latency_cells(row));
        }
        if has_idle {
            cells.push(text(row.idle_connection, |bytes| bytes.to_string()));
        }
        add_row(page, cells.into_iter());
    }
    let load = measured.limit().filter(|limit| other == "load" && limit.failed.is_none());
    if let Some(cells) = load.and_then(|limit| load_cells(limit, head.len())) {
        add_row(page, cells.into_iter());
    }
    add_notes(page, measured);
}

fn cells(row: &Row, rank: &Rank, limit: Option<&Row>) -> Vec<String> {
    let percent = |share: f64| format!("{:.0}%", share * 100.0);
    let mebibytes = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
    vec![
        row.peer.to_owned(),
        rank.to_string(),
        text(row.cpu(), |spread| spread.to_string()),
        text(limit.and_then(|limit| row.over(limit)), |spread| format!("{:.2}", spread.median)),
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
    let values: [fn(Latency) -> Option<f64>; 5] =
        [|it| Some(it.p50), |it| it.p99, |it| it.of_thousand, |it| it.p999, |it| Some(it.max)];
    let spreads = values.map(|value| row.spread(|round| round.latency.and_then(value)));
    let mut cells: Vec<String> = spreads.map(|spread| text(spread, |spread| spread.brief())).into();
    if row.is_overloaded() {
        cells[0].push_str(" (overloaded)");
    }
    cells
}

fn add_notes(page: &mut String, measured: &Measured) {
    if let Some(latency) = measured.rows.iter().flat_map(|row| &row.rounds).find_map(|round| round.latency) {
        let Latency { offered, requests, .. } = latency;
        line(page, &format!("\nLatency is at {offered} requests per second, {requests} in a round."));
    }
    if let Some(stolen) = measured.stolen {
        line(page, &format!("\nThe host gave {:.2}% of the cores' time to others.", stolen * 100.0));
    }
    for (peer, why) in &measured.absent {
        line(page, &format!("\nWithout {peer}, which {why}."));
    }
    for row in &measured.rows {
        if let Some(why) = &row.failed {
            line(page, &format!("\n{} failed: {}", row.peer, why.replace('\n', " ")));
        }
    }
    let responses = measured.rows.iter().filter_map(|row| Some(format!("{} {}", row.peer, row.response?)));
    let responses: Vec<String> = responses.collect();
    if !responses.is_empty() {
        line(page, &format!("\nBytes of a response: {}.", responses.join(", ")));
    }
    let scores = scores(measured);
    if !scores.is_empty() {
        line(page, &format!("\n{}", scores.trim_end()));
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

#[cfg(test)]
mod tests {
    use super::add;
    use crate::load::Latency;
    use crate::measure::{Measured, Round, Row};

    /// A row whose rounds took so many microseconds of CPU time, and ten times that at the tail of so many requests.
    fn row(peer: &'static str, cpu: [f64; 3], requests: u64) -> Row {
        let round = |cpu: f64| {
            let tail = |least| (requests >= least).then_some(cpu * 10.0);
            let (p99, p999) = (tail(100), tail(1_000));
            let latency = Latency {
                offered: 100,
                requests,
                achieved: 100.0,
                p50: cpu,
                max: cpu,
                p99,
                p999,
                of_thousand: p999,
            };
            Round {
                exchanges: 1,
                wall: 1.0,
                cpu: cpu / 1e6,
                other_cpu: 2e-6,
                allocations: Some(2),
                latency: Some(latency),
                drift: None,
            }
        };
        Row { rounds: cpu.map(round).into(), peak: Some(1 << 20), ..Row::new(peer) }
    }

    /// The page of these rows has these parts.
    #[track_caller]
    fn check(rows: Vec<Row>, parts: &[&str]) {
        let absent = vec![("nginx", "has static responses only")];
        let measured =
            Measured { name: "row", title: "a row", rows, absent, stolen: Some(0.0017), is_scored: false };
        let mut page = String::new();
        add(&mut page, &measured, "load");
        for part in parts {
            assert!(page.contains(part), "{part} is not in {page}");
        }
    }

    #[test]
    fn what_is_not_known_is_a_dash_and_who_is_not_there_is_named() {
        let rows = || vec![row("limit", [2.0; 3], 1_000), row("corehttp", [3.0; 3], 1_000)];
        let limit = "| limit |  | 2.00 (2.00 to 2.00) | 1.00 | 1.00 | 0% | 0% | – | 2.00 | 1.0 | – \
            | 2.00 | 20.0 | 20.0 | 20.0 | 2.00 |";
        let load = "| (load) |  | 2.00 (2.00 to 2.00) |  | 500000 |";
        let notes =
            ["100 requests per second, 1000 in a round", "gave 0.17% of", "Without nginx, which has static"];
        check(rows(), &[limit, "| corehttp | 1 | 3.00", load, notes[0], notes[1], notes[2]]);

        let mut few = rows();
        few.push(row("hyper", [4.0; 3], 99));
        check(few, &["| hyper | 2 | 4.00", "| 4.00 | – | – | – | 4.00 |"]);

        let mut failed = rows();
        failed[1].failed = Some("it\nhung".into());
        failed.push(Row { failed: Some("gone".into()), ..Row::new("hyper") });
        let dashes = "| hyper | failed | – | – | – |";
        check(
            failed,
            &["| corehttp | failed | 3.00", "corehttp failed: it hung", dashes, "hyper failed: gone"],
        );
    }

    #[test]
    fn rounds_that_are_far_apart_say_so_instead_of_a_rank() {
        let rows = vec![row("limit", [2.0; 3], 1_000), row("corehttp", [3.0, 4.0, 5.0], 1_000)];
        check(rows, &["| corehttp | wide | 4.00 (3.00 to 5.00) | 2.00 |"]);
    }
}
