//! [`Proxy`]: a server that forwards what a client sends (RFC 9110 §3.7), and the tunnels that it opens (§9.3.6).

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use super::origin::{Origin, TlsHandshake};
use super::socks::{NameResolution, Socks};
use super::socks_handshake::Login;
use crate::client::error::{ClientCause, ClientError, ClientPhase, ProxyRefusal};
use crate::error_text::{Excerpt, without_secrets, write_error};
use crate::exchange::{Bounds, ExchangeError, HeadOutcome, Incoming, IncomingResponse, Timeouts};
use crate::message::text::percent;
use crate::message::{
    FieldName, FieldValue, Headers, MessageError, OctetSet, Response, Scheme, Status, TargetError,
    basic_credentials, port_number, split_port, uri_host,
};
use crate::net::{
    BoxedStream, Conn, DialTimes, HostConnector, Sendable, TimerSlot, TlsConnector, TokioTimer, Transport,
    UriHost,
};
use crate::runtime::{self, Instant, later, timeout_at};
use crate::wire::RequestInfo;
use crate::wire::encode::ROUTING;
use crate::wire::parse::Leniency;

/// An HTTP proxy, or a SOCKS5 proxy (RFC 1928).
///
/// The default port is 80 for HTTP, 443 over TLS, and 1080 for SOCKS5. Username and password can be part of the URL
/// (`http://user:password@proxy:3128`), with `%XX` for characters that a URL cannot hold. Neither is ever displayed.
///
/// # Examples
///
/// ```
/// use corehttp::client::Proxy;
///
/// let proxy = Proxy::new("socks5h://joe:s%40crets@127.0.0.1")?;
/// assert_eq!(proxy.to_string(), "socks5h://127.0.0.1:1080");
/// assert!(Proxy::new("http://proxy:3128\r\nHost: evil").is_err());
/// # Ok::<(), corehttp::client::ProxyError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Proxy {
    protocol: Protocol,
    host: Box<str>,
    port: u16,
}

/// The protocol of a proxy.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Protocol {
    /// Requests in absolute-form, or CONNECT (RFC 9112 §3.2.2, RFC 9110 §9.3.6).
    Http {
        /// Whether the proxy itself is reached over TLS.
        scheme: Scheme,
        /// The use of the proxy for `http` URLs.
        http: HttpUse,
        /// The value of `Proxy-Authorization` (RFC 9110 §11.7.2).
        authorization: Option<Box<str>>,
        /// The lines of the other fields of a CONNECT.
        fields: Box<[u8]>,
    },
    /// The client names a destination to the proxy, and then the connection is transparent.
    Socks5(Socks),
}

/// How an HTTP proxy is used for `http` URLs. For `https` it opens tunnels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum HttpUse {
    /// The proxy reads the requests.
    Forward,
    /// The proxy opens a tunnel, for requests whose fields are not for it.
    Tunnel,
}

impl Proxy {
    /// Creates the proxy at `url`.
    ///
    /// | scheme | |
    /// |---|---|
    /// | `http://`, or none | uses absolute-form for `http` URLs, and CONNECT for `https`, WebSockets and other upgrades |
    /// | `https://` | the same over TLS, with the feature `tls`, and with a certificate for the host of the proxy |
    /// | `socks5://` | names are looked up by the client |
    /// | `socks5h://` | names are looked up by the proxy |
    ///
    /// # Errors
    ///
    /// Fails for another scheme, no host, a path, or invalid [credentials](Proxy::credentials). The host is read as in any
    /// [URL](crate::Target#urls).
    pub fn new(url: &str) -> Result<Proxy, ProxyError> {
        let quoted = || Box::from(Excerpt(&without_secrets(url)).to_string());
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let protocol = Protocol::from_scheme(scheme).ok_or_else(|| ProxyError::Scheme(quoted()))?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (userinfo, authority) = rest.rsplit_once('@').unwrap_or(("", rest));
        let (host, port) = split_port(authority);
        let host = uri_host(host).map_err(|invalid| match invalid {
            TargetError::Idna => ProxyError::Idna(quoted()),
            _ => ProxyError::Authority(quoted()),
        })?;
        let port = port_number(port.unwrap_or_default().as_bytes());
        let port = port.map(|port| port.unwrap_or(protocol.default_port()));
        let port = port.filter(|port| *port != 0 && UriHost::parse(&host).is_ok());
        let port = port.ok_or_else(|| ProxyError::Authority(quoted()))?;
        let proxy = Proxy { protocol, host: host.into(), port };
        match userinfo {
            "" => Ok(proxy),
            // Another reader might end the authority earlier, and see another host.
            userinfo if !USERINFO.contains_all(userinfo.as_bytes()) => Err(ProxyError::Credentials(quoted())),
            userinfo => {
                let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
                proxy.with_credentials(&percent::decode_octets(user), &percent::decode_octets(password))
            }
        }
    }

