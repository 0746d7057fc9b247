//! [`page`]: the contents of a directory as a web page, without JavaScript.

use std::fmt::Write;
use std::time::SystemTime;

use super::dir_entry::{DirEntry, display};
use super::sort::{Column, Direction, Sort};
use crate::message::{HttpDate, escape_html, month_number};

/// Nothing is loaded or run, whatever a file name contains (CSP level 3).
pub(in crate::fs) const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                                 form-action 'none'; frame-ancestors 'none'";

/// The page for the directory at `path`, whose entries are in this order, with a note if there are more of them.
pub(super) fn page(path: &[u8], entries: &[DirEntry], sort: Sort, is_truncated: bool) -> String {
    let title = label(&[b"/", path].concat());
    let query = sort.query();
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n<main>\n<h1>{}</h1>\n<table>\n<thead><tr>",
        breadcrumbs(path, &query),
    );
    for (column, label) in COLUMNS {
        page.push_str(&column_header(sort, column, label));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    if !path.is_empty() {
        let _ = writeln!(
            page,
            "<tr class=\"dir\"><td><a href=\"../{query}\">Parent directory</a></td><td></td><td></td></tr>"
        );
    }
    entries.iter().for_each(|entry| page.push_str(&row(entry, &query)));
    page.push_str("</tbody>\n</table>\n");
    page.push_str(&format!("<p>{}</p>\n</main>\n</html>\n", summary(entries, is_truncated)));
    page
}

const COLUMNS: [(Column, &str); 3] =
    [(Column::Name, "Name"), (Column::Size, "Size"), (Column::Modified, "Modified<span> (UTC)</span>")];

/// The path as links to the directories on it, which keep the order in `query`.
fn breadcrumbs(path: &[u8], query: &str) -> String {
    let names: Vec<&[u8]> = path.split(|octet| *octet == b'/').filter(|name| !name.is_empty()).collect();
    let up = |levels: usize| if levels == 0 { "./".to_owned() } else { "../".repeat(levels) };
    let mut breadcrumbs = format!("<a href=\"{}{query}\">/</a>", up(names.len()));
    for (index, name) in names.iter().enumerate() {
        let levels = names.len() - 1 - index;
        let name = label(name);
        let _ = write!(breadcrumbs, "<a href=\"{}{query}\">{name}/</a>", up(levels));
    }
    breadcrumbs
}

/// A column header, whose link sorts by the column, or reverses the order if the page is already sorted by it.
fn column_header(sort: Sort, column: Column, label: &str) -> String {
    let (sorted, next) = match (sort.by == column, sort.direction) {
        (true, Direction::Ascending) => (" aria-sort=\"ascending\"", "desc"),
        (true, Direction::Descending) => (" aria-sort=\"descending\"", "asc"),
        (false, _) => ("", "asc"),
    };
    let name = column.name();
    format!("<th scope=\"col\"{sorted}><a href=\"?sort={name}&amp;order={next}\">{label}</a></th>")
}

fn row(entry: &DirEntry, query: &str) -> String {
    let DirEntry { name, size, modified } = entry;
    // The link to a directory keeps the order.
    let (class, slash, query) = if size.is_some() { ("", "", "") } else { (" class=\"dir\"", "/", query) };
    let size = size.map(human_size).unwrap_or_default();
    let modified = modified.map(format_minute).unwrap_or_default();
    let link = entry.link();
    let name = label(name);
    format!(
        "<tr{class}><td><a href=\"{link}{query}\">{name}{slash}</a></td><td>{size}</td>\
         <td>{modified}</td></tr>\n"
    )
}

fn summary(entries: &[DirEntry], is_truncated: bool) -> String {
    let count =
        |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    let directories = entries.iter().filter(|entry| entry.size.is_none()).count();
    let bytes = entries.iter().filter_map(|entry| entry.size).fold(0, u64::saturating_add);
    let more = if is_truncated { ", and more that are not shown" } else { "" };
    format!(
        "{}, {}, {}{more}",
        count(directories, "directory", "directories"),
        count(entries.len() - directories, "file", "files"),
        human_size(bytes),
    )
}

/// A name in HTML.
fn label(name: &[u8]) -> String {
    escape_html(&display(name)).into_owned()
}

/// Formats a size with about three digits.
fn human_size(bytes: u64) -> String {
    let mut units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].iter();
    let mut value = bytes as f64;
    let mut unit = "B";
    while value >= 1023.5
        && let Some(next) = units.next()
    {
        value /= 1024.0;
        unit = next;
    }
    let decimals = if unit != "B" && value < 9.95 { 1 } else { 0 };
    format!("{value:.decimals$} {unit}")
}

/// Formats a time to the minute, in UTC: `1994-11-06 08:49`. A narrow page shows the date alone. Times before 1970
/// become its first minute.
fn format_minute(time: SystemTime) -> String {
    let date = HttpDate::new(time);
    // `Sun, 06 Nov 1994 08:49:37 GMT`
    let text = date.as_str();
    let (day, month, year, minute) = (&text[5..7], &text[8..11], &text[12..16], &text[17..22]);
    format!("{year}-{:02}-{day}<span> {minute}</span>", month_number(month.as_bytes()).unwrap_or_default())
}

