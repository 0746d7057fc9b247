//! The client as a service of tower: the requests that it sends, the bodies that it returns, and layers around it.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::time::Duration;

use bytes::Bytes;
use corehttp::client::{ClientCause, Redirects, ResponseReader};
use corehttp::error::MessageError;
use corehttp::{Client, ClientError};
use http::{HeaderMap, Request, Response, Version};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use tokio::io::AsyncReadExt;
use tower::retry::Policy;
use tower::timeout::error::Elapsed;
use tower::{Service, ServiceBuilder, ServiceExt};
use tower_http::follow_redirect::{FollowRedirectLayer, RequestUri};

use crate::support::{OK, Stage, paused};

fn get(uri: &str) -> Request<Empty<Bytes>> {
    Request::get(uri).body(Empty::new()).unwrap()
}

/// A body of these pieces, whose length is unknown.
fn pieces(pieces: &'static [&'static str]) -> impl Body<Data = Bytes, Error = Infallible> + Send + use<> {
    let frames = pieces.iter().map(|piece| Ok(Frame::data(Bytes::from_static(piece.as_bytes()))));
    StreamBody::new(futures_util::stream::iter(frames))
}

/// The content of a response, and its trailers.
async fn read(body: ResponseReader) -> Result<(Bytes, Option<HeaderMap>), ClientError> {
    let collected = body.collect().await?;
    let trailers = collected.trailers().cloned();
    Ok((collected.to_bytes(), trailers))
}

#[tokio::test]
async fn a_response_has_its_head_its_content_and_its_trailers_rfc9112_7_1() {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for (wire, status, is_end, length, content, trailer) in [
        (OK.to_owned(), 200, false, Some(2), "ok", None),
        ("HTTP/1.1 204 No Content\r\nx-a: 1\r\n\r\n".to_owned(), 204, true, Some(0), "", None),
        ("HTTP/1.1 999 ?\r\ncontent-length: 0\r\n\r\n".to_owned(), 999, true, Some(0), "", None),
        (format!("{chunked}2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"), 200, false, None, "hello", None),
        (format!("{chunked}2\r\nhe\r\n0\r\nx-sum: 7\r\n\r\n"), 200, false, None, "he", Some("7")),
        (format!("{chunked}0\r\nx-sum: 7\r\n\r\n"), 200, false, None, "", Some("7")),
    ] {
        let stage = Stage::always(wire);
        let response = stage.client().oneshot(get("http://a/")).await.unwrap();
        assert_eq!((response.status().as_u16(), response.version()), (status, Version::HTTP_11));
        assert_eq!((response.body().is_end_stream(), response.body().size_hint().exact()), (is_end, length));
        let (data, trailers) = read(response.into_body()).await.unwrap();
        assert_eq!(data, content);
        assert_eq!(trailers.as_ref().map(|map| map["x-sum"].to_str().unwrap()), trailer);
    }
}

#[tokio::test]
async fn fields_keep_their_values_and_their_order_rfc9110_5_3() {
    let stage =
        Stage::always("HTTP/1.1 200 OK\r\nX-A: 1\r\nx-b: \u{e9}\r\nx-a: 2\r\ncontent-length: 0\r\n\r\n");
    let mut request = get("http://a/b?c");
    for value in ["1", "2"] {
        request.headers_mut().append("x-a", value.parse().unwrap());
    }
    let response = stage.client().oneshot(request).await.unwrap();
    assert!(response.headers().get_all("x-a").iter().eq(["1", "2"]));
    assert_eq!(response.headers()["x-b"].as_bytes(), "\u{e9}".as_bytes());
    assert_eq!(stage.received(), ["GET /b?c HTTP/1.1\r\nhost: a\r\nx-a: 1\r\nx-a: 2\r\n\r\n"]);
}