    /// Returns this proxy with credentials: `Basic` for HTTP (RFC 7617), or those of SOCKS5 (RFC 1929).
    ///
    /// For an HTTP proxy that wants another kind, set the default field `proxy-authorization`
    /// ([`ClientBuilder::default_header`](crate::ClientBuilder::default_header)).
    ///
    /// # Errors
    ///
    /// Fails if they cannot be sent. For HTTP neither may contain a control character, nor the user a colon. For SOCKS5
    /// neither may have more than 255 octets. Either may be empty, and is sent so, as by curl.
    pub fn credentials(self, user: &str, password: &str) -> Result<Proxy, ProxyError> {
        self.with_credentials(user.as_bytes(), password.as_bytes())
    }

    /// Returns this proxy with a field for each CONNECT, such as one that an administrator requires. Default: the `user-agent`
    /// of the client, if it has one ([`ClientBuilder::default_header`](crate::ClientBuilder::default_header)).
    ///
    /// `proxy-authorization` replaces the credentials. `host`, `connection`, `keep-alive` and the fields that frame a body are
    /// ignored. Requests to `http` URLs, which the proxy passes on, have only their own fields. A SOCKS proxy has no fields.
    ///
    /// # Errors
    ///
    /// Fails if the name or the value is not valid in a field.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Client;
    /// use corehttp::client::{Proxies, Proxy};
    ///
    /// let proxy = Proxy::new("http://proxy:3128")?.header("x-department", "research")?;
    /// let client = Client::builder().default_header("user-agent", "crawler/1")?.proxies(Proxies::all(proxy)).build();
    /// # drop(client);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("proxy_header", "ProxyConnectHeader"))]
    pub fn header(mut self, name: &str, value: impl FieldValue) -> Result<Proxy, MessageError> {
        let mut field = Headers::new();
        field.append(name, value)?;
        for (name, value) in field.iter() {
            self.protocol.add_field(FieldName::new(name), value);
        }
        Ok(self)
    }

    fn with_credentials(mut self, user: &[u8], password: &[u8]) -> Result<Proxy, ProxyError> {
        let refused = ProxyError::Credentials(format!("`{self}`").into());
        match &mut self.protocol {
            Protocol::Http { authorization, .. } => {
                let Ok(basic) = basic_credentials(user, password) else { return Err(refused) };
                *authorization = Some(basic.into());
            }
            Protocol::Socks5(socks) => {
                socks.login = Some(Login::new(user, password).ok_or(refused)?);
            }
        }
        Ok(self)
    }

    /// Gives an HTTP proxy without credentials this value of `Proxy-Authorization`.
    pub(super) fn set_default_authorization(&mut self, value: &str) {
        if let Protocol::Http { authorization, .. } = &mut self.protocol {
            authorization.get_or_insert_with(|| value.into());
        }
    }

    /// Sends a CONNECT with this `user-agent`, unless it has one.
    pub(super) fn set_default_user_agent(&mut self, user_agent: &[u8]) {
        if let Protocol::Http { fields, .. } = &mut self.protocol
            && !fields.split(|octet| *octet == b'\n').any(is_user_agent)
        {
            *fields = [b"user-agent: ", user_agent, b"\r\n", &**fields].concat().into();
        }
    }

