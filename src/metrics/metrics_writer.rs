//! [`Writer`]: writes metrics as text, in the formats of Prometheus and OpenMetrics.

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use super::histogram::HistogramCounts;

/// The text formats of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// The text format of Prometheus, version 0.0.4.
    Prometheus,
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
}

impl Format {
    /// Returns the media type, with its parameters.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Writes metrics as text, for functions of [`Metrics::add_collector`](super::Metrics::add_collector).
///
/// Characters that a name cannot have are written as `_`. A second metric of the same name is left out, because readers refuse
/// the whole text for it. So is one with the name of another's samples, such as a gauge `a_count` beside a histogram `a`.
pub struct Writer {
    out: String,
    format: Format,
    /// The names of metrics and of their samples.
    written: BTreeSet<String>,
}

impl Writer {
    pub(super) fn new(format: Format) -> Writer {
        Writer { out: String::new(), format, written: BTreeSet::new() }
    }

    /// Begins a counter, which only grows. Its name ends in `_total`. A missing `_total` is added.
    pub fn counter(&mut self, name: &str, help: &str) -> Samples<'_> {
        self.begin(name.strip_suffix("_total").unwrap_or(name), Kind::Counter, help)
    }

    /// Begins a gauge, which goes up and down.
    pub fn gauge(&mut self, name: &str, help: &str) -> Samples<'_> {
        self.begin(name, Kind::Gauge, help)
    }

    /// Begins a histogram of values that are multiplied by `unit`.
    ///
    /// For times, `unit` is 1e-9. They must be recorded in nanoseconds, and the name must end in `_seconds`. For sizes in
    /// bytes, `unit` is 1.
    ///
    /// The bounds of the buckets are fixed powers of two, before the multiplication. For a unit below 1, they are the 14 from
    /// 2^20 to 2^33 (1 ms to 8.6 s in nanoseconds). Otherwise they are 2^10, 2^15, 2^20, 2^25 and 2^30 (1 KiB to 1 GiB). Times
    /// in other units than nanoseconds do not fit them. OpenTelemetry has as many buckets for times, from 5 ms to 10 s.
    pub fn histogram(&mut self, name: &str, help: &str, unit: f64) -> Samples<'_> {
        self.begin(name, Kind::Histogram { unit }, help)
    }

    /// Begins a summary without quantiles: sums and counts, of which averages are made.
    pub(super) fn summary(&mut self, name: &str, help: &str, unit: f64) -> Samples<'_> {
        self.begin(name, Kind::Summary { unit }, help)
    }

    /// Begins a metric of the crate, whose kind is `counter` or `gauge`.
    pub(super) fn metric(&mut self, name: &str, kind: &str, help: &str) -> Samples<'_> {
        match kind {
            "gauge" => self.gauge(name, help),
            _ => self.counter(name, help),
        }
    }

    fn begin(&mut self, name: &str, kind: Kind, help: &str) -> Samples<'_> {
        let name: String = Name(name).to_string();
        // A gauge `a_total` has the samples of a counter `a`.
        let names = kind.suffixes().iter().map(|suffix| format!("{name}{suffix}"));
        let is_new = names.clone().all(|name| !self.written.contains(&name));
        if is_new {
            self.written.extend(names);
        }
        let mut samples = Samples { writer: is_new.then_some(self), name, kind };
        samples.write_head(help);
        samples
    }

    /// The text, which is complete.
    pub(super) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsWriter").field("format", &self.format).finish_non_exhaustive()
    }
}

/// Writes the samples of one metric. Made by the methods of [`Writer`].
pub struct Samples<'w> {
    /// `None` if the samples are left out.
    writer: Option<&'w mut Writer>,
    name: String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Counter,
    Gauge,
    Histogram { unit: f64 },
    Summary { unit: f64 },
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram { .. } => "histogram",
            Kind::Summary { .. } => "summary",
        }
    }

    /// The ends of the names that a metric takes: its own, and those of its samples.
    fn suffixes(self) -> &'static [&'static str] {
        match self {
            Kind::Counter => &["", "_total"],
            Kind::Gauge => &[""],
            Kind::Histogram { .. } => &["", "_bucket", "_sum", "_count"],
            Kind::Summary { .. } => &["", "_sum", "_count"],
        }
    }
}

/// The name and the value of each label of a sample.
type Labels<'a> = &'a [(&'a str, &'a str)];

