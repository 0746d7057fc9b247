//! A stream of events that goes on over many connections (HTML §9.2.3).

use std::io;
use std::time::Duration;

use corehttp::Request;
use corehttp::client::Retry;
use corehttp::sse::EventSource;
use tokio::time::{Instant, timeout};

use crate::support::{Stage, paused};

const SECOND: Duration = Duration::from_secs(1);
const END: &str = "HTTP/1.1 204 x\r\n\r\n";
/// The server closes the connection instead of a response.
const CLOSES: &str = "";

/// A response with these events, after which the server closes the connection.
fn stream(events: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nconnection: close\r\n\r\n{events}"
    )
}

fn status(status: u16) -> String {
    format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n")
}

/// A server that gives each connection the next of these responses, and closes it.
fn answering(replies: impl IntoIterator<Item = impl Into<String>>) -> Stage {
    let replies = Vec::from_iter(replies.into_iter().map(Into::into));
    Stage::new(move |mut peer, number| {
        let reply: String = replies[number.min(replies.len() - 1)].clone();
        async move {
            if peer.request().await?.is_some() && !reply.is_empty() {
                peer.send(reply).await?;
            }
            Ok(())
        }
    })
}

fn source(stage: &Stage) -> EventSource {
    EventSource::new(&stage.client(), Request::get("http://a/").unwrap()).unwrap()
}

/// The data of all events, until the stream ends or fails.
async fn all(events: &mut EventSource) -> (Vec<String>, io::Result<()>) {
    let mut read = Vec::new();
    loop {
        match events.event().await {
            Ok(Some(event)) => read.push(event.data.unwrap().to_owned()),
            Ok(None) => return (read, Ok(())),
            Err(error) => return (read, Err(error)),
        }
    }
}

/// The `last-event-id` of each request.
fn ids(stage: &Stage) -> Vec<Option<String>> {
    let id = |request: &String| {
        assert!(
            request.contains("accept: text/event-stream\r\n")
                && request.contains("cache-control: no-store\r\n")
        );
        request.lines().find_map(|line| line.strip_prefix("last-event-id: ")).map(str::to_owned)
    };
    stage.received().iter().map(id).collect()
}