    /// Whether the proxy reads requests to URLs of this scheme, so that each must have its absolute URL as target (RFC
    /// 9112 §3.2.2).
    pub(in crate::client) fn forwards(&self, scheme: Scheme) -> bool {
        scheme == Scheme::Http && matches!(self.protocol, Protocol::Http { http: HttpUse::Forward, .. })
    }

    /// Returns this proxy, which opens a tunnel also for `http` URLs.
    pub(in crate::client) fn tunneling(mut self) -> Proxy {
        if let Protocol::Http { http, .. } = &mut self.protocol {
            *http = HttpUse::Tunnel;
        }
        self
    }

    /// The value of `proxy-authorization`, if there are credentials.
    pub(in crate::client) fn authorization(&self) -> Option<&str> {
        match &self.protocol {
            Protocol::Http { authorization, .. } => authorization.as_deref(),
            Protocol::Socks5(_) => None,
        }
    }

    /// The lines of the fields of a CONNECT, without its credentials.
    pub(super) fn fields(&self) -> &[u8] {
        match &self.protocol {
            Protocol::Http { fields, .. } => fields,
            Protocol::Socks5(_) => &[],
        }
    }

    /// The proxy, as an error names it.
    pub(super) fn as_subject(&self) -> String {
        format!("the proxy {self}")
    }

    /// The host of this name, as the error of a look-up names it.
    pub(in crate::client) fn name_subject(&self, name: &str) -> String {
        if *name == *self.host { self.as_subject() } else { name.to_owned() }
    }

    /// The other side of an exchange with `origin`, as an error names it.
    pub(in crate::client) fn subject(&self, origin: &Origin) -> String {
        match self.forwards(origin.scheme) {
            true => self.as_subject(),
            false => format!("{} through {}", origin.host_and_port(), self.as_subject()),
        }
    }

    pub(super) fn protocol(&self) -> &Protocol {
        &self.protocol
    }

    /// The host, as in a URL, and the port.
    pub(super) fn address(&self) -> (&str, u16) {
        (&self.host, self.port)
    }
}

fn is_user_agent(line: &[u8]) -> bool {
    line.split(|octet| *octet == b':').next().is_some_and(|name| FieldName::new("user-agent").is(name))
}

/// `userinfo` (RFC 3986 §3.2.1).
static USERINFO: OctetSet = OctetSet::URI_PLAIN.with(b"%:");

impl Protocol {
    fn from_scheme(scheme: &str) -> Option<Protocol> {
        if let Some(scheme) = Scheme::parse(scheme.as_bytes()) {
            let http = HttpUse::Forward;
            let fields = Box::default();
            return Some(Protocol::Http { scheme, http, authorization: None, fields });
        }
        let socks = |resolution| Protocol::Socks5(Socks { resolution, login: None });
        match &*scheme.to_ascii_lowercase() {
            "socks5" => Some(socks(NameResolution::Local)),
            "socks5h" => Some(socks(NameResolution::Remote)),
            _ => None,
        }
    }

    /// Adds a field to each CONNECT.
    fn add_field(&mut self, name: FieldName<'_>, value: &[u8]) {
        let Protocol::Http { authorization, fields, .. } = self else { return };
        let text = name.as_str().as_bytes();
        if FieldName::new("proxy-authorization").is(text) {
            *authorization = str::from_utf8(value).ok().map(Box::from);
        } else if !ROUTING.contains(text) {
            *fields = [&**fields, text, b": ", value, b"\r\n"].concat().into();
        }
    }

    fn scheme(&self) -> &'static str {
        match self {
            Protocol::Http { scheme, .. } => scheme.as_str(),
            Protocol::Socks5(Socks { resolution: NameResolution::Local, .. }) => "socks5",
            Protocol::Socks5(Socks { resolution: NameResolution::Remote, .. }) => "socks5h",
        }
    }

    fn default_port(&self) -> u16 {
        match self {
            Protocol::Http { scheme, .. } => scheme.port(),
            Protocol::Socks5(_) => 1080,
        }
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.protocol.scheme(), self.host, self.port)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

