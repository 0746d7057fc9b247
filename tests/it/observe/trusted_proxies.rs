//! Trusted proxies: one setting of a server, by which all that names a client names the same one.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::access_log::{self, AccessLog};
use corehttp::middleware::wrap;
use corehttp::middleware::{CrossOriginProtection, HttpsRedirect, RateLimit};
use corehttp::server::{ErrorLog, ForwardedHeader};
use corehttp::{Context, Error, PeerAddr, Request, Server, TrustedProxies, routes, websocket};

use crate::support::paused;

/// The client of a request, and what it has used.
#[derive(Clone, Copy, Debug)]
struct Client {
    /// `-` if it is not known.
    ip: &'static str,
    scheme: &'static str,
    host: &'static str,
}

/// Has each part of a server name the client of a request with these fields, which `peer` has sent.
#[track_caller]
fn check(proxies: TrustedProxies, peer: PeerAddr, fields: &[(&str, &str)], expected: Client) {
    let Client { ip, scheme, host } = expected;
    let [lines, reported, failed, errors] = [(); 4].map(|()| Lines::default());
    let log = AccessLog::from_writer(lines.clone(), access_log::Format::Common).unwrap();
    let error_log = ErrorLog::from_writer(errors.clone());
    let [noted, failures] = [&reported, &failed].map(Lines::clone);
    let server = Server::new()
        .trusted_proxies(proxies)
        .observe(log.clone())
        .observe(error_log.clone())
        .on_error(move |report| writeln!(&failures, "{}", name(report.client_ip())).unwrap())
        .on_exchange(move |report| writeln!(&noted, "{}", name(report.client_ip())).unwrap());
    let service = server.service(routes! {
        GET "/" => tell,
        GET "/fails" => |_: &mut Context| Err(Error::other("as told")),
        GET "/rate" => wrap(RateLimit::new(1, Duration::from_secs(3600)), tell),
        GET "/redirect" => wrap(HttpsRedirect::new(), tell),
        POST "/post" => wrap(CrossOriginProtection::new(), tell),
        GET "/socket" => async |ctx: &mut Context| -> corehttp::Result {
            ctx.websocket(&websocket::Options::default()).await?;
            Ok(())
        },
    });
    let ask = async |peer, method, path, own: &[(&str, &str)]| {
        let mut request = Request::new(method, path).unwrap();
        request.headers.set("host", "inner").unwrap();
        own.iter().for_each(|(name, value)| request.headers.append(name, *value).unwrap());
        service.respond_from(peer, request).await
    };
    let with = |own: &[(&'static str, &'static str)]| [fields, own].concat();
    let [own, other] = ["https://", "https://other."].map(|front| &*format!("{front}{host}").leak());
    let count = paused(async {
        let told = ask(peer, "GET", "/", fields).await;
        assert_eq!(told.text().unwrap(), format!("{ip} {scheme} {host}"), "{expected:?}");

        assert_eq!(ask(peer, "GET", "/fails", fields).await.status.as_u16(), 500);

        let mut statuses = vec![ask(peer, "GET", "/rate", fields).await.status.as_u16()];
        if let Ok(ip) = ip.parse() {
            // The client comes by itself, and has used up its share.
            let direct = PeerAddr::from(SocketAddr::new(ip, 4711));
            statuses.push(ask(direct, "GET", "/rate", &[]).await.status.as_u16());
            assert_eq!(statuses, [200, 429], "{expected:?}");
        }

        let redirect = ask(peer, "GET", "/redirect", fields).await;
        let location = (scheme == "http").then(|| format!("https://{host}/redirect"));
        assert_eq!(redirect.headers.get("location"), location.as_deref(), "{expected:?}");

        for (origin, status) in [(own, 200), (other, 403)] {
            let posted = ask(peer, "POST", "/post", &with(&[("origin", origin)])).await;
            assert_eq!(posted.status.as_u16(), status, "{origin} {expected:?}");
        }
        for (origin, is_admitted) in [(own, true), (other, false)] {
            let upgrade = [&SOCKET[..], &with(&[("origin", origin)])].concat();
            let opened = ask(peer, "GET", "/socket", &upgrade).await;
            assert_eq!(opened.status.as_u16() != 403, is_admitted, "{origin} {expected:?}");
        }
        statuses.len() + 7
    });
    drop((service, log, error_log));
    assert_eq!(reported.take(), format!("{ip}\n").repeat(count), "the reports");
    let logged = lines.take();
    assert_eq!(logged.lines().count(), count, "{logged}");
    assert!(logged.lines().all(|line| line.starts_with(&format!("{ip} - - "))), "{ip}: {logged}");
    let failed = failed.take();
    assert!(failed.lines().all(|line| line == ip) && !failed.is_empty(), "{ip}: {failed}");
    let source = match peer.ip().map_or("-".to_owned(), |peer| peer.to_string()) {
        same if same == ip => peer.to_string(),
        _ => format!("{ip} through {peer}"),
    };
    let (line, errors) = (format!(" to {source}, GET /fails: "), errors.take());
    assert!(errors.contains(&line), "{line} {errors}");
}

