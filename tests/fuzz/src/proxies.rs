//! Proxies before a server and before a client. A server goes by the addresses that the oracle reads in a PROXY header,
//! and believes no peer that is not trusted; a client sends a request only through a connection that a proxy has opened,
//! and takes not one octet of the proxy's for the server's.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};

use corehttp::client::{Proxies, Proxy, Redirects};
use corehttp::proxy_protocol::{ProxyHeader, ProxyProtocol};
use corehttp::server::ForwardedHeader;
use corehttp::{
    BoxHandler, Client, ClientError, Context, PeerAddr, Request, Response, Server, TrustedProxies,
};
use tokio::runtime::Runtime;

use self::relaying::{Plan, Relaying};
use crate::client::has_odd_cookie;
use crate::memory::bounded;
use crate::oracle::client::{Call, LIMITS, check, final_response, may_refuse};
use crate::oracle::proxies::{self, Socks, proxy_header, socks_replies};
use crate::oracle::{Next, Reader};
use crate::settings::Settings;
use crate::wired::{Received, Wired, paused};

mod relaying;

/// Bits 0 and 1: the octets are a PROXY header, replies of SOCKS5, a response to CONNECT, or fields of a request. Bit 2:
/// a proxy closes the connection, or the request comes from one that is trusted. Bit 3: `forwarded` is believed.
pub fn run(data: &[u8]) {
    let Some((settings, wire)) = Settings::split(data) else { return };
    match settings.flags & 3 {
        0 => check_header(settings, wire),
        1 => check_socks(settings, wire),
        2 => check_connect(settings, wire),
        _ => check_fields(settings, wire),
    }
}

const MEMORY_MAX: usize = 1 << 20;

thread_local! {
    static SERVER: Wired<BoxHandler> = {
        let server = Server::new().proxy_protocol(ProxyProtocol::required(|_| true));
        Wired::new(server, BoxHandler::new(note))
    };
    /// The peer of each request, and the header of its connection.
    static SEEN: RefCell<Vec<(PeerAddr, ProxyHeader)>> = RefCell::default();
}

fn note(ctx: &mut Context) {
    let header = ctx.proxy_header().expect("one is required");
    SEEN.with_borrow_mut(|seen| seen.push((ctx.peer_addr(), (*header).clone())));
}

/// A connection that begins with a header, and goes on with a request.
fn check_header(settings: Settings, wire: &[u8]) {
    let asked = [wire, REQUEST].concat();
    let most = MEMORY_MAX + 100 * wire.len();
    let (whole, seen) = bounded(most, || heard(vec![asked.clone()]));
    let (cut, seen_cut) = bounded(most, || heard(settings.cut(&asked)));
    let shown = wire.escape_ascii();
    assert_eq!(seen_cut, seen, "cut otherwise: {shown}");
    assert_eq!(cut.octets.is_empty(), whole.octets.is_empty(), "cut otherwise: {shown}");
    match proxy_header(&asked) {
        Next::Whole(read) => {
            let peer = read.addresses.map_or(PEER.into(), |(source, _)| PeerAddr::Tcp(source));
            let is_request = asked[read.len..] == *REQUEST;
            assert!(!seen.is_empty() || !is_request, "refused {read:?}: {shown}");
            for (seen, header) in seen {
                assert_eq!(seen, peer, "{shown}");
                assert_eq!(header.source().zip(header.destination()), read.addresses, "{shown}");
                check_written(&header);
            }
        }
        next => {
            assert!(seen.is_empty(), "{next:?}, and seen: {shown}");
            assert_eq!(whole.octets, b"", "{next:?}, and answered: {shown}");
        }
    }
}

const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 4711);

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

fn heard(packets: Vec<Vec<u8>>) -> (Received, Vec<(PeerAddr, ProxyHeader)>) {
    let received = SERVER.with(|server| server.ask_from(PEER.into(), packets, true));
    (received, SEEN.take())
}

/// Both versions of a header that was received have its addresses, when they are read again.
fn check_written(header: &ProxyHeader) {
    let addresses = header.source().zip(header.destination());
    for written in [header.to_bytes_v1(), header.to_bytes_v2()] {
        let expected = proxies::ProxyHeader { addresses, len: written.len() };
        assert_eq!(proxy_header(&written), Next::Whole(expected), "{}", written.escape_ascii());
    }
}

/// The status and the content of a response.
type Answer = (u16, Vec<u8>);

/// A client, and the proxy that it goes through.
struct Caller {
    runtime: Runtime,
    client: Client,
    relaying: Relaying,
}

impl Caller {
    fn through(proxy: &str) -> Caller {
        let (relaying, proxies) = (Relaying::default(), Proxies::all(Proxy::new(proxy).unwrap()));
        let builder =
            Client::builder().dialer(relaying.clone()).proxies(proxies).redirects(Redirects::Return);
        Caller { runtime: paused(), client: builder.build(), relaying }
    }

