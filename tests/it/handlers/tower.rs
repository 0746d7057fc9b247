//! Services of tower as handlers: the requests that they get, and how their responses are sent.

use std::cell::Cell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{pending, poll_fn, ready};
use std::io::{self, Read, Write};
use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{self, Poll};
use std::time::Duration;

use axum::extract::Path;
use axum::routing::{any, get, post};
use axum::{Extension, Json, Router};
use bytes::Bytes;
use corehttp::error::{ExchangeError, Phase, WireError};
use corehttp::middleware::wrap;
use corehttp::tower::{Tower, TowerBody};
use corehttp::{BodyPlan, Context, Handler, Limits, PeerAddr, Request, Server, Status, block_on};
use http::{HeaderValue, Response, StatusCode, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{Notify, oneshot};
use tokio::time::{sleep, timeout};
use tower_http::cors::CorsLayer;
use tower_service::Service;

use crate::support::chunks::content;
use crate::support::responses::responses;
use crate::support::wired::{Then, Wired};
use crate::support::{
    ErrorReports, Served, alone, eventually, is_held_back, is_over_with_its_head, paused, resident,
    send_first, status, undated,
};

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const EMPTY: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type AppRequest = http::Request<TowerBody>;

/// A service that is an async function, and always ready.
struct ServiceFn<F>(Arc<F>);

impl<F> Clone for ServiceFn<F> {
    fn clone(&self) -> ServiceFn<F> {
        ServiceFn(self.0.clone())
    }
}

impl<F, R, B> Service<AppRequest> for ServiceFn<F>
where
    F: Fn(AppRequest) -> R,
    R: Future<Output = Result<Response<B>, BoxError>>,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = R;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: AppRequest) -> R {
        (self.0)(request)
    }
}

fn tower<F, R, B>(response: F) -> Tower<ServiceFn<F>>
where
    F: Fn(AppRequest) -> R,
    R: Future<Output = Result<Response<B>, BoxError>>,
{
    Tower::new(ServiceFn(Arc::new(response)))
}

fn full(text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    Response::new(Full::new(text.into()))
}

