//! Responses that are refused, or that do not come to their end: all of what a caller still holds can be read, and nothing
//! of the response before is among it (RFC 9112 §4, §5, §7.1.2).

use std::sync::{Arc, Mutex};

#[cfg(feature = "tls")]
use corehttp::client::{ClientCause, Proxies, Proxy};
use corehttp::{Client, ClientError, Response};

use crate::everything;
#[cfg(feature = "tls")]
use crate::support::Scripted;
use crate::support::{Stage, get, paused};

const INTERIM: &str = "HTTP/1.1 103 Early\r\nLink: </a.css>\r\nX-Interim: 1\r\n\r\n";

const RESPONSE: &str = "HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nX-Folded: c\r\n d\r\nTransfer-Encoding: chunked\r\n\r\n\
    2;x=\"y\"\r\nok\r\n0\r\nX-Sum: 1\r\nY: z\r\n\r\n";

/// A server that says once more what it is told to say, and closes.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<u8>>>);

impl Told {
    fn stage(&self) -> Stage {
        let told = self.0.clone();
        Stage::new(move |mut peer, _| {
            let wire = told.lock().unwrap().clone();
            async move {
                peer.request().await?;
                peer.send(wire).await
            }
        })
    }

    fn say(&self, wire: Vec<u8>) {
        *self.0.lock().unwrap() = wire;
    }
}

/// Sends a request, and reads all of the response and of the error, if there is one.
async fn send(client: &Client, response: &mut Response) -> Result<(), ClientError> {
    let sent = client.send(&get(), response).await;
    if let Err(error) = &sent {
        assert!(!format!("{error} {error:?} {error:#}").is_empty());
    }
    assert!(!everything::of_response(response).is_empty());
    sent
}

/// The same, head by head and piece by piece.
async fn receive(client: &Client, response: &mut Response) -> Result<(), ClientError> {
    let (mut writer, mut reader) = client.open_call(&get()).await?.split();
    writer.finish().await?;
    while let Some((_, fields)) = reader.informational().await? {
        everything::of_headers(fields);
    }
    let received = async {
        reader.head(response).await?;
        while reader.chunk().await?.is_some() {}
        Ok(())
    }
    .await;
    everything::of_response(response);
    everything::of_headers(reader.trailers());
    received
}

/// Reads the response of a server that says `wire`, into one that has held another.
async fn check(told: &Told, client: &Client, wire: Vec<u8>) -> [bool; 2] {
    let shown = wire.escape_ascii().to_string();
    told.say(wire);
    let mut response = Response::new();
    response.headers.set("x-earlier", "1").unwrap();
    response.trailers.set("x-earlier", "1").unwrap();
    let sent = send(client, &mut response).await;
    let is_new = |response: &Response| !response.headers.contains("x-earlier");
    assert!(is_new(&response) && !response.trailers.contains("x-earlier"), "{response:?} of {shown}");
    let received = receive(client, &mut response).await;
    assert!(is_new(&response) || received.is_err(), "{response:?} of {shown}");
    [sent.is_ok(), received.is_ok()]
}

#[test]
fn a_response_that_ends_or_is_spoiled_anywhere_can_be_read_in_full_rfc9112_8() {
    let wire = [INTERIM, RESPONSE].concat().into_bytes();
    let told = Told::default();
    paused(async {
        let client = told.stage().client();
        let (mut taken, mut refused) = (0, 0);
        assert!(!everything::of_request(&get()).is_empty());
        assert_eq!(check(&told, &client, wire.clone()).await, [true, true]);
        for at in 0..wire.len() {
            let (before, rest) = wire.split_at(at);
            assert_eq!(check(&told, &client, before.to_vec()).await, [false, false], "cut at {at}");
            let added = [&b"\r\n"[..], b"\n", b" "].map(|odd| [before, odd, rest].concat());
            let changed = [0, 0x1b, 0xff, b':'].map(|odd| [before, &[odd], &rest[1..]].concat());
            for spoiled in added.into_iter().chain(changed) {
                let outcome = check(&told, &client, spoiled).await;
                *(if outcome == [true, true] { &mut taken } else { &mut refused }) += 1;
            }
        }
        assert!(taken > 100 && refused > 500, "{taken} taken, {refused} refused");
    });
}

/// The refusal of a proxy is a response, which its error holds.
#[cfg(feature = "tls")]
#[tokio::test]
async fn the_response_of_a_proxy_that_refuses_a_tunnel_can_be_read_in_full_rfc9110_9_3_6() {
    let response = "HTTP/1.1 403 Forbidden\r\nX-Why: no\r\ncontent-length: 2\r\n\r\nno";
    for cut in 0..=response.len() {
        let proxy = Scripted::new(move |mut peer, _| async move {
            peer.request().await?;
            peer.send(&response[..cut]).await
        })
        .await;
        let proxies = Proxies::all(Proxy::new(&proxy.url).unwrap());
        let error = Client::builder().proxies(proxies).build().get("https://a.example/").await.unwrap_err();
        assert!(!format!("{error} {error:?} {error:#}").is_empty());
        let is_refused = matches!(error.cause(), ClientCause::Proxy(_));
        assert_eq!(is_refused, cut >= response.len() - "no".len(), "cut at {cut}: {error:?}");
        if let Some(refusal) = error.proxy_response() {
            assert!(everything::of_response(refusal).contains("X-Why"));
        }
    }
}
