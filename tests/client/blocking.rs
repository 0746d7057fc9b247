//! The client that blocks its thread: its connections last, and it refuses to block a runtime.

use std::io::Read;
use std::thread;
use std::time::Duration;

use corehttp::blocking::Client;
use corehttp::client::{ClientCause, ClientPhase};
use corehttp::net::MemoryListener;
use corehttp::{ClientError, Context, Request, Response, Server, ServerHandle};

/// A server that repeats the body, and a client of it.
fn echo() -> (ServerHandle, Client) {
    let listener = MemoryListener::new();
    let server = Server::bind(&listener).cores(1).start(|ctx: &mut Context| {
        std::mem::swap(&mut ctx.response.body, &mut ctx.request.body);
    });
    let settings = corehttp::Client::builder().connect_to(listener);
    (server.unwrap(), Client::with_client(settings.build()).unwrap())
}

#[test]
fn connections_last_from_one_request_to_the_next() {
    let (_server, client) = echo();
    for number in 0..10 {
        let response = client.post("http://a/").text(number.to_string()).send().unwrap();
        assert_eq!(response.text().unwrap(), number.to_string());
        assert_eq!(response.timings().reused, number > 0);
    }
    let (mut request, mut response) = (Request::post("http://a/").unwrap(), Response::new());
    request.body.set_bytes("milk");
    client.send(&request, &mut response).unwrap();
    assert_eq!((response.bytes(), response.timings().reused), (&b"milk"[..], true));
}

#[test]
fn threads_share_a_client_and_a_body_is_read_in_pieces() {
    let (_server, client) = echo();
    let body = vec![b'x'; 1 << 20];
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let (mut request, mut response) = (Request::post("http://a/").unwrap(), Response::new());
                request.body.set_bytes(&body);
                let mut reader = client.clone().open_response(&request, &mut response).unwrap();
                let mut received = Vec::new();
                reader.read_to_end(&mut received).unwrap();
                assert!(received == body);
                assert!(reader.chunk().unwrap().is_none() && reader.trailers().is_empty());
            });
        }
    });
}

/// A body outlives its client, whose thread goes on until both are gone.
#[test]
fn a_body_may_be_read_after_its_client_is_gone() {
    let (_server, client) = echo();
    let (mut request, mut response) = (Request::post("http://a/").unwrap(), Response::new());
    request.body.set_bytes(vec![b'x'; 1 << 20]);
    let mut reader = client.open_response(&request, &mut response).unwrap();
    drop(client);
    let mut received = Vec::new();
    reader.read_to_end(&mut received).unwrap();
    assert_eq!(received.len(), 1 << 20);
}

#[test]
fn in_a_runtime_it_is_an_error_that_says_what_to_use() {
    fn check(error: &ClientError) {
        assert_eq!(error.phase(), ClientPhase::Prepare);
        assert!(matches!(error.cause(), ClientCause::InRuntime) && !error.is_sent());
        assert!(error.to_string().ends_with("use corehttp::Client there"), "{error}");
    }
    let (_server, client) = echo();
    let (mut request, mut response) =
        (Request::post("http://a/").unwrap(), [Response::new(), Response::new()]);
    request.body.set_bytes("milk");
    for response in &mut response {
        client.send(&request, response).unwrap();
    }
    corehttp::block_on(async {
        check(&client.get("http://a/").send().unwrap_err());
        check(&client.send(&request, &mut response[0]).unwrap_err());
        check(&client.open_response(&request, &mut response[1]).unwrap_err());
    })
    .unwrap();
    for response in response {
        assert_eq!((response.headers.len(), response.bytes()), (0, &b""[..]), "an earlier one is gone");
    }
    assert!(client.get("http://a/").send().is_ok());
}

#[test]
fn its_limits_are_those_of_the_client() {
    let listener = MemoryListener::new();
    let server = Server::bind(&listener).cores(1).start(async |_: &mut Context| -> corehttp::Result {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok(())
    });
    let settings = corehttp::Client::builder().connect_to(listener).timeout(Duration::from_millis(50));
    let client = Client::with_client(settings.build()).unwrap();
    assert!(client.get("http://a/").send().unwrap_err().is_timeout());
    drop((client, server));
}
