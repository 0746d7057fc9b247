//! A gateway that has another server decide who may pass.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::client::ClientTimeouts;
use corehttp::middleware::{ForwardAuth, RequestId, wrap};
use corehttp::net::MemoryListener;
use corehttp::{
    BodyPlan, Client, Context, Handler, Method, Request, Response, Server, ServerHandle, Service, Status,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use crate::support::{OK, Stage, paused};

/// The server that decides: what it answers, and the head of the last request that it has seen.
struct Auth {
    client: Client,
    seen: Arc<Mutex<String>>,
    _running: ServerHandle,
}

impl Auth {
    fn new(answer: impl Fn(&mut Context) + Clone + Send + Sync + 'static) -> Auth {
        let listener = MemoryListener::new();
        let seen = Arc::new(Mutex::new(String::new()));
        let noted = seen.clone();
        let timeouts = ClientTimeouts { wait: Duration::from_millis(200), ..ClientTimeouts::default() };
        let client = Client::builder().connect_to(&listener).timeouts(timeouts).build();
        let running = Server::bind(listener).cores(1).start(move |ctx: &mut Context| {
            let fields = ctx.request.headers.iter();
            let mut lines: Vec<_> =
                fields.map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value))).collect();
            lines.sort();
            let line = format!("{} {}", ctx.request.method(), ctx.request.target());
            *noted.lock().unwrap() = format!("{line}\n{}", lines.join("\n"));
            answer(ctx);
        });
        Auth { client, seen, _running: running.unwrap() }
    }

    /// A service behind it, which answers with the user that it is given, and the length of the body.
    fn service(&self) -> Service<impl Handler + use<>> {
        let servers = self.client.balance(["http://auth"]).unwrap().build();
        let checked = ForwardAuth::new(servers, "/verify?app=1").unwrap().copy(["x-user", "x-groups"]);
        let shown = |ctx: &mut Context| {
            let mut fields: Vec<_> = ctx
                .request
                .headers
                .iter()
                .filter(|(name, _)| name.as_bytes().first() == Some(&b'x'))
                .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value)))
                .collect();
            fields.sort();
            let text = format!("{} {}", fields.join(" "), ctx.request.body.bytes().len());
            ctx.response.set_text(text);
        };
        Server::new().service(wrap(checked, shown))
    }
}

fn respond(service: &Service<impl Handler>, request: Request) -> Response {
    corehttp::block_on(service.respond(request)).unwrap()
}

#[test]
fn the_server_that_decides_sees_the_head_and_who_asks() {
    let auth = Auth::new(|_| ());
    let mut request = Request::new(Method::Post, "/items?page=2").unwrap();
    for (name, value) in [
        ("host", "shop.example"),
        ("cookie", "id=7"),
        ("authorization", "Bearer 8f14e45f"),
        ("connection", "x-hop"),
        ("x-hop", "1"),
        ("if-none-match", "\"a\""),
        ("range", "bytes=0-1"),
        ("content-type", "text/plain"),
        ("x-forwarded-uri", "/public"),
        ("x-forwarded-for", "1.2.3.4"),
        ("x-original-url", "/public"),
        ("X_Client_Cert", "forged"),
    ] {
        request.headers.set(name, value).unwrap();
    }
    request.body.set_bytes("hello");
    let response = respond(&auth.service(), request);
    assert_eq!(response.status, Status::OK);
    assert!(response.text().unwrap().ends_with(" 5"), "the body is for the handler: {:?}", response.text());
    let seen = auth.seen.lock().unwrap().clone();
    assert!(seen.starts_with("GET /verify?app=1\n"), "{seen}");
    for line in [
        "cookie: id=7",
        "authorization: Bearer 8f14e45f",
        "x-forwarded-method: POST",
        "x-forwarded-uri: /items?page=2",
    ] {
        assert!(seen.lines().any(|found| found == line), "{line}: {seen}");
    }
    for absent in
        ["if-none-match", "range", "content-", "x-hop", "connection", "1.2.3.4", "/public", "forged"]
    {
        assert!(!seen.contains(absent), "{absent}: {seen}");
    }
}