#[tokio::test(start_paused = true)]
async fn a_stream_goes_on_where_it_was() {
    let stage = answering([
        stream("id: 1\ndata: a\n\ndata: b\n\ndata: lost\n"),
        stream("data: c\n\nid: 2\n\n"),
        stream("id\ndata: d\n\n"),
        stream("data: e\n\n"),
        END.to_owned(),
    ]);
    let mut events = source(&stage);
    let began = Instant::now();
    let (read, ended) = all(&mut events).await;
    ended.unwrap();
    assert_eq!(read, ["a", "b", "c", "d", "e"]);
    assert_eq!(ids(&stage), [None, Some("1".into()), Some("2".into()), None, None]);
    assert_eq!(began.elapsed().as_secs(), 4 * 3);
    // It stays at its end.
    assert!(events.event().await.unwrap().is_none() && stage.received().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_wait_is_that_of_the_server_and_doubles_while_connections_fail() {
    let failing = || vec![CLOSES.to_owned(), status(503), status(502), status(504), status(429)];
    let with_retry =
        [stream("retry: 1000\ndata: a\n\n")].into_iter().chain(failing()).chain([END.to_owned()]);
    let without = Vec::from_iter(failing().into_iter().chain([END.to_owned()]));
    let with_retry = Vec::from_iter(with_retry);
    let at_once = || vec![stream("retry: 0\ndata: a\n\n"), stream("data: b\n\n")];
    let without_wait = Vec::from_iter(at_once().into_iter().chain(failing()).chain([END.to_owned()]));
    let cut = stream("").replace("connection: close", "content-length: 9");
    let breaking = Vec::from_iter(at_once().into_iter().chain(vec![cut; 4]).chain([END.to_owned()]));
    for (replies, delay_max, seconds) in [
        (&without, 60 * SECOND, 3 + 6 + 12 + 24 + 48),
        (&without, 10 * SECOND, 3 + 6 + 10 + 10 + 10),
        // The wait of a server that has not named one is shortened, and that of another one is not.
        (&without, 400 * SECOND / 1000, 2),
        (&with_retry, 60 * SECOND, 1 + 2 + 4 + 8 + 16 + 32),
        (&with_retry, 400 * SECOND / 1000, 6),
        // A server that wants no wait, and then cannot be reached, would be dialed for ever, a thousand times a second.
        (&without_wait, 60 * SECOND, (2 + 4 + 8 + 16 + 32) / 4),
        (&without_wait, 400 * SECOND / 1000, 2),
        (&breaking, 60 * SECOND, 1),
    ] {
        let stage = answering(replies.iter().cloned());
        let mut events = source(&stage);
        events.delay_max = delay_max;
        let began = Instant::now();
        all(&mut events).await.1.unwrap();
        assert_eq!(began.elapsed().as_secs(), seconds);
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_no_stream_is_an_error() {
    let other = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 0\r\n\r\n".to_owned();
    for (reply, text) in [
        (status(404), "the server responded 404 Not Found"),
        (status(500), "the server responded 500 Internal Server Error"),
        (status(301), "the server responded 301 Moved Permanently"),
        (other, "the response is no stream of events"),
    ] {
        let stage = answering([reply, stream("data: a\n\n")]);
        let mut events = source(&stage);
        assert_eq!(events.event().await.unwrap_err().to_string(), text);
        assert_eq!(stage.received().len(), 1);
        // A caller that goes on all the same waits as after any failure.
        let began = Instant::now();
        assert_eq!(events.event().await.unwrap().unwrap().data, Some("a"));
        assert_eq!(began.elapsed().as_secs(), 3);
    }
    let client = answering([END]).client();
    let mut events = EventSource::new(&client, Request::get("/").unwrap()).unwrap();
    assert_eq!(events.event().await.unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_too_long_is_an_error() {
    let stage = answering([stream("data: aaaaaaaa\n\n"), stream("data: b\n\n")]);
    let mut events = source(&stage);
    events.event_max = 8;
    assert_eq!(events.event().await.unwrap_err().kind(), io::ErrorKind::InvalidData);
    assert_eq!(events.event().await.unwrap().unwrap().data, Some("b"));
}

#[tokio::test(start_paused = true)]
async fn a_future_that_is_dropped_loses_nothing() {
    let stage = Stage::new(|mut peer, number| async move {
        peer.request().await?;
        peer.send(stream("id: 1\ndata: a")).await?;
        tokio::time::sleep(SECOND).await;
        peer.send("\n\n").await?;
        tokio::time::sleep(if number == 0 { SECOND } else { 100 * SECOND }).await;
        Ok(())
    });
    let mut events = source(&stage);
    let mut read = Vec::new();
    let began = Instant::now();
    while read.len() < 2 {
        if let Ok(event) = timeout(SECOND / 10, events.event()).await {
            read.push(event.unwrap().unwrap().data.unwrap().to_owned());
        }
    }
    assert_eq!(read, ["a", "a"]);
    assert_eq!(began.elapsed().as_secs(), 1 + 1 + 3 + 1);
    assert_eq!(events.last_id(), Some("1"));
}

/// The caller has something else to do ten times a second, and the server takes longer than that for a head.
#[tokio::test(start_paused = true)]
async fn a_future_that_is_dropped_while_it_connects_goes_on_connecting() {
    let stage = Stage::new(|mut peer, _| async move {
        peer.request().await?;
        tokio::time::sleep(SECOND / 3).await;
        peer.send(stream("data: a\n\n")).await
    });
    let mut events = source(&stage);
    let mut read = 0;
    for _ in 0..50 {
        if let Ok(event) = timeout(SECOND / 10, events.event()).await {
            assert_eq!(event.unwrap().unwrap().data, Some("a"));
            read += 1;
        }
    }
    // A wait of three seconds is between two connections.
    assert_eq!((read, stage.received().len()), (2, 2));
}

/// The timers of a connection that is being opened end with the runtime in which it was begun.
#[test]
fn a_source_goes_on_in_another_runtime() {
    let busy = "HTTP/1.1 503 x\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n".to_owned();
    let stage = answering([busy.clone(), busy.clone(), busy, stream("data: a\n\n")]);
    let client = stage.builder().retry(Retry::new()).build();
    let mut events = EventSource::new(&client, Request::get("http://a/").unwrap()).unwrap();
    for _ in 0..3 {
        assert!(paused(async { timeout(SECOND / 10, events.event()).await.is_err() }));
    }
    assert_eq!(paused(events.event()).unwrap().unwrap().data, Some("a"));
}

/// Proxies end quiet streams now and then. That is no failure.
#[tokio::test(start_paused = true)]
async fn a_stream_without_events_is_opened_again_after_the_same_wait() {
    let quiet = || vec![stream(": quiet\n\n"); 5];
    let stage = answering(quiet().into_iter().chain([END.to_owned()]));
    let began = Instant::now();
    all(&mut source(&stage)).await.1.unwrap();
    assert_eq!(began.elapsed().as_secs(), 5 * 3);
}

#[tokio::test(start_paused = true)]
async fn the_reason_of_the_last_end_can_be_asked() {
    let stage = answering([status(503), CLOSES.to_owned(), stream("data: a\n\n")]);
    let mut events = source(&stage);
    for expected in ["503 Service Unavailable", "closed the connection without a response"] {
        assert!(timeout(SECOND / 10, events.event()).await.is_err());
        let told = events.last_error().unwrap().to_string();
        assert!(told.contains(expected), "{told}");
        tokio::time::sleep(60 * SECOND).await;
    }
    assert_eq!(events.event().await.unwrap().unwrap().data, Some("a"));
    assert!(events.last_error().is_none());
}
