//! Recorded exchanges: recorded with a server, and played without it.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use corehttp::client::{ClientCause, ClientPhase, Redirects, Retry};
use corehttp::testing::{Recording, Script, ScriptedPeer, TestServer};
use corehttp::{Client, ClientError, Context, Response, Status, routes};
use tempfile::TempDir;

/// A place for a recording.
fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("below/exchanges.http");
    (folder, path)
}

/// A server of which each answer is another one, whatever its scheme.
fn server() -> TestServer {
    let picture = |ctx: &mut Context| ctx.response.set_bytes("image/png", b"\x89PNG\r\n\x1a\n\0").unwrap();
    let routes = routes! {
        GET "/moved" => |ctx: &mut Context| {
            ctx.response.set_redirect(Status::FOUND, "https://b.example/picture").unwrap();
        },
        GET "/picture" => picture,
        POST "/echo" => |ctx: &mut Context| {
            let content = ctx.request.body.bytes().to_vec();
            ctx.response.headers.set("set-cookie", "sid=7f3a; Path=/").unwrap();
            ctx.response.body.set_bytes(content);
        },
        DELETE "/picture" => |ctx: &mut Context| ctx.response.status = Status::NO_CONTENT,
    };
    TestServer::start(routes).unwrap()
}

/// All that a program sees of a server.
async fn visit(client: &Client) -> Result<String, ClientError> {
    let mut seen = String::new();
    let mut note = |response: Response| {
        let cookie = response.headers.get("set-cookie").unwrap_or_default().replace("7f3a", "hidden");
        let (length, url) = (response.headers.content_length(), response.url.as_deref());
        let body = response.body.bytes().escape_ascii();
        seen.push_str(&format!("{} {length:?} {url:?} {cookie} {body}\n", response.status));
    };
    note(client.get("http://a.example/moved").await?);
    note(client.head("https://b.example:8443/picture").await?);
    note(client.post("http://[::1]:81/echo").bearer_auth("s3cret").text("one\r\n").await?);
    note(client.post("http://[::1]:81/echo").text("two").await?);
    note(client.delete("https://b.example/picture").await?);
    note(client.get("http://a.example/none").await?);
    Ok(seen)
}

#[tokio::test]
async fn a_client_sees_the_same_when_it_is_played() {
    let (_folder, path) = place();
    let server = server();
    let direct = visit(&server.client()).await.unwrap();
    let recording = Recording::record(&path).unwrap().through(server.client());
    let recorded = visit(&recording.client()).await.unwrap();
    assert_eq!(recorded, direct);
    assert!(recording.unplayed().is_empty());
    drop(server);
    let played = Recording::play(&path).unwrap();
    assert_eq!(played.unplayed().len(), 7);
    assert_eq!(played.unplayed()[..2], ["GET http://a.example/moved", "GET https://b.example/picture"]);
    assert_eq!(visit(&played.client()).await.unwrap(), direct);
    assert_eq!(played.unplayed(), [""; 0]);
    let file = fs::read_to_string(&path).unwrap();
    assert!(!file.contains("s3cret") && !file.contains("7f3a"), "{file}");
    assert!(
        file.contains("authorization: Bearer hidden\n") && file.contains("sid=hidden; Path=/\n"),
        "{file}"
    );
    assert!(file.contains("\n\ntwo\n=== response\n"), "{file}");
}

const TWO_POSTS: &str = "\
=== request
POST http://a/ HTTP/1.1

one
=== response
HTTP/1.1 200 OK

first
=== request
POST http://a/ HTTP/1.1

two
=== response
HTTP/1.1 429 Too Many Requests
retry-after: 5

second
";

/// A recording that someone has written.
fn written(text: &str) -> (TempDir, Recording) {
    let (folder, path) = place();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    (folder, Recording::play(path).unwrap())
}

#[tokio::test(start_paused = true)]
async fn an_exchange_is_played_once_and_the_one_with_the_same_content_first() {
    for (contents, expected) in
        [(["two", "one"], ["second", "first"]), (["three", "one"], ["first", "second"])]
    {
        let (_folder, recording) = written(TWO_POSTS);
        let client = recording.client();
        for (content, expected) in contents.into_iter().zip(expected) {
            let response = client.post("http://a/").text(content).await.unwrap();
            assert_eq!(response.text(), Ok(expected), "{contents:?}");
        }
        let error = client.post("http://a/").text("one").await.unwrap_err();
        assert!(
            format!("{error:#}").contains("exchanges.http has no exchange left for POST http://a/"),
            "{error:#}"
        );
    }
}