/// The crate `http` refuses some octets that user agents do not escape: an app gets these escaped.
#[test]
fn a_target_reaches_an_app_as_it_came_or_escaped() {
    let tell = async |Path(rest): Path<String>, request: axum::extract::Request| {
        format!("{} {} {rest}", request.uri().path(), request.uri().query().unwrap_or("-"))
    };
    let wired = Wired::new(Tower::new(Router::new().route("/p/{*rest}", any(tell))));
    for (target, expected) in [
        ("/p/a|b^c\"{}?q=\\d`{|}^", "/p/a|b^c\"{} q=\\d`{|}^ a|b^c\"{}"),
        ("/p/é?é", "/p/é é é"),
        ("/p/<b>`?q", "/p/%3Cb%3E%60 q <b>`"),
        ("/p/a?<\">|\\", "/p/a %3C%22%3E%7C%5C a"),
        ("http://b/p/<%7C?a", "/p/%3C%7C a <|"),
    ] {
        let wire = format!("GET {target} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        assert_eq!(responses(&wired.ask_cut(&wire, Then::Ends))[0].body, expected, "{target}");
    }
}

/// A body that takes these steps, and states this length.
struct Steps(VecDeque<Step>, Option<u64>);

enum Step {
    Yield(Frame<Bytes>),
    /// The body is pending, and woken at once.
    Pause,
    Wait,
    Fail,
    Panic,
}

use Step::{Fail, Panic, Pause, Wait};

impl Body for Steps {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.0.pop_front() {
            None => Poll::Ready(None),
            Some(Step::Yield(frame)) => Poll::Ready(Some(Ok(frame))),
            Some(Pause) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Some(Wait) => {
                self.0.push_front(Wait);
                Poll::Pending
            }
            Some(Fail) => Poll::Ready(Some(Err("the source is gone".into()))),
            Some(Panic) => resume_unwind(Box::new("in the body")),
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.1.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

fn steps<const N: usize>(length: Option<u64>, steps: [Step; N]) -> Response<Steps> {
    Response::new(Steps(steps.into(), length))
}

fn data(text: &'static str) -> Step {
    Step::Yield(Frame::data(text.into()))
}

fn sum(value: &'static str) -> Step {
    let field = ("x-sum".parse().unwrap(), HeaderValue::from_static(value));
    Step::Yield(Frame::trailers([field].into_iter().collect()))
}

/// A request whose body is framed by `field`.
fn post_wire(field: &str, body: &str) -> String {
    format!("POST / HTTP/1.1\r\nhost: a\r\n{field}\r\n\r\n{body}")
}

fn chunked(body: &str) -> String {
    post_wire("transfer-encoding: chunked", body)
}

/// Everything that a request holds, in one line.
async fn describe(request: AppRequest) -> Result<String, ExchangeError> {
    let (head, mut body) = request.into_parts();
    let mut said = format!("{} {} {:?}", head.method, head.uri, head.version);
    for (name, value) in &head.headers {
        said += &format!(" {name}={}", value.as_bytes().escape_ascii());
    }
    said += &format!(" {:?} {}|", body.size_hint().exact(), body.is_end_stream());
    while let Some(frame) = body.frame().await {
        match frame?.into_data() {
            Ok(data) => said += &String::from_utf8_lossy(&data),
            Err(frame) => said += &format!("|{:?}", frame.into_trailers().unwrap()),
        }
    }
    assert!(body.is_end_stream() && body.frame().await.is_none(), "the end stays the end");
    Ok(said)
}

async fn echo_description(request: AppRequest) -> Result<Response<Full<Bytes>>, BoxError> {
    Ok(full(describe(request).await?))
}

mod requests {
    use super::*;

    /// Checks that a service gets `wire` as the request `expected`, however it is cut into packets.
    #[track_caller]
    fn check(wire: &str, expected: &str) {
        let received = Wired::new(tower(echo_description)).ask_cut(wire, Then::Waits);
        assert_eq!(responses(&received)[0].body, expected);
    }

    #[test]
    fn a_service_gets_the_request_of_the_peer() {
        check("GET / HTTP/1.1\r\nhost: a\r\n\r\n", "GET / HTTP/1.1 host=a Some(0) true|");
        check(
            "PROPFIND /a/%zz;b?c={d|e}^ HTTP/1.0\r\n\r\n",
            "PROPFIND /a/%zz;b?c={d|e}^ HTTP/1.0 Some(0) true|",
        );
        check(
            "GET http://b:80/a?c HTTP/1.1\r\nhost: a\r\n\r\n",
            "GET http://b:80/a?c HTTP/1.1 host=b:80 Some(0) true|",
        );
        check(
            "GET http://[::1] HTTP/1.1\r\nhost: a\r\n\r\n",
            "GET http://[::1]/ HTTP/1.1 host=[::1] Some(0) true|",
        );
        check("OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n", "OPTIONS * HTTP/1.1 host=a Some(0) true|");
        check("GET //a/../b HTTP/1.1\r\nhost: a\r\n\r\n", "GET //a/../b HTTP/1.1 host=a Some(0) true|");
    }

    #[test]
    fn fields_keep_their_order_their_duplicates_and_obs_text_rfc9110_5() {
        check(
            "GET / HTTP/1.1\r\nHost: a\r\nX-B: 1\r\nX-A: 2\r\nx-a: \t3 4\r\nx-empty:\r\nX-B: 5\r\n\r\n",
            "GET / HTTP/1.1 host=a x-b=1 x-b=5 x-a=2 x-a=3 4 x-empty= Some(0) true|",
        );
        let latin = [b"GET / HTTP/1.1\r\nhost: a\r\nx: \xe9\xff\r\n\r\n".as_slice()];
        let received = Wired::new(tower(echo_description)).ask(&latin, Then::Ends);
        assert_eq!(responses(&received)[0].body, "GET / HTTP/1.1 host=a x=\\xe9\\xff Some(0) true|");
    }

    #[test]
    fn a_body_comes_with_its_length_or_its_trailers_rfc9112_6() {
        check(
            &post_wire("content-length: 5", "hello"),
            "POST / HTTP/1.1 host=a content-length=5 Some(5) false|hello",
        );
        check(&post_wire("content-length: 0", ""), "POST / HTTP/1.1 host=a content-length=0 Some(0) true|");
        let asked = "POST / HTTP/1.1 host=a transfer-encoding=chunked None false|";
        check(&chunked("2\r\nhe\r\n3;a=b\r\nllo\r\n0\r\n\r\n"), &format!("{asked}hello"));
        check(&chunked("0\r\n\r\n"), asked);
        check(&chunked("5\r\nhello\r\n0\r\nx-sum: 7\r\n\r\n"), &format!("{asked}hello|{{\"x-sum\": \"7\"}}"));
        check(&chunked("0\r\nx-sum: 7\r\n\r\n"), &format!("{asked}|{{\"x-sum\": \"7\"}}"));
    }

    #[test]
    fn a_body_that_was_buffered_is_all_there() {
        let check = |wire: &str, expected: &str| {
            let received =
                Wired::new(wrap(BodyPlan::Buffer, tower(echo_description))).ask_cut(wire, Then::Waits);
            assert_eq!(responses(&received)[0].body, expected);
        };
        check(
            &post_wire("content-length: 5", "hello"),
            "POST / HTTP/1.1 host=a content-length=5 Some(5) false|hello",
        );
        let asked = "POST / HTTP/1.1 host=a transfer-encoding=chunked";
        check(&chunked("5\r\nhello\r\n0\r\n\r\n"), &format!("{asked} Some(5) false|hello"));
        check(&chunked("0\r\n\r\n"), &format!("{asked} Some(0) true|"));
        check(
            &chunked("5\r\nhello\r\n0\r\nx-sum: 7\r\n\r\n"),
            &format!("{asked} None false|hello|{{\"x-sum\": \"7\"}}"),
        );
    }

    #[test]
    fn what_does_not_fit_into_a_request_is_answered_400() {
        let roomy = Limits { request_line_max: 1 << 20, head_max: 1 << 20, ..Limits::default() };
        let wired = Wired::with(|server| server.limits(roomy), tower(echo_description));
        let target = |len: usize| format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "a".repeat(len - 1));
        let name = |len: usize| format!("GET / HTTP/1.1\r\nhost: a\r\n{}: b\r\n\r\n", "a".repeat(len));
        for (fits, does_not) in [(target(65_534), target(65_535)), (name(65_535), name(65_536))] {
            let received = wired.ask(&[fits.as_bytes(), does_not.as_bytes(), GET.as_bytes()], Then::Ends);
            let statuses: Vec<_> = responses(&received).iter().map(|response| response.status).collect();
            assert_eq!(statuses, [200, 400, 200], "{:?}", &does_not[..30]);
        }
    }

    #[test]
    fn a_connect_is_refused_and_an_upgrade_is_not_made_rfc9110_9_3_6() {
        let served = Served::new(tower(echo_description));
        assert!(served.ask("CONNECT a:80 HTTP/1.1\r\nhost: a:80\r\n\r\n").starts_with("HTTP/1.1 501 "));
        let upgrade = "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
        assert!(responses(&served.ask(upgrade))[0].body.contains(" upgrade=websocket Some(0) true|"));
        let switches = tower(async |_| {
            let mut response = Response::new(Empty::<Bytes>::new());
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            Ok(response)
        });
        assert!(Served::new(switches).ask(upgrade).starts_with("HTTP/1.1 500 "));
    }

    #[test]
    fn a_service_gets_the_address_of_the_peer() {
        let app =
            Router::new().route("/", get(async |Extension(peer): Extension<PeerAddr>| peer.to_string()));
        let served = Served::new(Tower::new(app));
        let mut peer = served.connect();
        peer.send(GET);
        assert!(peer.receive().ends_with(&format!("\r\n\r\n{}", peer.stream.local_addr().unwrap())));
    }

    /// All requests of a connection share it.
    #[cfg(feature = "tls")]
    #[test]
    fn a_service_gets_the_session_of_a_secure_connection() {
        use crate::protocol::tls::{Secured, connect_to, exchange};
        use corehttp::tls;

        let app = || {
            let before = Mutex::new(None);
            tower(move |request: AppRequest| {
                let session = request.extensions().get::<Arc<tls::Session>>().cloned();
                let earlier = std::mem::replace(&mut *before.lock().unwrap(), session.clone());
                let is_shared =
                    session.as_ref().zip(earlier.as_ref()).map(|(one, other)| Arc::ptr_eq(one, other));
                let told = session.map(|session| (session.version, session.server_name.clone()));
                ready(Ok(full(format!("{told:?} {is_shared:?}"))))
            })
        };
        let secured = Secured::new();
        let served = Served::with(|server| server.tls(secured.tls.clone()), app());
        let mut peer = connect_to(&served, secured.peer(), "a.example");
        peer.write_all(GET.as_bytes()).unwrap();
        let both = exchange(&mut peer).unwrap();
        assert!(both.starts_with("Some((Tls13, Some(\"a.example\"))) None"), "{both}");
        assert!(Served::new(app()).ask(GET).ends_with("None None"));
    }
}

mod answering {
    use super::*;

    /// Checks that the peer of two requests with this method receives the response of `make` as `expected`, twice.
    #[track_caller]
    fn check<B>(method: &str, make: fn() -> Response<B>, expected: &str)
    where
        B: Body<Error: Into<BoxError>> + 'static,
    {
        let wired = Wired::new(tower(move |_| ready(Ok(make()))));
        let asked = format!("{method} / HTTP/1.1\r\nhost: a\r\n\r\n").repeat(2);
        let received = undated(&wired.ask_cut(asked, Then::Waits));
        assert_eq!(received, expected.repeat(2));
    }

    fn with<B>(
        status: u16,
        fields: &[(&'static str, &'static str)],
        mut response: Response<B>,
    ) -> Response<B> {
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        *response.version_mut() = Version::HTTP_2;
        for (name, value) in fields {
            response.headers_mut().append(*name, HeaderValue::from_static(value));
        }
        response
    }

    #[test]
    fn a_body_that_is_whole_at_once_has_a_length_and_leaves_in_one_write() {
        check("GET", || full("hello"), "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
        check("GET", || full(""), EMPTY);
        check("GET", || Response::new(Empty::<Bytes>::new()), EMPTY);
        check("GET", || steps(None, []), EMPTY);
        check("POST", || with(404, &[], full("no")), "HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno");
        let wired = Wired::new(tower(async |_| Ok(full("hello"))));
        assert_eq!(wired.ask_for_writes(&[GET.repeat(2).as_bytes()], Then::Ends).len(), 1);
    }

    #[test]
    fn fields_keep_their_order_and_their_duplicates_and_framing_is_computed() {
        check(
            "GET",
            || {
                let fields = [("x-b", "1"), ("set-cookie", "a=b"), ("set-cookie", "c=d"), ("x-a", "\t2 ")];
                with(200, &fields, full("hi"))
            },
            "HTTP/1.1 200 OK\r\nx-b: 1\r\nset-cookie: a=b\r\nset-cookie: c=d\r\nx-a: 2\r\ncontent-length: 2\r\n\r\nhi",
        );
        check(
            "GET",
            || with(200, &[("transfer-encoding", "chunked"), ("connection", "keep-alive")], full("hi")),
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi",
        );
        let latin = || Response::builder().header("x", HeaderValue::from_bytes(b"\xe9").unwrap());
        let served = Served::new(tower(move |_| ready(Ok(latin().body(Empty::<Bytes>::new()).unwrap()))));
        let mut peer = served.connect();
        peer.send(GET);
        peer.end();
        let mut received = Vec::new();
        peer.stream.read_to_end(&mut received).unwrap();
        assert!(received.windows(6).any(|window| window == b"x: \xe9\r\n"));
    }

    #[test]
    fn any_other_body_is_sent_as_it_comes_with_its_length_or_in_chunks_rfc9112_6() {
        let chunks = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
        check("GET", || steps(None, [data("he"), data("llo")]), chunks);
        check("GET", || steps(None, [Pause, data("he"), Pause, Pause, data("llo"), Pause]), chunks);
        check("GET", || steps(None, [data(""), data("he"), data(""), data("llo"), data("")]), chunks);
        let sized = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
        check("GET", || steps(Some(5), [data("he"), data("llo")]), sized);
        check("GET", || steps(Some(5), [Pause, data("hello")]), sized);
        check("GET", || with(200, &[("content-length", "5")], steps(None, [Pause, data("hello")])), sized);
        check("GET", || with(200, &[("content-length", "7")], steps(Some(5), [data("hello"), Pause])), sized);
    }

    #[test]
    fn trailers_come_behind_chunks_rfc9112_7_1_2() {
        let chunks =
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 7\r\n\r\n";
        check("GET", || steps(None, [data("hello"), sum("7")]), chunks);
        check("GET", || steps(None, [Pause, data("hello"), Pause, sum("7"), Pause, Fail]), chunks);
        let announced = chunks.replace("\r\ntransfer", "\r\ntrailer: x-sum\r\ntransfer");
        check(
            "GET",
            || with(200, &[("trailer", "x-sum")], steps(Some(5), [data("hello"), sum("7")])),
            &announced,
        );
        const BOTH: [(&str, &str); 2] = [("trailer", "x-sum"), ("content-length", "5")];
        check("GET", || with(200, &BOTH, steps(None, [data("hello"), sum("7")])), &announced);
        let sized = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
        check("GET", || steps(Some(5), [data("hello"), sum("7")]), sized);
        let alone = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-sum: 7\r\n\r\n";
        check("GET", || steps(None, [sum("7")]), alone);
    }

    #[test]
    fn http_1_0_is_sent_a_length_or_else_closed_rfc9112_6_3() {
        let wired = Wired::new(tower(async |request: AppRequest| match request.uri().path() {
            "/sized" => Ok(steps(Some(5), [Pause, data("hello"), sum("7")])),
            _ => Ok(steps(None, [Pause, data("hello"), sum("7")])),
        }));
        let kept = "GET /sized HTTP/1.0\r\nconnection: keep-alive\r\n\r\nGET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n";
        let received = undated(&wired.ask_cut(kept, Then::Waits));
        assert_eq!(
            received,
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: keep-alive\r\n\r\nhello\
             HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello"
        );
    }

    /// A body that must not be polled, because it is not sent.
    struct Unasked(Option<u64>);

    impl Body for Unasked {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut task::Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            panic!("it is not sent")
        }

        fn size_hint(&self) -> SizeHint {
            self.0.map_or_else(SizeHint::new, SizeHint::with_exact)
        }
    }

    #[test]
    fn a_body_that_is_not_sent_is_not_polled_rfc9110_9_3_2() {
        for (method, length) in [("HEAD", Some(5)), ("GET", None)] {
            let length = length.map_or(String::new(), |length| format!("content-length: {length}\r\n"));
            let unmodified = format!("HTTP/1.1 304 Not Modified\r\n{length}\r\n");
            check(method, || with(304, &[], Response::new(Unasked(Some(5)))), &unmodified);
            let none = "HTTP/1.1 204 No Content\r\n\r\n";
            check(method, || with(204, &[], Response::new(Unasked(Some(5)))), none);
            let reset = "HTTP/1.1 205 Reset Content\r\ncontent-length: 0\r\n\r\n";
            check(method, || with(205, &[], Response::new(Unasked(None))), reset);
        }
        let sized = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
        check("HEAD", || Response::new(Unasked(Some(5))), sized);
        check("HEAD", || with(200, &[("content-length", "5")], Response::new(Unasked(None))), sized);
        check("HEAD", || with(200, &[("content-length", "5")], Response::new(Empty::<Bytes>::new())), sized);
        check("HEAD", || Response::new(Unasked(Some(1))), &sized.replace('5', "1"));
        check("HEAD", || Response::new(Unasked(None)), "HTTP/1.1 200 OK\r\n\r\n");
    }

    /// Checks that the response of `make` ends a connection after `expected`, because of `cause`.
    #[track_caller]
    fn check_cut(make: fn() -> Response<Steps>, expected: &str, cause: &str) {
        let refusals = ErrorReports::default();
        let served = Served::with(|server| refusals.attach(server), tower(move |_| ready(Ok(make()))));
        let mut peer = served.connect();
        peer.send(GET);
        assert_eq!(undated(&peer.receive_all()), expected);
        assert!(refusals.take()[0].1.contains(cause), "{cause}");
    }

    #[test]
    fn a_body_that_fails_cannot_pass_for_whole_rfc9112_7_1() {
        let chunks = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n<ConnectionReset>";
        check_cut(|| steps(None, [Pause, data("hello"), Pause, Fail]), chunks, "the source is gone");
        let sized = "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nhello<ConnectionReset>";
        check_cut(|| steps(Some(7), [Pause, data("hello"), Pause, Fail]), sized, "the source is gone");
        check_cut(|| steps(Some(7), [Pause, data("hello"), Pause]), sized, "not as long as was announced");
        let long = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello<ConnectionReset>";
        check_cut(|| steps(Some(5), [Pause, data("hello"), Pause, data("x")]), long, "not as long");
    }

    #[test]
    fn a_body_that_fails_before_any_of_it_was_sent_is_answered_500() {
        let refusals = ErrorReports::default();
        let served = Served::with(
            |server| refusals.attach(server),
            tower(async |request: AppRequest| match request.uri().path() {
                "/short" => Ok(steps(Some(5), [])),
                "/shorter" => Ok(with(200, &[("content-length", "5")], steps(None, []))),
                "/fails" => Ok(steps(Some(5), [Fail])),
                _ => Ok(steps(None, [])),
            }),
        );
        let paths =
            ["/short", "/shorter", "/fails", "/"].map(|path| GET.replace(" / ", &format!(" {path} ")));
        let statuses: Vec<_> =
            responses(&served.ask(paths.concat())).iter().map(|response| response.status).collect();
        assert_eq!(statuses, [500, 500, 500, 200]);
        assert_eq!(refusals.take().len(), 3);
    }

    #[test]
    fn a_status_that_is_none_is_answered_500_rfc9110_15() {
        for status in [100, 101, 103, 600, 999] {
            let respond = move || with(status, &[], full("x"));
            let served = Served::new(tower(move |_| ready(Ok(respond()))));
            let received = served.ask(GET.repeat(2));
            assert_eq!(
                responses(&received).iter().map(|respond| respond.status).collect::<Vec<_>>(),
                [500, 500]
            );
        }
    }

    /// Each event arrives before the next one is made.
    #[test]
    fn events_leave_at_once() {
        struct Events(UnboundedReceiver<&'static str>);

        impl Body for Events {
            type Data = &'static [u8];
            type Error = Infallible;

            fn poll_frame(
                mut self: Pin<&mut Self>,
                cx: &mut task::Context<'_>,
            ) -> Poll<Option<Result<Frame<&'static [u8]>, Infallible>>> {
                self.0.poll_recv(cx).map(|event| event.map(|event| Ok(Frame::data(event.as_bytes()))))
            }
        }

        let (send, receive) = unbounded_channel();
        let events = Mutex::new(Some(receive));
        let served = Served::new(tower(move |_| {
            ready(Ok(Response::new(Events(events.lock().unwrap().take().unwrap()))))
        }));
        let mut peer = served.connect();
        peer.send(GET);
        peer.receive_through("\r\n\r\n");
        for event in ["data: 1\n\n", "data: 2\n\n", "data: 3\n\n"] {
            send.send(event).unwrap();
            peer.receive_through(&format!("{event}\r\n"));
        }
        drop(send);
        peer.receive_through("0\r\n\r\n");
    }
}

mod reading {
    use super::*;

    /// Counts what it reads, once `go` has come.
    async fn count(request: AppRequest, go: Arc<Notify>) -> Result<Response<Full<Bytes>>, BoxError> {
        go.notified().await;
        let read = request.into_body().collect().await?.to_bytes();
        Ok(full(read.len().to_string()))
    }

    #[test]
    fn a_body_that_is_not_polled_holds_the_peer_back() {
        paused(async {
            let ((near, far), go) = (tokio::io::duplex(1 << 10), Arc::new(Notify::new()));
            let going = go.clone();
            let service = Server::new().service(tower(move |asked| count(asked, going.clone())));
            let peer = async {
                let head = post_wire("content-length: 1000000", "");
                is_held_back(near, &head, 96 << 10, &go).await;
            };
            let (served, ()) = tokio::join!(service.serve_connection(far), peer);
            served.unwrap();
        });
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_peer_that_waits_for_100_gets_it_when_the_body_is_polled_rfc9110_10_1_1() {
        const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";
        paused(async {
            let ((mut near, far), go) = (tokio::io::duplex(1 << 10), Arc::new(Notify::new()));
            let going = go.clone();
            let service = Server::new().service(tower(move |asked| count(asked, going.clone())));
            let peer = async {
                let asked = post_wire("content-length: 5\r\nexpect: 100-continue", "");
                near.write_all(asked.as_bytes()).await.unwrap();
                let mut received = vec![0; CONTINUE.len()];
                assert!(timeout(SECOND, near.read(&mut received)).await.is_err(), "nobody has polled it");
                go.notify_one();
                near.read_exact(&mut received).await.unwrap();
                assert_eq!(received, CONTINUE.as_bytes());
                near.write_all(b"hello").await.unwrap();
                near.shutdown().await.unwrap();
                let mut received = String::new();
                near.read_to_string(&mut received).await.unwrap();
                assert_eq!(responses(&received)[0].body, "5");
            };
            let (served, ()) = tokio::join!(service.serve_connection(far), peer);
            served.unwrap();
        });
    }

    /// A peer that waits for a 100 in vain gets a response that says `close`, since it may or may not send its body.
    #[test]
    fn a_body_that_is_dropped_is_not_invited_rfc9110_10_1_1() {
        let served = Served::new(tower(async |_| Ok(full("no"))));
        for (expectation, length, is_last) in
            [("expect: 100-continue\r\n", 5, true), ("", 1 << 30, true), ("", 5, false)]
        {
            let mut peer = served.connect();
            peer.send(post_wire(&format!("{expectation}content-length: {length}"), ""));
            let received = peer.receive();
            assert_eq!((responses(&received)[0].is_last(), &*responses(&received)[0].body), (is_last, "no"));
            if !is_last {
                peer.send("hello".to_owned() + GET);
                assert!(peer.receive().ends_with("no"));
            }
        }
        let streamed = Wired::new(tower(async |_| Ok(steps(None, [Pause, data("no")]))));
        let asked = post_wire("expect: 100-continue\r\ncontent-length: 5", "");
        let received = streamed.ask(&[asked.as_bytes()], Then::Waits);
        assert!(
            matches!(&responses(&received)[..], [response] if response.is_last() && response.status == 200),
            "{received}"
        );
    }

    #[test]
    fn a_body_of_which_a_part_was_read_is_not_passed_on() {
        let inner = tower(echo_description);
        let outer = async move |ctx: &mut Context| -> corehttp::Result {
            ctx.body_reader().chunk().await?;
            inner.handle(ctx).await
        };
        let received =
            Served::new(wrap(BodyPlan::Stream, outer)).ask(post_wire("content-length: 5", "hello"));
        assert!(received.starts_with("HTTP/1.1 500 "), "{received}");
    }

    #[test]
    fn an_echo_of_any_size_takes_constant_memory() {
        alone("handlers::tower::reading::an_echo_of_any_size_takes_constant_memory", || {
            const SIZE: usize = 64 << 20;
            const PIECE: usize = 256 << 10;
            let served =
                Served::new(tower(async |request: AppRequest| Ok(Response::new(request.into_body()))));
            let mut peer = served.connect();
            peer.send(post_wire(&format!("content-length: {SIZE}\r\nexpect: 100-continue"), ""));
            peer.receive_through("100 Continue\r\n\r\n");
            let head = peer.receive_through("\r\n\r\n");
            assert!(head.contains(&format!("\r\ncontent-length: {SIZE}\r\n")), "{head}");
            let before = resident();
            let mut sender = peer.stream.try_clone().unwrap();
            let sending = std::thread::spawn(move || {
                let piece = vec![7; PIECE];
                (0..SIZE / PIECE).for_each(|_| sender.write_all(&piece).unwrap());
            });
            let (mut most, mut piece) = (before, vec![0; PIECE]);
            for _ in 0..SIZE / PIECE {
                peer.stream.read_exact(&mut piece).unwrap();
                most = most.max(resident());
            }
            sending.join().unwrap();
            assert!(most < before + SIZE / 8, "{before} bytes became {most}");
            peer.send(post_wire("content-length: 2", "hi"));
            assert!(peer.receive().ends_with("\r\n\r\nhi"));
        });
    }

    #[test]
    fn an_echo_has_the_trailers_of_the_request() {
        let wired = Wired::new(tower(async |request: AppRequest| Ok(Response::new(request.into_body()))));
        let wire = chunked("5\r\nhello\r\n0\r\nx-sum: 7\r\n\r\n").repeat(2);
        for _ in 0..2 {
            let received = wired.ask(&[wire.as_bytes()], Then::Waits);
            assert!(received.ends_with("\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 7\r\n\r\n"), "{received}");
        }
        let echo =
            wrap(BodyPlan::Buffer, tower(async |request: AppRequest| Ok(Response::new(request.into_body()))));
        let received = Wired::new(echo).ask_cut(wire, Then::Waits);
        assert!(received.ends_with("\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 7\r\n\r\n"), "{received}");
    }

    /// Checks that a service gets a `broken` body as an error. If the service fails, too, the peer gets `status`; if it
    /// answers, the peer gets that response.
    #[track_caller]
    fn check_broken(body: &str, status: u16, broken: fn(&ExchangeError) -> bool) {
        let fails = tower(move |request: AppRequest| async move {
            let error = request.into_body().collect().await.unwrap_err();
            assert!(broken(&error), "{error:?}");
            Err::<Response<Empty<Bytes>>, _>(error.into())
        });
        let answers_all_the_same = tower(async |request: AppRequest| {
            let mut body = request.into_body();
            while let Some(Ok(_)) = body.frame().await {}
            assert!(body.is_end_stream() && body.frame().await.is_none());
            Ok(full("all the same"))
        });
        let received = Wired::new(fails).ask_cut(body, Then::Ends);
        assert_eq!(
            responses(&received).iter().map(|response| response.status).collect::<Vec<_>>(),
            [status],
            "{body}"
        );
        let received = Wired::new(answers_all_the_same).ask_cut(body, Then::Ends);
        let [response] = &responses(&received)[..] else { panic!("{received}") };
        assert!(response.is_last() && response.body == "all the same", "{received}");
    }

    #[test]
    fn a_broken_body_is_an_error_and_the_last_one_of_its_connection_rfc9112_8() {
        let is_cut = |error: &_| matches!(error, ExchangeError::Incomplete);
        check_broken(&post_wire("content-length: 9", "hello"), 400, is_cut);
        check_broken(&chunked("5\r\nhel"), 400, is_cut);
        check_broken(&chunked("5\r\nhello\r\n0\r\n"), 400, is_cut);
        let is_malformed = |error: &_| matches!(error, ExchangeError::Wire(WireError::ChunkSize, _));
        check_broken(&(chunked("5\r\nhello\r\n+1\r\n") + GET), 400, is_malformed);
        let are_too_large = |error: &_| matches!(error, ExchangeError::Wire(WireError::TooManyTrailers, _));
        check_broken(&chunked(&format!("0\r\n{}\r\n", "a: b\r\n".repeat(65))), 431, are_too_large);
    }

    #[test]
    fn a_body_that_fails_keeps_its_status_in_errors_of_other_types_rfc9110_15_5() {
        let wrapped = tower(async |request: AppRequest| {
            let body = axum::body::Body::new(request.into_body());
            axum::body::to_bytes(body, 5).await?;
            Ok(full("whole"))
        });
        let text = tower(async |request: AppRequest| {
            let error = request.into_body().collect().await.map(drop).unwrap_err();
            Err::<Response<Empty<Bytes>>, _>(format!("a body failed: {error}").into())
        });
        // Its head is on its way before the body fails.
        let echoes =
            tower(async |request: AppRequest| Ok(Response::new(axum::body::Body::new(request.into_body()))));
        let (services, echoes) = ([wrapped.boxed(), text.boxed()].map(Wired::new), Wired::new(echoes));
        for (wire, expected) in [(post_wire("content-length: 5", "hell"), 408), (chunked("+1\r\n"), 400)] {
            for service in &services {
                let received = service.ask(&[wire.as_bytes()], Then::Waits);
                assert_eq!(responses(&received)[0].status, expected, "{wire}");
            }
            let cut = echoes.ask(&[wire.as_bytes()], Then::Waits);
            assert!(cut.starts_with("HTTP/1.1 200 ") && !cut.ends_with("0\r\n\r\n"), "{cut}");
        }
        let received = services[0].ask(&[chunked("6\r\nhello!\r\n0\r\n\r\n").as_bytes()], Then::Waits);
        assert!(received.starts_with("HTTP/1.1 413 "), "the limit of axum: {received}");
    }

    #[test]
    fn a_body_that_is_too_slow_is_an_error_rfc9110_15_5_9() {
        let fails = tower(async |request: AppRequest| {
            let error = request.into_body().collect().await.unwrap_err();
            assert!(matches!(error, ExchangeError::TimedOut(Phase::Body, _)), "{error:?}");
            Err::<Response<Empty<Bytes>>, _>(error.into())
        });
        let received =
            Wired::new(fails).ask(&[post_wire("content-length: 9", "hello").as_bytes()], Then::Waits);
        assert!(received.starts_with("HTTP/1.1 408 "), "{received}");
    }

    #[test]
    fn another_thread_may_read_a_body_while_the_service_waits() {
        let served = Served::new(tower(async |request: AppRequest| {
            let (send, read) = oneshot::channel();
            std::thread::spawn(move || send.send(block_on(describe(request)).unwrap()));
            let said = read.await?;
            Ok(full(said?))
        }));
        let mut peer = served.connect();
        for length in [0, 1, 100, 100_000] {
            peer.send(post_wire(&format!("content-length: {length}"), ""));
            let body = content(length);
            body.as_bytes().chunks(30_000).for_each(|piece| peer.send(piece));
            assert!(peer.receive().ends_with(&format!("|{body}")), "{length}");
        }
    }

    /// A body that outlives its response ends with an error, whether it was polled before or not.
    #[test]
    fn a_body_that_is_kept_ends_with_an_error() {
        #[track_caller]
        fn check(wire: &str, is_polled: bool) {
            let (keep, mut kept) = unbounded_channel();
            let go = Arc::new(Notify::new());
            let going = go.clone();
            let service = Server::new().service(tower(move |request: AppRequest| {
                keep.send(request.into_body()).unwrap();
                let going = going.clone();
                async move {
                    going.notified().await;
                    Ok(Response::new(Empty::<Bytes>::new()))
                }
            }));
            paused(async {
                let (mut near, far) = tokio::io::duplex(1 << 10);
                let peer = async {
                    near.write_all(wire.as_bytes()).await.unwrap();
                    let mut body: TowerBody = kept.recv().await.unwrap();
                    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "hello");
                    let ended = if is_polled {
                        let mut ended = pin!(body.frame());
                        timeout(SECOND, &mut ended).await.unwrap_err();
                        go.notify_one();
                        timeout(SECOND, ended).await.unwrap()
                    } else {
                        go.notify_one();
                        near.read_exact(&mut [0; 12]).await.unwrap();
                        sleep(SECOND).await;
                        timeout(SECOND, body.frame()).await.unwrap()
                    };
                    let Some(Err(ExchangeError::Io(error))) = ended else { panic!("{ended:?}") };
                    assert_eq!(error.kind(), io::ErrorKind::NotConnected);
                    assert!(body.frame().await.is_none());
                    drop(near);
                };
                let _ = tokio::join!(service.serve_connection(far), peer);
            });
        }
        for is_polled in [false, true] {
            check(&post_wire("content-length: 9", "hello"), is_polled);
            check(&chunked("5\r\nhello\r\n"), is_polled);
        }
    }
}

mod ending {
    use super::*;

    /// Many clients read a response only once they have sent all of their request.
    #[test]
    fn a_response_is_read_after_a_large_body_was_sent_rfc9112_9_6() {
        let served = Served::new(tower(async |request: AppRequest| {
            if request.uri().path() == "/tasted" {
                request.into_body().frame().await.ok_or("there is a body")??;
            }
            Ok(full("fine"))
        }));
        for path in ["/ignored", "/tasted"] {
            let head = post_wire("content-length: 8000000", "").replace(" / ", &format!(" {path} "));
            let wire = [head.as_bytes(), &[b'b'; 8_000_000]].concat();
            assert_eq!(status(&send_first(served.connect().stream, &wire)), 200, "{path}");
        }
    }

    /// Checks that the error of a service is answered with this status, and reported.
    #[track_caller]
    fn check(fail: fn() -> BoxError, status: u16, reported: &[(u16, &str)]) {
        let refusals = ErrorReports::default();
        let fails = move |_| ready(Err::<Response<Empty<Bytes>>, _>(fail()));
        let served = Served::with(|server| refusals.attach(server), tower(fails));
        let received = served.ask(GET.repeat(2));
        assert_eq!(
            responses(&received).iter().map(|response| response.status).collect::<Vec<_>>(),
            [status; 2]
        );
        let reported: Vec<_> = reported.iter().map(|(status, cause)| (*status, cause.to_string())).collect();
        assert_eq!(refusals.take(), [&*reported, &*reported].concat());
    }

    #[test]
    fn an_error_is_answered_with_the_status_that_it_chooses_or_500() {
        check(|| "secret".into(), 500, &[(500, "the handler failed: secret")]);
        check(|| Status::NOT_FOUND.into(), 404, &[]);
        let slow = "the body took longer than 30 s";
        check(
            || ExchangeError::TimedOut(Phase::Body, Duration::from_secs(30).into()).into(),
            408,
            &[(408, slow)],
        );
        let inner = "the peer closed before the message was complete";
        check(|| io::Error::from(ExchangeError::Incomplete).into(), 400, &[(400, inner)]);
    }

    #[test]
    fn a_panic_ends_its_connection_and_nothing_else() {
        let served = Served::new(tower(async |request: AppRequest| match request.uri().path() {
            "/" => Ok(steps(Some(4), [data("calm")])),
            "/first" => Ok(steps(Some(7), [Panic])),
            "/later" => Ok(steps(Some(7), [data("hello"), Pause, Panic])),
            _ => resume_unwind(Box::new("in the future")),
        }));
        let mut other = served.connect();
        for (path, expected) in
            [("/first", "HTTP/1.1 500 "), ("/later", "HTTP/1.1 200 "), ("/x", "HTTP/1.1 500 ")]
        {
            let mut peer = served.connect();
            peer.send(GET.replace(" / ", &format!(" {path} ")) + GET);
            let received = peer.receive_all();
            assert!(received.starts_with(expected) && !received.contains("calm"), "{path}: {received}");
            assert_eq!(received.ends_with("<ConnectionReset>"), path == "/later", "{received}");
            other.send(GET);
            assert!(other.receive().ends_with("calm"));
        }
    }

    /// A service that is ready at its `turns`th poll, if ever, and must be called only then.
    struct Ready<F> {
        polled: usize,
        turns: usize,
        service: F,
    }

    impl<F: Clone> Clone for Ready<F> {
        /// The polls of one clone do not count for another.
        fn clone(&self) -> Ready<F> {
            Ready { polled: 0, turns: self.turns, service: self.service.clone() }
        }
    }

    impl<F: Service<AppRequest, Error = BoxError>> Service<AppRequest> for Ready<F> {
        type Response = F::Response;
        type Error = BoxError;
        type Future = F::Future;

        fn poll_ready(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<(), BoxError>> {
            self.polled += 1;
            match (self.turns, self.polled) {
                (0, _) => Poll::Ready(Err("never ready".into())),
                (turns, polled) if polled < turns => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                _ => Poll::Ready(Ok(())),
            }
        }

        fn call(&mut self, request: AppRequest) -> F::Future {
            assert_eq!(self.polled, self.turns, "a clone is called once it is ready, and no other one");
            self.service.call(request)
        }
    }

    #[test]
    fn a_service_is_called_once_it_is_ready() {
        let ready =
            |turns| Tower::new(Ready { polled: 9, turns, service: ServiceFn(Arc::new(echo_description)) });
        for turns in [1, 2, 5] {
            let received =
                Wired::new(ready(turns)).ask_cut(chunked("5\r\nhello\r\n0\r\n\r\n").repeat(2), Then::Waits);
            assert!(
                responses(&received).iter().all(|response| response.body.ends_with("|hello")),
                "{received}"
            );
            assert_eq!(responses(&received).len(), 2);
        }
        let refusals = ErrorReports::default();
        let received = Served::with(|server| refusals.attach(server), ready(0)).ask(GET);
        assert_eq!(responses(&received)[0].status, 500);
        assert_eq!(refusals.take(), [(500, "the handler failed: never ready".into())]);
    }

    #[test]
    fn neither_a_service_nor_its_future_nor_its_body_need_be_send() {
        let served = Server::bind("127.0.0.1:0").cores(1).start_per_core(async |_| {
            let asked = Rc::new(Cell::new(0));
            Ok(tower(move |_| {
                let asked = asked.clone();
                async move {
                    asked.set(asked.get() + 1);
                    tokio::task::yield_now().await;
                    let (count, response) = (asked.get(), steps(None, [Pause, data("th")]));
                    let kept = asked.clone();
                    let change = move |frame: Frame<Bytes>| {
                        assert!(kept.get() >= count);
                        frame.map_data(|data| Bytes::from([count.to_string().as_bytes(), &data].concat()))
                    };
                    Ok(response.map(|body| body.map_frame(change)))
                }
            }))
        });
        let served = Served { running: served.unwrap() };
        let mut peer = served.connect();
        for count in 1..=3 {
            peer.send(GET);
            peer.receive_through(&format!("\r\n{count}th\r\n0\r\n\r\n"));
        }
    }

    /// Notifies the test when it is dropped.
    struct Guard(Arc<AtomicUsize>);

    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_service_and_its_body_are_dropped_when_the_peer_leaves() {
        let (dropped, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counts, begins) = (dropped.clone(), begun.clone());
        let app = tower(move |request: AppRequest| {
            let (guard, begins) = (Guard(counts.clone()), begins.clone());
            async move {
                begins.fetch_add(1, Ordering::SeqCst);
                let body = match request.uri().path() {
                    "/future" => pending().await,
                    "/body" => steps(None, [Pause, data("hello"), Wait]),
                    "/both" => steps(Some(10), [data("hello"), Pause, Wait]),
                    path => panic!("{path}"),
                };
                // The last service keeps the request's body, which might still be read.
                let kept = (request.uri().path() == "/both").then_some(request);
                Ok(body.map(|body| {
                    body.map_frame(move |frame| {
                        let _ = (&guard, &kept);
                        frame
                    })
                }))
            }
        });
        let served = Served::with(|server| server.half_close(false), app);
        let mut gone = 0;
        for path in ["/future", "/body", "/both"] {
            for reset in [false, true] {
                let mut peer = served.connect();
                let field = "content-length: 5";
                peer.send(post_wire(field, "he").replace(" / ", &format!(" {path} ")));
                if path != "/future" {
                    peer.receive_through("hello");
                }
                gone += 1;
                eventually("it is called", || begun.load(Ordering::SeqCst) == gone);
                assert_eq!(dropped.load(Ordering::SeqCst), gone - 1);
                if reset {
                    peer.reset()
                } else {
                    drop(peer)
                }
                eventually("it is dropped", || dropped.load(Ordering::SeqCst) == gone);
            }
        }
        eventually("all are closed", || served.running.counts().total.open == 0);
    }

    /// The peer must neither be answered 400 nor be cut off in the middle of the response.
    #[test]
    fn a_peer_that_closes_its_sending_half_gets_the_whole_response_rfc9112_9_6() {
        let app = tower(async |request: AppRequest| {
            sleep(Duration::from_millis(20)).await;
            let read = match request.uri().path() {
                "/read" => request.into_body().collect().await?.to_bytes().len(),
                _ => 0,
            };
            let length = Bytes::from(read.to_string());
            Ok(steps(None, [data("hello"), Pause, Step::Yield(Frame::data(length))]))
        });
        let refusals = ErrorReports::default();
        let served = Served::with(|server| refusals.attach(server), app);
        for path in ["/", "/read"] {
            let bodies =
                [GET.to_owned(), post_wire("content-length: 5", "hello"), chunked("5\r\nhello\r\n0\r\n\r\n")];
            for (wire, len) in bodies.iter().zip([0, 5, 5]) {
                let received = served.ask(wire.replace(" / ", &format!(" {path} ")));
                let expected = format!("hello{}", if path == "/read" { len } else { 0 });
                assert_eq!(responses(&received)[0].body, expected, "{path}, {wire:?}");
            }
        }
        assert_eq!(refusals.take(), []);
    }

    /// An access log does not count a reset as a bad request either.
    #[test]
    fn a_peer_that_resets_is_cut_off_without_a_response() {
        let (begun, refusals) = (Arc::new(Notify::new()), ErrorReports::default());
        let begins = begun.clone();
        let app = tower(move |_| {
            begins.notify_one();
            pending::<Result<Response<Empty<Bytes>>, _>>()
        });
        let served = Served::with(|server| refusals.attach(server), app);
        let mut peer = served.connect();
        peer.send(GET);
        block_on(begun.notified()).unwrap();
        peer.reset();
        eventually("it is noticed", || served.running.counts().total.open == 0);
        let cut = "the peer closed before it was answered in full";
        assert_eq!(refusals.take(), [(0, cut.to_owned())]);
    }

    #[test]
    fn a_peer_that_does_not_read_is_cut_off_and_the_body_dropped() {
        let dropped = Arc::new(AtomicUsize::new(0));
        let counts = dropped.clone();
        let floods = tower(move |_| {
            let guard = Guard(counts.clone());
            let flood = std::iter::repeat_with(move || {
                let _ = &guard;
                Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[7; 1 << 10])))
            });
            ready(Ok(Response::new(StreamBody::new(futures_util::stream::iter(flood)))))
        });
        paused(async {
            let (mut near, far) = tokio::io::duplex(1 << 10);
            let service = Server::new().service(floods);
            let served = tokio::join!(service.serve_connection(far), async {
                near.write_all(GET.as_bytes()).await.unwrap();
                sleep(Duration::from_secs(29)).await;
                assert_eq!(dropped.load(Ordering::SeqCst), 0);
                near
            });
            assert_eq!(served.0.unwrap_err().kind(), io::ErrorKind::TimedOut);
            assert_eq!(dropped.load(Ordering::SeqCst), 1);
        });
    }

    /// The service of a connection is dropped with it at each point of an exchange, and a body that is kept ends.
    #[test]
    fn a_connection_may_be_dropped_at_any_time() {
        let mut most = 0;
        for polls in 0..30 {
            let (keep, mut kept) = unbounded_channel::<TowerBody>();
            let dropped = Arc::new(AtomicUsize::new(0));
            let (counts, called) = (dropped.clone(), Rc::new(Cell::new(0)));
            let calls = called.clone();
            let service = Server::new().service(tower(move |request: AppRequest| {
                calls.set(calls.get() + 1);
                let (keep, guard) = (keep.clone(), Guard(counts.clone()));
                async move {
                    let mut body = request.into_body();
                    let first = body.frame().await.unwrap()?;
                    tokio::task::yield_now().await;
                    keep.send(body).unwrap();
                    let response =
                        steps(None, [Pause, Step::Yield(first), Pause, data("x"), Pause, sum("7")]);
                    Ok(response.map(|body| {
                        body.map_frame(move |frame| {
                            let _ = &guard;
                            frame
                        })
                    }))
                }
            }));
            paused(async {
                let (mut near, far) = tokio::io::duplex(1 << 10);
                near.write_all(chunked("5\r\nhello\r\n").as_bytes()).await.unwrap();
                let mut serving = Box::pin(service.serve_connection(far));
                for _ in 0..polls {
                    let polled = poll_fn(|cx| Poll::Ready(serving.as_mut().poll(cx))).await;
                    assert!(polled.is_pending(), "the rest of the body may come");
                    tokio::task::yield_now().await;
                }
            });
            assert_eq!(dropped.load(Ordering::SeqCst), called.get(), "{polls}");
            if let Ok(mut body) = kept.try_recv() {
                let ended = paused(async { timeout(Duration::from_secs(1), body.frame()).await }).unwrap();
                assert!(matches!(ended, Some(Err(ExchangeError::Io(_)))), "{polls}: {ended:?}");
                most = most.max(polls);
            }
        }
        assert!(most == 29, "the last ones are dropped behind their responses");
    }

    #[test]
    fn requests_may_be_cut_off_anywhere() {
        let refusals = ErrorReports::default();
        let served = Served::with(
            |server| refusals.attach(server),
            tower(async |request: AppRequest| Ok(Response::new(request.into_body()))),
        );
        let wire = chunked("5\r\nhello\r\n5\r\nhello\r\n0\r\nx-sum: 7\r\n\r\n");
        for cut in 0..wire.len() {
            let mut peer = served.connect();
            peer.send(&wire[..cut]);
            match cut % 2 {
                0 => peer.reset(),
                _ => drop(peer),
            }
        }
        eventually("all are closed", || served.running.counts().total.open == 0);
        assert!(refusals.take().iter().all(|(_, cause)| !cause.contains("panic")));
        assert!(served.ask(&wire).ends_with("0\r\nx-sum: 7\r\n\r\n"));
    }
}