impl Samples<'_> {
    /// Writes a sample of a counter or a gauge, with the name and the value of each of its labels. The labels must differ from
    /// those of the metric's other samples. For a histogram, nothing is written.
    pub fn value(&mut self, labels: Labels<'_>, value: f64) {
        match self.kind {
            Kind::Counter => self.write("_total", labels, None, value),
            Kind::Gauge => self.write("", labels, None, value),
            Kind::Histogram { .. } | Kind::Summary { .. } => {}
        }
    }

    /// Writes the buckets, the sum and the count of a histogram. For a counter or a gauge, nothing is written.
    pub fn counts(&mut self, labels: Labels<'_>, counts: &HistogramCounts) {
        let count = counts.count() as f64;
        let unit = match self.kind {
            Kind::Counter | Kind::Gauge => return,
            Kind::Summary { unit } => unit,
            Kind::Histogram { unit } => {
                let bounds = if unit < 1.0 { TIME_BOUNDS } else { SIZE_BOUNDS };
                for exponent in (bounds.first..=bounds.last).step_by(bounds.step) {
                    let bound = 1 << exponent;
                    self.write("_bucket", labels, Some(bound as f64 * unit), counts.at_most(bound) as f64);
                }
                self.write("_bucket", labels, Some(f64::INFINITY), count);
                unit
            }
        };
        self.write("_sum", labels, None, counts.sum() as f64 * unit);
        self.write("_count", labels, None, count);
    }

    fn write_head(&mut self, help: &str) {
        let name = &self.name;
        let kind = self.kind;
        let Some(Writer { out, format, .. }) = &mut self.writer else { return };
        let suffix = match (*format, kind) {
            // In OpenMetrics a counter has the suffix in its samples alone.
            (Format::Prometheus, Kind::Counter) => "_total",
            _ => "",
        };
        // A string takes all that is written to it.
        let _ = writeln!(out, "# TYPE {name}{suffix} {}", kind.name());
        let unit = ["seconds", "bytes"].into_iter().find(|unit| name.ends_with(&format!("_{unit}")));
        if let (Format::OpenMetrics, Some(unit)) = (*format, unit) {
            let _ = writeln!(out, "# UNIT {name} {unit}");
        }
        // Prometheus refuses an escape of a quote outside of quotes, OpenMetrics a quote without one.
        let quote = if *format == Format::OpenMetrics { "\\\"" } else { "\"" };
        let _ = writeln!(out, "# HELP {name}{suffix} {}", Escaped { text: help, quote });
    }

    fn write(&mut self, suffix: &str, labels: Labels<'_>, bound: Option<f64>, value: f64) {
        let name = &self.name;
        let Some(Writer { out, format, .. }) = &mut self.writer else { return };
        let _ = write!(out, "{name}{suffix}");
        let mut separator = '{';
        for (label, text) in labels {
            let _ = write!(out, "{separator}{}=\"{}\"", Name(label), Escaped { text, quote: "\\\"" });
            separator = ',';
        }
        if let Some(bound) = bound {
            let _ = write!(out, "{separator}le=\"{}\"", Number(bound, *format));
            separator = ',';
        }
        let end = if separator == ',' { "}" } else { "" };
        let _ = writeln!(out, "{end} {}", Number(value, Format::Prometheus));
    }
}

impl fmt::Debug for Samples<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricSamples").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The exponents of the bounds of a histogram's buckets.
struct Bounds {
    first: u32,
    last: u32,
    step: usize,
}

// A bucket is a series of each route and class, so there are no more than tell apart what a reader would treat otherwise.
/// From 1 ms to 8.6 s in nanoseconds.
const TIME_BOUNDS: Bounds = Bounds { first: 20, last: 33, step: 1 };
/// From 1 KiB to 1 GiB.
const SIZE_BOUNDS: Bounds = Bounds { first: 10, last: 30, step: 5 };

/// A name of a metric or a label, whose other characters become `_`.
struct Name<'a>(&'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.starts_with(|first: char| first.is_ascii_digit()) || self.0.is_empty() {
            f.write_char('_')?;
        }
        self.0.chars().try_for_each(|character| {
            f.write_char(if character.is_ascii_alphanumeric() { character } else { '_' })
        })
    }
}

/// Text in a label or a help line, which ends at no quote and in no other line.
struct Escaped<'a> {
    text: &'a str,
    /// How a quote is written.
    quote: &'a str,
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.chars().try_for_each(|character| match character {
            '\\' => f.write_str("\\\\"),
            '"' => f.write_str(self.quote),
            '\n' => f.write_str("\\n"),
            character => f.write_char(character),
        })
    }
}