/// Why a string does not name a proxy. The string is in quotes, without user, password, query and fragment, escaped, and at
/// most 64 characters long.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProxyError {
    /// The scheme is none of `http`, `https`, `socks5` and `socks5h`.
    Scheme(Box<str>),
    /// The host or the port is missing or malformed, or something follows it.
    Authority(Box<str>),
    /// The host has characters beyond ASCII, and the crate was built without its feature `idna`.
    Idna(Box<str>),
    /// Username or password cannot be sent, or contain a character to be escaped in a URL.
    Credentials(Box<str>),
    /// A variable of the environment does not name a proxy.
    #[non_exhaustive]
    Variable {
        /// The name of the variable.
        name: Box<str>,
        /// The fault of the value.
        cause: Box<ProxyError>,
    },
}

impl ProxyError {
    /// The error for a variable whose value is wrong because of `cause`.
    pub(super) fn from_variable(name: &str, cause: ProxyError) -> ProxyError {
        ProxyError::Variable { name: name.into(), cause: Box::new(cause) }
    }
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_error(f, self, |f| match self {
            ProxyError::Scheme(url) => {
                write!(f, "the scheme of the proxy {url} is none of http, https, socks5 and socks5h")
            }
            ProxyError::Authority(url) => write!(
                f,
                "the host or the port of the proxy {url} is missing or malformed, or something follows"
            ),
            ProxyError::Idna(url) => write!(
                f,
                "the host of the proxy {url} is not ASCII, and the crate was built without its feature `idna`"
            ),
            ProxyError::Credentials(url) => {
                write!(f, "the username or the password for the proxy {url} cannot be sent")
            }
            ProxyError::Variable { name, .. } => write!(f, "the variable {name} names no proxy"),
        })
    }
}

impl Error for ProxyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ProxyError::Variable { cause, .. } => Some(&**cause),
            ProxyError::Scheme(_)
            | ProxyError::Authority(_)
            | ProxyError::Idna(_)
            | ProxyError::Credentials(_) => None,
        }
    }
}

impl Proxy {
    /// Opens a connection to `origin` through this proxy, or to the proxy itself if it reads the requests, and returns
    /// how long that took. The time that the proxy takes counts as connecting, its handshake included.
    ///
    /// # Errors
    ///
    /// The error has the phase that failed.
    pub(in crate::client) async fn open(
        &self,
        dial: &HostConnector,
        tls: &TlsConnector,
        origin: &Origin,
        limits: TunnelLimits<'_>,
    ) -> Result<(Transport<BoxedStream>, DialTimes), ClientError> {
        match self.protocol() {
            Protocol::Socks5(socks) => {
                socks.open(dial, self.address(), &self.as_subject(), origin, limits.times).await
            }
            Protocol::Http { scheme, .. } => {
                let (host, port) = self.address();
                let subject = self.as_subject();
                let named = |error: ClientError| error.with_subject(&*subject);
                let handshake =
                    TlsHandshake::for_scheme(*scheme, host, ClientPhase::Connect).map_err(named)?;
                let dialed = dial.connect(host, port, limits.times).await;
                let dialed = dialed.map_err(|error| ClientError::from_dial(error, &subject, &subject));
                let (mut transport, mut times) = dialed?;
                let left = |times: &DialTimes| limits.times.connect.saturating_sub(times.connect);
                if let Some(handshake) = handshake {
                    let took;
                    (transport, took) = handshake.run(tls, transport, left(&times)).await.map_err(named)?;
                    times.connect += took;
                }
                // A proxy that reads the requests finds the origin in the target of each.
                if !self.forwards(origin.scheme) {
                    let tunnel_start = runtime::now();
                    let opened = open_tunnel(transport, self, origin, left(&times), &limits).await;
                    transport = opened.map_err(|error| match error.cause() {
                        // The proxy has refused this client's certificate: no other handshake has begun.
                        ClientCause::Tls(_) => named(error),
                        _ => error.with_subject(self.subject(origin)),
                    })?;
                    times.connect += runtime::now().saturating_duration_since(tunnel_start);
                }
                Ok((transport, times))
            }
        }
    }
}