/// With axum and tower-http, as they come.
mod with_axum {
    use super::*;

    #[derive(serde::Deserialize, serde::Serialize)]
    struct Note {
        text: String,
    }

    fn app() -> Router {
        Router::new()
            .route("/", get(async || "Hello, World!"))
            .route("/users/{name}", get(async |Path(name): Path<String>| format!("Hello, {name}!")))
            .route("/notes", post(async |Json(note): Json<Note>| (StatusCode::CREATED, Json(note))))
            .route("/length", any(async |body: Bytes| body.len().to_string()))
            .layer(CorsLayer::permissive())
    }

    /// Checks that the app answers a request with this method, path and JSON with `expected`, through a socket and
    /// without one.
    #[track_caller]
    fn check(method: &str, path: &str, json: &str, expected: (u16, &str)) {
        let mut request = Request::new(method, path).unwrap();
        request.headers.set("content-type", "application/json").unwrap();
        request.body.set_bytes(json);
        let service = Server::new().service(Tower::new(app()));
        let response = block_on(service.respond(request)).unwrap();
        assert_eq!((response.status.as_u16(), response.body.text().unwrap()), expected, "{method} {path}");
        assert!(response.headers.contains("access-control-allow-origin"));
        let served = Served::new(Tower::new(app()));
        let head = format!("{method} {path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n");
        let received = served.ask(format!("{head}content-length: {}\r\n\r\n{json}", json.len()));
        let [reply] = &responses(&received)[..] else { panic!("{received}") };
        assert_eq!((reply.status, &*reply.body), expected, "{method} {path}");
    }