/// Names the client, by each of the ways that a context has.
fn tell(ctx: &mut Context) {
    let mut onward = Request::get("http://onward/").unwrap();
    ctx.set_forwarded(&mut onward);
    let forwarded = ctx.forwarded();
    assert_eq!(ctx.client_ip(), forwarded.client);
    let (scheme, host) = (forwarded.scheme.unwrap(), forwarded.authority.unwrap());
    for (field, own) in [("x-forwarded-proto", scheme), ("x-forwarded-host", host)] {
        assert!(onward.headers.get(field).is_none_or(|passed| passed == own), "{field}");
    }
    let told = format!("{} {scheme} {host}", name(forwarded.client));
    ctx.response.set_text(told);
}

fn name(client: Option<std::net::IpAddr>) -> String {
    client.map_or("-".to_owned(), |client| client.to_string())
}

/// Lines that are kept.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut self.0.lock().unwrap())).unwrap()
    }
}

impl Write for &Lines {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(lines)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for Lines {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        (&*self).write(lines)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const SOCKET: [(&str, &str); 4] = [
    ("connection", "upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

const LISTS: [(&str, &str); 3] =
    [("x-forwarded-for", "192.0.2.7"), ("x-forwarded-proto", "https"), ("x-forwarded-host", "front.example")];

fn tcp(ip: [u8; 4]) -> PeerAddr {
    SocketAddr::from((ip, 4711)).into()
}

#[test]
fn all_that_names_a_client_names_the_same_one_rfc7239_8_1() {
    use ForwardedHeader::{Forwarded, XForwardedFor, XForwardedHost, XForwardedProto};
    let lists = [XForwardedFor, XForwardedProto, XForwardedHost];
    let network = || TrustedProxies::new(["10.0.0.0/8"]).unwrap().headers(lists);
    let proxy = tcp([10, 0, 0, 1]);
    let passed_on = Client { ip: "192.0.2.7", scheme: "https", host: "front.example" };
    let as_it_came = |ip| Client { ip, scheme: "http", host: "inner" };
    check(network(), proxy, &LISTS, passed_on);
    check(network(), tcp([192, 0, 2, 66]), &LISTS, as_it_came("192.0.2.66"));
    check(network(), proxy, &[], as_it_came("10.0.0.1"));
    let hops =
        [("forwarded", "for=192.0.2.7;proto=https;host=front.example"), ("x-forwarded-for", "192.0.2.66")];
    check(network().headers([Forwarded, XForwardedFor]), proxy, &hops, passed_on);
    check(network(), PeerAddr::Unix, &LISTS, passed_on);
    check(TrustedProxies::unix_sockets().headers(lists), PeerAddr::Unix, &LISTS, passed_on);
    check(TrustedProxies::unix_sockets().headers(lists), proxy, &LISTS, as_it_came("10.0.0.1"));
    // The default believes no one, whatever the fields.
    check(TrustedProxies::default().headers(lists), proxy, &LISTS, as_it_came("10.0.0.1"));
    check(TrustedProxies::default().headers(lists), PeerAddr::Unix, &LISTS, as_it_came("-"));
    // An address of a dual-stack socket is that of the IPv4 peer.
    let mapped = SocketAddr::from((std::net::Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped(), 4711)).into();
    check(network(), mapped, &LISTS, passed_on);
    check(TrustedProxies::default().headers(lists), mapped, &LISTS, as_it_came("10.0.0.1"));
    check(TrustedProxies::from_fn(|_| true).headers(lists), PeerAddr::Memory, &LISTS, as_it_came("-"));
}

/// The proxy in front passes `connection` on, by which the client would hide itself from the server behind.
#[test]
fn no_client_has_the_fields_of_a_trusted_proxy_removed() {
    let onward = |ctx: &mut Context| -> corehttp::Result {
        let mut onward = ctx.request.forwarded_to("/")?;
        ctx.set_forwarded(&mut onward);
        ctx.response.set_text(onward.headers.get("x-forwarded-for").unwrap_or_default());
        Ok(())
    };
    let proxies = TrustedProxies::new(["10.0.0.0/8"]).unwrap().headers([ForwardedHeader::XForwardedFor]);
    let service = Server::new().trusted_proxies(proxies).service(onward);
    for connection in ["close", "close, x-forwarded-for", "X-Forwarded-For", "x-forwarded-for, x-other"] {
        for (peer, expected) in [([10, 0, 0, 1], "192.0.2.7, 10.0.0.1"), ([192, 0, 2, 66], "192.0.2.66")] {
            let mut request = Request::get("/").unwrap();
            request.headers.set("x-forwarded-for", "192.0.2.7").unwrap();
            request.headers.set("connection", connection).unwrap();
            let response = corehttp::block_on(service.respond_from(tcp(peer), request)).unwrap();
            assert_eq!(response.text(), Ok(expected), "{connection}");
        }
    }
}
