//! Requests that are sent to proxies, and the responses of theirs that are accepted (RFC 9110 §3.7, RFC 9112 §3.2.2).

#[cfg(feature = "tls")]
use std::time::Duration;

#[cfg(feature = "tls")]
use corehttp::client::ClientTimeouts;
use corehttp::client::{ClientCause, ClientLimits, ClientPhase, Proxies, Proxy};
use corehttp::{Client, Method, Request, Response};
use tokio::io::AsyncReadExt;

use crate::support::{OK, Scripted, Stage};

fn client(proxy: &str) -> Client {
    Client::builder().proxies(Proxies::all(Proxy::new(proxy).unwrap())).build()
}

/// Answers with the head of each request.
async fn parrot() -> Scripted {
    Scripted::new(|mut peer, _| async move {
        while let Some(head) = peer.request().await? {
            peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{head}", head.len())).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_proxy_is_sent_the_whole_url_and_its_credentials() {
    let proxy = parrot().await;
    let with_login = proxy.url.replace("http://", "http://joe:s%40crets@");
    for (proxy, login) in
        [(&*proxy.url, ""), (&with_login, "proxy-authorization: Basic am9lOnNAY3JldHM=\r\n")]
    {
        for (url, line) in [
            ("http://a.example/b?c", "http://a.example/b?c HTTP/1.1\r\nhost: a.example\r\n"),
            ("http://a.example:8080", "http://a.example:8080/ HTTP/1.1\r\nhost: a.example:8080\r\n"),
        ] {
            let response = client(proxy).get(url).await.unwrap();
            assert_eq!(response.body.text(), Ok(&*format!("GET {line}{login}\r\n")));
        }
    }
    // Only the last proxy would say `*` to the server (RFC 9112 §3.2.4).
    for (url, line) in [
        ("http://a.example", "http://a.example HTTP/1.1\r\nhost: a.example\r\n"),
        ("http://a.example:8080", "http://a.example:8080 HTTP/1.1\r\nhost: a.example:8080\r\n"),
        ("http://a.example/", "http://a.example/ HTTP/1.1\r\nhost: a.example\r\n"),
        ("http://a.example?b", "http://a.example/?b HTTP/1.1\r\nhost: a.example\r\n"),
        ("http://a.example/*", "http://a.example/* HTTP/1.1\r\nhost: a.example\r\n"),
    ] {
        let (request, mut response) = (Request::new(Method::Options, url).unwrap(), Response::new());
        client(&proxy.url).send(&request, &mut response).await.unwrap();
        assert_eq!(response.body.text(), Ok(&*format!("OPTIONS {line}\r\n")));
    }
    let client = Client::builder()
        .proxies(Proxies::all(Proxy::new("http://127.0.0.1:1").unwrap()).except("127.0.0.1"))
        .build();
    let direct = client.get(&proxy.url).await.unwrap();
    assert!(direct.body.text().unwrap().starts_with("GET / HTTP/1.1\r\n"));
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn a_proxy_hears_nothing_of_what_goes_through_its_tunnel() {
    use crate::certificates::Authority;
    use corehttp::tls::{self, ClientTls, ServerTls};
    use corehttp::{Context, Server};
    use tokio::io::copy_bidirectional;
    use tokio::net::TcpStream;

    const TAKES: Duration = Duration::from_millis(50);
    let ours = Authority::new("ours");
    let issued = ours.issue(&["a.example"]);
    let tls = ServerTls::new(tls::Identity::from_pem(&issued.chain, &issued.key).unwrap());
    let server = Server::bind("127.0.0.1:0").cores(1).tls(tls);
    let running = server.start(|ctx: &mut Context| {
        let leaked = ctx.request.headers.get("proxy-authorization").unwrap_or("secret").to_owned();
        ctx.response.set_text(leaked);
    });
    let running = running.unwrap();
    let address = running.local_addr();
    let proxy = Scripted::new(move |mut peer, _| async move {
        let head = peer.request().await?.unwrap();
        assert!(head.starts_with("CONNECT a.example:443 HTTP/1.1\r\nhost: a.example:443\r\n"), "{head}");
        assert!(head.contains("\r\nproxy-authorization: Basic am9lOnB3\r\n"), "{head}");
        tokio::time::sleep(TAKES).await;
        peer.send(
            "HTTP/1.1 100 Continue\r\n\r\n".repeat(100)
                + "HTTP/1.1 200 Connected\r\ncontent-length: 99\r\ntransfer-encoding: chunked\r\n\r\n",
        )
        .await?;
        let mut origin = TcpStream::connect(address).await?;
        copy_bidirectional(&mut peer.stream, &mut origin).await.map(drop)
    })
    .await;
    let client = Client::builder()
        .proxies(Proxies::all(Proxy::new(&proxy.url).unwrap()))
        .default_header("proxy-authorization", "Basic am9lOnB3")
        .unwrap()
        .tls(ClientTls::new().roots(tls::Roots::from_pem(ours.pem()).unwrap()))
        .build();
    for is_reused in [false, true, true] {
        let response = client.get("https://a.example/").await.unwrap();
        assert_eq!(response.body.text(), Ok("secret"));
        assert_eq!(response.timings().connect >= TAKES, !is_reused, "it is on the way to the host");
    }
    assert_eq!(proxy.connections(), 1);
    running.stop(Duration::ZERO);
}

/// A proxy that opens tunnels, through which an origin answers each request with `response`, and reads other requests,
/// which it answers with their heads.
fn opening(response: &'static str) -> Stage {
    Stage::new(move |mut peer, _| async move {
        let mut is_tunnel = false;
        while let Some(head) = peer.request().await? {
            match (is_tunnel, head.starts_with("CONNECT ")) {
                (false, true) => peer.send("HTTP/1.1 200 OK\r\n\r\n").await?,
                (true, _) => peer.send(response).await?,
                (false, false) => peer.send(OK).await?,
            }
            is_tunnel |= head.starts_with("CONNECT ");
        }
        Ok(())
    })
}

const SWITCHING: &str = "HTTP/1.1 101 x\r\nconnection: upgrade\r\nupgrade: own\r\n\r\n";

/// The field is for the next hop, and each proxy that reads the request would have to drop it.
#[tokio::test(start_paused = true)]
async fn an_upgrade_goes_through_a_tunnel_rfc9110_7_8() {
    for (proxy, login) in
        [("http://p:3128", ""), ("http://joe:pw@p", "proxy-authorization: Basic am9lOnB3\r\n")]
    {
        let (stage, mut response) = (opening(SWITCHING), Response::new());
        let builder = stage.builder().proxies(Proxies::all(Proxy::new(proxy).unwrap()));
        let client = builder.default_header("authorization", "Bearer t").unwrap().build();
        let upgrade = |url: &str| {
            let mut request = Request::get(url).unwrap();
            request.headers.set("upgrade", "own").unwrap();
            request
        };
        let (whole, path) = (upgrade("http://a:8080/b"), upgrade("/b"));
        let expected = [
            format!("CONNECT a:8080 HTTP/1.1\r\nhost: a:8080\r\n{login}\r\n"),
            "GET /b HTTP/1.1\r\nhost: a:8080\r\nupgrade: own\r\nauthorization: Bearer t\r\nconnection: upgrade\r\n\r\n"
                .to_owned(),
        ];
        let check = |way: &str| assert_eq!(stage.received(), expected, "{way} through {proxy}");
        drop(client.upgrade(&whole, &mut response).await.unwrap());
        check("client");
        drop(client.host("http://a:8080").unwrap().upgrade(&path, &mut response).await.unwrap());
        check("host");
        let balancer = client.balance(["http://a:8080"]).unwrap().build();
        drop(balancer.upgrade(&path, &mut response).await.unwrap());
        check("balancer");
        // As a gateway passes a WebSocket on.
        drop(client.open_call(&whole).await.unwrap().finish(&mut response).await.unwrap());
        check("call");
        client.send(&whole, &mut response).await.unwrap();
        check("send");
        #[cfg(feature = "websocket")]
        {
            client.websocket("ws://a:8080/b").await.unwrap_err();
            let heads = stage.received();
            let begins = "GET /b HTTP/1.1\r\nhost: a:8080\r\nupgrade: websocket\r\n";
            assert!(heads[0] == expected[0] && heads[1].starts_with(begins), "{heads:?}");
        }
        assert_eq!(
            (client.busy_connections(), client.idle_connections(), response.status.as_u16()),
            (0, 0, 101)
        );
    }
}

/// A tunnel whose origin goes on with HTTP carries further requests for an upgrade, and no others.
#[tokio::test(start_paused = true)]
async fn a_tunnel_is_kept_apart_from_requests_that_the_proxy_reads() {
    let stage = opening(OK);
    let client = stage.builder().proxies(Proxies::all(Proxy::new("p").unwrap())).build();
    let mut upgrade = Request::get("http://a/").unwrap();
    upgrade.headers.set("upgrade", "own").unwrap();
    let mut response = Response::new();
    for _ in 0..2 {
        let error = client.upgrade(&upgrade, &mut response).await.unwrap_err();
        assert!(matches!(error.cause(), ClientCause::Upgrade), "{error:#}");
        assert_eq!(client.get("http://a/").await.unwrap().text(), Ok("ok"));
    }
    let heads = stage.received();
    let lines = Vec::from_iter(heads.iter().map(|head| head.split("\r\n").next().unwrap()));
    let read = "GET http://a/ HTTP/1.1";
    assert_eq!(lines, ["CONNECT a:80 HTTP/1.1", "GET / HTTP/1.1", read, "GET / HTTP/1.1", read]);
    assert_eq!((stage.dialed().len(), client.idle_connections(), client.busy_connections()), (2, 2, 0));
    let counts = &client.counts().hosts["http://a"];
    assert_eq!((counts.dials, counts.answered, counts.idle), (2, 4, 2));
    client.close_idle();
    assert_eq!(client.idle_connections(), 0);
    let refusing = Stage::always("HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n");
    let client = refusing.builder().proxies(Proxies::all(Proxy::new("p").unwrap())).build();
    let error = client.upgrade(&upgrade, &mut response).await.unwrap_err();
    let text = "http://a/: connecting to a:80 through the proxy http://p:80 failed: the proxy answered 403 Forbidden";
    assert_eq!((format!("{error:#}").as_str(), error.is_sent()), (text, false));
}

/// Requests to many hosts are requests to one, which is the proxy that reads them.
#[tokio::test(start_paused = true)]
async fn requests_that_a_proxy_reads_share_its_connections() {
    let stage = Stage::always(OK);
    let proxies = || Proxies::all(Proxy::new("http://joe:pw@p").unwrap());
    let client = stage.builder().proxies(proxies()).build();
    for host in 0..50 {
        client.get(&format!("http://a{host}/b")).await.unwrap();
    }
    let host = client.host("http://x").unwrap();
    host.send(&Request::get("/b").unwrap(), &mut Response::new()).await.unwrap();
    assert_eq!((stage.dialed().len(), client.idle_connections(), client.busy_connections()), (1, 1, 0));
    for (number, head) in stage.received().iter().take(50).enumerate() {
        let expected = format!(
            "GET http://a{number}/b HTTP/1.1\r\nhost: a{number}\r\nproxy-authorization: Basic am9lOnB3\r\n\r\n"
        );
        assert_eq!(*head, expected);
    }
    let stats = client.counts();
    assert_eq!((stats.hosts.len(), stats.total.dials, stats.total.idle), (51, 1, 1));
    for (key, counts) in &stats.hosts {
        let is_first = &**key == "http://a0";
        let expected = (u64::from(is_first), u64::from(!is_first), 1);
        assert_eq!((counts.dials, counts.reused, counts.answered), expected, "{key}");
        assert_eq!(counts.idle, u64::from(&**key == "http://x"), "{key}");
        assert!(counts.received == OK.len() as u64 && counts.sent > 0, "{key}: {counts:?}");
    }
    assert_eq!(host.idle_connections(), 1);
    // A redirect to another host stays on its connection, and a pipeline uses it.
    let pipeline = client.pipeline("http://y").unwrap().build();
    pipeline.send(&Request::get("/b").unwrap(), &mut Response::new()).await.unwrap();
    assert_eq!((stage.dialed().len(), client.idle_connections(), host.idle_connections()), (1, 1, 0));
    tokio::time::sleep(std::time::Duration::from_secs(40)).await;
    assert_eq!((client.idle_connections(), client.busy_connections()), (0, 0), "it has expired once for all");
    // Without a proxy, or through a tunnel, each host has its own.
    let direct = Stage::always(OK);
    let client = direct.builder().proxies(proxies().except("*")).build();
    for host in ["http://a/", "http://b/", "http://a/"] {
        client.get(host).await.unwrap();
    }
    assert_eq!((direct.dialed().len(), client.idle_connections()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn the_bound_of_a_host_is_that_of_a_proxy_that_reads_requests() {
    let stage = Stage::new(|mut peer, _| async move {
        while peer.request().await?.is_some() {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            peer.send(OK).await?;
        }
        Ok(())
    });
    let builder = stage.builder().proxies(Proxies::all(Proxy::new("p").unwrap()));
    let timeouts = corehttp::client::ClientTimeouts {
        queue: std::time::Duration::from_millis(3500),
        ..corehttp::client::ClientTimeouts::default()
    };
    let client = builder
        .limits(ClientLimits { connections_per_host_max: 2, ..ClientLimits::default() })
        .timeouts(timeouts)
        .build();
    let mut asking = tokio::task::JoinSet::new();
    for host in 0..10 {
        let client = client.clone();
        asking.spawn(async move { client.get(&format!("http://a{host}/")).await.map(drop) });
    }
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let stats = client.counts();
    assert_eq!((stats.total.busy, stats.total.waiting, stats.total.idle), (2, 8, 0));
    assert!(stats.hosts.values().all(|counts| counts.busy + counts.waiting == 1), "{stats:?}");
    assert_eq!(client.busy_connections(), 2);
    let mut failed = 0;
    while let Some(asked) = asking.join_next().await {
        if let Err(error) = asked.unwrap() {
            failed += 1;
            let text = format!("{error:#}");
            let expected =
                "waiting for one of the 2 connections to the proxy http://p:80 took longer than 3500 ms";
            assert!(text.ends_with(expected), "{text}");
        }
    }
    // Two are answered each second, and the last two would have to wait for four.
    assert_eq!(
        (failed, stage.dialed().len(), client.idle_connections(), client.busy_connections()),
        (2, 2, 2, 0)
    );
}

/// A request on behalf of one client must not leave over the connection of another.
#[cfg(feature = "proxy-protocol")]
#[tokio::test(start_paused = true)]
async fn connections_on_behalf_of_others_are_not_shared() {
    use corehttp::proxy_protocol::{ProxyHeader, ProxyVersion};

    let stage = Stage::new(|mut peer, number| async move {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.push(peer.stream.read_u8().await?);
        }
        let expected = format!("PROXY TCP4 192.0.2.{number} 192.0.2.9 1 80\r\n");
        assert_eq!(String::from_utf8(line).unwrap(), expected);
        peer.answer(OK).await
    });
    let client = stage.builder().proxies(Proxies::all(Proxy::new("p").unwrap())).build();
    for number in 0..3 {
        let header = ProxyHeader::new(([192, 0, 2, number], 1).into(), ([192, 0, 2, 9], 80).into());
        let own = client.on_behalf_of(&header, ProxyVersion::V1);
        for host in ["http://a/", "http://b/", "http://a/"] {
            own.get(host).await.unwrap();
        }
        assert_eq!(
            (own.idle_connections(), client.idle_connections(), stage.dialed().len()),
            (1, 0, usize::from(number) + 1)
        );
    }
}

/// Once it has connected, a proxy is transparent: the host receives a path, and not the password for the proxy.
#[tokio::test]
async fn a_request_through_socks_looks_direct_to_its_host() {
    let proxy = Scripted::new(|mut peer, _| async move {
        for (received, reply) in [
            (&b"\x05\x02\x00\x02"[..], &b"\x05\x02"[..]),
            (b"\x01\x03joe\x02pw", b"\x01\x00"),
            (b"\x05\x01\x00\x03\x09a.example\x1f\x90", b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"),
        ] {
            let mut said = vec![0; received.len()];
            peer.stream.read_exact(&mut said).await?;
            assert_eq!(said, received);
            peer.send(reply).await?;
        }
        while let Some(head) = peer.request().await? {
            peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{head}", head.len())).await?;
        }
        Ok(())
    })
    .await;
    let client = client(&proxy.url.replace("http://", "socks5h://joe:pw@"));
    for _ in 0..3 {
        let response = client.get("http://a.example:8080/b?c").await.unwrap();
        assert_eq!(response.body.text(), Ok("GET /b?c HTTP/1.1\r\nhost: a.example:8080\r\n\r\n"));
    }
    assert_eq!((proxy.connections(), client.idle_connections()), (1, 1));
}

/// No request is sent to a proxy that answers CONNECT with something else.
#[cfg(feature = "tls")]
#[tokio::test]
async fn a_proxy_that_opens_no_tunnel_is_not_taken_for_the_origin() {
    for (response, why) in [
        ("HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n", "the proxy answered 407"),
        ("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 6\r\n\r\nsecret", "the proxy answered 502"),
        (
            "HTTP/1.1 301 Moved\r\nlocation: http://evil/\r\ncontent-length: 0\r\n\r\n",
            "the proxy answered 301",
        ),
        ("HTTP/1.1 200 OK\r\n\r\nbytes that came too early", "the proxy sent more than"),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", "the proxy answered 101"),
        ("HTTP/1.1 2000 OK\r\n\r\n", "malformed"),
        ("garbage\r\n\r\n", "malformed"),
        ("\x15\x03\x01\0\x02\x02\x28", "the peer speaks TLS"),
        ("HTTP/1.1 200 OK\r\n", "before"),
        ("", "closed"),
    ] {
        let proxy = Scripted::new(move |mut peer, _| async move {
            peer.request().await?;
            peer.send(response).await
        })
        .await;
        let client = client(&proxy.url);
        let error = client.get("https://a.example/").await.unwrap_err();
        assert_eq!(
            (error.phase(), error.is_sent()),
            (ClientPhase::Connect, false),
            "{response:?}: {error:#}"
        );
        assert!(format!("{error:#}").contains(why), "{response:?}: {error:#}");
        assert_eq!((client.idle_connections(), client.busy_connections()), (0, 0));
    }
    let talkative = Scripted::new(|mut peer, _| async move {
        peer.request().await?;
        peer.send("HTTP/1.1 103 Early Hints\r\n\r\n".repeat(2_341) + "HTTP/1.1 200 OK\r\n\r\n").await
    })
    .await;
    let error = client(&talkative.url).get("https://a.example/").await.unwrap_err();
    assert!(format!("{error:#}").contains("there were too many interim responses"), "{error:#}");
    // The client must not wait for what would come behind a 101.
    let switching = Scripted::new(|mut peer, _| async move {
        peer.request().await?;
        peer.send("HTTP/1.1 101 Switching Protocols\r\n\r\n").await?;
        peer.receive_all().await
    })
    .await;
    let error = client(&switching.url).get("https://a.example/").await.unwrap_err();
    assert!(matches!(error.cause(), ClientCause::Proxy(_)), "{error:#}");
}

/// A proxy that refuses all, and answers each CONNECT so.
#[cfg(feature = "tls")]
fn refusing(response: impl Into<String>) -> Stage {
    let response: String = response.into();
    Stage::new(move |mut peer, _| {
        let response = response.clone();
        async move {
            peer.request().await?;
            peer.send(response).await?;
            peer.receive_all().await
        }
    })
}

#[cfg(feature = "tls")]
#[tokio::test(start_paused = true)]
async fn a_connect_has_the_user_agent_and_the_fields_of_its_proxy_rfc9110_9_3_6() {
    let proxy = || Proxy::new("http://joe:pw@proxy").unwrap();
    let with = |fields: &[(&str, &str)]| {
        fields.iter().fold(proxy(), |proxy, (name, value)| proxy.header(name, *value).unwrap())
    };
    let basic = "proxy-authorization: Basic am9lOnB3\r\n";
    for (proxy, expected) in [
        (proxy(), format!("user-agent: me/1\r\n{basic}")),
        (
            with(&[("X-Own", "a"), ("x-own", "b")]),
            format!("user-agent: me/1\r\nX-Own: a\r\nx-own: b\r\n{basic}"),
        ),
        (with(&[("x-own", "a"), ("User-Agent", "you")]), format!("x-own: a\r\nUser-Agent: you\r\n{basic}")),
        (
            with(&[("Proxy-Authorization", "Bearer t")]),
            "user-agent: me/1\r\nproxy-authorization: Bearer t\r\n".into(),
        ),
        (
            with(&[
                ("host", "b"),
                ("content-length", "1"),
                ("transfer-encoding", "chunked"),
                ("Connection", "x"),
            ]),
            format!("user-agent: me/1\r\n{basic}"),
        ),
    ] {
        let stage = refusing("HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n");
        let client = stage
            .builder()
            .default_header("user-agent", "me/1")
            .unwrap()
            .default_header("accept", "*/*")
            .unwrap();
        client.proxies(Proxies::all(proxy)).build().get("https://a.example/b").await.unwrap_err();
        let head = "CONNECT a.example:443 HTTP/1.1\r\nhost: a.example:443\r\n";
        assert_eq!(stage.received(), [format!("{head}{expected}\r\n")]);
    }
    // A request that the proxy reads goes on to its host, with the fields that it has.
    let stage = Stage::always(OK);
    let client = stage.builder().proxies(Proxies::all(with(&[("x-own", "a")]))).build();
    client.get("http://a.example/b").await.unwrap();
    assert_eq!(
        stage.received(),
        [format!("GET http://a.example/b HTTP/1.1\r\nhost: a.example\r\n{basic}\r\n")]
    );
    for (name, value) in [("a b", "c"), ("a", "b\r\nc: d"), ("", "c")] {
        assert!(proxy().header(name, value).is_err(), "{name}: {value}");
    }
}

#[cfg(feature = "tls")]
#[tokio::test(start_paused = true)]
async fn the_response_of_a_proxy_that_refuses_is_within_reach_rfc9110_9_3_6() {
    let why = "<p>Only on weekdays.</p>";
    let long = "x".repeat(100 << 10);
    for (status, framed, expected) in [
        (407, format!("content-length: {}\r\n\r\n{why}", why.len()), why),
        (403, format!("transfer-encoding: chunked\r\n\r\n{:x}\r\n{why}\r\n0\r\n\r\n", why.len()), why),
        (502, "content-length: 0\r\n\r\n".into(), ""),
        (302, "location: http://login/\r\ncontent-length: 0\r\n\r\n".into(), ""),
        // Without an end, only part of it, or too much.
        (503, format!("\r\n{why}"), why),
        (500, format!("content-length: 999\r\n\r\n{why}"), why),
        (404, format!("transfer-encoding: chunked\r\n\r\n{:x}\r\n{why}\r\nnonsense", why.len()), why),
        (400, format!("content-length: {}\r\n\r\n{long}", long.len()), &long[..64 << 10]),
    ] {
        let stage = refusing(format!(
            "HTTP/1.1 {status} x\r\nproxy-authenticate: Basic\r\nset-cookie: a=secret\r\n{framed}"
        ));
        let proxied = stage.builder().proxies(Proxies::all(Proxy::new("http://joe:secret@proxy").unwrap()));
        let client =
            proxied.limits(ClientLimits { connections_per_host_max: 1, ..ClientLimits::default() }).build();
        let start = tokio::time::Instant::now();
        let (one, two) = tokio::join!(client.get("https://a.example/"), client.get("https://a.example/"));
        assert!(
            start.elapsed() <= 2 * Duration::from_millis(1_100),
            "no refusal takes long: {:?}",
            start.elapsed()
        );
        for error in [one.unwrap_err(), two.unwrap_err()] {
            let refusal = error.proxy_response().unwrap();
            assert_eq!((refusal.status.as_u16(), refusal.body.text()), (status, Ok(expected)));
            assert_eq!(refusal.headers.get("proxy-authenticate"), Some("Basic"));
            assert_eq!(error.phase(), ClientPhase::Connect);
            let shown = format!("{error} {error:#} {error:?}");
            assert!(shown.contains(&status.to_string()) && !shown.contains("secret"), "{shown}");
        }
        assert_eq!((client.idle_connections(), client.busy_connections()), (0, 0));
    }
    let silent = refusing("").builder().proxies(Proxies::all(Proxy::new("proxy").unwrap())).build();
    assert!(silent.get("https://a.example/").await.unwrap_err().proxy_response().is_none());
}

/// The refusal is the reason, whether its body comes in time or not.
#[cfg(feature = "tls")]
#[tokio::test(start_paused = true)]
async fn the_body_of_a_refusal_prolongs_no_connecting_rfc9110_9_3_6() {
    let milliseconds = Duration::from_millis;
    // In milliseconds: when the refusal comes, the limits of connecting and of the request, and when it is told.
    for (after, connect, whole, expected) in
        [(0, 300, 9_000, 300), (200, 300, 9_000, 300), (200, 5_000, 9_000, 1_200), (200, 5_000, 500, 500)]
    {
        let stage = Stage::new(move |mut peer, _| async move {
            peer.request().await?;
            tokio::time::sleep(milliseconds(after)).await;
            peer.send("HTTP/1.1 407 x\r\ncontent-length: 100\r\n\r\npart").await?;
            peer.receive_all().await
        });
        let timeouts = ClientTimeouts { connect: milliseconds(connect), ..ClientTimeouts::default() };
        let proxied = stage.builder().proxies(Proxies::all(Proxy::new("proxy").unwrap()));
        let start = tokio::time::Instant::now();
        let client = proxied.timeouts(timeouts).build();
        let asked = client.get("https://a.example/").timeout(milliseconds(whole));
        let error = asked.await.unwrap_err();
        let took = start.elapsed().as_millis();
        assert!((expected..expected + 20).contains(&took), "{took} ms of {connect} ms");
        let refusal = error.proxy_response().unwrap();
        assert_eq!((refusal.status.as_u16(), refusal.body.text()), (407, Ok("part")));
    }
}

#[cfg(feature = "tls")]
#[tokio::test(start_paused = true)]
async fn interim_responses_to_a_connect_are_bounded_rfc9110_15_2() {
    const HEAD: &str = "HTTP/1.1 102 x\r\n\r\n";
    let at_most = 1000 / HEAD.len();
    for (count, is_refused) in [(1, true), (at_most, true), (at_most + 1, false), (5000, false)] {
        let stage = refusing(format!("{}HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n", HEAD.repeat(count)));
        let proxied = stage.builder().proxies(Proxies::all(Proxy::new("proxy").unwrap()));
        let client = proxied.limits(ClientLimits { head_max: 1000, ..ClientLimits::default() }).build();
        let error = client.get("https://a.example/").await.unwrap_err();
        assert_eq!(error.phase(), ClientPhase::Connect);
        assert_eq!(error.proxy_response().map(|refusal| refusal.status.as_u16()), is_refused.then_some(403));
        let is_flood = matches!(error.cause(), ClientCause::TooManyInformational);
        assert_eq!(is_flood, !is_refused, "{count}: {error:#}");
        assert_eq!(
            format!("{error:#}").contains("more than 1000 bytes of them (`head_max`)"),
            is_flood,
            "{error:#}"
        );
    }
}

#[tokio::test]
async fn a_redirect_keeps_the_proxy_and_its_password() {
    let proxy = Scripted::new(|mut peer, _| async move {
        while let Some(head) = peer.request().await? {
            assert!(head.contains("proxy-authorization: Basic am9lOnB3\r\n"), "{head}");
            let response = match head.starts_with("GET http://a.example/ ") {
                true => "HTTP/1.1 302 Found\r\nlocation: http://b.example/\r\ncontent-length: 0\r\n\r\n",
                false => OK,
            };
            peer.send(response).await?;
        }
        Ok(())
    })
    .await;
    let client = client(&proxy.url.replace("http://", "http://joe:pw@"));
    assert_eq!(client.get("http://a.example/").await.unwrap().body.text(), Ok("ok"));
}

/// A default `proxy-authorization` must not be sent to an origin, and must reach a proxy that is asked for a tunnel.
#[tokio::test]
async fn default_credentials_for_proxies_go_to_proxies_alone_rfc9110_11_7_2() {
    let (near, far) = (parrot().await, parrot().await);
    for (proxy, asked, expected) in [
        (None, &far, None),
        (Some(near.url.clone()), &far, Some("Bearer x")),
        (Some(near.url.replace("http://", "http://joe:pw@")), &far, Some("Basic am9lOnB3")),
    ] {
        let proxies = proxy.map_or(Proxies::none(), |url| Proxies::all(Proxy::new(&url).unwrap()));
        let client =
            Client::builder().default_header("proxy-authorization", "Bearer x").unwrap().proxies(proxies);
        let received = client.build().get(&asked.url).await.unwrap();
        let line = expected.map_or(String::new(), |value| format!("proxy-authorization: {value}\r\n"));
        let lines = received.body.text().unwrap().split_once("\r\nhost: ").unwrap().1;
        assert_eq!(lines.split_once("\r\n").unwrap().1, format!("{line}\r\n"));
    }
}

#[tokio::test]
async fn an_unreachable_proxy_is_an_error_of_connecting() {
    let client = client("http://127.0.0.1:1");
    let request = Request::get("http://a.example/").unwrap();
    let error = client.send(&request, &mut Response::new()).await.unwrap_err();
    assert!(
        matches!(error.cause(), ClientCause::Io(_)) && error.phase() == ClientPhase::Connect,
        "{error:#}"
    );
}

#[cfg(feature = "tls")]
mod over_tls {
    use std::io;
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;

    use corehttp::middleware::wrap;
    use corehttp::net::Resolver;
    use corehttp::tls::{self, ClientTls, ServerTls};
    use corehttp::{BodyPlan, ClientBuilder, ClientError, Context, Server, ServerHandle};
    use tokio::io::{AsyncWriteExt, DuplexStream, copy_bidirectional};
    use tokio::net::TcpStream;
    use tokio::time::{Instant, sleep};
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::version::TLS13;
    use tokio_rustls::server::TlsStream;

    use super::*;
    use crate::certificates::Authority;
    use crate::secure::foreign;
    use crate::support::{Peer, Received, ask};

    /// A server that proves to be localhost. It opens tunnels to what is named by their ports, and tells other requests
    /// what it was asked for, and by whom.
    fn serve(authority: &Authority) -> ServerHandle {
        let issued = authority.issue(&["localhost"]);
        let tls = ServerTls::new(tls::Identity::from_pem(&issued.chain, &issued.key).unwrap());
        let server = Server::bind("127.0.0.1:0").cores(1).tls(tls);
        let respond = async |ctx: &mut Context| -> corehttp::Result {
            let Context { request, response, .. } = &mut *ctx;
            let login = request.headers.get("proxy-authorization").unwrap_or("nobody");
            if request.method() != Method::Connect {
                response.set_text(format!("{} for {login}", request.target().as_str()));
                return Ok(());
            }
            assert_eq!(login, "Basic am9lOnB3");
            let port: u16 = request.target().as_str().rsplit(':').next().unwrap().parse()?;
            let mut origin = TcpStream::connect(("127.0.0.1", port)).await?;
            let mut peer = ctx.accept_tunnel().await?;
            Ok(copy_bidirectional(&mut peer, &mut origin).await.map(drop)?)
        };
        server.start(wrap(BodyPlan::Tunnel, respond)).unwrap()
    }

    fn asking(authority: &Authority, proxy: &str) -> ClientBuilder {
        let roots = tls::Roots::from_pem(authority.pem()).unwrap();
        Client::builder().proxies(Proxies::all(Proxy::new(proxy).unwrap())).tls(ClientTls::new().roots(roots))
    }

    #[tokio::test]
    async fn a_proxy_may_have_to_prove_its_identity() {
        let ours = Authority::new("ours");
        let (proxy, origin) = (serve(&ours), serve(&ours));
        let port = proxy.local_addr().port();
        let client = asking(&ours, &format!("https://joe:pw@localhost:{port}")).build();
        for is_reused in [false, true] {
            let response = client.get("http://a.example/b").await.unwrap();
            assert_eq!(response.body.text(), Ok("http://a.example/b for Basic am9lOnB3"));
            assert_eq!(response.timings().reused, is_reused);
        }
        // TLS within TLS: the origin proves its identity, too, and receives nothing of the proxy's password.
        let url = format!("https://localhost:{}/b", origin.local_addr().port());
        for is_reused in [false, true, true] {
            let response = client.get(&url).await.unwrap();
            assert_eq!(response.body.text(), Ok("/b for nobody"));
            let timings = response.timings();
            assert_eq!((timings.reused, timings.tls.is_zero()), (is_reused, is_reused));
        }
        // A connection within a connection is seen to be closed, too.
        assert_eq!(client.idle_connections(), 2);
        origin.stop(Duration::ZERO);
        origin.wait().unwrap();
        let error = client.get(&url).await.unwrap_err();
        assert_eq!((error.phase(), error.is_reused()), (ClientPhase::Connect, false), "{error:?}");
    }

    #[tokio::test]
    async fn a_proxy_that_cannot_prove_it_hears_no_request() {
        let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
        let proxy = serve(&theirs);
        let port = proxy.local_addr().port();
        for (url, host) in [
            ("http://a.example", "localhost"),
            ("https://a.example", "localhost"),
            ("http://a.example", "127.0.0.1"),
        ] {
            let trusted = if host == "localhost" { &ours } else { &theirs };
            let error =
                asking(trusted, &format!("https://{host}:{port}")).build().get(url).await.unwrap_err();
            assert_eq!(error.phase(), ClientPhase::Connect, "{error:?}");
            assert!(matches!(error.cause(), ClientCause::Tls(tls::Error::Certificate(_))), "{error:?}");
            assert!(!error.is_sent());
        }
        assert_eq!(proxy.counts().total.requests, 0);
        let error = asking(&ours, "https://a..b").build().get("http://a.example").await.unwrap_err();
        assert!(matches!(error.cause(), ClientCause::Tls(tls::Error::Host)), "{error:?}");
    }

    /// In TLS 1.3 the refusal arrives when the response to the request is expected, be that a CONNECT (RFC 8446 §4.4.2).
    #[tokio::test]
    async fn a_proxy_that_refuses_the_certificate_is_named_rfc8446_4_4_2() {
        let ours = Authority::new("ours");
        let issued = ours.issue(&["localhost"]);
        let tls = ServerTls::new(tls::Identity::from_pem(&issued.chain, &issued.key).unwrap());
        let tls = tls.client_auth_required(tls::Roots::from_pem(ours.pem()).unwrap());
        let server = Server::bind("127.0.0.1:0").cores(1).tls(tls);
        let proxy = server.start(async |_: &mut Context| Ok(())).unwrap();
        let shown = format!("https://localhost:{}", proxy.local_addr().port());
        let client = asking(&ours, &shown).build();
        for (url, expected) in [
            ("https://a.example/", format!("the TLS handshake with the proxy {shown} failed")),
            ("http://a.example/", format!("waiting for the response of the proxy {shown} failed")),
        ] {
            let error = client.get(url).await.unwrap_err();
            assert!(matches!(error.cause(), ClientCause::Tls(tls::Error::Refused(_))), "{error:?}");
            assert_eq!(error.to_string(), format!("{url}: {expected}"));
        }
    }

    /// Finds each name on this machine.
    struct Loopback;

    impl Resolver for Loopback {
        async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
            Ok(vec![Ipv4Addr::LOCALHOST.into()])
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_handshake_of_a_proxy_is_a_part_of_connecting() {
        let proxy =
            Scripted::new(
                |mut peer, _| async move { peer.stream.read_to_end(&mut Vec::new()).await.map(drop) },
            )
            .await;
        let ours = Authority::new("ours");
        let client = asking(&ours, &proxy.url.replace("http://127.0.0.1", "https://localhost"));
        // A paused clock does not wait for the threads that call the system.
        let client = client.resolver(Loopback).dns_ttl(Duration::MAX).build();
        let error = client.get("http://a.example").await.unwrap_err();
        assert!(
            matches!((error.phase(), error.cause()), (ClientPhase::Connect, ClientCause::TimedOut)),
            "{error:?}"
        );
    }

    type Secured = Peer<TlsStream<DuplexStream>>;

    /// A proxy that shakes hands with `acceptor`, receives what it is asked for, and goes on with `serve`.
    fn acting<F>(acceptor: TlsAcceptor, serve: impl Fn(Secured, String) -> F + Send + Sync + 'static) -> Stage
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let serve = Arc::new(serve);
        Stage::new(move |peer, _| {
            let (acceptor, serve) = (acceptor.clone(), serve.clone());
            async move {
                let mut peer = Peer::new(acceptor.accept(peer.stream).await?, Received::default());
                let asked = peer.request().await?.unwrap_or_default();
                serve(peer, asked).await
            }
        })
    }

    fn through(stage: &Stage, authority: &Authority, proxy: &str) -> ClientBuilder {
        let roots = tls::Roots::from_pem(authority.pem()).unwrap();
        let proxies = Proxies::all(Proxy::new(proxy).unwrap());
        stage.builder().proxies(proxies).tls(ClientTls::new().roots(roots))
    }

    /// An address is another identity than a name that is spelled like it, and than any other address.
    #[tokio::test]
    async fn proxies_and_hosts_may_be_addresses_rfc9110_4_3_5() {
        let ours = Authority::new("ours");
        let received = |authority| Ok(format!("CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n\r\n"));
        let (early, late) = (Err(ClientPhase::Connect), Err(ClientPhase::Tls));
        for ((proxy, its), (url, own), expected) in [
            (
                ("192.0.2.1", "192.0.2.1"),
                ("[2001:db8::7]:8443", "2001:db8::7"),
                received("[2001:db8::7]:8443"),
            ),
            (("[2001:db8::1]", "2001:db8::1"), ("192.0.2.7", "192.0.2.7"), received("192.0.2.7:443")),
            (
                ("[2001:DB8:0::1]", "2001:db8::1"),
                ("[2001:DB8::7]", "2001:db8::7"),
                received("[2001:db8::7]:443"),
            ),
            (("[2001:db8::1]", "2001:db8::2"), ("192.0.2.7", "192.0.2.7"), early.clone()),
            (("[::ffff:192.0.2.1]", "192.0.2.1"), ("192.0.2.7", "192.0.2.7"), early.clone()),
            (("192.0.2.1", "*.0.2.1"), ("192.0.2.7", "192.0.2.7"), early),
            (("192.0.2.1", "192.0.2.1"), ("[2001:db8::7]", "2001:db8::8"), late.clone()),
            (("192.0.2.1", "192.0.2.1"), ("192.0.2.7", "::ffff:192.0.2.7"), late.clone()),
            (("192.0.2.1", "192.0.2.1"), ("[2001:db8::7]", "a.example"), late.clone()),
            // Nor does the proxy pass for the host.
            (("192.0.2.1", "192.0.2.1"), ("192.0.2.7", "192.0.2.1"), late),
        ] {
            let [outer, inner] = [its, own].map(|host| foreign(&ours.issue(&[host]), &TLS13));
            let stage = acting(outer, move |mut peer, asked| {
                let inner = inner.clone();
                async move {
                    peer.send("HTTP/1.1 200 OK\r\n\r\n").await?;
                    let peer = Peer::new(inner.accept(peer.stream).await?, Received::default());
                    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", asked.len());
                    peer.answer(head + &asked).await
                }
            });
            let client = through(&stage, &ours, &format!("https://{proxy}")).build();
            let request = Request::get(&format!("https://{url}/")).unwrap();
            for _ in 0..2 {
                match ask(&client, &request).await {
                    Ok(response) => {
                        assert_eq!(Ok(response.1), expected, "{proxy} {url}");
                        assert_eq!(stage.dialed().len(), 1, "{proxy} {url}: it was used again");
                    }
                    Err(error) => {
                        assert_eq!(Err(error.phase()), expected, "{proxy} {url}: {error:?}");
                        let cause = error.cause();
                        assert!(matches!(cause, ClientCause::Tls(tls::Error::Certificate(_))), "{error:?}");
                        assert!(!error.is_sent());
                    }
                }
            }
            assert_eq!(client.busy_connections(), 0);
        }
    }

    #[tokio::test]
    async fn an_upgrade_goes_through_a_tunnel_of_a_secure_proxy() {
        let ours = Authority::new("ours");
        let stage = acting(foreign(&ours.issue(&["p"]), &TLS13), |mut peer, asked| async move {
            let login = "proxy-authorization: Basic am9lOnB3\r\n";
            assert_eq!(asked, format!("CONNECT a:80 HTTP/1.1\r\nhost: a:80\r\n{login}\r\n"));
            peer.send("HTTP/1.1 200 OK\r\n\r\n").await?;
            peer.stream.flush().await?;
            let head = peer.request().await?.unwrap();
            assert_eq!(head, "GET /b HTTP/1.1\r\nhost: a\r\nupgrade: own\r\nconnection: upgrade\r\n\r\n");
            peer.send(SWITCHING).await?;
            peer.stream.flush().await?;
            peer.receive_all().await
        });
        let client = through(&stage, &ours, "https://joe:pw@p").build();
        let (mut request, mut response) = (Request::get("http://a/b").unwrap(), Response::new());
        request.headers.set("upgrade", "own").unwrap();
        drop(client.upgrade(&request, &mut response).await.unwrap());
        assert_eq!((client.busy_connections(), client.idle_connections(), stage.dialed().len()), (0, 0, 1));
    }

    /// How a proxy goes on after what it has said.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Then {
        Closes,
        Stalls,
        /// It says this again every second.
        Drips(&'static str),
    }

    /// A proxy that says `said` when it is asked for a tunnel is given up after so many seconds.
    async fn check(ours: &Authority, said: impl Into<String>, then: Then, seconds: u64) -> ClientError {
        let said: String = said.into();
        let stage = acting(foreign(&ours.issue(&["p"]), &TLS13), {
            let said = said.clone();
            move |mut peer, _| {
                let said = said.clone();
                async move {
                    peer.send(said).await?;
                    peer.stream.flush().await?;
                    while let Then::Drips(drop) = then {
                        sleep(Duration::from_secs(1)).await;
                        peer.send(drop).await?;
                    }
                    if then == Then::Stalls { peer.receive_all().await } else { peer.stream.shutdown().await }
                }
            }
        });
        let (client, start) = (through(&stage, ours, "https://p").build(), Instant::now());
        let error = ask(&client, &Request::get("https://a.example/").unwrap()).await.unwrap_err();
        assert_eq!(start.elapsed().as_secs(), seconds, "{said:?} {then:?}: {error:?}");
        assert_eq!(error.is_timeout(), seconds > 0, "{said:?} {then:?}: {error:?}");
        assert_eq!(
            (error.is_sent(), client.busy_connections(), client.idle_connections()),
            (false, 0, 0),
            "{said:?} {then:?}"
        );
        error
    }

    #[tokio::test(start_paused = true)]
    async fn a_secure_proxy_that_opens_no_tunnel_is_given_up_in_time() {
        const OPEN: &str = "HTTP/1.1 200 OK\r\na: b\r\n\r\n";
        const INTERIM: &str = "HTTP/1.1 103 Early Hints\r\n\r\n";
        let ours = Authority::new("ours");
        // It proves to be who it is, and then ends, stalls or drips, wherever it has come to.
        for cut in 0..OPEN.len() {
            for (then, seconds) in [(Then::Closes, 0), (Then::Stalls, 10)] {
                let error = check(&ours, &OPEN[..cut], then, seconds).await;
                assert_eq!(error.phase(), ClientPhase::Connect, "{cut} {then:?}: {error:?}");
            }
        }
        // Of an open tunnel it may do what it likes, which is then the handshake of the host.
        for (then, seconds) in [(Then::Closes, 0), (Then::Stalls, 10)] {
            let error = check(&ours, OPEN, then, seconds).await;
            assert_eq!(error.phase(), ClientPhase::Tls, "{then:?}: {error:?}");
        }
        for (said, drop) in [
            ("HTTP/1.1 200 ", "O"),
            ("HTTP/1.1 200 OK\r\n", "a: b\r\n"),
            ("HTTP/1.1 200 OK\r\na: ", "b"),
            ("", INTERIM),
        ] {
            let error = check(&ours, said, Then::Drips(drop), 10).await;
            assert_eq!(error.phase(), ClientPhase::Connect, "{said:?} {drop:?}: {error:?}");
        }
        // Or it is given up at once, while it stays.
        for (said, why) in [
            ("HTTP/1.1 407 Who?\r\ncontent-length: 5\r\n\r\nhello".into(), "the proxy answered 407"),
            ("HTTP/1.1 101 Switching Protocols\r\n\r\n".into(), "the proxy answered 101"),
            ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello".into(), "the proxy sent more than"),
            ("HTTP/1.1 200 OK\r\n\r\n\r\n".into(), "the proxy sent more than"),
            (INTERIM.repeat(2_341), "there were too many interim responses"),
            (format!("HTTP/1.1 200 OK\r\na: {}", "b".repeat(64 << 10)), "the head is too large"),
            ("HTTP/1.1 200 OK\r\na: b\n".into(), "a line does not end with CRLF"),
        ] {
            let error = check(&ours, said, Then::Stalls, 0).await;
            assert_eq!(error.phase(), ClientPhase::Connect, "{error:?}");
            assert!(format!("{error:#}").contains(why), "{why}: {error:#}");
        }
    }
}