    #[test]
    fn a_router_routes_and_extracts() {
        check("GET", "/", "", (200, "Hello, World!"));
        check("GET", "/users/Ada%20L", "", (200, "Hello, Ada L!"));
        check("GET", "/nowhere", "", (404, ""));
        check("DELETE", "/", "", (405, ""));
        check("POST", "/notes", r#"{"text":"milk"}"#, (201, r#"{"text":"milk"}"#));
        check("OPTIONS", "/notes", "", (200, ""));
        let (large, refused) =
            ("x".repeat(2 << 20), (413, "Failed to buffer the request body: length limit exceeded"));
        check("PUT", "/length", &large, (200, "2097152"));
        check("PUT", "/length", &(large + "x"), refused);
    }

    #[test]
    fn head_has_the_length_of_get_rfc9110_9_3_2() {
        let served = Served::new(Tower::new(app()));
        let mut peer = served.connect();
        peer.send(GET.replace("GET", "HEAD"));
        let head = peer.receive_through("\r\n\r\n");
        assert!(head.contains("\r\ncontent-length: 13\r\n"), "{head}");
        peer.send(GET);
        assert!(peer.receive().ends_with("\r\n\r\nHello, World!"));
    }

    /// All responses to one batch leave in one write.
    #[test]
    fn pipelined_requests_are_answered_together() {
        let wired = Wired::new(Tower::new(app()));
        let batch =
            GET.repeat(10) + &post_wire("content-length: 5", "hello").replace(" / ", " /length ").repeat(2);
        let writes = wired.ask_for_writes(&[batch.as_bytes()], Then::Ends);
        assert_eq!((responses(&writes.concat()).len(), writes.len()), (12, 1));
    }

    #[test]
    fn a_compressed_answer_streams_too() {
        let app = Router::new()
            .route("/", get(async || steps(None, [Pause, data("hello")]).map(axum::body::Body::new)));
        let response = paused(
            Server::new().service(wrap(corehttp::middleware::Compress::new(), Tower::new(app))).respond({
                let mut request = Request::get("/").unwrap();
                request.headers.set("accept-encoding", "gzip, identity;q=0").unwrap();
                request
            }),
        );
        assert_eq!(response.headers.get("content-encoding"), Some("gzip"));
    }
}

/// The service does not know that nothing of its body is sent.
#[test]
fn a_body_without_an_end_does_not_hold_the_connection_of_a_head_rfc9110_9_3_2() {
    for (request, status) in [("HEAD", 200), ("GET", 204), ("GET", 304)] {
        let endless = move |_: AppRequest| {
            let frames = futures_util::stream::pending::<Result<Frame<Bytes>, BoxError>>();
            ready(Ok(Response::builder().status(status).body(StreamBody::new(frames)).unwrap()))
        };
        is_over_with_its_head(&GET.replace("GET", request), tower(endless));
    }
}
