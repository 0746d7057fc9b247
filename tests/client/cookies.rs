//! A client with a jar sends cookies back to where they belong, also with redirects (RFC 6265bis §5).

use std::sync::Arc;

use corehttp::jar::Jar;
use corehttp::net::MemoryListener;
use corehttp::{Client, Request, Response, Server};
use corehttp::{Context, Status};

use super::support::Stage;

#[tokio::test]
async fn a_cookie_set_by_a_redirect_is_sent_back_to_its_host_alone() {
    let listener = MemoryListener::new();
    let server = Server::bind(listener.clone()).cores(1);
    let running = server.start(|ctx: &mut Context| {
        let Context { request, response, .. } = ctx;
        if request.path() == "/sign-in" {
            response.headers.append("set-cookie", "sid=1; Path=/")?;
            response.headers.append("set-cookie", "hidden=2; Path=/elsewhere")?;
            response.set_redirect(Status::SEE_OTHER, "/home")?;
        } else if request.path() == "/to-a" {
            response.set_redirect(Status::SEE_OTHER, "http://a.example/")?;
        } else {
            let said: Vec<_> = request.headers.all("cookie").map(String::from_utf8_lossy).collect();
            response.set_text(if said.is_empty() { "none".into() } else { said.join(" and ") });
        }
        corehttp::Result::Ok(())
    });
    let jar = Arc::new(Jar::new());
    let client = Client::builder().connect_to(&listener).cookie_store(jar.clone()).build();
    let said = async |url: &str| client.get(url).await.unwrap().body.text().unwrap().to_owned();
    assert_eq!(said("http://a.example/sign-in").await, "sid=1");
    assert_eq!(said("http://a.example/").await, "sid=1");
    assert_eq!(said("http://a.example/elsewhere").await, "hidden=2; sid=1");
    assert_eq!(said("http://b.example/").await, "none");
    assert_eq!(jar.len(), 2);
    let builder = Client::builder().connect_to(&listener).cookie_store(jar.clone());
    let always = builder.default_header("cookie", "all=4").unwrap().build();
    assert_eq!(always.get("http://a.example/").await.unwrap().body.text(), Ok("all=4"));
    // The default field is dropped by a redirect to another origin, and the cookies of that origin are sent.
    assert_eq!(always.get("http://b.example/to-a").await.unwrap().body.text(), Ok("sid=1"));

    let (host, mut response) = (client.host("http://a.example").unwrap(), Response::new());
    let mut request = Request::get("/path").unwrap();
    host.send(&request, &mut response).await.unwrap();
    assert_eq!(response.body.text(), Ok("sid=1"));
    request.headers.set("cookie", "own=3").unwrap();
    host.send(&request, &mut response).await.unwrap();
    assert_eq!(response.body.text(), Ok("own=3"));
    request.headers.remove("cookie");

    // A streamed body makes no difference.
    let mut sign_in = Request::post("/sign-in").unwrap();
    sign_in.headers.set("content-length", 0).unwrap();
    jar.clear();
    host.open_call(&sign_in).await.unwrap().finish(&mut response).await.unwrap();
    assert_eq!(jar.len(), 2);
    host.open_call(&request).await.unwrap().finish(&mut response).await.unwrap();
    host.send(&request, &mut response).await.unwrap();
    assert_eq!(response.body.text(), Ok("sid=1"));
    jar.clear();
    let (mut writer, mut reader) = host.open_call(&sign_in).await.unwrap().split();
    writer.finish().await.unwrap();
    reader.head(&mut response).await.unwrap();
    assert_eq!(jar.len(), 2);
    let mut received = host.open_call(&request).await.unwrap().finish(&mut response).await.unwrap();
    assert_eq!(received.chunk().await.unwrap(), Some(&b"sid=1"[..]));
    running.unwrap().stop(std::time::Duration::ZERO);
}

/// Servers do set cookies in other charsets, and expect the same octets back.
#[tokio::test]
async fn cookies_that_are_not_utf8_are_sent_back_as_they_came_rfc6265bis_5_8_3() {
    let listener = MemoryListener::new();
    let server = Server::bind(listener.clone()).cores(1);
    let running = server.start(|ctx: &mut Context| -> corehttp::Result {
        let Context { request, response, .. } = ctx;
        response.set_shared_bytes(
            "text/plain",
            request.headers.get_bytes("cookie").unwrap_or(b"none").to_vec(),
        )?;
        response.headers.append("set-cookie", b"n=caf\xe9")?;
        response.headers.append("set-cookie", b"\xff=\xfe; Path=/")?;
        Ok(response.headers.append("set-cookie", "u=\u{e9}")?)
    });
    let client = Client::builder().connect_to(&listener).cookie_store(Arc::new(Jar::new())).build();
    for expected in [&b"none"[..], b"n=caf\xe9; \xff=\xfe; u=\xc3\xa9"] {
        assert_eq!(client.get("http://a.example/").await.unwrap().body.bytes(), expected);
    }
    running.unwrap().stop(std::time::Duration::ZERO);
}

/// A cookie that is not valid must not make the whole response fail.
#[tokio::test(start_paused = true)]
async fn a_cookie_with_a_control_character_is_dropped_alone_rfc6265bis_5_6() {
    let stage = Stage::always(
        "HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=\x01; Path=/\r\nset-cookie: c=\x00\r\nSet-Cookie: d=4\r\n\
         Content-Length: 2\r\n\r\nhi",
    );
    let jar = Arc::new(Jar::new());
    let client = stage.builder().cookie_store(jar.clone()).build();
    let request = Request::get("http://a.example/").unwrap();
    for _ in 0..2 {
        let mut response = Response::new();
        client.send(&request, &mut response).await.unwrap();
        assert_eq!(response.body.text(), Ok("hi"));
        assert!(response.headers.all("set-cookie").eq([b"a=1", b"d=4"]));
    }
    assert_eq!(jar.cookie_header(request.target()).as_deref(), Some(&b"a=1; d=4"[..]));
}