/// The limits within which a proxy opens a connection.
#[derive(Clone, Copy)]
pub(in crate::client) struct TunnelLimits<'a> {
    pub(in crate::client) times: DialTimes,
    /// The deadline of the request. A refusal is told by then, whatever is left of the other limits.
    pub(in crate::client) deadline: Option<Instant>,
    pub(in crate::client) bounds: &'a Bounds,
}

/// Sends a CONNECT for `origin` to `proxy`, at the other end of `transport`, and waits for its response within `limit`.
///
/// # Errors
///
/// Fails if the proxy refuses, does not answer, sends too many interim responses, or sends more than its response: the bytes
/// after it would pass for the origin's.
async fn open_tunnel(
    transport: Transport<BoxedStream>,
    proxy: &Proxy,
    origin: &Origin,
    limit: Duration,
    limits: &TunnelLimits<'_>,
) -> Result<Transport<BoxedStream>, ClientError> {
    let connect_end = later(runtime::now(), limit);
    let TunnelLimits { deadline, bounds, .. } = *limits;
    let mut conn = Conn::<Sendable>::new(transport, TokioTimer::new());
    // The timeouts of an exchange do not apply while its tunnel is being opened.
    let timeouts = Timeouts { head: Duration::MAX, write: Duration::MAX, ..bounds.timeouts };
    let bounds = &Bounds { timeouts, ..bounds.clone() };
    write_connect(conn.write_buffer().bytes(), proxy, origin);
    let mut incoming = Incoming::default();
    let mut response = Response::new();
    let request_info = RequestInfo { is_connect: true, ..RequestInfo::default() };
    let idle = HeadOutcome::Idle;
    let mut received = 0;
    loop {
        let head = poll_fn(|cx| {
            let mut message = IncomingResponse::new(&mut response, request_info, Leniency::None);
            match incoming.poll_head(cx, &mut conn, &mut message, bounds, || {}) {
                Poll::Ready(head) => Poll::Ready(head),
                Poll::Pending => conn.poll_timeout(cx, TimerSlot::Other, limit).map(|_| Ok(idle)),
            }
        });
        match head.await {
            Ok(HeadOutcome::Complete) => {}
            Ok(HeadOutcome::Closed) => return Err(failed(ClientCause::Closed)),
            Ok(HeadOutcome::Idle) | Err(ExchangeError::TimedOut(..)) => {
                return Err(failed(ClientCause::TimedOut));
            }
            Err(error) => return Err(failed(ClientCause::from_exchange(error))),
        }
        // A CONNECT has no `upgrade` field, so a 101 is an error, and no other response follows it.
        if !response.status.is_informational() || response.status == Status::SWITCHING_PROTOCOLS {
            break;
        }
        // Interim responses may have as many bytes together as one head.
        let head_max = bounds.limits.head_max;
        received += response.headers.text_received().len();
        if received > head_max {
            return Err(failed(ClientCause::TooManyInformational).with_interim_max(head_max));
        }
    }
    match (response.status.is_success(), incoming.input.is_empty()) {
        (true, true) => Ok(conn.into_parts().0),
        (true, false) => Err(failed(ClientCause::Proxy("the proxy sent more than its response".into()))),
        (false, _) => {
            let end = deadline.map_or(connect_end, |deadline| deadline.min(connect_end));
            receive_refusal_body(&mut conn, &mut incoming, &mut response, bounds, end).await;
            Err(failed(ClientCause::Proxy(ProxyRefusal(response).into())))
        }
    }
}

