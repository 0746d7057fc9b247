//! Where the client goes when it is redirected, and what it takes along (RFC 9110 §15.4).

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::client::{
    ClientCause, ClientLimits, ClientPhase, ClientTimeouts, NextRequest, RedirectAction, Redirects,
};
use corehttp::error::TargetError;
use corehttp::net::Dialer;
use corehttp::{Client, ClientError, Method, Request, Response};
use tokio::io::DuplexStream;

use crate::support::{OK, Stage, ask, post};

/// A server that redirects every request but those for `/end..`, with `status`, to `location`.
fn redirecting(status: u16, location: &str) -> Stage {
    let response = format!("HTTP/1.1 {status} x\r\nlocation: {location}\r\ncontent-length: 2\r\n\r\nno");
    Stage::answering(
        move |request| if path(request).starts_with("/end") { OK.into() } else { response.clone() },
    )
}

fn path(request: &str) -> &str {
    request.split(' ').nth(1).unwrap()
}

fn get(url: &str) -> Request {
    Request::get(url).unwrap()
}

/// A request with a body and all that describes it.
fn described(method: Method) -> Request {
    let mut request = Request::new(method, "http://a/").unwrap();
    request.headers.set("content-type", "text/plain").unwrap();
    request.headers.set("content-language", "en").unwrap();
    request.headers.set("x-own", 1).unwrap();
    request.trailers.set("x-sum", 1).unwrap();
    request.body.set_bytes("hello");
    request
}