    /// Sends a request, and returns the status and the content of the response; and all that the proxy received.
    fn call(&self, plan: Plan) -> (Result<Answer, String>, Vec<u8>) {
        self.relaying.begin(plan);
        self.runtime.block_on(async {
            let (request, mut response) = (Request::get("http://b/").unwrap(), Response::new());
            let sent = self.client.send(&request, &mut response).await;
            let sent = sent.map(|()| (response.status.as_u16(), response.body.bytes().to_vec()));
            self.client.close_idle();
            (sent.map_err(|error| error.to_string()), self.relaying.received().await)
        })
    }

    /// Asks for another protocol, for which a proxy opens a tunnel.
    fn upgrade(&self, plan: Plan) -> (Result<(), ClientError>, Vec<u8>) {
        self.relaying.begin(plan);
        self.runtime.block_on(async {
            let (mut request, mut response) = (Request::get("http://b/").unwrap(), Response::new());
            request.headers.set("upgrade", "x").unwrap();
            let upgraded = self.client.upgrade(&request, &mut response).await;
            (upgraded.map(drop), self.relaying.received().await)
        })
    }
}

thread_local! {
    static SOCKS: Caller = Caller::through("socks5h://u:p@proxy");
    static CONNECT: Caller = Caller::through("http://proxy");
}

/// A proxy that speaks SOCKS5, and the server at the other end of it.
fn check_socks(settings: Settings, wire: &[u8]) {
    let shown = wire.escape_ascii();
    let most = MEMORY_MAX + 100 * wire.len();
    let call = |packets| SOCKS.with(|caller| caller.call(Plan { packets, ..Plan::default() }));
    let (outcome, sent) = bounded(most, || call(vec![wire.to_vec()]));
    let (cut, sent_cut) = bounded(most, || call(settings.cut(wire)));
    assert_eq!(cut.as_ref().ok(), outcome.as_ref().ok(), "cut otherwise: {shown}");
    assert_eq!(
        sent_cut.escape_ascii().to_string(),
        sent.escape_ascii().to_string(),
        "cut otherwise: {shown}"
    );
    let (greeting, login, request) =
        (&b"\x05\x02\0\x02"[..], &b"\x01\x01u\x01p"[..], &b"\x05\x01\0\x03\x01b\0P"[..]);
    let login_if = |with_login: bool| if with_login { login } else { b"" };
    let (expected, connected) = match socks_replies(wire) {
        Socks::Greeted => (greeting.to_vec(), None),
        Socks::LoggingIn => ([greeting, login].concat(), None),
        Socks::Requested { with_login } => ([greeting, login_if(with_login), request].concat(), None),
        Socks::Connected { with_login, len } => {
            ([greeting, login_if(with_login), request].concat(), Some(&wire[len..]))
        }
    };
    let rest = sent.strip_prefix(&*expected);
    let rest = rest.unwrap_or_else(|| panic!("{} to {shown}", sent.escape_ascii()));
    match connected {
        None => assert!(rest.is_empty() && outcome.is_err(), "{} to {shown}", rest.escape_ascii()),
        Some(said) if !has_odd_cookie(said) => {
            check_request(rest, b"GET", b"/");
            let received = outcome.as_ref().map(|(status, content)| (*status, &**content, false));
            let call = Call { method: "GET", wire: said, is_closed: true, limits: LIMITS };
            check(call, received.map_err(|why| &**why));
        }
        Some(_) => {}
    }
}

/// The octets are one request, and nothing else.
fn check_request(wire: &[u8], method: &[u8], target: &[u8]) {
    let mut reader = Reader::strict(wire);
    let Next::Whole(request) = reader.request() else { panic!("sent {}", wire.escape_ascii()) };
    assert_eq!((&*request.method, &*request.target), (method, target));
    assert_eq!(reader.rest(), b"");
}

/// A proxy that is asked for a tunnel.
fn check_connect(settings: Settings, wire: &[u8]) {
    let shown = wire.escape_ascii();
    let closes = settings.flag(2);
    let most = MEMORY_MAX + 100 * wire.len();
    let upgrade = |packets| {
        CONNECT
            .with(|caller| caller.upgrade(Plan { packets, closes, behind: Some(SWITCHING), is_tunnel: true }))
    };
    let read = final_response(wire, "CONNECT", closes);
    let is_alone = read.rest.is_empty();
    let packets = [vec![wire.to_vec()], settings.cut(wire)];
    // Octets after the response are the server's, if they come later.
    for packets in packets.into_iter().take(if is_alone { 2 } else { 1 }) {
        let (outcome, sent) = bounded(most, || upgrade(packets));
        let mut heads = sent.split_inclusive(|octet| *octet == b'\n').collect::<Vec<_>>();
        let tunneled = heads.iter().position(|line| *line == b"\r\n").map_or(heads.len(), |at| at + 1);
        let tunneled = heads.split_off(tunneled);
        check_request(&heads.concat(), b"CONNECT", b"b:80");
        match (&read.next, outcome) {
            (Next::Whole(response), Ok(())) => {
                let is_open = is_alone && (200..300).contains(&response.status) && !closes;
                assert!(is_open, "upgraded after {response:?}: {shown}");
                check_request(&tunneled.concat(), b"GET", b"/");
            }
            (Next::Whole(response), Err(error)) if (200..300).contains(&response.status) => {
                let may_fail = !is_alone || closes || may_refuse(response, &read.interim, LIMITS);
                assert!(may_fail, "{error:#}, but read {response:?}: {shown}");
            }
            (Next::Whole(response), Err(error)) => {
                assert_eq!(tunneled.concat(), b"", "sent after {response:?}: {shown}");
                let refusal = error.proxy_response().map(|response| response.status.as_u16());
                let is_known =
                    refusal == Some(response.status) || may_refuse(response, &read.interim, LIMITS);
                assert!(is_known, "{error:#}, but read {response:?}: {shown}");
            }
            (_, Err(_)) => assert_eq!(tunneled.concat(), b"", "sent after {shown}"),
            (next, Ok(())) => panic!("upgraded after {next:?}: {shown}"),
        }
    }
}

