//! [`Settings`]: those of one certificate.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use super::challenge::Challenge;
use super::error::{AcmeError, AcmeReport};
use crate::client::client::Client;
use crate::lines::notice;
use crate::message::{Scheme, Target, TargetError};

/// The settings of one certificate.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) directory: Box<str>,
    /// At least one, in lower case.
    pub(super) names: Vec<String>,
    pub(super) contacts: Vec<String>,
    pub(super) folder: Option<PathBuf>,
    pub(super) challenge: Challenge,
    pub(super) client: Option<Client>,
    pub(super) on_report: Option<Arc<OnReport>>,
}

type OnReport = dyn Fn(&AcmeReport) + Send + Sync;

impl Settings {
    /// Settings for a certificate with these names, from the authority with this directory.
    ///
    /// # Errors
    ///
    /// Fails if the directory is not an `https` URL, or if there is no name, or one that cannot be validated.
    pub(super) fn new<N: AsRef<str>>(
        directory: &str,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Settings, AcmeError> {
        let target = Target::from_url(directory.to_owned()).map_err(AcmeError::Directory)?;
        if target.scheme_kind() != Some(Scheme::Https) {
            return Err(AcmeError::Directory(TargetError::Scheme));
        }
        let names: Vec<String> = names.into_iter().map(|name| name.as_ref().to_ascii_lowercase()).collect();
        match names.iter().find(|name| !is_host_name(name)) {
            Some(unusable) => Err(AcmeError::Names(unusable.as_str().into())),
            None if names.is_empty() => Err(AcmeError::Names("".into())),
            None => Ok(Settings {
                directory: directory.into(),
                names,
                contacts: Vec::new(),
                folder: None,
                challenge: Challenge::default(),
                client: None,
                on_report: None,
            }),
        }
    }

    /// Reports what has become of the certificate. Without a function for that, an operator sees the failures.
    pub(super) fn report(&self, report: &AcmeReport) {
        match (&self.on_report, report) {
            (Some(on_report), _) => {
                // A panic of the application is ignored, as in other hooks.
                let _ = catch_unwind(AssertUnwindSafe(|| on_report(report)));
            }
            (None, AcmeReport::Failed { .. }) => notice(format!("acme: {report}")),
            (None, AcmeReport::Loaded { .. } | AcmeReport::Issued { .. }) => {}
        }
    }
}

/// Whether an authority can validate `name` by a connection to it.
fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|octet| octet.is_ascii_alphanumeric() || octet == b'-' || octet == b'_')
    };
    name.len() <= NAME_LEN_MAX
        && name.split('.').all(is_label)
        && name.rsplit('.').next().is_some_and(|last| !last.bytes().all(|octet| octet.is_ascii_digit()))
}

/// RFC 1035 §2.3.4.
const NAME_LEN_MAX: usize = 253;

#[cfg(test)]
mod tests {
    use super::super::LETS_ENCRYPT;
    use super::*;

    #[test]
    fn names_are_those_of_hosts() {
        for (names, is_usable) in [
            (&["example.org"][..], true),
            (&["WWW.Example.org", "a-b.example"], true),
            (&["localhost"], true),
            (&[], false),
            (&["*.example.org"], false),
            (&["127.0.0.1"], false),
            (&["[::1]"], false),
            (&["example.org."], false),
            (&["a..b"], false),
            (&["a/../b"], false),
            (&["example.org", ""], false),
            (&["exämple.org"], false),
        ] {
            assert_eq!(Settings::new(LETS_ENCRYPT, names).is_ok(), is_usable, "{names:?}");
        }
        let Err(wildcard) = Settings::new(LETS_ENCRYPT, ["*.a.example"]) else { panic!("it needs DNS") };
        let text = "the wildcard `*.a.example` needs the challenge DNS-01, which this crate does not have: write out each name";
        assert_eq!(wildcard.to_string(), text);
        for directory in ["", "acme", "/directory", "http://example.org/directory"] {
            assert!(
                matches!(Settings::new(directory, ["example.org"]), Err(AcmeError::Directory(_))),
                "{directory}"
            );
        }
    }
}
