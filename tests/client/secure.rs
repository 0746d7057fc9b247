//! Hosts have to prove who they are, before anything is asked of them (RFC 9110 §4.3.4).

use std::time::Duration;

use corehttp::{
    Client, ClientCause, ClientError, ClientPhase, ClientTimeouts, ClientTls, Context, MemoryListener,
    Request, Response, Running, Server, ServerTls, TlsError, TlsIdentity, TlsRoots,
};

use crate::certificates::{Authority, Issued, self_signed};
use crate::support::{Scripted, ask};

fn identity(issued: &Issued) -> TlsIdentity {
    TlsIdentity::from_pem(&issued.chain, &issued.key).unwrap()
}

/// A server that says who it was asked for, and how to reach it whatever the host is.
struct Secured {
    listener: MemoryListener,
    running: Running,
}

impl Secured {
    fn new(tls: ServerTls) -> Secured {
        let listener = MemoryListener::new();
        let server = Server::bind(listener.clone()).cores(1).tls(tls);
        let running = server.start(|ctx: &mut Context| {
            let peers = ctx.tls().map_or(0, |tls| tls.certificates.len());
            ctx.response.text(format!("{peers} certificates"));
        });
        Secured { listener, running: running.unwrap() }
    }

    async fn ask(&self, tls: ClientTls, url: &str) -> Result<String, ClientError> {
        let client = Client::builder().memory(self.listener.connector()).tls(tls).build();
        let request = Request::get(url).unwrap();
        let first = ask(&client, &request).await?;
        assert_eq!(ask(&client, &request).await?, first);
        assert_eq!((client.idle(), client.busy()), (1, 0), "the connection was used again");
        Ok(first.1)
    }
}

impl Drop for Secured {
    fn drop(&mut self) {
        self.running.shutdown(Duration::ZERO);
    }
}

#[track_caller]
fn check_distrust(asked: Result<String, ClientError>) {
    let error = asked.unwrap_err();
    let is_certificate = matches!(error.cause(), ClientCause::Tls(TlsError::Certificate(_)));
    assert!(is_certificate && error.phase() == ClientPhase::Tls && !error.is_sent(), "{error:#}");
}

#[tokio::test]
async fn who_proves_to_be_the_host_is_asked_and_nobody_else() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let trusting = || ClientTls::new().roots(TlsRoots::from_pem(ours.pem()).unwrap());
    let good =
        Secured::new(ServerTls::new(identity(&ours.issue(&["a.example", "*.b.example", "127.0.0.1"]))));
    for url in ["https://a.example/", "https://A.Example", "https://x.b.example/", "https://127.0.0.1/"] {
        assert_eq!(good.ask(trusting(), url).await.unwrap(), "0 certificates", "{url}");
    }
    for url in ["https://b.example/", "https://x.y.b.example/", "https://127.0.0.2/", "https://[::1]/"] {
        check_distrust(good.ask(trusting(), url).await);
    }
    check_distrust(good.ask(ClientTls::new(), "https://a.example/").await);
    for bad in [
        ours.issue_for_years(&["a.example"], 2001, 2002),
        ours.issue_for_years(&["a.example"], 2090, 2091),
        theirs.issue(&["a.example"]),
        self_signed(&["a.example"]),
    ] {
        let server = Secured::new(ServerTls::new(identity(&bad)));
        check_distrust(server.ask(trusting(), "https://a.example/").await);
        let careless = ClientTls::new().dangerous().accept_any_certificate();
        assert_eq!(server.ask(careless, "https://a.example/").await.unwrap(), "0 certificates");
    }
}

#[tokio::test]
async fn a_server_may_ask_who_asks() {
    let ours = Authority::new("ours");
    let roots = || TlsRoots::from_pem(ours.pem()).unwrap();
    let tls = ServerTls::new(identity(&ours.issue(&["a.example"]))).require_peers(roots());
    let server = Secured::new(tls);
    let known = ClientTls::new().roots(roots()).identity(identity(&ours.issue(&["me"])));
    assert_eq!(server.ask(known, "https://a.example/").await.unwrap(), "1 certificates");
    let stranger =
        ClientTls::new().roots(roots()).identity(identity(&Authority::new("theirs").issue(&["me"])));
    for tls in [ClientTls::new().roots(roots()), stranger] {
        server.ask(tls, "https://a.example/").await.unwrap_err();
    }
}

#[tokio::test]
async fn who_does_not_shake_hands_is_told_apart_and_not_waited_for() {
    let plain =
        Scripted::new(|mut peer, _| async move { peer.say("HTTP/1.1 400 Bad Request\r\n\r\n").await }).await;
    let error = Client::new().get(&plain.url.replace("http:", "https:")).await.unwrap_err();
    assert!(matches!(error.cause(), ClientCause::Tls(_)) && error.phase() == ClientPhase::Tls, "{error:#}");

    let silent = Scripted::new(|mut peer, _| async move { peer.hear_all().await }).await;
    let timeouts = ClientTimeouts { tls: Duration::from_millis(50), ..ClientTimeouts::default() };
    let client = Client::builder().timeouts(timeouts).build();
    let error = client.get(&silent.url.replace("http:", "https:")).await.unwrap_err();
    assert!(error.is_timeout() && error.phase() == ClientPhase::Tls, "{error:#}");
    assert_eq!(client.busy(), 0);
}

#[tokio::test]
async fn a_host_that_no_certificate_could_be_for_is_not_dialed() {
    let server = Scripted::always("").await;
    let port = server.url.rsplit_once(':').unwrap().1.to_owned();
    for host in ["a_b%41", "[v1.a]"] {
        let Ok(request) = Request::get(&format!("https://{host}:{port}/")) else { continue };
        let error = Client::new().send(&request, &mut Response::new()).await.unwrap_err();
        assert!(matches!(error.cause(), ClientCause::Tls(TlsError::Host)), "{error:#}");
    }
    assert_eq!(server.connections(), 0);
}

/// A redirect from https to http would show to all what was asked in secret.
#[tokio::test]
async fn nobody_is_led_from_https_to_http() {
    let ours = Authority::new("ours");
    let listener = MemoryListener::new();
    let server =
        Server::bind(listener.clone()).cores(1).tls(ServerTls::new(identity(&ours.issue(&["a.example"]))));
    let running = server.start(|ctx: &mut Context| {
        let to = if ctx.request.path() == "/up" { "https://a.example/end" } else { "http://a.example/end" };
        match ctx.request.path() {
            "/end" => ctx.response.text("here"),
            _ => ctx.response.redirect(corehttp::Status::FOUND, to).unwrap(),
        }
    });
    let tls = ClientTls::new().roots(TlsRoots::from_pem(ours.pem()).unwrap());
    let client = Client::builder().memory(listener.connector()).tls(tls).build();
    assert_eq!(client.get("https://a.example/up").await.unwrap().body.text(), Ok("here"));
    let error = client.get("https://a.example/down").await.unwrap_err();
    assert!(matches!(error.cause(), ClientCause::Downgrade), "{error:#}");
    running.unwrap().shutdown(Duration::ZERO);
}
