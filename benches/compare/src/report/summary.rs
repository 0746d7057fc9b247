//! [`summary`]: the charts, one table, and a sentence for each row that corehttp does not win. The README copies it.

use super::charts::charts;
use super::warning;
use crate::measure::{Measured, Rank, Results, Round, Row};
use crate::spread::{Spread, number};

pub(super) fn summary(results: &Results) -> String {
    let mut page = String::from("# corehttp beside everyone\n\n");
    page.push_str(&warning(results));
    for (name, chart) in charts(results) {
        let image = chart.map(|chart| format!("![{}]({name})\n\n", chart.title));
        page.push_str(&image.unwrap_or_default());
    }
    page.push_str(HEAD);
    for measured in results.measured() {
        page.push_str(&table_row(measured));
    }
    page.push_str(&METHOD.replace("ROUNDS", &results.pace.rounds.to_string()));
    for measured in results.measured() {
        page.push_str(&scores(measured));
    }
    // Rounds that rank nobody have no losers either.
    if !results.is_quick {
        page.push_str(&losses(&results.server, results.measured()));
    }
    page
}

/// A sentence where the bytes of a response count, too.
pub(super) fn scores(measured: &Measured) -> String {
    let scores = measured.scores();
    let each: Vec<String> = scores.iter().map(|(peer, score)| format!("{peer} {score:.0}")).collect();
    match each.is_empty() {
        true => String::new(),
        false => format!(
            "`{}`, requests a second times the square of least over own bytes: {}.\n\n",
            measured.name,
            each.join(", ")
        ),
    }
}

/// A sentence for each row that is lost.
fn losses<'a>(server: &[Measured], all: impl Iterator<Item = &'a Measured> + Clone) -> String {
    let mut sentences: Vec<String> = all.clone().flat_map(lost).collect();
    if sentences.is_empty() && all.clone().any(|it| ours(it).is_some()) {
        sentences.push("First in every row.".into());
    }
    let over: Vec<String> = server.iter().filter_map(over).collect();
    if !over.is_empty() {
        sentences.push(format!("More than {OVER_MAX} times the limit's CPU time: {}.", over.join(", ")));
    }
    sentences.iter().map(|it| format!("- {it}\n")).collect()
}

const HEAD: &str = "\
    | | CPU µs | limit | best other | rank | per second | slowest of 1,000, µs | limit | best other | system calls | allocations |\n\
    | --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | --- | ---: | ---: |\n";

const METHOD: &str = "\n\
    corehttp's figures per request, and those of the limit (a bare epoll loop, or a bare write and read) and of the \
    best of the others. Medians of ROUNDS rounds with half the distance of their quartiles; the slowest of 1,000 is \
    that of latencies at a fixed load, from the moment a request was due, and nobody's is lost that is no longer than \
    the limit's: that much is the machine's and the load's. All figures of all are in [the tables](tables.md), and how \
    they were made.\n\n";

fn table_row(measured: &Measured) -> String {
    let Some((index, ours)) = ours(measured) else { return String::new() };
    let cells = [
        format!("{} (`{}`)", measured.title, measured.name),
        brief(ours.cpu()),
        limit(measured, Row::cpu).map_or_else(|| "–".into(), |it| number(it.median)),
        best(measured, Row::cpu),
        measured.ranks()[index].to_string(),
        brief(ours.spread(|round| Some(round.rate()))),
        brief(ours.of_thousand()),
        limit(measured, Row::of_thousand).map_or_else(|| "–".into(), |it| number(it.median)),
        best(measured, Row::of_thousand),
        ours.calls.as_ref().map_or_else(|| "–".into(), |calls| number(calls.all)),
        ours.median(Round::allocations_each).map_or_else(|| "–".into(), |each| format!("{each:.2}")),
    ];
    format!("| {} |\n", cells.join(" | "))
}