/// A number as both formats have it. OpenMetrics wants a point in each bound.
struct Number(f64, Format);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Number(f64::INFINITY, _) => f.write_str("+Inf"),
            Number(f64::NEG_INFINITY, _) => f.write_str("-Inf"),
            Number(number, Format::OpenMetrics) if number.fract() == 0.0 => write!(f, "{number}.0"),
            Number(number, _) => number.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::histogram::Histogram;
    use super::*;

    #[track_caller]
    fn check(format: Format, write: impl Fn(&mut Writer), expected: &str) {
        let mut writer = Writer::new(format);
        write(&mut writer);
        assert_eq!(writer.finish(), expected);
    }

    #[test]
    fn text_of_the_application_breaks_no_line() {
        let write = |writer: &mut Writer| {
            let help = "\"Quoted\"\\\nand more";
            writer.counter("7 days_total", help).value(&[("a-b", "\"\\\n}é")], 3.0);
            writer.gauge("_7_days", "The same name.").value(&[], 1.0);
            writer.gauge("odd", "Odd.").value(&[], f64::NEG_INFINITY);
            writer.gauge("", "None.").value(&[], f64::NAN);
            writer.gauge("empty", "Without a sample.");
        };
        let prometheus = "# TYPE _7_days_total counter\n\
            # HELP _7_days_total \"Quoted\"\\\\\\nand more\n\
            _7_days_total{a_b=\"\\\"\\\\\\n}é\"} 3\n\
            # TYPE odd gauge\n# HELP odd Odd.\nodd -Inf\n\
            # TYPE _ gauge\n# HELP _ None.\n_ NaN\n\
            # TYPE empty gauge\n# HELP empty Without a sample.\n";
        let open_metrics = prometheus
            .replace(" _7_days_total counter", " _7_days counter")
            .replace("_7_days_total \"Quoted\"", "_7_days \\\"Quoted\\\"");
        check(Format::Prometheus, write, prometheus);
        check(Format::OpenMetrics, write, &(open_metrics + "# EOF\n"));
    }

    /// Of two metrics with one name among those of their samples, the second is left out.
    #[test]
    fn samples_of_one_name_are_those_of_one_metric() {
        type Begin = fn(&mut Writer);
        let counter: Begin = |writer| writer.counter("a", "").value(&[], 1.0);
        let histogram: Begin =
            |writer| writer.histogram("a", "", 1.0).counts(&[], &HistogramCounts::default());
        let summary: Begin = |writer| writer.summary("a", "", 1.0).counts(&[], &HistogramCounts::default());
        for (one, samples) in [
            (counter, &["a", "a_total"][..]),
            (histogram, &["a", "a_bucket", "a_sum", "a_count"]),
            (summary, &["a", "a_sum", "a_count"]),
        ] {
            for name in samples {
                let gauge = |writer: &mut Writer| writer.gauge(name, "").value(&[], 2.0);
                for writes in [[&one as &dyn Fn(&mut Writer), &gauge], [&gauge, &one]] {
                    let mut writer = Writer::new(Format::Prometheus);
                    writes.iter().for_each(|write| write(&mut writer));
                    let text = writer.finish();
                    assert_eq!(text.matches("# TYPE").count(), 1, "{text}");
                }
            }
        }
    }

    #[test]
    fn buckets_are_cumulative_and_their_bounds_exact() {
        let histogram = Histogram::new();
        [0, 1 << 10, 1025, 1 << 15, 32_769, 1 << 30, 1 << 31, u64::MAX]
            .into_iter()
            .for_each(|size| histogram.record(size));
        let times = Histogram::new();
        [1 << 20, (1 << 20) + 1, 1 << 33, 1 << 34].into_iter().for_each(|time| times.record(time));
        let mut writer = Writer::new(Format::OpenMetrics);
        writer.histogram("a_bytes", "A.", 1.0).counts(&[("b", "c")], &histogram.counts());
        writer.histogram("d_seconds", "D.", 1e-9).counts(&[], &times.counts());
        writer.summary("e_seconds", "E.", 1e-9).counts(&[], &times.counts());
        let text = writer.finish();
        for line in [
            "# UNIT a_bytes bytes",
            "a_bytes_bucket{b=\"c\",le=\"1024.0\"} 2",
            "a_bytes_bucket{b=\"c\",le=\"32768.0\"} 4",
            "a_bytes_bucket{b=\"c\",le=\"1048576.0\"} 5",
            "a_bytes_bucket{b=\"c\",le=\"1073741824.0\"} 6",
            "a_bytes_bucket{b=\"c\",le=\"+Inf\"} 8",
            "a_bytes_count{b=\"c\"} 8",
            "# UNIT d_seconds seconds",
            "d_seconds_bucket{le=\"0.001048576\"} 1",
            "d_seconds_bucket{le=\"0.002097152\"} 2",
            "d_seconds_bucket{le=\"8.589934592\"} 3",
            "d_seconds_bucket{le=\"+Inf\"} 4",
            "d_seconds_sum 25.771900929",
            "# TYPE e_seconds summary",
            "e_seconds_sum 25.771900929",
            "e_seconds_count 4",
        ] {
            assert!(text.lines().any(|found| found.starts_with(line)), "{line}\n{text}");
        }
        assert_eq!(text.lines().filter(|line| line.contains("_bucket")).count(), 6 + 15);
    }
}
