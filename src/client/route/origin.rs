//! [`Origin`]: scheme, host and port, within which connections are shared (RFC 9110 §4.3.1); and [`TlsHandshake`]: the
//! handshake with a host, be it the origin or a proxy on the way there (§4.3.3).

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::error_text::without_secrets;
use crate::message::{Authority, MessageError, Request, Scheme, Target, TargetError, TargetForm, split_port};
use crate::net::{BoxedStream, HostName, TlsConnector, Transport, timed, tls};

/// The scheme, host and port of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Normalized by [`key`].
    text: Box<str>,
    pub(crate) scheme: Scheme,
    pub(crate) port: u16,
    /// The address at which it is reached, if that is not looked up.
    address: Option<IpAddr>,
}

impl Origin {
    /// The origin with this [`key`].
    pub(crate) fn from_key(key: &str) -> Option<Origin> {
        debug_assert!(!key.bytes().any(|octet| octet.is_ascii_uppercase()), "a key is normalized: {key}");
        let (scheme, authority) = key.split_once("://")?;
        let scheme = Scheme::parse(scheme.as_bytes())?;
        let port = Authority::parse(authority.as_bytes())?.port.unwrap_or(scheme.port());
        Some(Origin { text: key.into(), scheme, port, address: None })
    }

    /// Returns this origin as it is reached at `address`.
    pub(crate) fn at(self, address: Option<IpAddr>) -> Origin {
        Origin { address, ..self }
    }

    /// Its normalized spelling.
    pub(crate) fn key(&self) -> &str {
        &self.text
    }

    /// Host and port as in the Host field, without the port if it is the scheme's default.
    pub(crate) fn authority(&self) -> &str {
        &self.text[self.scheme.as_str().len() + "://".len()..]
    }

    /// The host. An IPv6 address is in brackets.
    pub(crate) fn host(&self) -> &str {
        let authority = self.authority();
        Authority::parse(authority.as_bytes()).map_or(authority, |authority| authority.host)
    }

    /// The host that is dialed: the name, or the address in its place.
    pub(crate) fn dialed_host(&self) -> Cow<'_, str> {
        self.address.map_or(Cow::Borrowed(self.host()), |address| Cow::Owned(address.to_string()))
    }

    /// Host and port, even if that is the scheme's default.
    pub(crate) fn host_and_port(&self) -> String {
        format!("{}:{}", self.host(), self.port)
    }

    /// `target` as a URL. Targets for a [`Host`](crate::client::Host) may be only a path.
    pub(crate) fn absolute<'a>(&self, target: &'a Target) -> Cow<'a, Target> {
        if target.origin().is_some() {
            return Cow::Borrowed(target);
        }
        // Both parts were parsed before, so they can be parsed again.
        Cow::Owned(Target::from_url(format!("{self}{target}")).unwrap_or_default())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The error for a target that is only a path. One that begins as a URL without its scheme (RFC 3986 §4.2) may contain
/// userinfo, which is a secret.
fn no_origin(target: &str) -> ClientError {
    let shown = match target.strip_prefix("//") {
        Some(rest) => Cow::Owned(format!("//{}", without_secrets(rest))),
        None => Cow::Borrowed(target),
    };
    let error = ClientError::new(ClientPhase::Prepare, ClientCause::Origin).with_url(&shown);
    error.with_detail("it names no scheme and host")
}

/// The normalized spelling of the origin of `target`: in lower case, without a default port. Allocates nothing where it
/// is spelled so already.
///
/// # Errors
///
/// Fails if the target names no scheme and host.
pub(crate) fn key(target: &Target) -> Result<Cow<'_, str>, ClientError> {
    let (Some(text), Some(scheme)) = (target.origin(), target.scheme_kind()) else {
        return Err(no_origin(target.as_str()));
    };
    let (host, port) = split_port(target.authority().unwrap_or_default());
    let is_plain = match port {
        None => true,
        Some(port) => !port.is_empty() && !port.starts_with('0') && port != scheme.port_text(),
    };
    if is_plain && !text.bytes().any(|octet| octet.is_ascii_uppercase()) {
        return Ok(Cow::Borrowed(text));
    }
    let port = match port.map(|port| (port, port.trim_start_matches('0'))) {
        None | Some(("", _)) => "",
        // Port 0 must stay: without it, the default port would be meant.
        Some((_, "")) => "0",
        Some((_, port)) => port,
    };
    let is_default = port.is_empty() || port == scheme.port_text();
    let name = scheme.as_str();
    let host = host.to_ascii_lowercase();
    Ok(Cow::Owned(match is_default {
        true => format!("{name}://{host}"),
        false => format!("{name}://{host}:{port}"),
    }))
}