/// Checks that the server receives `expected` when the client is called with this request.
async fn check_heard<B>(request: Request<B>, expected: &str)
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    let stage = Stage::always(OK);
    let response = stage.client().oneshot(request).await.unwrap();
    assert_eq!(read(response.into_body()).await.unwrap().0, "ok");
    assert_eq!(stage.received(), [expected]);
}

#[tokio::test]
async fn a_body_is_sent_with_its_length_or_in_chunks_rfc9112_6() {
    let post = || Request::post("http://a/");
    check_heard(
        post().body(Full::<Bytes>::from("hello")).unwrap(),
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello",
    )
    .await;
    check_heard(
        post().version(Version::HTTP_2).body(pieces(&["he", "", "llo"])).unwrap(),
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
    )
    .await;
    check_heard(
        post().body(Empty::<Bytes>::new()).unwrap(),
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n",
    )
    .await;
    check_heard(get("http://a/"), "GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
}

#[tokio::test]
async fn a_connection_is_used_again_once_its_response_was_read() {
    let stage = Stage::always(OK);
    let mut client = stage.client();
    for _ in 0..3 {
        let response = ServiceExt::<Request<Empty<Bytes>>>::ready(&mut client).await.unwrap();
        let response = response.call(get("http://a/")).await.unwrap();
        assert_eq!(client.idle_connections(), 0);
        read(response.into_body()).await.unwrap();
        assert_eq!(client.idle_connections(), 1);
    }
    drop(client.call(get("http://a/")).await.unwrap());
    assert_eq!((client.idle_connections(), stage.dialed().len()), (0, 1));
}

#[tokio::test]
async fn a_request_that_cannot_be_sent_is_an_error_before_anything_is_dialed() {
    let stage = Stage::always(OK);
    let long = "A".repeat(24);
    type Check = fn(&ClientCause) -> bool;
    let rows: [(&str, &str, Check); 4] = [
        ("GET", "/only/a/path", |cause| matches!(cause, ClientCause::Origin)),
        ("GET", "ftp://a/", |cause| matches!(cause, ClientCause::Request(MessageError::Target(..)))),
        (&long, "http://a/", |cause| matches!(cause, ClientCause::Request(MessageError::MethodTooLong(_)))),
        ("CONNECT", "a:80", |cause| matches!(cause, ClientCause::Request(MessageError::Target(..)))),
    ];
    for (method, uri, is_expected) in rows {
        let request = Request::builder().method(method).uri(uri).body(Empty::<Bytes>::new()).unwrap();
        let error = stage.client().oneshot(request).await.unwrap_err();
        assert!(is_expected(error.cause()) && !error.is_sent(), "{error:?}");
    }
    assert!(stage.dialed().is_empty());
}

#[tokio::test]
async fn a_response_that_is_cut_short_ends_with_an_error_and_not_as_if_it_were_whole() {
    for wire in [
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n",
    ] {
        let stage = Stage::new(move |mut peer, _| async move {
            peer.request().await?;
            peer.send(wire).await
        });
        let mut body = stage.client().oneshot(get("http://a/")).await.unwrap().into_body();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "he");
        assert!(body.frame().await.unwrap().is_err() && body.frame().await.unwrap().is_err());
        assert!(!body.is_end_stream());
    }
}

#[tokio::test]
async fn a_body_whose_source_fails_is_an_error_of_the_client() {
    let stage = Stage::always(OK);
    let frames = [Ok(Frame::data(Bytes::from("he"))), Err(io::Error::other("the source is gone"))];
    let body = StreamBody::new(futures_util::stream::iter(frames));
    let error = stage.client().oneshot(Request::post("http://a/").body(body).unwrap()).await.unwrap_err();
    assert!(format!("{error:#}").ends_with("the source is gone"), "{error:#}");
}

mod layers {
    use super::*;

    /// A server that takes a request and never answers.
    fn silent() -> Stage {
        Stage::new(|mut peer, _| async move {
            let _ = peer.request().await?;
            peer.stream.read_u8().await.map(drop)
        })
    }

