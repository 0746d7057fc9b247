//! [`JsonError`]: where content is not the JSON that it should be, and what was expected there.

use std::error::Error;
use std::fmt;

use serde_core::Deserialize;
use serde_json::Deserializer;

use crate::error::{Excerpt, write_escaped};

/// Why content cannot be read as JSON of a type: what was expected, at which path, line and column.
///
/// Its text does not contain the value that was found instead: ``"the JSON at `items[2].price` is wrong: invalid type:
/// string, expected f64 at line 1 column 30"``.
#[derive(Debug)]
pub struct JsonError {
    /// The path in quotes, if it is known and not the root.
    path: Option<Box<str>>,
    error: serde_json::Error,
}

impl JsonError {
    /// The error of reading `content` as a `T`.
    #[cold]
    pub(super) fn new<'a, T: Deserialize<'a>>(error: serde_json::Error, content: &'a [u8]) -> JsonError {
        // To keep track of the path takes time and memory, so only content that is known to be wrong is read with it.
        let path = || {
            let read = serde_path_to_error::deserialize::<_, T>(&mut Deserializer::from_slice(content));
            let path = read.err()?.path().to_string();
            (path != ROOT).then(|| Excerpt(&path).to_string().into())
        };
        JsonError { path: if error.is_data() { path() } else { None }, error }
    }

    /// Returns the error of serde_json, whose text may contain the value that was found.
    pub fn as_serde(&self) -> &serde_json::Error {
        &self.error
    }
}

/// How serde_path_to_error writes the path of the whole.
const ROOT: &str = ".";

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "the JSON at {path} is wrong: ")?,
            None => f.write_str("the JSON is wrong: ")?,
        }
        let (text, (line, column)) = (self.error.to_string(), (self.error.line(), self.error.column()));
        let place = format!(" at line {line} column {column}");
        let reason = without_value(text.strip_suffix(&*place).unwrap_or(&text));
        // A name or another text of the peer may be part of it.
        write_escaped(f, reason.chars().take(REASON_MAX))?;
        f.write_str(&place)
    }
}

/// How many characters of a reason are written.
const REASON_MAX: usize = 200;

/// The reason without the value that was found, which may be a secret, and long.
fn without_value(reason: &str) -> String {
    let parts = || {
        let found =
            ["invalid type: ", "invalid value: "].iter().find_map(|kind| reason.strip_prefix(kind))?;
        let value = reason.len() - found.len() + found.find(['"', '`'])?;
        let expected = reason.rfind(", expected ").filter(|expected| *expected > value)?;
        Some((reason[..value].trim_end(), &reason[expected..]))
    };
    parts().map_or_else(|| reason.to_owned(), |(kind, expected)| format!("{kind}{expected}"))
}

impl Error for JsonError {}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// `content` is not a `T`, as `expected` states.
    #[track_caller]
    fn check<'a, T: Deserialize<'a> + fmt::Debug>(content: &'a str, expected: &str) {
        let error = serde_json::from_str::<T>(content).unwrap_err();
        assert_eq!(format!("{:#}", JsonError::new::<T>(error, content.as_bytes())), expected, "{content}");
    }

    #[test]
    fn the_path_is_named_and_the_value_is_not() {
        type Prices = HashMap<String, Vec<HashMap<String, f64>>>;
        let at =
            "the JSON at `items[1].price` is wrong: invalid type: string, expected f64 at line 1 column 46";
        check::<Prices>(r#"{"items": [{"price": 1}, {"price": "secret, :"}]}"#, at);
        check::<Vec<u8>>(
            "[1, 300]",
            "the JSON at `[1]` is wrong: invalid value: integer, expected u8 at line 1 column 7",
        );
        check::<u8>("-5", "the JSON is wrong: invalid value: integer, expected u8 at line 1 column 2");
        check::<u8>("[", "the JSON is wrong: invalid type: sequence, expected u8 at line 1 column 0");
        check::<Vec<u8>>("[1", "the JSON is wrong: EOF while parsing a list at line 1 column 2");
        let long = format!("{{\"{}\": 0}}", "a\\n".repeat(100));
        let shown = format!("the JSON at `{}…` is wrong", r"a\n".repeat(32));
        let error = serde_json::from_str::<HashMap<String, bool>>(&long).unwrap_err();
        let text = JsonError::new::<HashMap<String, bool>>(error, long.as_bytes()).to_string();
        assert!(text.starts_with(&shown), "{text}");
    }
}
