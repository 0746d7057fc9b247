//! [`is_file_name`]: whether a text is the name of a file, and nothing else.

/// Whether a file of this system may have this name, and opening it opens nothing else.
pub(crate) fn is_file_name(name: &str) -> bool {
    let is_special = |octet: u8| octet.is_ascii_control() || matches!(octet, b'/' | b'\\');
    !matches!(name, "" | "." | "..") && !name.bytes().any(is_special) && (!cfg!(windows) || is_plain(name))
}

/// Whether a name is plain on Windows too: not a drive, a stream of a file or a device, and without characters at its
/// end that Windows ignores.
fn is_plain(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end();
    let is_device = match stem.chars().count() {
        3 => ["con", "prn", "aux", "nul"].iter().any(|device| stem.eq_ignore_ascii_case(device)),
        // Any digit will do, `COM¹` too.
        4 => ["com", "lpt"].iter().any(|device| stem.as_bytes()[..3].eq_ignore_ascii_case(device.as_bytes())),
        _ => ["conin$", "conout$"].iter().any(|device| stem.eq_ignore_ascii_case(device)),
    };
    !is_device && !name.contains([':', '<', '>', '"', '|', '?', '*']) && !name.ends_with([' ', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_is_no_path() {
        for name in ["a", "a.b", ".a", "..a", "a b", "ü"] {
            assert!(is_file_name(name), "{name}");
        }
        for name in ["", ".", "..", "/", "a/b", "a\\b", "a\0", "a\n", "\x7f"] {
            assert!(!is_file_name(name), "{name:?}");
        }
    }

    #[test]
    fn names_that_are_special_to_windows_are_not_plain() {
        for name in
            ["C:", "file::$DATA", "con", "NUL.txt", "com1", "COM¹", "LPT9.x", "a.", "a ", "a?", "aux ."]
        {
            assert!(!is_plain(name), "{name}");
        }
        for name in ["a", "a.b", "console", "nulls.txt", "com", "icon", ".a", "company", "größe"] {
            assert!(is_plain(name), "{name}");
        }
    }
}
