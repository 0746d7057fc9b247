//! A client with a jar sends cookies back to where they belong, also with redirects (RFC 6265bis §5).

use std::sync::Arc;

use corehttp::jar::Jar;
use corehttp::{Client, MemoryListener, Request, Response, Server};
use corehttp::{Context, Status};

#[tokio::test]
async fn a_cookie_set_by_a_redirect_is_sent_back_to_its_host_alone() {
    let listener = MemoryListener::new();
    let server = Server::bind(listener.clone()).cores(1);
    let running = server.start(|ctx: &mut Context| {
        let Context { request, response, .. } = ctx;
        if request.path() == "/sign-in" {
            response.headers.append("set-cookie", "sid=1; Path=/")?;
            response.headers.append("set-cookie", "hidden=2; Path=/elsewhere")?;
            response.redirect(Status::SEE_OTHER, "/home")?;
        } else if request.path() == "/to-a" {
            response.redirect(Status::SEE_OTHER, "http://a.example/")?;
        } else {
            let said: Vec<_> = request.headers.all("cookie").map(String::from_utf8_lossy).collect();
            response.text(if said.is_empty() { "none".into() } else { said.join(" and ") });
        }
        corehttp::Result::Ok(())
    });
    let jar = Arc::new(Jar::new());
    let client = Client::builder().memory(listener.connector()).cookies(jar.clone()).build();
    let said = async |url: &str| client.get(url).await.unwrap().body.text().unwrap().to_owned();
    assert_eq!(said("http://a.example/sign-in").await, "sid=1");
    assert_eq!(said("http://a.example/").await, "sid=1");
    assert_eq!(said("http://a.example/elsewhere").await, "hidden=2; sid=1");
    assert_eq!(said("http://b.example/").await, "none");
    assert_eq!(jar.len(), 2);
    let builder = Client::builder().memory(listener.connector()).cookies(jar.clone());
    let always = builder.field("cookie", "all=4").unwrap().build();
    assert_eq!(always.get("http://a.example/").await.unwrap().body.text(), Ok("all=4"));
    // The default one stays behind when a redirect leads elsewhere, and the cookies of that origin are sent.
    assert_eq!(always.get("http://b.example/to-a").await.unwrap().body.text(), Ok("sid=1"));

    let (host, mut response) = (client.host("http://a.example").unwrap(), Response::new());
    let mut request = Request::get("/path").unwrap();
    host.send(&request, &mut response).await.unwrap();
    assert_eq!(response.body.text(), Ok("sid=1"));
    request.headers.set("cookie", "own=3").unwrap();
    host.send(&request, &mut response).await.unwrap();
    assert_eq!(response.body.text(), Ok("own=3"));
    request.headers.remove("cookie");

    // A body that is written as it goes changes nothing about that.
    let mut sign_in = Request::post("/sign-in").unwrap();
    sign_in.headers.set("content-length", 0).unwrap();
    jar.clear();
    host.open(&sign_in).await.unwrap().finish(&mut response).await.unwrap();
    assert_eq!(jar.len(), 2);
    host.open(&request).await.unwrap().finish(&mut response).await.unwrap();
    host.send(&request, &mut response).await.unwrap();
    assert_eq!(response.body.text(), Ok("sid=1"));
    jar.clear();
    let (mut writer, mut reader) = host.open(&sign_in).await.unwrap().split();
    writer.finish().await.unwrap();
    reader.head(&mut response).await.unwrap();
    assert_eq!(jar.len(), 2);
    let mut answer = host.open(&request).await.unwrap().finish(&mut response).await.unwrap();
    assert_eq!(answer.chunk().await.unwrap(), Some(&b"sid=1"[..]));
    running.unwrap().shutdown(std::time::Duration::ZERO);
}