#[tokio::test(start_paused = true)]
async fn row_81_the_status_decides_the_method_and_the_body_rfc9110_15_4() {
    const PLAIN: &str = "/end HTTP/1.1\r\nhost: a\r\nx-own: 1\r\n\r\n";
    const WHOLE: &str = "/end HTTP/1.1\r\nhost: a\r\ncontent-type: text/plain\r\ncontent-language: en\r\nx-own: 1\r\n\
                         transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n";
    for (status, method, expected) in [
        (301, Method::Post, ("GET", PLAIN)),
        (302, Method::Post, ("GET", PLAIN)),
        (303, Method::Post, ("GET", PLAIN)),
        (303, Method::Put, ("GET", PLAIN)),
        (303, Method::Delete, ("GET", PLAIN)),
        // The exceptions for POST are none for QUERY (RFC 10008 §2.5).
        (301, Method::Query, ("QUERY", WHOLE)),
        (302, Method::Query, ("QUERY", WHOLE)),
        (303, Method::Query, ("GET", PLAIN)),
        (307, Method::Query, ("QUERY", WHOLE)),
        (308, Method::Query, ("QUERY", WHOLE)),
        (301, Method::Put, ("PUT", WHOLE)),
        (302, Method::Delete, ("DELETE", WHOLE)),
        (302, Method::Patch, ("PATCH", WHOLE)),
        (307, Method::Post, ("POST", WHOLE)),
        (308, Method::Post, ("POST", WHOLE)),
        (307, Method::Put, ("PUT", WHOLE)),
        (308, Method::Patch, ("PATCH", WHOLE)),
    ] {
        let stage = redirecting(status, "/end");
        assert_eq!(ask(&stage.client(), &described(method)).await.unwrap(), (200, "ok".into()));
        let (received, expected) = (stage.received(), format!("{} {}", expected.0, expected.1));
        assert_eq!(
            (received.len(), &received[1], stage.dialed().len()),
            (2, &expected, 1),
            "{status} {method}"
        );
    }
    for status in [301, 302, 303, 307, 308] {
        for method in [Method::Get, Method::Head, Method::Options] {
            let stage = Stage::answering(move |request| match path(request) {
                "/end" => "HTTP/1.1 204 x\r\n\r\n".into(),
                _ => format!("HTTP/1.1 {status} x\r\nlocation: /end\r\ncontent-length: 0\r\n\r\n"),
            });
            let response = ask(&stage.client(), &Request::new(method, "http://a/").unwrap()).await;
            assert_eq!(response.unwrap().0, 204);
            let kept = if (status, method) == (303, Method::Options) { Method::Get } else { method };
            assert_eq!(
                stage.received()[1],
                format!("{kept} /end HTTP/1.1\r\nhost: a\r\n\r\n"),
                "{status} {method}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_tells_the_url_that_redirects_led_to() {
    for (location, expected) in [
        ("/end", "http://a/end"),
        ("//b:81/end?c", "http://b:81/end?c"),
        ("../end#d", "http://a/end"),
        ("http://a/x/../end", "http://a/end"),
    ] {
        let stage = redirecting(302, location);
        let (client, mut response) = (stage.client(), Response::new());
        client.send(&get("http://a/"), &mut response).await.unwrap();
        assert_eq!(response.url.as_deref(), Some(expected), "{location}");
        client.send(&get("http://a/end"), &mut response).await.unwrap();
        assert_eq!(response.url, None, "{location}");
        client.open_response(&get("http://a/"), &mut response).await.unwrap();
        assert_eq!(response.url.as_deref(), Some(expected), "{location}");
        let own = client.with_redirects(Redirects::Return);
        own.send(&get("http://a/"), &mut response).await.unwrap();
        assert_eq!((response.status.as_u16(), &response.url), (302, &None), "{location}");
    }
}

#[tokio::test(start_paused = true)]
async fn other_statuses_are_not_followed_rfc9110_15_4() {
    for status in [200, 201, 300, 304, 305, 306, 399, 400, 503] {
        let stage = redirecting(status, "/end");
        let response = ask(&stage.client(), &Request::head("http://a/").unwrap()).await.unwrap();
        assert_eq!((response.0, stage.received().len()), (status, 1));
    }
    for status in [301, 302, 303, 307, 308] {
        let stage = redirecting(status, "/end");
        let client = stage.client().with_redirects(Redirects::Return);
        assert_eq!(ask(&client, &get("http://a/")).await.unwrap(), (status, "no".into()));
        assert_eq!(stage.received().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_location_is_resolved_against_the_url_that_was_asked_rfc3986_5() {
    for (location, host, line) in [
        ("/c", "a:81", "/c"),
        ("c", "a:81", "/b/c"),
        ("./c?d#e", "a:81", "/b/c?d"),
        ("../../c", "a:81", "/c"),
        ("?d", "a:81", "/b/x?d"),
        ("//b/c", "b", "/c"),
        ("http://b", "b", "/"),
        ("HTTP://B:81/c", "b:81", "/c"),
        ("http://b#c", "b", "/"),
        ("/c d\u{e9}", "a:81", "/c%20d%C3%A9"),
        ("\\c", "a:81", "/c"),
        ("http:c", "a:81", "/b/c"),
        ("///b", "b", "/"),
        ("/\\b", "b", "/"),
        ("/\t/b", "b", "/"),
        ("http://%62/", "b", "/"),
        ("//0x7f.1/", "127.0.0.1", "/"),
    ] {
        let response = format!("HTTP/1.1 302 x\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        let stage = Stage::answering(
            move |request| if path(request) == "/b/x?y" { response.clone() } else { OK.into() },
        );
        assert_eq!(ask(&stage.client(), &get("http://a:81/b/x?y")).await.unwrap().0, 200, "{location}");
        assert_eq!(stage.received()[1], format!("GET {line} HTTP/1.1\r\nhost: {host}\r\n\r\n"), "{location}");
    }
}

/// Why a redirect to `location` is not followed.
async fn refused(location: &str) -> ClientError {
    let stage = redirecting(302, location);
    let client = stage.client();
    let error = ask(&client, &get("http://a/")).await.unwrap_err();
    assert_eq!(
        (error.phase(), stage.received().len(), client.busy_connections()),
        (ClientPhase::Redirect, 1, 0),
        "{location}"
    );
    error
}

#[tokio::test(start_paused = true)]
async fn a_redirect_that_leads_nowhere_is_an_error_rfc9110_15_4() {
    for (location, expected) in [
        ("", None),
        ("ftp://b/", Some(TargetError::Scheme)),
        ("file:///etc/passwd", Some(TargetError::Scheme)),
        ("javascript:alert(1)", Some(TargetError::Scheme)),
        ("https:", Some(TargetError::Authority)),
        ("http://", Some(TargetError::Authority)),
        ("//", Some(TargetError::Authority)),
        ("/\\", Some(TargetError::Authority)),
        ("http://user:%00@b/", Some(TargetError::Userinfo)),
        ("http://b:99999/", Some(TargetError::Authority)),
        ("http://b c/", Some(TargetError::Authority)),
        ("http://%20/", Some(TargetError::Authority)),
        ("http://1.2.3.4.5/", Some(TargetError::Authority)),
    ] {
        let error = refused(location).await;
        assert!(
            matches!(error.cause(), ClientCause::Location(found) if *found == expected),
            "{location}: {error:?}"
        );
    }
}

/// A redirect need not have a location: then it is a response like any other (RFC 9110 §15.4).
#[tokio::test(start_paused = true)]
async fn a_redirect_without_a_location_is_a_response_rfc9110_15_4() {
    for status in [301, 302, 303, 307, 308] {
        let stage =
            Stage::always(format!("HTTP/1.1 {status} x\r\nlocations: /b\r\ncontent-length: 2\r\n\r\nno"));
        for redirects in [Redirects::default(), Redirects::Follow(0)] {
            let client = stage.client().with_redirects(redirects);
            assert_eq!(ask(&client, &get("http://a/")).await.unwrap(), (status, "no".into()));
            assert_eq!((stage.received().len(), client.idle_connections()), (1, 1));
        }
    }
}

/// Latin-1, as old servers send it: they know their own octets.
#[tokio::test(start_paused = true)]
async fn a_location_that_is_not_utf8_is_escaped_octet_by_octet() {
    let stage = Stage::new(|mut peer, _| async move {
        peer.request().await?;
        peer.send(b"HTTP/1.1 302 x\r\nlocation: /caf\xe9\r\ncontent-length: 0\r\n\r\n").await?;
        peer.answer(OK).await
    });
    assert_eq!(ask(&stage.client(), &get("http://a/")).await.unwrap(), (200, "ok".into()));
    assert_eq!(stage.received()[1], "GET /caf%E9 HTTP/1.1\r\nhost: a\r\n\r\n");
}

/// A condition about the state that a PUT has met is none about the page that it leads to.
#[tokio::test(start_paused = true)]
async fn conditions_stay_behind_with_the_method_rfc9110_13_1() {
    const CONDITIONS: [&str; 6] =
        ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range", "range"];
    for (status, method, is_kept) in [
        (303, Method::Put, false),
        (303, Method::Delete, false),
        (302, Method::Post, false),
        (303, Method::Get, true),
        (303, Method::Head, true),
        (302, Method::Get, true),
        (307, Method::Put, true),
    ] {
        let stage = redirecting(status, "/end");
        let mut request = Request::new(method, "http://a/").unwrap();
        CONDITIONS.iter().for_each(|name| request.headers.set(name, "*").unwrap());
        // This server answers HEAD with a stray body: only what it has received counts.
        let _ = stage.client().send(&request, &mut Response::new()).await;
        let next = &stage.received()[1];
        for name in CONDITIONS {
            assert_eq!(next.contains(&format!("\r\n{name}: *\r\n")), is_kept, "{status} {method}: {next}");
        }
    }
}

/// A 303 leads to something that is retrieved, so nothing of the body goes along, whatever the method was.
#[tokio::test(start_paused = true)]
async fn a_body_stays_behind_with_all_that_describes_it_rfc9110_15_4() {
    const DESCRIBES: [&str; 13] = [
        "content-type",
        "content-encoding",
        "content-language",
        "content-location",
        "content-range",
        "content-disposition",
        "content-md5",
        "digest",
        "content-digest",
        "repr-digest",
        "last-modified",
        "trailer",
        "expect",
    ];
    for (status, method, kept) in [
        (303, Method::Get, "GET"),
        (303, Method::Head, "HEAD"),
        (303, Method::Delete, "GET"),
        (303, Method::Options, "GET"),
        (301, Method::Post, "GET"),
        (302, Method::Post, "GET"),
    ] {
        for (is_stream, has_trailers) in [(false, false), (false, true), (true, false), (true, true)] {
            let stage = redirecting(status, "/end");
            let mut request = Request::new(method, "http://a/").unwrap();
            DESCRIBES.iter().for_each(|name| request.headers.set(name, "x").unwrap());
            request.headers.set("te", "trailers").unwrap();
            request.headers.set("x-own", 1).unwrap();
            match is_stream {
                true => request.body.set_stream(&b"hello"[..], None),
                false => request.body.set_bytes("hello"),
            }
            if has_trailers {
                request.trailers.set("x-sum", 1).unwrap();
            }
            let mut response = Response::new();
            // This server answers HEAD with a stray body: only what it has received counts.
            let _ = stage.client().send(&request, &mut response).await;
            let expected = format!(
                "{kept} /end HTTP/1.1\r\nhost: a\r\nte: trailers\r\nx-own: 1\r\nconnection: te\r\n\r\n"
            );
            assert_eq!(stage.received()[1], expected, "{status} {method} {is_stream} {has_trailers}");
        }
    }
    for (status, method) in
        [(301, Method::Get), (302, Method::Get), (307, Method::Get), (308, Method::Delete)]
    {
        let stage = redirecting(status, "/end");
        ask(&stage.client(), &described(method)).await.unwrap();
        let received = stage.received();
        assert_eq!(received[1], received[0].replacen(" / ", " /end ", 1), "{status} {method}");
    }
}

/// A cache, a log and a client may each take another one of the two.
#[tokio::test(start_paused = true)]
async fn a_redirect_that_leads_to_two_places_is_not_followed_rfc9110_15_4() {
    for (fields, expected) in [
        ("location: /b\r\nlocation: /c\r\n", Err(())),
        ("location: /b\r\nx: y\r\nLOCATION: http://c/b\r\n", Err(())),
        ("location: /b\r\nlocation: /b\r\nlocation: /c\r\n", Err(())),
        ("location: /b\r\nlocation:\r\n", Err(())),
        ("location:\r\nlocation: /b\r\n", Err(())),
        ("location: /b\r\nlocation: /B\r\n", Err(())),
        ("location: /b\r\nLocation: /b\r\n", Ok(())),
        ("location: /b\r\n", Ok(())),
    ] {
        let stage = Stage::answering(move |request| match path(request) {
            "/" => format!("HTTP/1.1 302 Found\r\n{fields}content-length: 0\r\n\r\n"),
            _ => OK.into(),
        });
        match (ask(&stage.client(), &get("http://a/")).await, expected) {
            (Ok(response), Ok(())) => assert_eq!(response, (200, "ok".into()), "{fields:?}"),
            (Err(error), Err(())) => {
                assert!(matches!(error.cause(), ClientCause::AmbiguousLocation), "{fields:?}: {error:?}");
                assert_eq!(stage.received().len(), 1, "{fields:?}");
            }
            (response, _) => panic!("{fields:?}: {response:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn redirects_are_followed_only_so_often_rfc9110_15_4() {
    let stage = redirecting(302, "/again");
    for (redirects, requests) in [
        (Redirects::default(), 11),
        (Redirects::Follow(0), 1),
        (Redirects::Follow(1), 2),
        (Redirects::Follow(3), 4),
    ] {
        let client = stage.client().with_redirects(redirects);
        let error = ask(&client, &get("http://a/")).await.unwrap_err();
        assert!(matches!(error.cause(), ClientCause::TooManyRedirects), "{error:?}");
        assert_eq!((error.is_reused(), error.is_sent()), (requests > 1, true), "{redirects:?}");
        assert_eq!((stage.received().len(), client.busy_connections()), (requests, 0), "{redirects:?}");
    }
    let steps = Stage::answering(|request| match path(request).len() {
        11.. => OK.into(),
        _ => format!("HTTP/1.1 302 x\r\nlocation: {}x\r\ncontent-length: 0\r\n\r\n", path(request)),
    });
    assert_eq!(ask(&steps.client(), &get("http://a/")).await.unwrap(), (200, "ok".into()));
    assert_eq!((steps.received().len(), steps.dialed().len()), (11, 1));
}

/// After the redirects in `way`, the last request has the credentials of the first one, or not: its own ones, and those
/// that the client adds to all requests.
async fn check_credentials(way: &'static [&'static str], expected: bool) {
    for is_its_own in [true, false] {
        let stage = Stage::answering(move |request| {
            let step: usize = path(request).trim_start_matches('/').parse().unwrap();
            way.get(step).map_or(OK.into(), |host| {
                format!("HTTP/1.1 307 x\r\nlocation: {host}/{}\r\ncontent-length: 0\r\n\r\n", step + 1)
            })
        });
        let (mut client, mut request) = (stage.builder(), get("http://a.b/0"));
        for name in ["Authorization", "cookie", "Proxy-Authorization", "x-own"] {
            match is_its_own {
                true => request.headers.set(name, "secret").unwrap(),
                false => client = client.default_header(name, "secret").unwrap(),
            }
        }
        assert_eq!(ask(&client.build(), &request).await.unwrap().0, 200, "{way:?}");
        let last = stage.received().pop().unwrap().to_lowercase();
        for name in ["authorization", "cookie", "proxy-authorization"] {
            // A default one is for proxies only.
            let expected = expected && (is_its_own || name != "proxy-authorization");
            let is_sent = last.contains(&format!("\r\n{name}: "));
            assert_eq!(is_sent, expected, "{name} after {way:?}, its own: {is_its_own}");
        }
        assert!(last.contains("x-own: secret") && last.matches("\r\nhost: ").count() == 1);
    }
}

#[tokio::test(start_paused = true)]
async fn row_81_credentials_stay_with_their_origin_and_do_not_come_back_rfc9110_15_4() {
    for way in [&[""][..], &["", "http://a.b", "http://A.B:80", "//a.b:"], &["http://a.b:080"]] {
        check_credentials(way, true).await;
    }
    for way in [
        &["http://c"][..],
        &["//c"],
        &["http://a.b:81"],
        &["http://c.a.b"],
        &["http://b"],
        &["http://a.b."],
        &["http://c", "http://a.b"],
        &["http://a.b:81", "http://a.b:80", ""],
        &["", "http://c", "http://a.b", ""],
    ] {
        check_credentials(way, false).await;
    }
}

/// Asks `http://a/` with these fields, is led to `/end` over `way`, and the last request has the expected ones.
async fn check_referer_and_origin(way: &[&str], sent: [&str; 2], expected: [Option<&str>; 2]) {
    let mut locations: Vec<String> = way.iter().map(|place| format!("{place}/x")).collect();
    locations.push("/end".into());
    let step = std::sync::atomic::AtomicUsize::new(0);
    let stage = Stage::answering(move |request| match path(request) {
        "/end" => OK.into(),
        _ => {
            let step = step.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            format!("HTTP/1.1 307 x\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", locations[step])
        }
    });
    let mut request = post();
    request.headers.set("Referer", sent[0]).unwrap();
    request.headers.set("Origin", sent[1]).unwrap();
    ask(&stage.client(), &request).await.unwrap();
    let last = stage.received().pop().unwrap();
    for (name, expected) in ["Referer: ", "Origin: "].into_iter().zip(expected) {
        let mut lines = last.split("\r\n").filter_map(|line| line.strip_prefix(name));
        assert_eq!((lines.next(), lines.next()), (expected, None), "{way:?} {sent:?}");
    }
}

/// These fields, set by hand, are changed by redirects as browsers change them.
#[tokio::test(start_paused = true)]
async fn referer_and_origin_tell_another_origin_no_page() {
    let page = "http://a/page?secret";
    check_referer_and_origin(&[], [page, "http://a"], [Some(page), Some("http://a")]).await;
    check_referer_and_origin(&["", "http://A:80"], [page, "http://c"], [Some(page), Some("http://c")]).await;
    check_referer_and_origin(&["http://b"], [page, "http://a"], [Some("http://a/"), Some("http://a")]).await;
    check_referer_and_origin(&["//a:81"], [page, "http://a"], [Some("http://a/"), Some("http://a")]).await;
    check_referer_and_origin(
        &["http://b", "http://a"],
        [page, "http://a"],
        [Some("http://a/"), Some("null")],
    )
    .await;
    check_referer_and_origin(&["http://b"], [page, "http://b"], [Some("http://a/"), Some("null")]).await;
    check_referer_and_origin(&["http://b"], [page, "null"], [Some("http://a/"), Some("null")]).await;
    check_referer_and_origin(&["http://b"], ["http://B:80/p", "x"], [Some("http://B:80/p"), Some("null")])
        .await;
    let with_password = ["http://user:password@a/", "http://a"];
    check_referer_and_origin(&["http://b"], with_password, [Some("http://a/"), Some("http://a")]).await;
    for referer in ["/page", "about:blank", "http://", "x"] {
        check_referer_and_origin(&["http://b"], [referer, "http://a"], [None, Some("http://a")]).await;
    }
}

/// The user and the password of a URL stay with its origin, as curl, Go and browsers keep them.
#[tokio::test(start_paused = true)]
async fn credentials_of_a_url_stay_with_its_origin() {
    let (joe, ann) = ("authorization: Basic am9lOnB3\r\n", "authorization: Basic YW5uOnB3\r\n");
    for (ways, expected) in [
        (&["/c"][..], &[joe][..]),
        (&["c", "http://A:80/c"], &[joe, joe]),
        (&["http://ann:pw@a/c", "/d"], &[ann, ann]),
        (&["http://b/c", "http://a/c"], &["", ""]),
        (&["//b/c", "http://ann:pw@a/c", "/d"], &["", ann, ann]),
        (&["http://a:81/"], &[""]),
    ] {
        let (count, ways) = (AtomicUsize::new(0), ways.to_vec());
        let stage = Stage::answering(move |_| match ways.get(count.fetch_add(1, Ordering::Relaxed)) {
            Some(way) => format!("HTTP/1.1 307 x\r\nlocation: {way}\r\ncontent-length: 0\r\n\r\n"),
            None => OK.into(),
        });
        let response = stage.client().get("http://joe:pw@a/b").await.unwrap();
        assert!(!response.url.unwrap().contains('@'), "it is not shown");
        let received = stage.received();
        assert_eq!(received.len(), expected.len() + 1);
        for (request, expected) in received.iter().zip([&[joe], expected].concat()) {
            let fields: Vec<&str> = request.split_inclusive("\r\n").collect();
            assert_eq!(fields.get(2).copied().filter(|line| *line != "\r\n").unwrap_or_default(), expected);
        }
    }
}

#[cfg(feature = "idna")]
#[tokio::test(start_paused = true)]
async fn a_redirect_leads_to_an_internationalized_host() {
    for location in ["http://b\u{fc}cher.example/", "//B%C3%9Ccher.example"] {
        let reply = format!("HTTP/1.1 302 x\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        let stage = Stage::answering(move |request| match request.contains("host: a\r\n") {
            true => reply.clone(),
            false => OK.into(),
        });
        let response = stage.client().get("http://a/").await.unwrap();
        assert_eq!(response.url.as_deref(), Some("http://xn--bcher-kva.example/"));
        assert_eq!(stage.dialed(), ["a:80", "xn--bcher-kva.example:80"]);
        assert_eq!(stage.received()[1], "GET / HTTP/1.1\r\nhost: xn--bcher-kva.example\r\n\r\n");
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_set_by_hand_is_not_kept_by_a_redirect() {
    let stage = Stage::answering(|request| match request.contains("host: b\r\n") {
        true => OK.into(),
        false => "HTTP/1.1 307 x\r\nlocation: http://b/\r\ncontent-length: 0\r\n\r\n".into(),
    });
    let mut request = get("http://a/");
    request.headers.set("host", "c").unwrap();
    assert_eq!(ask(&stage.client(), &request).await.unwrap().0, 200);
    assert_eq!(stage.received()[0], "GET / HTTP/1.1\r\nhost: c\r\n\r\n");
    assert_eq!(stage.dialed(), ["a:80", "b:80"]);
}

#[tokio::test(start_paused = true)]
async fn a_streamed_body_is_not_sent_again_by_a_redirect() {
    for (status, is_followed) in [(301, true), (302, true), (303, true), (307, false), (308, false)] {
        let stage = redirecting(status, "/end");
        let mut request = post();
        request.body.set_stream(&b"hello"[..], Some(5));
        match ask(&stage.client(), &request).await {
            Ok(response) => assert!(is_followed && response == (200, "ok".into()), "{status}"),
            Err(error) => {
                assert!(
                    !is_followed && matches!(error.cause(), ClientCause::BodyConsumed),
                    "{status}: {error:?}"
                );
                assert_eq!((error.phase(), stage.received().len()), (ClientPhase::Redirect, 1));
            }
        }
    }
}

/// A POST that was answered with 303 has been acted on. If the redirect then fails, the error must not say that nothing
/// was sent: that invites the caller to send the POST again.
#[tokio::test(start_paused = true)]
async fn after_a_redirect_an_error_says_that_the_request_was_sent() {
    for (status, location, expected) in [
        (303, "http://gone/", ClientPhase::Connect),
        (303, "https://a/", ClientPhase::Tls),
        (307, "http://gone/", ClientPhase::Connect),
        (303, "ftp://b/", ClientPhase::Redirect),
        (303, "", ClientPhase::Redirect),
        (303, "/b\r\nlocation: /c", ClientPhase::Redirect),
        (303, "/again", ClientPhase::Redirect),
        (303, "http://full/", ClientPhase::Queue),
    ] {
        let client = Client::builder()
            .dialer(Partly(redirecting(status, location)))
            .limits(ClientLimits { connections_per_host_max: 1, ..ClientLimits::default() });
        let timeouts = ClientTimeouts { tls: Duration::from_secs(1), ..ClientTimeouts::default() };
        let (client, mut response) = (client.timeouts(timeouts).build(), Response::new());
        let held = client.open_call(&Request::post("http://full/").unwrap()).await.unwrap();
        for ask in [described(Method::Post), get("http://a/")] {
            let error = client.send(&ask, &mut response).await.unwrap_err();
            assert_eq!(
                (error.phase(), error.is_sent()),
                (expected, true),
                "{status} {location:?}: {error:?}"
            );
            let error = client.open_response(&ask, &mut response).await.map(drop).unwrap_err();
            assert_eq!(
                (error.phase(), error.is_sent()),
                (expected, true),
                "{status} {location:?}: {error:?}"
            );
        }
        let error = client.get("http://gone/").await.unwrap_err();
        assert_eq!((error.phase(), error.is_sent()), (ClientPhase::Connect, false), "{error:?}");
        drop(held);
    }
}

/// Servers of which one cannot be reached.
struct Partly(Stage);

impl Dialer for Partly {
    type Stream = DuplexStream;

    async fn dial(&self, host: &str, port: u16) -> io::Result<DuplexStream> {
        match host {
            "gone" => Err(io::ErrorKind::ConnectionRefused.into()),
            _ => self.0.dial(host, port).await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_handle_follows_redirects_too() {
    let stage = Stage::answering(|request| match path(request) {
        "/b/c?d" => "HTTP/1.1 302 x\r\nlocation: e\r\ncontent-length: 0\r\n\r\n".into(),
        "/b/e" => "HTTP/1.1 307 x\r\nlocation: http://f/end\r\ncontent-length: 0\r\n\r\n".into(),
        _ => OK.into(),
    });
    let (host, mut response) = (stage.client().host("http://A:81").unwrap(), Response::new());
    let mut request = get("/b/c?d");
    request.headers.set("cookie", "secret").unwrap();
    host.send(&request, &mut response).await.unwrap();
    assert_eq!(response.body.bytes(), b"ok");
    let lines =
        ["/b/c?d HTTP/1.1\r\nhost: a:81\r\ncookie: secret", "/b/e HTTP/1.1\r\nhost: a:81\r\ncookie: secret"];
    let received = stage.received();
    assert_eq!(received[..2], lines.map(|line| format!("GET {line}\r\n\r\n")));
    assert_eq!(received[2], "GET /end HTTP/1.1\r\nhost: f\r\n\r\n");
    let elsewhere = host.send(&get("http://f/"), &mut response).await.unwrap_err();
    assert!(matches!(elsewhere.cause(), ClientCause::Origin), "{elsewhere:?}");
    host.send(&get("http://a:081/end"), &mut response).await.unwrap();
    assert_eq!((host.idle_connections(), host.busy_connections()), (1, 0));
}

/// Little of a redirect's body is read, for the sake of the connection; if there is more, or no end, it is closed.
#[tokio::test(start_paused = true)]
async fn the_body_of_a_redirect_is_dropped_within_bounds() {
    let large = "x".repeat(1 << 20);
    for (framing, connections) in [
        ("content-length: 5\r\n\r\nhello".into(), 1),
        ("transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".into(), 1),
        (format!("content-length: {}\r\n\r\n{large}", large.len()), 2),
        (format!("transfer-encoding: chunked\r\n\r\n{:x}\r\n{large}\r\n0\r\n\r\n", large.len()), 2),
        // It is not even waited for.
        (format!("content-length: {}\r\n\r\n", large.len()), 2),
        ("\r\n\r\nhello".into(), 2),
        ("content-length: 5\r\nconnection: close\r\n\r\n".into(), 2),
    ] {
        let response = format!("HTTP/1.1 302 x\r\nlocation: /end\r\n{framing}");
        let stage = Stage::answering(
            move |request| if path(request) == "/end" { OK.into() } else { response.clone() },
        );
        let (client, start) = (stage.client(), tokio::time::Instant::now());
        assert_eq!(ask(&client, &get("http://a/")).await.unwrap(), (200, "ok".into()));
        assert_eq!(
            (stage.dialed().len(), start.elapsed(), client.busy_connections()),
            (connections, Duration::ZERO, 0)
        );
    }
}

/// The timeout of a body must not be spent on one that nobody needs, nor more time than another connection takes.
#[tokio::test(start_paused = true)]
async fn a_redirect_whose_body_does_not_come_is_followed_anyway() {
    const SIZED: &str = "content-length: 50\r\n\r\n";
    const CHUNKED: &str = "transfer-encoding: chunked\r\n\r\n";
    for (framing, drop) in [(SIZED, ""), (SIZED, "x"), (CHUNKED, ""), (CHUNKED, "1\r\nx\r\n")] {
        let new = || {
            Stage::new(move |mut peer, number| async move {
                if number == 0 {
                    peer.request().await?;
                    peer.send(format!("HTTP/1.1 302 x\r\nlocation: /end\r\n{framing}")).await?;
                    loop {
                        tokio::time::sleep(Duration::from_millis(400)).await;
                        peer.send(drop).await?;
                    }
                }
                peer.answer(OK).await
            })
        };
        let (stage, start) = (new(), tokio::time::Instant::now());
        let client = stage.client();
        assert_eq!(ask(&client, &get("http://a/")).await.unwrap(), (200, "ok".into()));
        assert_eq!((stage.dialed().len(), start.elapsed().as_millis() / 10), (2, 10), "{framing} {drop}");
        assert_eq!((client.busy_connections(), client.idle_connections()), (0, 1));
        // Nor is it waited for beyond the time of the exchange.
        let (hurried, start) =
            (new().client().with_timeout(Duration::from_millis(50)), tokio::time::Instant::now());
        assert!(ask(&hurried, &get("http://a/")).await.unwrap_err().is_timeout());
        assert_eq!(start.elapsed().as_millis() / 10, 5, "{framing} {drop}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_response_has_nothing_of_the_redirects() {
    let stage = Stage::answering(|request| {
        match path(request) {
        "/end" => OK.into(),
        _ => "HTTP/1.1 302 x\r\nlocation: /end\r\nx-own: 1\r\ntransfer-encoding: chunked\r\n\r\n2\r\nno\r\n0\r\na: b\r\n\r\n".into(),
    }
    });
    let (client, mut response) = (stage.client(), Response::new());
    for _ in 0..3 {
        client.send(&get("http://a/"), &mut response).await.unwrap();
        assert_eq!((response.status.as_u16(), response.body.bytes()), (200, &b"ok"[..]));
        assert_eq!((response.headers.len(), response.trailers.len()), (1, 0));
    }
    let mut reply = client.open_response(&get("http://a/"), &mut response).await.unwrap();
    assert_eq!((reply.chunk().await.unwrap(), stage.dialed().len()), (Some(&b"ok"[..]), 1));
}

/// Redirects each `/n` to `/n-1` of the next host, and answers `/0`.
fn descending() -> Stage {
    Stage::answering(|request| match path(request)[1..].parse::<u32>() {
        Ok(left @ 1..) => {
            let next = left - 1;
            format!("HTTP/1.1 302 x\r\nlocation: http://h{next}/{next}\r\ncontent-length: 0\r\n\r\n")
        }
        _ => OK.into(),
    })
}

#[tokio::test(start_paused = true)]
async fn a_response_tells_each_redirect_rfc9110_15_4() {
    let client = descending().client();
    let mut response = Response::new();
    client.send(&get("http://joe:secret@h2/2"), &mut response).await.unwrap();
    let told = Vec::from_iter(
        response.redirects().iter().map(|redirect| (redirect.status.as_u16(), &*redirect.url)),
    );
    assert_eq!(told, [(302, "http://h2/2"), (302, "http://h1/1")]);
    assert_eq!(response.url.as_deref(), Some("http://h0/0"));
    client.send(&get("http://h0/0"), &mut response).await.unwrap();
    assert!(response.redirects().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_function_decides_about_each_redirect() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (stage, seen_by_check) = (descending(), seen.clone());
    let builder = stage.builder().check_redirects(move |next: &NextRequest<'_>| {
        let url = next.request().target().as_str();
        seen_by_check.lock().unwrap().push((url.to_owned(), next.history().len(), next.is_cross_origin()));
        match next.request().path() {
            "/3" => Ok(RedirectAction::Return),
            "/5" => Err("not there".into()),
            _ => Ok(RedirectAction::Follow),
        }
    });
    let client = builder.build();
    assert_eq!(client.get("http://h2/2").await.unwrap().status.as_u16(), 200);
    assert_eq!(*seen.lock().unwrap(), [("http://h1/1".into(), 1, true), ("http://h0/0".into(), 2, true)]);

    let response = client.get("http://h5/5").await.unwrap();
    let told = (response.status.as_u16(), response.url.as_deref(), response.redirects().len());
    assert_eq!(told, (302, Some("http://h4/4"), 1));

    let error = client.get("http://h6/6").await.unwrap_err();
    assert_eq!((error.phase(), error.is_sent()), (ClientPhase::Redirect, true));
    assert!(matches!(error.cause(), ClientCause::Other(_)));
    assert_eq!(format!("{error:#}"), "http://h6/6: following the redirect failed: not there");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(client.busy_connections(), 0);
}

/// A function that follows for ever meets the bound.
#[tokio::test(start_paused = true)]
async fn a_loop_through_a_function_ends() {
    let stage = redirecting(302, "/again");
    let client = stage.builder().check_redirects(|_| Ok(RedirectAction::Follow)).build();
    let error = client.get("http://a/").await.unwrap_err();
    assert!(matches!(error.cause(), ClientCause::TooManyRedirects));
    assert_eq!(stage.received().len(), 11);
}