fn write_connect(out: &mut Vec<u8>, proxy: &Proxy, origin: &Origin) {
    let authority = origin.host_and_port();
    out.extend_from_slice(format!("CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n").as_bytes());
    out.extend_from_slice(proxy.fields());
    if let Some(authorization) = proxy.authorization() {
        out.extend_from_slice(format!("proxy-authorization: {authorization}\r\n").as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

/// Receives the content of the proxy's refusal: as much as comes until `end` and within [`REFUSAL_BODY_WAIT`], and no more than
/// [`REFUSAL_BODY_MAX`].
async fn receive_refusal_body(
    conn: &mut Conn<Sendable>,
    incoming: &mut Incoming,
    response: &mut Response,
    bounds: &Bounds,
    end: Instant,
) {
    let content = response.body.receive();
    let received = async {
        while let Ok(1..) = poll_fn(|cx| incoming.poll_piece(cx, conn, bounds)).await {
            let room = REFUSAL_BODY_MAX - content.len();
            let piece = incoming.piece();
            content.extend(&piece[..piece.len().min(room)]);
            if content.len() == REFUSAL_BODY_MAX {
                break;
            }
        }
    };
    // A part of the content is better than none.
    let _ = timeout_at(end.min(later(runtime::now(), REFUSAL_BODY_WAIT)), received).await;
}

/// How much content of a refusal is kept.
const REFUSAL_BODY_MAX: usize = 64 << 10;

/// How long the error may be delayed by the content of the refusal.
const REFUSAL_BODY_WAIT: Duration = Duration::from_secs(1);

fn failed(cause: ClientCause) -> ClientError {
    ClientError::new(ClientPhase::Connect, cause)
}

#[cfg(test)]
mod tests {
    use std::mem::discriminant;

    use ProxyError as E;

    use super::*;

    /// The proxy at `url` is shown as `expected`.
    #[track_caller]
    fn check(url: &str, expected: Result<&str, fn(Box<str>) -> ProxyError>) {
        let shown = Proxy::new(url).map(|proxy| proxy.to_string()).map_err(|invalid| discriminant(&invalid));
        let expected = expected.map_err(|invalid| discriminant(&invalid(Box::default())));
        assert_eq!(shown.as_deref(), expected.as_ref().copied(), "{url:?}");
    }

    #[test]
    fn a_url_names_a_proxy() {
        for url in
            ["proxy", "http://proxy", "HTTP://PROXY:80/", "http://proxy:", "joe@proxy", "http://@proxy"]
        {
            check(url, Ok("http://proxy:80"));
        }
        check("proxy:3128", Ok("http://proxy:3128"));
        check("socks5://127.0.0.1", Ok("socks5://127.0.0.1:1080"));
        check("SOCKS5H://[::1]:9050", Ok("socks5h://[::1]:9050"));
        check("socks5h://joe:pw@proxy/", Ok("socks5h://proxy:1080"));
        check("https://joe:pw@Proxy", Ok("https://proxy:443"));
        check("HTTPS://proxy:8443/", Ok("https://proxy:8443"));
        check("127.1:3128", Ok("http://127.0.0.1:3128"));
        check("socks5://[0:0::1]", Ok("socks5://[::1]:1080"));
        match Proxy::new("http://b\u{fc}cher.example") {
            Ok(proxy) => assert_eq!(proxy.to_string(), "http://xn--bcher-kva.example:80"),
            Err(invalid) => assert_eq!(invalid, E::Idna("`http://b\u{fc}cher.example`".into())),
        }
    }

    #[test]
    fn an_invalid_url_of_a_proxy_is_refused() {
        for url in [
            "http+tls://proxy",
            "socks4://proxy",
            "socks://proxy",
            "ftp://proxy",
            "://proxy",
            " http://proxy",
        ] {
            check(url, Err(E::Scheme));
        }
        let hosts = ["", "http://", "http://:80", "http:///", "http://a b", "http://a\r\nb", "http://a\0"];
        let rest = [
            "http://a/b",
            "http://a//",
            "http://a?b",
            "http://a#b",
            "http://a\\b",
            "a:1/\r\n",
            "http:a",
            "http:/a",
        ];
        let ports = [
            "a:0",
            "a:65536",
            "a:+1",
            "a:x",
            "a:1:2",
            "127.0.0.256",
            "[::1",
            "[a]",
            "joe:pw@",
            "http://a:80\r\nX: y",
        ];
        for url in [&hosts[..], &rest, &ports].concat() {
            check(url, Err(E::Authority));
        }
        for userinfo in ["a/b", "a?b", "a#b", "a@b", "a b", "a\r\nb", "[a]", "é", "a\\b", "a^b", "joe:p/w"] {
            check(&format!("http://{userinfo}@proxy"), Err(E::Credentials));
        }
    }

    #[test]
    fn http_credentials_are_basic_rfc7617() {
        for (url, expected) in [
            ("http://Aladdin:open%20sesame@proxy", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
            ("http://test:123%C2%A3@proxy", "Basic dGVzdDoxMjPCow=="),
            ("joe@proxy", "Basic am9lOg=="),
            ("joe:@proxy", "Basic am9lOg=="),
            (":pw@proxy", "Basic OnB3"),
            (":@proxy", "Basic Og=="),
            ("joe:a:b@proxy", "Basic am9lOmE6Yg=="),
            ("joe:a+b@proxy", "Basic am9lOmErYg=="),
            ("joe:%ff@proxy", "Basic am9lOv8="),
        ] {
            assert_eq!(Proxy::new(url).unwrap().authorization(), Some(expected), "{url}");
        }
        for userinfo in ["a%0d%0ab", "joe:a%0a", "joe:%00", "%7f", "a%3ab", "joe:%1f"] {
            check(&format!("http://{userinfo}@proxy"), Err(E::Credentials));
        }
        for (user, password) in [("a:b", "pw"), ("a\r\n", "pw"), ("joe", "\0"), ("joe", "\u{7f}")] {
            let proxy = Proxy::new("proxy").unwrap();
            assert_eq!(
                proxy.credentials(user, password).err(),
                Some(E::Credentials("`http://proxy:80`".into()))
            );
        }
    }

    #[test]
    fn socks_credentials_have_at_most_255_octets_rfc1929() {
        let login = |user: &str, password| Login::new(user.as_bytes(), password);
        for (url, expected) in [
            ("socks5h://joe:s%40crets@proxy", login("joe", b"s@crets")),
            ("socks5h://a%3Ab:%0d%0a@proxy", login("a:b", b"\r\n")),
            ("socks5h://joe@proxy", login("joe", b"")),
            ("socks5h://joe:@proxy", login("joe", b"")),
            ("socks5h://:pw@proxy", login("", b"pw")),
            ("socks5h://:@proxy", login("", b"")),
            ("socks5h://proxy", None),
        ] {
            let expected = Protocol::Socks5(Socks { resolution: NameResolution::Remote, login: expected });
            assert!(*Proxy::new(url).unwrap().protocol() == expected, "{url}");
        }
        let long = "x".repeat(256);
        for userinfo in [&*long, &format!("{long}:pw"), &format!("joe:{long}")] {
            check(&format!("socks5://{userinfo}@proxy"), Err(E::Credentials));
        }
    }

    #[test]
    fn credentials_are_not_shown_but_are_compared() {
        let proxy = |url| Proxy::new(url).unwrap();
        for (url, shown) in [
            ("http://joe:secret@proxy", "http://proxy:80"),
            ("socks5://joe:secret@proxy", "socks5://proxy:1080"),
        ] {
            let proxy = proxy(url);
            assert_eq!(format!("{proxy} {proxy:?}"), format!("{shown} Proxy({shown})"));
        }
        assert_eq!(proxy("joe:pw@proxy:80"), proxy("HTTP://joe:p%77@Proxy"));
        assert_ne!(proxy("joe:pw@proxy"), proxy("joe:wp@proxy"));
        assert_ne!(proxy("socks5://proxy"), proxy("socks5h://proxy"));
        assert_ne!(proxy("http://proxy:443"), proxy("https://proxy"));
        assert_eq!(proxy("proxy").credentials("joe", "pw").unwrap(), proxy("joe:pw@proxy"));
    }
}
