//! [`is_compressible`]: which types of content can be compressed.

/// A media type without its parameters (RFC 9110 §8.3.1).
pub(crate) fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim_ascii()
}

/// Whether content of this media type, given without parameters, usually shrinks when compressed.
pub(crate) fn is_compressible(essence: &str) -> bool {
    let Some((kind, subtype)) = essence.split_once('/') else { return false };
    let is_one_of = |known: &[&str]| known.iter().any(|known| subtype.eq_ignore_ascii_case(known));
    let ends_well = |suffix: &str| {
        let start = subtype.len().checked_sub(suffix.len());
        start.and_then(|start| subtype.get(start..)).is_some_and(|end| end.eq_ignore_ascii_case(suffix))
    };
    let is_kind = |known: &str| kind.eq_ignore_ascii_case(known);
    is_kind("text")
        || is_kind("application") && is_one_of(&APPLICATIONS)
        || is_kind("font") && is_one_of(&["collection", "otf", "sfnt", "ttf"])
        || is_kind("image") && is_one_of(&["bmp", "vnd.microsoft.icon", "x-icon"])
        || ["+json", "+text", "+xml", "+yaml"].into_iter().any(ends_well)
}

const APPLICATIONS: [&str; 18] = [
    "ecmascript",
    "graphql",
    "javascript",
    "json",
    "jsonl",
    "rtf",
    "sql",
    "toml",
    "vnd.apple.mpegurl",
    "vnd.ms-fontobject",
    "wasm",
    "x-javascript",
    "x-ndjson",
    "x-sh",
    "x-tar",
    "x-yaml",
    "xml",
    "yaml",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_worth_compressing_and_packed_content_is_not() {
        let shrinking = [
            "text/html; charset=utf-8",
            "TEXT/Event-Stream",
            "application/json",
            "application/problem+JSON",
            "image/svg+xml",
            "image/bmp",
            "application/wasm ;x=y",
            "font/ttf",
        ];
        let packed = [
            "",
            "text",
            "image/png",
            "image/jpeg",
            "video/mp4",
            "font/woff2",
            "application/zip",
            "application/octet-stream",
            "application/jsonx",
            "application/json-seq-gz",
            "x/+jso",
            "é/json",
            "text-html",
        ];
        shrinking
            .into_iter()
            .for_each(|content_type| assert!(is_compressible(essence(content_type)), "{content_type}"));
        packed
            .into_iter()
            .for_each(|content_type| assert!(!is_compressible(essence(content_type)), "{content_type}"));
    }
}