/// A sentence for each figure in which somebody is surely better.
fn lost(measured: &Measured) -> Vec<String> {
    let Some((index, row)) = ours(measured) else { return Vec::new() };
    if let Some(why) = &row.failed {
        return vec![format!("Failed in `{}`: {}.", measured.name, why.replace('\n', " "))];
    }
    let mut sentences = Vec::new();
    sentences.extend(beaten(measured, row.cpu(), "CPU time", Row::cpu));
    if row.cpu().is_some_and(|it| it.is_wide()) {
        sentences.push(format!("Not ranked in `{}`: the rounds are too far apart.", measured.name));
    }
    if measured.ranks()[index] == Rank::Shared {
        sentences.push(format!(
            "Shared in `{}`: {} µs, and the rounds of another with a lower median overlap: {}.",
            measured.name,
            row.cpu().map_or_else(String::new, |it| number(it.median)),
            best(measured, Row::cpu)
        ));
    }
    let tail = row.of_thousand().filter(|mine| is_over_limit(measured, mine));
    sentences.extend(beaten(measured, tail, "slowest of 1,000", Row::of_thousand));
    if row.is_overloaded() {
        sentences.push(format!("Overloaded in `{}`: no latency.", measured.name));
    }
    sentences
}

/// Who is surely below, and how far.
fn beaten(
    measured: &Measured,
    mine: Option<Spread>,
    figure: &str,
    value: impl Fn(&Row) -> Option<Spread>,
) -> Option<String> {
    let mine = mine?;
    let (winner, spread) = others(measured, value)
        .filter(|(_, spread)| spread.is_below(&mine))
        .min_by(|one, two| one.1.median.total_cmp(&two.1.median))?;
    Some(format!(
        "Not first in `{}`, {figure}: {} µs, {winner} {} µs ({:.2} times).",
        measured.name,
        number(mine.median),
        number(spread.median),
        mine.median / spread.median
    ))
}

/// Is a tail longer than the one that the machine and the load have by themselves?
fn is_over_limit(measured: &Measured, tail: &Spread) -> bool {
    limit(measured, Row::of_thousand).is_none_or(|limit| limit.is_below(tail))
}

/// Where a server costs more than the work that both it and the limit do.
fn over(measured: &Measured) -> Option<String> {
    let (_, row) = ours(measured)?;
    let over = row.over(measured.limit()?)?.median;
    // As it is printed: what is 1.10 there is not more than that.
    ((over * 100.0).round() > OVER_MAX * 100.0).then(|| format!("`{}` {over:.2}", measured.name))
}

const OVER_MAX: f64 = 1.1;

/// The figure of the programs that do the reads and writes and nothing else.
fn limit(measured: &Measured, value: impl Fn(&Row) -> Option<Spread>) -> Option<Spread> {
    measured.limit().and_then(value)
}

fn ours(measured: &Measured) -> Option<(usize, &Row)> {
    measured.rows.iter().enumerate().find(|(_, row)| row.peer == "corehttp")
}

