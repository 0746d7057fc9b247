//! [`Chart`]: panels of horizontal bars as SVG, readable on light and on dark pages.

use crate::spread::{Spread, number};

/// A title, a line about it, and panels.
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) note: String,
    pub(super) panels: Vec<Panel>,
}

pub(super) struct Panel {
    pub(super) title: String,
    /// The unit of the axis.
    pub(super) unit: &'static str,
    pub(super) bars: Vec<Bar>,
}

pub(super) struct Bar {
    pub(super) label: &'static str,
    pub(super) value: Option<Spread>,
    /// The text in place of a bar that is missing.
    pub(super) missing: &'static str,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Limit,
    Ours,
    Other,
}

impl Chart {
    pub(super) fn svg(&self) -> String {
        let mut panels = String::new();
        let mut tops = [HEAD; COLUMNS];
        for (index, panel) in self.panels.iter().enumerate() {
            let column = index % COLUMNS;
            panel.draw(&mut panels, MARGIN + column as f64 * (PANEL + MARGIN), tops[column]);
            tops[column] += panel.height();
            // Panels side by side begin side by side.
            if column == COLUMNS - 1 {
                tops = [tops.into_iter().fold(0.0, f64::max); COLUMNS];
            }
        }
        let height = tops.into_iter().fold(0.0, f64::max) + MARGIN;
        let width = MARGIN + COLUMNS as f64 * (PANEL + MARGIN);
        let label = escape(&self.title);
        let size = format!(r#"viewBox="0 0 {width} {height}" width="{width}" height="{height}""#);
        let open =
            format!(r#"<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}">"#);
        let page = r#"<rect class="page" width="100%" height="100%" rx="8"/>"#;
        let title = text("title", MARGIN, 32.0, &self.title);
        let note = text("note", MARGIN, 52.0, &self.note);
        format!("{open}\n<style>{STYLE}</style>\n{page}\n{title}\n{note}\n{panels}</svg>\n")
    }
}

const COLUMNS: usize = 2;
const MARGIN: f64 = 24.0;
const HEAD: f64 = 72.0;
/// The widths of a panel, of its labels, and of what stands behind the longest bar.
const PANEL: f64 = 440.0;
const LABEL: f64 = 92.0;
const VALUE: f64 = 84.0;
/// From bar to bar, and of a bar.
const PITCH: f64 = 19.0;
const BAR: f64 = 13.0;

const STYLE: &str = "\
    text{font:12px system-ui,sans-serif;fill:#1f2328}\
    .title{font-size:17px;font-weight:600}.panel{font-weight:600}\
    .note,.value{fill:#59636e}.page{fill:#fff}\
    .limit{fill:#c4cbd3}.other{fill:#8aa4c0}.ours{fill:#d9622b}\
    .axis{stroke:#d1d9e0}.tick,.unit{font-size:10px;fill:#59636e}.tick{text-anchor:middle}\
    .wide{opacity:.45}.range{stroke:#1f2328;stroke-width:1.2}.name-ours{font-weight:600}\
    @media(prefers-color-scheme:dark){\
    text{fill:#e6edf3}.note,.value,.tick,.unit{fill:#9198a1}.axis{stroke:#30363d}.page{fill:#0d1117}\
    .limit{fill:#4b535d}.other{fill:#4f7396}.ours{fill:#f0803c}.range{stroke:#e6edf3}}";

impl Panel {
    fn height(&self) -> f64 {
        self.axis() + 36.0
    }

    /// Where the bars end, from the top.
    fn axis(&self) -> f64 {
        24.0 + PITCH * self.bars.len() as f64
    }

    fn draw(&self, svg: &mut String, left: f64, top: f64) {
        let most = self.bars.iter().filter_map(|bar| bar.value).map(|it| it.high.max(it.median));
        let most = most.fold(f64::MIN_POSITIVE, f64::max);
        let scale = (PANEL - LABEL - VALUE) / most;
        svg.push_str(&text("panel", left, top + 12.0, &self.title));
        svg.push('\n');
        self.draw_axis(svg, (left, top), most, scale);
        for (index, bar) in self.bars.iter().enumerate() {
            bar.draw(svg, left, top + 24.0 + PITCH * index as f64, scale);
        }
    }

    /// Lines behind the bars at round numbers, and what they count.
    fn draw_axis(&self, svg: &mut String, (left, top): (f64, f64), most: f64, scale: f64) {
        let (step, end) = (step(most), top + self.axis());
        let mut lines = String::new();
        for index in 0..=(most / step) as usize {
            let value = index as f64 * step;
            let at = left + LABEL + value * scale;
            lines.push_str(&format!("M{at:.1} {:.1}V{end:.1}", top + 20.0));
            // Without the dust of binary fractions.
            let tick = (value * 1e6).round() / 1e6;
            svg.push_str(&text("tick", at, end + 13.0, &tick.to_string()));
        }
        svg.push_str(&format!(r#"<path class="axis" d="{lines}"/>"#));
        svg.push_str(&text("unit", left, end + 13.0, self.unit));
        svg.push('\n');
    }
}

/// A round number of which two to five make the longest bar.
fn step(most: f64) -> f64 {
    let power = 10f64.powf((most / 2.0).log10().floor());
    let multiple = [5.0, 2.0, 1.0].into_iter().find(|multiple| multiple * power * 2.0 <= most);
    multiple.unwrap_or(1.0) * power
}

impl Bar {
    fn draw(&self, svg: &mut String, left: f64, top: f64, scale: f64) {
        let (start, base, middle) = (left + LABEL, top + BAR - 2.5, top + BAR / 2.0);
        let kind = match self.kind {
            Kind::Limit => "limit",
            Kind::Ours => "ours",
            Kind::Other => "other",
        };
        svg.push_str(&text(&format!("name-{kind}"), left, base, self.label));
        let Some(spread) = self.value else {
            svg.push_str(&text("value", start + 6.0, base, self.missing));
            svg.push('\n');
            return;
        };
        let [class, mark] = if spread.is_wide() { [" wide", " (wide)"] } else { ["", ""] };
        let [low, width, high] = [spread.low, spread.median, spread.high].map(|value| value * scale);
        svg.push_str(&format!(
            r#"<rect class="{kind}{class}" x="{start:.1}" y="{top:.1}" width="{width:.1}" height="{BAR}" rx="2"/>"#
        ));
        if low < high {
            let [low, high] = [start + low, start + high];
            svg.push_str(&format!(r#"<path class="range" d="M{low:.1} {middle:.1}H{high:.1}"/>"#));
        }
        let value = number(spread.median);
        svg.push_str(&text("value", start + width.max(high) + 6.0, base, &format!("{value}{mark}")));
        svg.push('\n');
    }
}

fn text(class: &str, x: f64, y: f64, content: &str) -> String {
    format!(r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{}</text>"#, escape(content))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::{Bar, Chart, Kind, Panel, step};
    use crate::spread::Spread;

    #[test]
    fn the_longest_bar_fills_its_panel_and_text_is_escaped() {
        let bar = |label, value: Option<f64>| Bar {
            label,
            value: Spread::from_values(value),
            missing: "overloaded",
            kind: Kind::Other,
        };
        let bars = vec![bar("one", Some(1.0)), bar("two", Some(2.0)), bar("three", None)];
        let panel = Panel { title: "a < b".into(), unit: "µs", bars };
        let svg = Chart { title: "t & u".into(), note: String::new(), panels: vec![panel] }.svg();
        let has = |part: &str| assert!(svg.contains(part), "{part} in {svg}");
        has("width=\"264.0\" height=\"13\"");
        has("width=\"132.0\" height=\"13\"");
        has(">overloaded<");
        has("a &lt; b");
        has("t &amp; u");
        assert!(!svg.contains("a < b"));
    }

    #[test]
    fn an_axis_has_two_to_five_steps() {
        for (most, expected) in
            [(2.0, 1.0), (3.9, 1.0), (4.1, 2.0), (9.9, 2.0), (10.0, 5.0), (870.0, 200.0), (0.3, 0.1)]
        {
            let step = step(most);
            assert!((step / expected - 1.0).abs() < 1e-9, "{most}: {step}");
        }
    }
}