#[test]
fn fields_of_the_answer_take_the_place_of_those_of_the_peer() {
    let auth = Auth::new(|ctx| {
        ctx.response.headers.append("x-user", "ada").unwrap();
        ctx.response.headers.append("x-secret", "s").unwrap();
    });
    let mut request = Request::get("/").unwrap();
    for (name, value) in [("x-user", "root"), ("X_User", "root"), ("x-groups", "admins"), ("x-other", "1")] {
        request.headers.append(name, value).unwrap();
    }
    assert_eq!(respond(&auth.service(), request).text().unwrap(), "x-other=1 x-user=ada 0");
}

/// A gateway beneath would remove the field that `connection` names, as Traefik did (CVE-2024-45410).
#[test]
fn a_peer_cannot_have_a_copied_field_removed() {
    let auth = Auth::new(|ctx| ctx.response.headers.set("x-user", "ada").unwrap());
    let servers = auth.client.balance(["http://auth"]).unwrap().build();
    let checked = ForwardAuth::new(servers, "/").unwrap().copy(["x-user"]);
    let service = Server::new().service(wrap(checked, |ctx: &mut Context| {
        let onward = ctx.request.forwarded_to("http://b").unwrap();
        let user = onward.headers.get("x-user").unwrap_or("nobody").to_owned();
        let text = format!("{user} {}", ctx.request.headers.get("connection").unwrap_or("-"));
        ctx.response.set_text(text);
    }));
    for (options, expected) in
        [("x-user", "ada -"), ("close, X-User, x-b", "ada close, x-b"), ("x-b", "ada x-b")]
    {
        let mut request = Request::get("/").unwrap();
        request.headers.set("connection", options).unwrap();
        assert_eq!(respond(&service, request).text().unwrap(), expected);
    }
}

/// A server behind that takes trailers for fields would believe the peer.
#[test]
fn a_trailer_does_not_pass_for_a_copied_field_rfc9110_6_5_1() {
    for (answered, field) in [(None, ""), (Some("ada"), "X-User: ada\r\n")] {
        paused(async {
            let auth = Stage::always(match answered {
                Some(user) => format!("HTTP/1.1 200 OK\r\nx-user: {user}\r\ncontent-length: 0\r\n\r\n"),
                None => OK.to_owned(),
            });
            let (stage, servers) =
                (Stage::always(OK), auth.client().balance(["http://auth"]).unwrap().build());
            let client = stage.client();
            let checked = |name| ForwardAuth::new(servers.clone(), "/").unwrap().copy([name]);
            let passes = async move |ctx: &mut Context| -> corehttp::Result {
                let onward = ctx.request.forwarded_to("http://b")?;
                ctx.forward(client.open_call(&onward)).await
            };
            for plan in [BodyPlan::Buffer, BodyPlan::Stream] {
                let layers = (checked("X-User"), checked("x-groups"), plan);
                let service = Server::new().half_close(true).service(wrap(layers, passes.clone()));
                let (mut near, far) = duplex(64 << 10);
                let peer = async {
                    let head = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
                    let trailers =
                        "x-user: root\r\nX-User: root\r\nx_user: root\r\nx-groups: all\r\nx-sum: 7\r\n";
                    near.write_all(format!("{head}1\r\na\r\n0\r\n{trailers}\r\n").as_bytes()).await.unwrap();
                    near.read_to_end(&mut Vec::new()).await.unwrap();
                };
                let _ = tokio::join!(peer, service.serve_connection(far));
            }
            let head = "POST / HTTP/1.1\r\nhost: b\r\n";
            let onward =
                format!("{head}{field}transfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx-sum: 7\r\n\r\n");
            assert_eq!(stage.received().concat(), onward.repeat(2));
        });
    }
}