/// A fault of a recording is an error of the request, with whatever settings.
#[tokio::test(start_paused = true)]
async fn a_request_that_was_not_recorded_fails_and_says_so() {
    let (_folder, recording) = written(TWO_POSTS);
    let clients = [
        recording.client(),
        recording.client_builder().retry(Retry::new()).build(),
        recording.client_builder().redirects(Redirects::Return).timeout(Duration::from_secs(1)).build(),
    ];
    for client in clients {
        for (method, url) in
            [("GET", "http://a/"), ("POST", "https://a/"), ("POST", "http://a/?b"), ("POST", "http://b/")]
        {
            let error = client.request(method, url).await.unwrap_err();
            let text = format!("{error:#}");
            assert!(text.contains(&format!("has no exchange left for {method} {url}")), "{text}");
            assert!(matches!(error.cause(), ClientCause::Other(_)), "{text}");
            assert_eq!((error.phase(), error.is_sent()), (ClientPhase::Prepare, true));
        }
    }
    assert_eq!(recording.unplayed().len(), 2);
    let mut response = Response::new();
    let mut upgrade = corehttp::Request::get("http://a/").unwrap();
    upgrade.headers.set("upgrade", "x").unwrap();
    let error = recording.client().upgrade(&upgrade, &mut response).await.unwrap_err();
    assert!(format!("{error:#}").contains("another protocol cannot be recorded"), "{error:#}");
}

/// A retry sees the statuses of the recording, and its waits take no time.
#[tokio::test(start_paused = true)]
async fn a_recording_is_played_on_a_paused_clock() {
    let (_folder, recording) = written(&TWO_POSTS.replace("POST", "PUT"));
    let client = recording.client_builder().retry(Retry::new()).build();
    assert_eq!(client.put("http://a/").text("one").await.unwrap().text(), Ok("first"));
    let begun = tokio::time::Instant::now();
    let error = client.put("http://a/").text("two").await.unwrap_err();
    assert!(begun.elapsed() >= Duration::from_secs(5));
    assert!(format!("{error:#}").contains("no exchange left"), "{error:#}");
}

#[tokio::test(start_paused = true)]
async fn a_secret_of_ones_own_is_hidden_in_the_file_and_in_comparisons() {
    let (_folder, path) = place();
    let peer = ScriptedPeer::new([Script::new().receive().send(
        "HTTP/1.1 200 OK\r\nx-key: s3cret\r\nx-api-key: 5f\r\ncontent-length: 12\r\n\r\nkey = s3cret",
    )]);
    let recording = Recording::record(&path).unwrap().through(peer.client());
    let recording = recording.hide_text("s3cret").hide_field("X-API-Key").keep_field("authorization");
    let url = "http://a/?key=s3cret";
    let response = recording.client().get(url).bearer_auth("open").await.unwrap();
    assert_eq!(response.text(), Ok("key = s3cret"));
    let file = fs::read_to_string(&path).unwrap();
    assert_eq!(
        file,
        "=== request\nGET http://a/?key=hidden HTTP/1.1\nauthorization: Bearer open\n\n\
         === response\nHTTP/1.1 200 OK\nx-key: hidden\nx-api-key: hidden\n\nkey = hidden\n"
    );
    let plain = Recording::play(&path).unwrap();
    assert!(plain.client().get(url).await.is_err());
    let hiding = Recording::play(&path).unwrap().hide_text("s3cret");
    assert_eq!(hiding.client().get(url).await.unwrap().text(), Ok("key = hidden"));
}

/// A server that fails leaves no line in the file, and the client is told why.
#[tokio::test(start_paused = true)]
async fn an_exchange_that_fails_is_not_recorded() {
    let (_folder, path) = place();
    let peer =
        ScriptedPeer::new([Script::new().receive().send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhal")]);
    let recording = Recording::record(&path).unwrap().through(peer.client());
    let error = recording.client().get("http://a/").await.unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("it cannot be recorded: ") && text.contains("http://a/"), "{text}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "");
}

#[test]
fn a_file_that_is_no_recording_is_named() {
    let (_folder, path) = place();
    let missing = Recording::play(&path).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert!(missing.to_string().contains("below/exchanges.http: "), "{missing}");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    for (content, expected) in [
        (&b"hello\n"[..], "exchanges.http: line 1: a message begins with `=== `"),
        (b"=== request\nGET http://a/ HTTP/1.1\n", "exchanges.http: the last request has no response"),
        (b"\xff", "exchanges.http: stream did not contain valid UTF-8"),
    ] {
        fs::write(&path, content).unwrap();
        let error = Recording::play(&path).unwrap_err();
        assert!(error.to_string().ends_with(expected), "{error}");
    }
    fs::write(&path, "=== request\n".repeat(6 << 20)).unwrap();
    assert_eq!(Recording::play(&path).unwrap_err().kind(), ErrorKind::FileTooLarge);
    let below_a_file = path.join("exchanges.http");
    assert!(Recording::record(below_a_file).is_err());
}