/// All but the limit, corehttp, and those who failed.
fn others<'a>(
    measured: &'a Measured,
    value: impl Fn(&Row) -> Option<Spread> + 'a,
) -> impl Iterator<Item = (&'static str, Spread)> + 'a {
    let others = measured.rows.iter().filter(|row| !row.is_limit() && row.peer != "corehttp");
    let others = others.filter(|row| row.failed.is_none());
    others.filter_map(move |row| Some((row.peer, value(row)?)))
}

fn best(measured: &Measured, value: impl Fn(&Row) -> Option<Spread>) -> String {
    let best = others(measured, value).min_by(|one, two| one.1.median.total_cmp(&two.1.median));
    best.map_or_else(|| "–".into(), |(peer, spread)| format!("{} {peer}", number(spread.median)))
}

fn brief(spread: Option<Spread>) -> String {
    spread.map_or_else(|| "–".into(), |spread| spread.brief())
}

#[cfg(test)]
mod tests {
    use super::{best, losses, lost, over, table_row};
    use crate::load::Latency;
    use crate::measure::{Measured, Round, Row};

    /// A row whose rounds took so many microseconds of CPU time, and as much at the worst.
    fn row(peer: &'static str, cpu: &[f64], is_met: bool) -> Row {
        let achieved = if is_met { 100.0 } else { 50.0 };
        let latency = |cpu| Latency { offered: 100, achieved, of_thousand: Some(cpu), ..Latency::default() };
        let round = |cpu: &f64| Round {
            exchanges: 1,
            wall: 1.0,
            cpu: cpu / 1e6,
            latency: Some(latency(*cpu)),
            ..Round::default()
        };
        Row { rounds: cpu.iter().map(round).collect(), ..Row::new(peer) }
    }

    #[track_caller]
    fn check(ours: Row, other: Row, expected: &[&str]) {
        let rows = vec![row("limit", &[1.0], true), ours, other];
        assert_eq!(lost(&Measured { name: "row", rows, ..Measured::default() }), expected);
    }

    #[test]
    fn a_lost_row_is_said_with_its_figures() {
        let corehttp = |cpu: &[f64]| row("corehttp", cpu, true);
        check(corehttp(&[2.0]), row("hyper", &[3.0], true), &[]);
        check(corehttp(&[3.0, 3.1]), row("hyper", &[3.05, 3.2], true), &[]);
        let both = [
            "Not first in `row`, CPU time: 3.00 µs, hyper 2.00 µs (1.50 times).",
            "Not first in `row`, slowest of 1,000: 3.00 µs, hyper 2.00 µs (1.50 times).",
        ];
        check(corehttp(&[3.0]), row("hyper", &[2.0], true), &both);
        check(corehttp(&[3.0]), row("hyper", &[2.0], false), &both[..1]);
        // The limit's own tail is longer.
        let quick = "Not first in `row`, CPU time: 0.90 µs, hyper 0.50 µs (1.80 times).";
        check(corehttp(&[0.9]), row("hyper", &[0.5], true), &[quick]);
        let wide = "Not ranked in `row`: the rounds are too far apart.";
        check(corehttp(&[2.0, 3.0]), row("hyper", &[3.0], true), &[wide]);
        let shared =
            "Shared in `row`: 3.05 µs, and the rounds of another with a lower median overlap: 3.00 hyper.";
        check(corehttp(&[3.0, 3.05, 3.1]), row("hyper", &[2.95, 3.0, 3.2], true), &[shared]);
        let overloaded = "Overloaded in `row`: no latency.";
        check(row("corehttp", &[2.0], false), row("hyper", &[3.0], true), &[overloaded]);
        let failed = Row { failed: Some("it hung".into()), ..Row::new("corehttp") };
        check(failed, row("hyper", &[3.0], true), &["Failed in `row`: it hung."]);
    }

    #[test]
    fn who_is_not_there_is_first_in_nothing() {
        let measured = |rows| [Measured { name: "row", title: "a row", rows, ..Measured::default() }];
        let rows = |name| vec![row("limit", &[1.0; 3], true), row(name, &[1.1; 3], true)];
        let losses = |rows| {
            let measured = measured(rows);
            losses(&measured, measured.iter())
        };
        assert_eq!(losses(rows("corehttp")), "- First in every row.\n");
        assert_eq!(losses(rows("hyper")), "");
    }

    #[test]
    fn the_best_other_is_neither_the_limit_nor_corehttp() {
        let rows = vec![
            row("limit", &[1.0; 3], true),
            row("corehttp", &[2.0; 3], true),
            row("nginx", &[3.0; 3], true),
        ];
        let mut measured = Measured { name: "row", title: "a row", rows, ..Measured::default() };
        assert_eq!(best(&measured, Row::cpu), "3.00 nginx");
        assert_eq!(over(&measured).as_deref(), Some("`row` 2.00"));
        let cells =
            "| a row (`row`) | 2.00 | 1.00 | 3.00 nginx | 1 | 1.00 | 2.00 | 1.00 | 3.00 nginx | – | – |\n";
        assert_eq!(table_row(&measured), cells);
        let failed = Row { failed: Some("it hung".into()), ..row("hyper", &[0.5; 3], true) };
        measured.rows.push(failed);
        assert_eq!(table_row(&measured), cells, "who failed is the best in nothing");
    }

    #[test]
    fn what_is_printed_as_the_most_is_not_over_it() {
        let over = |cpu: f64| {
            let rows = vec![row("limit", &[1.0; 3], true), row("corehttp", &[cpu; 3], true)];
            over(&Measured { name: "row", rows, ..Measured::default() })
        };
        assert_eq!(over(1.0), None);
        assert_eq!(over(1.104), None);
        assert_eq!(over(1.106).as_deref(), Some("`row` 1.11"));
    }
}
