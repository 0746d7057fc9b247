//! [`write_error`]: an error, and with `{:#}` the chain of its causes.

use std::error::Error;
use std::fmt;
use std::iter;

/// Writes what `text` does, and for `{:#}` also the causes of `error`, each after a colon: one line that is understood
/// without another.
pub(crate) fn write_error(
    f: &mut fmt::Formatter<'_>,
    error: &dyn Error,
    text: impl FnOnce(&mut fmt::Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    text(f)?;
    if f.alternate() { write_causes(f, error.source()) } else { Ok(()) }
}

/// Writes `cause` and the chain of its causes, each after a colon.
pub(crate) fn write_causes(f: &mut fmt::Formatter<'_>, cause: Option<&(dyn Error + 'static)>) -> fmt::Result {
    iter::successors(cause, |&cause| cause.source()).try_for_each(|cause| write!(f, ": {cause}"))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug)]
    struct Failed(io::Error);

    impl fmt::Display for Failed {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write_error(f, self, |f| f.write_str("it failed"))
        }
    }

    impl Error for Failed {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn each_cause_is_written_once() {
        let failed = Failed(io::Error::other(Failed(io::ErrorKind::NotFound.into())));
        assert_eq!(failed.to_string(), "it failed");
        assert_eq!(format!("{failed:#}"), "it failed: it failed: entity not found");
        let wrapped = io::Error::other(failed);
        assert_eq!(wrapped.to_string(), "it failed");
        assert_eq!(format!("{wrapped:#}"), "it failed: it failed: entity not found");
    }
}