    #[test]
    fn a_timeout_cancels_the_exchange() {
        paused(async {
            let client = silent().client();
            let service = ServiceBuilder::new().timeout(Duration::from_secs(5)).service(client.clone());
            let error = service.oneshot(get("http://a/")).await.unwrap_err();
            assert!(error.is::<Elapsed>() && client.busy_connections() == 0, "{error}");
        });
    }

    #[test]
    fn the_time_limit_of_the_client_holds_as_for_its_own_requests() {
        paused(async {
            let client = silent().builder().timeout(Duration::from_secs(5)).build();
            let error = client.oneshot(get("http://a/")).await.unwrap_err();
            assert!(error.is_timeout() && error.to_string().contains("5 s"), "{error}");
        });
    }

    /// Sends a request again, as often as it says.
    #[derive(Clone)]
    struct Again(usize);

    impl<B: Clone> Policy<Request<B>, Response<ResponseReader>, ClientError> for Again {
        type Future = Ready<()>;

        fn retry(
            &mut self,
            _: &mut Request<B>,
            result: &mut Result<Response<ResponseReader>, ClientError>,
        ) -> Option<Ready<()>> {
            let is_over = result.as_ref().is_ok_and(|response| response.status().is_success());
            self.0 = self.0.checked_sub(1).filter(|_| !is_over)?;
            Some(ready(()))
        }

        fn clone_request(&mut self, request: &Request<B>) -> Option<Request<B>> {
            Some(request.clone())
        }
    }

    #[tokio::test]
    async fn a_request_is_sent_again_by_a_policy() {
        for (most, status) in [(0, 503), (1, 503), (2, 200), (3, 200)] {
            let stage = Stage::new(|peer, number| {
                let busy = "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                peer.answer(if number < 2 { busy } else { OK })
            });
            let service = ServiceBuilder::new().retry(Again(most)).service(stage.client());
            let request = Request::put("http://a/").body(Full::<Bytes>::from("hello")).unwrap();
            let response = service.oneshot(request).await.unwrap();
            assert_eq!(response.status().as_u16(), status);
            let received = stage.received();
            assert_eq!(received.len(), 1 + most.min(2));
            assert!(received.iter().all(|request| request.ends_with("\r\n\r\nhello")));
        }
    }

    fn redirecting() -> Stage {
        Stage::answering(|request| match request.starts_with("GET /old ") {
            true => "HTTP/1.1 302 Found\r\nlocation: /new\r\ncontent-length: 0\r\n\r\n".to_owned(),
            false => OK.to_owned(),
        })
    }

    #[tokio::test]
    async fn redirects_are_followed_by_the_client_or_by_a_layer_rfc9110_15_4() {
        let (own, layered, neither) = (redirecting(), redirecting(), redirecting());
        let response = own.client().oneshot(get("http://a/old")).await.unwrap();
        assert_eq!((response.status().as_u16(), own.received().len()), (200, 2));

        let client = layered.client().with_redirects(Redirects::Return);
        let service = ServiceBuilder::new().layer(FollowRedirectLayer::new()).service(client.clone());
        let response = service.oneshot(get("http://a/old")).await.unwrap();
        assert_eq!((response.status().as_u16(), layered.received().len()), (200, 2));
        assert_eq!(response.extensions().get::<RequestUri>().unwrap().0, "http://a/new");

        let client = neither.client().with_redirects(Redirects::Return);
        let response = client.oneshot(get("http://a/old")).await.unwrap();
        assert_eq!((response.status().as_u16(), neither.received().len()), (302, 1));
    }

    #[tokio::test]
    async fn futures_and_bodies_are_send() {
        fn is_send<T: Send + 'static>(it: T) -> T {
            it
        }
        let stage = Stage::always(OK);
        let future = is_send(stage.client().call(get("http://a/")));
        let response = tokio::spawn(future).await.unwrap().unwrap();
        assert_eq!(read(is_send(response.into_body())).await.unwrap().0, "ok");
        is_send(Client::new());
    }
}