/// The colors have a contrast of at least 4.5 (WCAG 2.2 AA, 1.4.3), also on the background of a hovered row.
const STYLE: &str = "\
:root{color-scheme:light dark;background:Canvas;color:CanvasText;--line:#8883;--dim:#595959;--link:#0b57d0}\
@media(prefers-color-scheme:dark){:root{--dim:#adadad;--link:#a8c7fa}}\
body{margin:0;font:16px/1.5 system-ui,sans-serif}\
main{max-width:60rem;margin:0 auto;padding:2rem 1rem}\
h1{font-size:1.25rem;font-weight:600;overflow-wrap:anywhere;margin:0 0 1rem}\
h1 a{display:inline-block;min-width:1.5rem}\
table{width:100%;border-collapse:collapse;font-variant-numeric:tabular-nums}\
th,td{padding:.4rem .5rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line)}\
th:first-child,td:first-child{text-align:left;white-space:normal;overflow-wrap:anywhere;width:100%}\
td{color:var(--dim)}\
th a{color:inherit}\
a{color:var(--link);text-decoration:none}\
a:hover,a:focus-visible{text-decoration:underline}\
.dir a{font-weight:600}\
[aria-sort=ascending] a::after{content:\" \\2191\"}\
[aria-sort=descending] a::after{content:\" \\2193\"}\
tbody tr:hover{background:#8881}\
p{color:var(--dim);font-size:.875rem}\
@media(max-width:32rem){main{padding:1rem .5rem}th,td{padding:.6rem .375rem}td+td,th+th{font-size:.8125rem}span{display:none}}";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fs::listing::dir_listing::{DirListing, ENTRIES_MAX};
    use crate::message::Form;

    fn page(path: &[u8], entries: Vec<DirEntry>, sort: Sort) -> String {
        DirListing::new(path.to_owned(), entries, sort).to_html()
    }

    fn entry(name: &str, size: Option<u64>, minutes: u64) -> DirEntry {
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(minutes * 60);
        DirEntry { name: name.into(), size, modified: Some(modified) }
    }

    #[track_caller]
    fn check_order(query: &str, expected: &str) {
        let entries =
            vec![entry("b", Some(1), 3), entry("a", Some(2), 2), entry("d", None, 5), entry("c", None, 9)];
        let page = page(b"", entries, Sort::from_query(&Form::new(query)));
        let names = page.split("href=\"./").skip(2).filter_map(|rest| rest.chars().next());
        assert_eq!(String::from_iter(names), expected, "{query}");
    }

    #[test]
    fn a_listing_is_sorted_by_the_query_and_directories_come_first() {
        check_order("", "cdab");
        check_order("sort=name&order=desc", "dcba");
        check_order("sort=size", "cdba");
        check_order("sort=size&order=desc", "dcab");
        check_order("sort=modified", "dcab");
        check_order("sort=modified&order=desc", "cdba");
        check_order("sort=inode&order=sideways", "cdab");
    }

    #[test]
    fn the_order_of_a_listing_is_kept_in_the_directories_it_leads_to() {
        let entries = || vec![entry("d", None, 0), entry("f", Some(1), 0)];
        for (query, kept) in [
            ("", ""),
            ("sort=name&order=asc", ""),
            ("sort=size", "?sort=size&amp;order=asc"),
            ("sort=modified&order=desc", "?sort=modified&amp;order=desc"),
        ] {
            let page = page(b"a/b", entries(), Sort::from_query(&Form::new(query)));
            for link in ["./d/", "../", "./", "../../"] {
                assert!(page.contains(&format!("href=\"{link}{kept}\"")), "{query}: {link} in {page}");
            }
            assert!(page.contains("href=\"./f\""), "{query}: {page}");
        }
    }

    #[test]
    fn a_name_that_is_not_utf_8_has_a_link_that_works() {
        for (name, link, text) in [
            (&b"\xff\xfe"[..], "%FF%FE", "\u{fffd}\u{fffd}"),
            (b"caf\xe9", "caf%E9", "caf\u{fffd}"),
            (b"a\\b", "a%5Cb", "a\\b"),
            (b"a\nb\x1b", "a%0Ab%1B", "a\u{fffd}b\u{fffd}"),
        ] {
            let entry = DirEntry { name: name.to_vec(), size: None, modified: None };
            let row = row(&entry, "");
            assert!(row.contains(&format!("<a href=\"./{link}/\">{text}/</a>")), "{row}");
        }
    }

    #[test]
    fn names_in_a_listing_are_escaped() {
        for name in
            ["<script>alert(1)</script>", "\"onload=x", "'x", "a&lt;b", "javascript:x", "..%2f", "?a#b", "é"]
        {
            let page =
                page(name.as_bytes(), vec![entry(name, Some(1), 0), entry(name, None, 0)], Sort::default());
            for bad in [
                "<script",
                "\"onload",
                "'x",
                "&lt;b",
                "href=\"javascript",
                "href=\"..%2f",
                "href=\"./?",
                "href=\"/",
            ] {
                assert!(!page.contains(bad), "{name}: {bad}");
            }
        }
    }

    #[test]
    fn each_directory_on_the_path_of_a_listing_is_a_link() {
        for (path, expected) in [
            ("", "<a href=\"./\">/</a>"),
            ("a/", "<a href=\"../\">/</a><a href=\"./\">a/</a>"),
            ("a/b&c/", "<a href=\"../../\">/</a><a href=\"../\">a/</a><a href=\"./\">b&amp;c/</a>"),
        ] {
            assert_eq!(breadcrumbs(path.as_bytes(), ""), expected, "{path}");
            let leads_up =
                page(path.as_bytes(), Vec::new(), Sort::default()).contains("\"../\">Parent directory<");
            assert_eq!(leads_up, !path.is_empty(), "{path}");
        }
    }

    #[test]
    fn the_header_of_the_sorted_column_reverses_the_order() {
        let ascending = " aria-sort=\"ascending\"";
        for (query, column, sorted, next) in [
            ("", "name", ascending, "desc"),
            ("", "size", "", "asc"),
            ("sort=size", "size", ascending, "desc"),
            ("sort=size", "name", "", "asc"),
            ("sort=size&order=desc", "size", " aria-sort=\"descending\"", "asc"),
        ] {
            let page = page(b"", Vec::new(), Sort::from_query(&Form::new(query)));
            let heading = format!("<th scope=\"col\"{sorted}><a href=\"?sort={column}&amp;order={next}\">");
            assert!(page.contains(&heading), "{query}: {heading}");
        }
    }

    #[test]
    fn a_listing_ends_with_a_summary_and_a_note_if_it_is_truncated() {
        let summary = |entries| {
            let page = page(b"", entries, Sort::default());
            page.rsplit_once("<p>").unwrap().1.split_once("</p>").unwrap().0.to_owned()
        };
        assert_eq!(summary(vec![]), "0 directories, 0 files, 0 B");
        let one = vec![entry("a", None, 0), entry("b", Some(1536), 0)];
        assert_eq!(summary(one), "1 directory, 1 file, 1.5 KiB");
        let many = |count| Vec::from_iter((0..count).map(|_| entry("a", Some(1), 0)));
        assert_eq!(summary(many(ENTRIES_MAX)), "0 directories, 10000 files, 9.8 KiB");
        let cut = "0 directories, 10000 files, 9.8 KiB, and more that are not shown";
        assert_eq!(summary(many(ENTRIES_MAX + 1)), cut);
    }

    /// Each color of text is checked on the canvas of browsers, and on the background of a hovered row.
    #[test]
    fn colors_have_the_contrast_of_wcag_2_2_aa_1_4_3() {
        let channels = |color: u32| [16, 8, 0].map(|shift| f64::from(color >> shift & 255));
        let luminance = |channels: [f64; 3]| {
            let linear = channels.map(|it| it / 255.0).map(|it| match it <= 0.04045 {
                true => it / 12.92,
                false => ((it + 0.055) / 1.055).powf(2.4),
            });
            0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
        };
        let color = |scheme: usize, name: &str| {
            let value = STYLE.split(&format!("--{name}:#")).nth(1 + scheme).unwrap();
            channels(u32::from_str_radix(&value[..6], 16).unwrap())
        };
        for (scheme, canvas) in [0xff_ff_ff, 0x12_12_12].into_iter().enumerate() {
            let canvas = channels(canvas);
            // The canvas below `#8881`.
            let hovered = canvas.map(|it| it + (136.0 - it) / 15.0);
            for (name, background) in ["dim", "link"].into_iter().flat_map(|it| [(it, canvas), (it, hovered)])
            {
                let (one, other) = (luminance(color(scheme, name)), luminance(background));
                let contrast = (one.max(other) + 0.05) / (one.min(other) + 0.05);
                assert!(contrast >= 4.5, "{name} of {scheme}: {contrast}");
            }
        }
    }

    #[test]
    fn sizes_have_units_and_times_are_dates() {
        let sizes = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (10 << 10, "10 KiB"),
            ((1 << 20) - 513, "1023 KiB"),
            ((1 << 20) - 512, "1.0 MiB"),
            (u64::MAX, "16 EiB"),
        ];
        sizes.iter().for_each(|(bytes, text)| assert_eq!(human_size(*bytes), *text));
        let dates = [
            (0, "1970-01-01<span> 00:00</span>"),
            (784_111_777, "1994-11-06<span> 08:49</span>"),
            (951_782_400, "2000-02-29<span> 00:00</span>"),
            (4_107_542_399, "2100-02-28<span> 23:59</span>"),
            (4_107_542_400, "2100-03-01<span> 00:00</span>"),
            (1_735_689_599, "2024-12-31<span> 23:59</span>"),
        ];
        for (seconds, text) in dates {
            assert_eq!(format_minute(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
