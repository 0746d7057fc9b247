//! The addresses that a client may reach, the URLs that it requests, and the names whose addresses it is given.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::client::{ClientCause, ClientPhase, Proxies, Proxy, Retry};
use corehttp::net::{Resolver, is_public};
use corehttp::sse::EventSource;
use corehttp::{Client, ClientError, Request, Response};

use crate::support::{OK, Scripted, Stage, ask, each, eventually, get};

/// A response after which its connection is closed, so that the next request dials.
const LAST: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The port of a server.
fn port(server: &Scripted) -> &str {
    server.url.rsplit_once(':').unwrap().1
}

fn request(url: &str) -> Request {
    Request::get(url).unwrap()
}

/// Answers each look-up with the next of its addresses, and the last one for ever.
#[derive(Clone, Default)]
struct Changing {
    answers: Arc<Mutex<VecDeque<Vec<IpAddr>>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Changing {
    /// `answers` are separated by `|`, and the addresses of one by spaces.
    fn new(answers: &str) -> Changing {
        let answers = answers.split('|').map(|answer| answer.split_whitespace().map(ip).collect());
        Changing { answers: Arc::new(Mutex::new(answers.collect())), asked: Arc::default() }
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl Resolver for Changing {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.lock().unwrap().push(name.into());
        let mut answers = self.answers.lock().unwrap();
        Ok(if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0].clone() })
    }
}

/// The address for which a request was refused. Nothing of it was sent, and no other attempt would help.
#[track_caller]
fn refused(outcome: Result<(u16, String), ClientError>) -> IpAddr {
    let error = outcome.expect_err("the address is refused");
    let &ClientCause::AddressRefused(address) = error.cause() else { panic!("{error:#}") };
    assert_eq!((error.phase(), error.is_sent(), error.is_timeout()), (ClientPhase::Connect, false, false));
    assert!(error.retries().is_empty() && error.retry_stop().is_none(), "{error:?}");
    let said = format!("its address {address} is not one that the client may connect to");
    assert!(error.to_string().ends_with(&said), "{error}");
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::PermissionDenied);
    address
}

