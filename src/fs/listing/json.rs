//! [`json`]: the contents of a directory for programs.

use std::fmt::Write;

use super::dir_entry::DirEntry;
use crate::message::{HttpDate, escape_json};

/// The entries of the directory at `path` as an object.
pub(super) fn json(path: &str, entries: &[DirEntry], is_truncated: bool) -> String {
    let mut json = format!("{{\"path\":\"{}\",\"entries\":[", escape_json(path));
    for (index, entry) in entries.iter().enumerate() {
        json.push_str(if index == 0 { "\n" } else { ",\n" });
        push_entry(&mut json, entry);
    }
    json.push_str(&format!("\n],\"truncated\":{is_truncated}}}\n"));
    // A `<` stands in strings alone, and `</script>` in one would end a script that has the listing as a literal.
    json.replace('<', "\\u003c")
}

fn push_entry(json: &mut String, entry: &DirEntry) {
    let kind = if entry.is_directory() { "directory" } else { "file" };
    let name = entry.display_name();
    // A string takes all that is written to it.
    let _ = write!(
        json,
        "{{\"type\":\"{kind}\",\"name\":\"{}\",\"href\":\"{}\"",
        escape_json(&name),
        entry.link()
    );
    if let Some(size) = entry.size {
        let _ = write!(json, ",\"size\":{size}");
    }
    if let Some(modified) = entry.modified {
        let _ = write!(json, ",\"modified\":\"{}\"", HttpDate::new(modified).to_rfc3339());
    }
    json.push('}');
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn any_name_is_a_string_of_json_rfc8259_7() {
        for (name, text, link) in [
            (&b"a.txt"[..], "a.txt", "./a.txt"),
            (b"</script>", "\\u003c/script>", "./%3C%2Fscript%3E"),
            (b"a\"b\\c", "a\\\"b\\\\c", "./a%22b%5Cc"),
            (b"a\nb\x1b\x7f", "a\u{fffd}b\u{fffd}\u{fffd}", "./a%0Ab%1B%7F"),
            (b"caf\xe9", "caf\u{fffd}", "./caf%E9"),
            (b"javascript:x", "javascript:x", "./javascript%3Ax"),
        ] {
            let json = json("/", &[DirEntry::file(name, 1)], false);
            assert!(
                json.contains(&format!("\"name\":\"{text}\",\"href\":\"{link}\",\"size\":1}}")),
                "{json}"
            );
        }
    }

    #[test]
    fn a_file_may_have_any_date() {
        let second = |time| HttpDate::new(time).to_rfc3339();
        let at = |seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap();
        let before = SystemTime::UNIX_EPOCH.checked_sub(Duration::from_secs(1 << 40)).unwrap();
        assert_eq!(second(at(951_782_399)), "2000-02-28T23:59:59Z");
        assert_eq!(second(before), "1970-01-01T00:00:00Z");
        assert!(second(at(i64::MAX as u64)).ends_with('Z'));
    }

    #[test]
    fn a_listing_is_one_object() {
        let mut file = DirEntry::file("f", u64::MAX);
        file.modified = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777));
        let entries = [DirEntry::directory("d"), file];
        let expected = "{\"path\":\"/a\\\"b/\",\"entries\":[\n\
                        {\"type\":\"directory\",\"name\":\"d\",\"href\":\"./d/\"},\n\
                        {\"type\":\"file\",\"name\":\"f\",\"href\":\"./f\",\"size\":18446744073709551615,\
                        \"modified\":\"1994-11-06T08:49:37Z\"}\n\
                        ],\"truncated\":true}\n";
        assert_eq!(json("/a\"b/", &entries, true), expected);
        assert_eq!(json("/", &[], false), "{\"path\":\"/\",\"entries\":[\n],\"truncated\":false}\n");
    }
}