/// The key of the origin that `url` names.
///
/// # Errors
///
/// Fails if the URL is malformed, or only a path, or has a user or a password, which would be sent with no request.
pub(crate) fn key_of_url(url: &str) -> Result<Box<str>, MessageError> {
    let request = Request::get(url)?;
    if request.target().authorization().is_some() {
        return Err(MessageError::from_url(TargetError::Userinfo, url));
    }
    match key(request.target()) {
        Ok(key) => Ok(key.into()),
        Err(_) => Err(MessageError::from_url(TargetError::Scheme, url)),
    }
}

/// Checks that `target` belongs to the origin with this key.
///
/// # Errors
///
/// Fails if the target is more than a path, and at another origin.
pub(crate) fn check(target: &Target, expected: &str) -> Result<(), ClientError> {
    match target.form() == TargetForm::Origin || *key(target)? == *expected {
        true => Ok(()),
        false => {
            let error = ClientError::new(ClientPhase::Prepare, ClientCause::Origin).with_url(target.as_str());
            Err(error.with_detail(format!("it is not at {expected}")))
        }
    }
}

/// The handshake that a host of an `https` URL must pass, as a part of `phase`.
pub(crate) struct TlsHandshake {
    host: HostName,
    phase: ClientPhase,
}

impl TlsHandshake {
    /// Returns the handshake with `host`, if the scheme is `https`.
    ///
    /// # Errors
    ///
    /// Fails if no certificate could be verified for the host. The host is then not even dialed.
    pub(crate) fn for_scheme(
        scheme: Scheme,
        host: &str,
        phase: ClientPhase,
    ) -> Result<Option<TlsHandshake>, ClientError> {
        match scheme {
            Scheme::Http => Ok(None),
            Scheme::Https => {
                let host = HostName::new(host).map_err(|error| tls_error(phase, error))?;
                Ok(Some(TlsHandshake { host, phase }))
            }
        }
    }

    /// Performs the handshake over `transport` within `limit`, and returns how long it took.
    pub(crate) async fn run(
        self,
        tls: &TlsConnector,
        transport: Transport<BoxedStream>,
        limit: Duration,
    ) -> Result<(Transport<BoxedStream>, Duration), ClientError> {
        let TlsHandshake { host, phase } = self;
        match timed(limit, tls.connect(host, transport)).await {
            (Some(Ok(stream)), took) => Ok((Transport::Tls(Box::new(stream)), took)),
            (Some(Err(error)), _) => Err(tls_error(phase, error)),
            (None, _) => Err(ClientError::new(phase, ClientCause::TimedOut)),
        }
    }
}

fn tls_error(phase: ClientPhase, error: tls::Error) -> ClientError {
    ClientError::new(phase, ClientCause::Tls(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Request;

    #[track_caller]
    fn check(url: &str, expected: &str, host: &str, port: u16) {
        let request = Request::get(url).unwrap();
        let key = key(request.target()).unwrap();
        assert_eq!(key, expected);
        let origin = Origin::from_key(&key).unwrap();
        assert_eq!((origin.host(), origin.port, &*origin.to_string()), (host, port, expected));
        assert!(expected.ends_with(origin.authority()));
    }

    #[test]
    fn one_origin_has_one_spelling() {
        for url in ["http://a.b", "http://a.b/", "HTTP://A.b:80/c?d", "http://a.b:/", "http://A.B:0080/c"] {
            check(url, "http://a.b", "a.b", 80);
        }
        for url in ["https://a.b:8443/x", "HttpS://a.B:08443"] {
            check(url, "https://a.b:8443", "a.b", 8443);
        }
        for url in ["http://a:0/", "http://A:0", "http://a:000/b"] {
            check(url, "http://a:0", "a", 0);
        }
        check("https://a:443/", "https://a", "a", 443);
        check("https://a:80/", "https://a:80", "a", 80);
        check("http://[::1]", "http://[::1]", "[::1]", 80);
        check("http://[FE80::1]:8080/", "http://[fe80::1]:8080", "[fe80::1]", 8080);
        check("http://[::1]:80/", "http://[::1]", "[::1]", 80);
        assert!(key(Request::get("/only/a/path").unwrap().target()).is_err());
    }
}