/// Each spelling of an address of this machine or its networks is that address.
#[tokio::test]
async fn an_address_in_a_url_is_checked_however_it_is_spelled() {
    let server = Scripted::always(OK).await;
    let port = port(&server);
    let client = Client::builder().allow_addresses(is_public).retry(Retry::new()).build();
    for (host, address) in [
        ("127.0.0.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0177.0.0.01", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("%31%32%37.0.0.1", "127.0.0.1"),
        ("127.0.0.1\\@a.example", "127.0.0.1"),
        ("a.example@127.0.0.1", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("169.254.169.254", "169.254.169.254"),
        ("[::1]", "::1"),
        ("[::]", "::"),
        ("[::ffff:127.0.0.1]", "::ffff:127.0.0.1"),
        ("[::ffff:7f00:1]", "::ffff:127.0.0.1"),
        ("[::127.0.0.1]", "::127.0.0.1"),
        ("[64:ff9b::7f00:1]", "64:ff9b::7f00:1"),
        ("[2002:7f00:1::]", "2002:7f00:1::"),
        ("[fd00:ec2::254]", "fd00:ec2::254"),
        ("[fe80::1]", "fe80::1"),
    ] {
        let outcome = ask(&client, &request(&format!("http://{host}:{port}/"))).await;
        assert_eq!(refused(outcome), ip(address), "{host}");
    }
    for host in ["[::1%25lo]", "127.0.0.1:80:80", "127.0.0.256", "[127.0.0.1]"] {
        assert!(Request::get(&format!("http://{host}/")).is_err(), "{host}");
    }
    assert_eq!(server.connections(), 0);
    let counts = client.counts().total;
    assert_eq!((counts.opened, counts.connect.failed, counts.retries_by_policy), (0, 21, 0));
}

/// A host whose name has a harmless address at the first look-up, and another one at the next.
#[tokio::test]
async fn a_name_is_checked_at_each_connection() {
    let server = Scripted::always(LAST).await;
    let changing =
        Changing::new("127.0.0.1|169.254.169.254|::ffff:10.0.0.1|127.0.0.2|::1 10.0.0.1|127.0.0.1");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = seen.clone();
    let client = Client::builder()
        .resolver(changing.clone())
        .dns_ttl(Duration::ZERO)
        .retry(Retry::new())
        .allow_addresses(move |address| {
            sees.lock().unwrap().push(address.to_string());
            address == ip("127.0.0.1")
        })
        .build();
    let request = request(&format!("http://a.example:{}/", port(&server)));
    assert_eq!(ask(&client, &request).await.unwrap().0, 200);
    for address in ["169.254.169.254", "::ffff:10.0.0.1", "127.0.0.2", "::1"] {
        assert_eq!(refused(ask(&client, &request).await), ip(address));
    }
    assert_eq!(ask(&client, &request).await.unwrap().0, 200);
    assert_eq!((changing.asked(), server.connections()), (6, 2));
    let seen = seen.lock().unwrap().join(" ");
    assert_eq!(seen, "127.0.0.1 169.254.169.254 10.0.0.1 127.0.0.2 ::1 10.0.0.1 127.0.0.1");
}

/// The cache may hold for as long as it likes.
#[tokio::test]
async fn an_address_from_the_cache_is_checked() {
    let server = Scripted::always(LAST).await;
    let changing = Changing::new("127.0.0.1|10.0.0.1");
    let is_open = Arc::new(Mutex::new(true));
    let asks = is_open.clone();
    let client = Client::builder()
        .resolver(changing.clone())
        .dns_ttl(Duration::MAX)
        .allow_addresses(move |address| *asks.lock().unwrap() && address == ip("127.0.0.1"))
        .build();
    let request = request(&format!("http://a.example:{}/", port(&server)));
    assert!(ask(&client, &request).await.is_ok());
    *is_open.lock().unwrap() = false;
    assert_eq!(refused(ask(&client, &request).await), ip("127.0.0.1"));
    // As one that cannot be reached, it is not kept.
    assert_eq!((changing.asked(), refused(ask(&client, &request).await)), (1, ip("10.0.0.1")));
}

/// A refused address that is tried as well would see the connection.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn of_several_addresses_those_are_used_that_are_allowed() {
    let server = Scripted::always(LAST).await;
    let other = std::net::TcpListener::bind(format!("127.0.0.3:{}", port(&server))).unwrap();
    other.set_nonblocking(true).unwrap();
    for answer in ["127.0.0.3 127.0.0.1", "10.0.0.1 127.0.0.3 ::1 127.0.0.1", "127.0.0.1 127.0.0.3"] {
        let client = Client::builder()
            .resolver(Changing::new(answer))
            .allow_addresses(|address| address == ip("127.0.0.1"))
            .build();
        let request = request(&format!("http://a.example:{}/", port(&server)));
        for _ in 0..4 {
            assert!(ask(&client, &request).await.is_ok(), "{answer}");
        }
    }
    assert_eq!(server.connections(), 12);
    assert_eq!(other.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn each_redirect_is_checked() {
    for (location, address) in [
        ("http://169.254.169.254/latest/meta-data/", "169.254.169.254"),
        ("http://0x7f.2/", "127.0.0.2"),
        ("http://2130706434/", "127.0.0.2"),
        ("//[::1]/", "::1"),
        ("http://[::ffff:127.0.0.2]/", "::ffff:127.0.0.2"),
        ("http://evil.example/", "10.0.0.1"),
    ] {
        let wire = format!("HTTP/1.1 302 x\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        let server = Scripted::always(wire).await;
        let client = Client::builder()
            .resolver(Changing::new("10.0.0.1"))
            .allow_addresses(|address| address == ip("127.0.0.1"))
            .build();
        let error = ask(&client, &request(&server.url)).await.unwrap_err();
        assert!(matches!(error.cause(), ClientCause::AddressRefused(at) if *at == ip(address)), "{error:#}");
        assert!(error.is_sent(), "the server that redirects has the request");
    }
}

#[tokio::test]
async fn connections_of_every_kind_are_checked() {
    let server = Scripted::always(OK).await;
    let client = Client::builder().allow_addresses(is_public).build();
    let mut response = Response::new();
    let is_refused = |error: ClientError| matches!(error.cause(), ClientCause::AddressRefused(_));
    let host = client.host(&server.url).unwrap();
    assert!(is_refused(host.send(&request("/"), &mut response).await.unwrap_err()));
    let call = client.open_call(&request(&server.url)).await;
    assert!(is_refused(call.err().unwrap()));
    let pipeline = client.pipeline(&server.url).unwrap().build();
    let [one, other] = [pipeline.clone(), pipeline].map(|pipeline| {
        tokio::spawn(async move { pipeline.send(&request("/"), &mut Response::new()).await })
    });
    assert!(is_refused(one.await.unwrap().unwrap_err()) && is_refused(other.await.unwrap().unwrap_err()));
    let balancer = client.balance([&server.url]).unwrap();
    let balancer = balancer.health_check(each("/", Duration::from_millis(1))).build();
    assert!(is_refused(balancer.send(&request("/"), &mut response).await.unwrap_err()));
    #[cfg(feature = "websocket")]
    {
        let url = server.url.replace("http:", "ws:");
        assert!(client.websocket(&url).await.is_err());
    }
    let mut events = EventSource::new(&client, request(&server.url)).unwrap();
    let error = events.event().await.unwrap_err().downcast::<ClientError>().unwrap();
    assert!(is_refused(error), "another connection is refused, too");
    let failed = || client.counts().total.connect.failed;
    eventually("several health checks", || failed() > 10).await;
    assert_eq!((server.connections(), client.counts().total.opened), (0, 0));
}

/// A proxy, and the address in place of all hosts, are the choice of the operator; a dialer connects by itself.
#[tokio::test]
async fn addresses_that_the_operator_has_chosen_are_not_checked() {
    struct Never;

    impl Resolver for Never {
        async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            panic!("{name} is not looked up")
        }
    }

    let server = Scripted::always(LAST).await;
    let local = format!("localhost:{}", port(&server));
    let named = Client::builder().resolver(Changing::new("127.0.0.1"));
    let none = |_| false;
    for client in [
        Client::builder().connect_to(server.url.trim_start_matches("http://")),
        named.clone().connect_to(&*local),
        Client::builder().resolver(Never).proxies(Proxies::all(Proxy::new(&server.url).unwrap())),
        named.proxies(Proxies::all(Proxy::new(&local).unwrap())),
        Stage::always(OK).builder(),
    ] {
        let client = client.allow_addresses(none).build();
        assert_eq!(ask(&client, &get()).await.unwrap().0, 200);
        assert_eq!(ask(&client, &request("http://127.0.0.1/")).await.unwrap().0, 200);
    }
    // A host that needs no proxy is connected to by the client.
    let proxies = Proxies::all(Proxy::new(&server.url).unwrap()).except("127.0.0.0/8");
    let client = Client::builder().proxies(proxies).allow_addresses(none).build();
    assert_eq!(refused(ask(&client, &request("http://127.0.0.1/")).await), ip("127.0.0.1"));
}

#[tokio::test]
async fn an_http_url_is_not_requested_by_a_client_for_https() {
    let stage = Stage::always(OK);
    let client = stage.builder().https_only(true).retry(Retry::new()).build();
    let mut errors = Vec::new();
    for url in ["http://a/", "HTTP://a:443/", "http://127.0.0.1/"] {
        errors.push(ask(&client, &request(url)).await.unwrap_err());
    }
    assert_eq!(errors[0].to_string(), "http://a/: preparing the request: the client is for https URLs only");
    let mut response = Response::new();
    errors.push(client.host("http://a").unwrap().send(&request("/"), &mut response).await.unwrap_err());
    errors.push(client.open_call(&get()).await.err().unwrap());
    let pipeline = client.pipeline("http://a").unwrap().build();
    errors.push(pipeline.send(&request("/"), &mut response).await.unwrap_err());
    let balancer = client.balance(["http://a", "http://b"]).unwrap().build();
    errors.push(balancer.send(&request("/"), &mut response).await.unwrap_err());
    for error in &errors {
        assert!(matches!(error.cause(), ClientCause::HttpsOnly), "{error:#}");
        assert_eq!((error.phase(), error.is_sent()), (ClientPhase::Prepare, false), "{error:#}");
    }
    #[cfg(feature = "websocket")]
    client.websocket("ws://a/").await.unwrap_err();
    assert!(stage.dialed().is_empty());
    // Such a URL is dialed: the stage has no TLS.
    let secure = ask(&client.with_retry(None), &request("https://a/")).await.unwrap_err();
    assert_ne!(secure.phase(), ClientPhase::Prepare);
    #[cfg(feature = "tls")]
    assert_eq!(stage.dialed(), ["a:443"]);
}

#[tokio::test]
async fn a_name_has_the_addresses_that_it_is_given() {
    let server = Scripted::new(|mut peer, _| async move {
        let head = peer.head().await?.unwrap_or_default();
        let host = head.split("\r\n").find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
        peer.send(format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{host}")).await
    })
    .await;
    let port = port(&server);
    let changing = Changing::new("10.0.0.1");
    let client = Client::builder()
        .resolve("API.example.", [ip("10.0.0.1")])
        .unwrap()
        .resolve("api.example", [ip("127.0.0.1")])
        .unwrap()
        .resolver(changing.clone())
        .dns_ttl(Duration::ZERO)
        .build();
    for host in ["api.example", "API.Example", "api.example."] {
        let (_, said) = ask(&client, &request(&format!("http://{host}:{port}/"))).await.unwrap();
        assert_eq!(said, format!("{}:{port}", host.to_ascii_lowercase()));
    }
    assert_eq!(changing.asked(), 0);
    let checked =
        Client::builder().resolve("a", [ip("127.0.0.1")]).unwrap().allow_addresses(is_public).build();
    assert_eq!(refused(ask(&checked, &get()).await), ip("127.0.0.1"));
    let idna = Client::builder().resolve("B\u{fc}cher.example", [ip("127.0.0.1")]);
    assert_eq!(idna.is_ok(), cfg!(feature = "idna"));
    if let Ok(builder) = idna {
        let url = format!("http://b\u{fc}cher.example:{port}/");
        let (_, said) = ask(&builder.build(), &request(&url)).await.unwrap();
        assert_eq!(said, format!("xn--bcher-kva.example:{port}"));
    }
    let none = Client::builder().resolver(changing.clone()).resolve("a", []).unwrap().build();
    let error = ask(&none, &get()).await.unwrap_err();
    assert_eq!(format!("{error:#}"), "http://a/: looking up a failed: the name has no address");
    assert_eq!(changing.asked(), 0);
    for name in ["", "127.0.0.1", "0x7f.1", "[::1]", "a b", "a:80", "http://a", "a/", "a\r\nb", "a..b\\"] {
        assert!(Client::builder().resolve(name, [ip("127.0.0.1")]).is_err(), "{name:?}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_socket_has_the_options_of_its_client() {
    use corehttp::net::SocketOptions;

    let server = Scripted::always(OK).await;
    let through = |interface: &str| {
        let interface = Some(interface.into());
        Client::builder().socket_options(SocketOptions { interface, ..SocketOptions::default() }).build()
    };
    assert_eq!(ask(&through("lo"), &request(&server.url)).await.unwrap().0, 200);
    let error = ask(&through("none7"), &request(&server.url)).await.unwrap_err();
    assert_eq!(error.phase(), ClientPhase::Connect);
    assert!(format!("{error:#}").contains("the option SO_BINDTODEVICE: No such device"), "{error:#}");
    assert_eq!(server.connections(), 1);
}