const SWITCHING: &[u8] = b"HTTP/1.1 101 x\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";

thread_local! {
    /// Servers that believe the fields with an `x-`, or `forwarded`.
    static TRUSTING: [Wired<BoxHandler>; 2] = [false, true].map(|is_standard| {
        use ForwardedHeader::{Forwarded, XForwardedFor, XForwardedHost, XForwardedProto};
        let fields = if is_standard { vec![Forwarded] } else { vec![XForwardedFor, XForwardedHost, XForwardedProto] };
        let proxies = TrustedProxies::new(["10.0.0.0/8", "2001:db8::/32"]).unwrap().headers(fields);
        Wired::new(Server::new().trusted_proxies(proxies), BoxHandler::new(note_client))
    });
    static CLIENT: RefCell<Option<Told>> = const { RefCell::new(None) };
}

/// The client, the scheme and the authority of a request.
type Told = (Option<IpAddr>, Option<&'static str>, Option<String>);

fn note_client(ctx: &mut Context) {
    let forwarded = ctx.forwarded();
    assert_eq!(ctx.client_ip(), forwarded.client);
    let authority = forwarded.authority.map(str::to_owned);
    CLIENT.set(Some((forwarded.client, forwarded.scheme, authority)));
}

/// A request whose client has written any fields. A trusted proxy adds what it knows after them.
fn check_fields(settings: Settings, wire: &[u8]) {
    let shown = wire.escape_ascii();
    let (is_trusted, is_standard) = (settings.flag(2), settings.flag(3));
    let mut request = Request::get("http://a.example/").unwrap();
    let mut named = Vec::new();
    for line in wire.split(|octet| *octet == b'\n') {
        let Some(colon) = line.iter().position(|octet| *octet == b':') else { continue };
        let (name, value) = (String::from_utf8_lossy(&line[..colon]), &line[colon + 1..]);
        let name = FIELDS.iter().find(|field| field.eq_ignore_ascii_case(&name));
        if let Some(name) = name.filter(|name| request.headers.append(name, value).is_ok()) {
            named.push((*name, value));
        }
    }
    let peer = if is_trusted { PEER } else { SocketAddr::from(([192, 0, 2, 1], 4711)) };
    let told = |request: Request| {
        TRUSTING.with(|servers| servers[usize::from(is_standard)].respond_from(peer.into(), request));
        CLIENT.take().expect("the handler has run")
    };
    let seen = bounded(MEMORY_MAX + 100 * wire.len(), || told(request.clone()));
    if !is_trusted {
        let direct = (Some(peer.ip()), Some("http"), Some("a.example".into()));
        assert_eq!(seen, direct, "who is not trusted is believed: {shown}");
        return;
    }
    let values = |name: &str| -> Vec<&[u8]> {
        named.iter().filter(|(field, _)| *field == name).map(|(_, value)| *value).collect()
    };
    let read = match is_standard {
        true => proxies::forwarded(&values("forwarded"), is_proxy),
        false => proxies::forwarded_for(&values("x-forwarded-for"), is_proxy).or(Some(Some(peer.ip()))),
    };
    assert!(read.is_none_or(|client| client == seen.0), "{seen:?}, and not {read:?}: {shown}");
    // A line of the proxy's own, after all of the client's.
    let own: &[(&str, &str)] = match is_standard {
        true => &[("forwarded", "for=198.51.100.7;proto=https;host=b.example")],
        false => &[
            ("x-forwarded-for", "198.51.100.7"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "b.example"),
        ],
    };
    own.iter().for_each(|(name, value)| request.headers.append(name, *value).unwrap());
    let honest = (Some(IpAddr::from([198, 51, 100, 7])), Some("https"), Some("b.example".into()));
    assert_eq!(told(request), honest, "a client passes for another: {shown}");
}

const FIELDS: [&str; 4] = ["forwarded", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"];

fn is_proxy(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[0] == 10,
        IpAddr::V6(ip) => ip.segments()[..2] == [0x2001, 0xdb8],
    }
}
