//! [`StaticFile`]: twenty files as pages have them, with compressed neighbors.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::dataset::Chance;

pub(super) struct StaticFile {
    pub(super) name: &'static str,
    pub(super) content_type: &'static str,
    len: usize,
}

/// By the benchmark's own names and sizes.
pub(super) const STATIC_FILES: [StaticFile; 20] = [
    file("analytics.js", JS, 12_288),
    file("app.js", JS, 204_800),
    file("bold.woff2", "font/woff2", 22_528),
    file("components.css", CSS, 204_800),
    file("footer.html", HTML, 56_320),
    file("header.html", HTML, 122_880),
    file("helpers.js", JS, 22_528),
    file("hero.webp", "image/webp", 46_080),
    file("icon-sprite.svg", SVG, 71_680),
    file("layout.css", CSS, 25_600),
    file("logo.svg", SVG, 15_344),
    file("manifest.json", "application/json", 2_883),
    file("regular.woff2", "font/woff2", 18_432),
    file("reset.css", CSS, 8_192),
    file("router.js", JS, 35_840),
    file("theme.css", CSS, 18_432),
    file("thumb1.webp", "image/webp", 8_192),
    file("thumb2.webp", "image/webp", 6_144),
    file("utilities.css", CSS, 61_440),
    file("vendor.js", JS, 307_200),
];

const JS: &str = "text/javascript";
const CSS: &str = "text/css";
const HTML: &str = "text/html";
const SVG: &str = "image/svg+xml";

const fn file(name: &'static str, content_type: &'static str, len: usize) -> StaticFile {
    StaticFile { name, content_type, len }
}

impl StaticFile {
    /// Is it of a type that is compressed already?
    pub(super) fn is_binary(&self) -> bool {
        self.content_type.starts_with("font") || self.content_type == "image/webp"
    }

    pub(super) fn content(&self) -> Vec<u8> {
        let mut chance = Chance::new();
        let mut content = Vec::with_capacity(self.len + 32);
        while content.len() < self.len {
            if self.is_binary() {
                content.push(chance.below(256) as u8);
            } else {
                let word = WORDS[(chance.below(60) * chance.below(60) / 60) as usize % WORDS.len()];
                content.extend_from_slice(word.as_bytes());
                content.extend_from_slice(if chance.below(9) == 0 { b"\n    " } else { b" " });
                if chance.below(12) == 0 {
                    content.extend_from_slice(chance.below(100_000).to_string().as_bytes());
                }
            }
        }
        content.truncate(self.len);
        content
    }

    /// Writes the file, and its neighbors: brotli at level 11, gzip at level 9.
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        let content = self.content();
        fs::write(folder.join(self.name), &content)?;
        if self.is_binary() {
            return Ok(());
        }
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(&content)?;
        fs::write(folder.join(format!("{}.gz", self.name)), gzip.finish()?)?;
        let mut coded = Vec::new();
        brotli::CompressorWriter::new(&mut coded, 4096, 11, 22).write_all(&content)?;
        fs::write(folder.join(format!("{}.br", self.name)), coded)
    }
}

const WORDS: [&str; 30] = [
    "const",
    "return",
    "function",
    "(value)",
    "=>",
    "{",
    "}",
    "display:",
    "padding:",
    "border-radius:",
    "flex;",
    "margin:",
    "class=\"card\"",
    "<div>",
    "</div>",
    "items.map",
    "transform",
    "0.25rem",
    "#1f2328",
    "if",
    "else",
    "path",
    "d=\"M0",
    "stroke",
    "await",
    "fetch(url)",
    "import",
    "export",
    "default",
    "module.exports",
];
