//! [`Chart`]: panels of horizontal bars as SVG, readable on light and on dark pages.

/// A title, a line about it, and panels.
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) note: String,
    pub(super) panels: Vec<Panel>,
}

pub(super) struct Panel {
    pub(super) title: String,
    pub(super) bars: Vec<Bar>,
}

pub(super) struct Bar {
    pub(super) label: &'static str,
    pub(super) value: f64,
    /// From quartile to quartile.
    pub(super) range: Option<(f64, f64)>,
    pub(super) kind: Kind,
    /// The rounds were too far apart.
    pub(super) is_wide: bool,
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
    .wide{opacity:.45}.range{stroke:#1f2328;stroke-width:1.2}.name-ours{font-weight:600}\
    @media(prefers-color-scheme:dark){\
    text{fill:#e6edf3}.note,.value{fill:#9198a1}.page{fill:#0d1117}\
    .limit{fill:#4b535d}.other{fill:#4f7396}.ours{fill:#f0803c}.range{stroke:#e6edf3}}";

impl Panel {
    fn height(&self) -> f64 {
        24.0 + PITCH * self.bars.len() as f64 + 16.0
    }

    fn draw(&self, svg: &mut String, left: f64, top: f64) {
        let most = self.bars.iter().map(|bar| bar.range.map_or(bar.value, |(_, high)| high.max(bar.value)));
        let scale = (PANEL - LABEL - VALUE) / most.fold(f64::MIN_POSITIVE, f64::max);
        svg.push_str(&text("panel", left, top + 12.0, &self.title));
        svg.push('\n');
        for (index, bar) in self.bars.iter().enumerate() {
            bar.draw(svg, left, top + 24.0 + PITCH * index as f64, scale);
        }
    }
}

impl Bar {
    fn draw(&self, svg: &mut String, left: f64, top: f64, scale: f64) {
        let (start, base, middle) = (left + LABEL, top + BAR - 2.5, top + BAR / 2.0);
        let kind = match self.kind {
            Kind::Limit => "limit",
            Kind::Ours => "ours",
            Kind::Other => "other",
        };
        let [class, mark] = if self.is_wide { [" wide", " (wide)"] } else { ["", ""] };
        let width = self.value * scale;
        svg.push_str(&text(&format!("name-{kind}"), left, base, self.label));
        svg.push_str(&format!(
            r#"<rect class="{kind}{class}" x="{start:.1}" y="{top:.1}" width="{width:.1}" height="{BAR}" rx="2"/>"#
        ));
        let mut end = start + width;
        if let Some((low, high)) = self.range {
            let [low, high] = [low, high].map(|value| start + value * scale);
            end = end.max(high);
            svg.push_str(&format!(r#"<path class="range" d="M{low:.1} {middle:.1}H{high:.1}"/>"#));
        }
        let value = number(self.value);
        svg.push_str(&text("value", end + 6.0, base, &format!("{value}{mark}")));
        svg.push('\n');
    }
}

fn text(class: &str, x: f64, y: f64, content: &str) -> String {
    format!(r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{}</text>"#, escape(content))
}

/// To three digits, which is more than anybody reads off a bar.
fn number(value: f64) -> String {
    let digits = match value {
        _ if value < 10.0 => 2,
        _ if value < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::{Bar, Chart, Kind, Panel, number};

    #[test]
    fn the_longest_bar_fills_its_panel_and_text_is_escaped() {
        let bar = |label, value| Bar { label, value, range: None, kind: Kind::Other, is_wide: false };
        let panel = Panel { title: "a < b".into(), bars: vec![bar("one", 1.0), bar("two", 2.0)] };
        let svg = Chart { title: "t & u".into(), note: String::new(), panels: vec![panel] }.svg();
        assert!(
            svg.contains("width=\"264.0\" height=\"13\"") && svg.contains("width=\"132.0\" height=\"13\""),
            "{svg}"
        );
        assert!(svg.contains("a &lt; b") && svg.contains("t &amp; u") && !svg.contains("a < b"));
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!([0.123, 4.567, 45.67, 456.7].map(number), ["0.12", "4.57", "45.7", "457"]);
    }
}