#[test]
fn the_target_is_told_without_an_authority() {
    let auth = Auth::new(|_| ());
    for (target, expected) in
        [("http://public/admin?a", "/admin?a"), ("http://public", "/"), ("/admin", "/admin")]
    {
        respond(&auth.service(), Request::get(target).unwrap());
        let seen = auth.seen.lock().unwrap().clone();
        let line = format!("x-forwarded-uri: {expected}");
        assert!(seen.lines().any(|found| found == line), "{target}: {seen}");
    }
}

#[test]
fn a_refusal_is_passed_on_and_a_failure_is_none() {
    for (status, expected) in
        [(302, 302), (401, 401), (403, 403), (429, 429), (500, 502), (503, 502), (304, 304)]
    {
        let auth = Auth::new(move |ctx| {
            ctx.response.status = Status::new(status).unwrap();
            ctx.response.headers.set("location", "/login").unwrap();
            ctx.response.headers.set("www-authenticate", "Bearer").unwrap();
            ctx.response.headers.set("connection", "x-hop").unwrap();
            ctx.response.headers.set("x-hop", "1").unwrap();
            if status != 304 {
                ctx.response.body.set_bytes("sign in");
            }
        });
        let response = respond(&auth.service(), Request::get("/").unwrap());
        assert_eq!(response.status.as_u16(), expected);
        let is_passed_on = expected != 502;
        assert_eq!(response.headers.contains("location"), is_passed_on, "{status}");
        assert_eq!(response.headers.contains("www-authenticate"), is_passed_on, "{status}");
        assert!(!response.headers.contains("x-hop"));
        if is_passed_on && status != 304 {
            assert_eq!(response.body.bytes(), b"sign in");
        }
    }
}

/// As with a response that is forwarded, the id is that of the server in front.
#[test]
fn a_refusal_that_is_passed_on_has_one_id() {
    let auth = Auth::new(|ctx| {
        ctx.response.status = Status::UNAUTHORIZED;
        ctx.response.headers.set("x-request-id", "behind").unwrap();
    });
    let servers = auth.client.balance(["http://auth"]).unwrap().build();
    let checked = (RequestId::new(), ForwardAuth::new(servers, "/").unwrap());
    let service = Server::new().service(wrap(checked, |_: &mut Context| ()));
    let response = respond(&service, Request::get("/").unwrap());
    assert_eq!(response.status, Status::UNAUTHORIZED);
    let ids: Vec<_> = response.headers.all("x-request-id").collect();
    assert!(ids.len() == 1 && ids[0] != b"behind", "{ids:?}");
}

#[test]
fn without_an_answer_nothing_passes() {
    let listener = MemoryListener::new();
    let client = Client::builder().connect_to(&listener).build();
    drop(listener);
    let servers = client.balance(["http://auth"]).unwrap().build();
    let checked = ForwardAuth::new(servers, "/verify").unwrap();
    let handler = |ctx: &mut Context| ctx.response.set_text("it is not called");
    let service = Server::new().service(wrap(checked, handler));
    assert_eq!(respond(&service, Request::get("/").unwrap()).status, Status::BAD_GATEWAY);
    assert!(ForwardAuth::new(client.balance::<&str>([]).unwrap().build(), "http://a/").is_err());
    assert!(ForwardAuth::new(client.balance::<&str>([]).unwrap().build(), "*").is_err());
}

/// The peer waits for 100, and learns that it need not send its body.
#[test]
fn the_body_of_a_refused_request_is_not_received() {
    let auth = Auth::new(|ctx| ctx.response.status = Status::UNAUTHORIZED);
    let service = auth.service();
    corehttp::block_on(async {
        let (mut near, far) = duplex(1 << 10);
        let head = "POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n";
        let peer = async move {
            near.write_all(head.as_bytes()).await.unwrap();
            let mut received = String::new();
            near.read_to_string(&mut received).await.unwrap();
            received
        };
        let (received, _) = tokio::join!(peer, service.serve_connection(far));
        assert!(received.starts_with("HTTP/1.1 401 "), "{received}");
    })
    .unwrap();
}
