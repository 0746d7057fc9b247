//! Hosts have to prove their identity before a request is sent to them (RFC 9110 §4.3.4).

use std::io::{self, BufRead};
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use corehttp::client::{ClientCause, ClientPhase, ClientTimeouts};
use corehttp::net::{Dialer, MemoryConnector, MemoryListener, MemoryStream};
use corehttp::tls::{self, ClientTls, ServerTls};
use corehttp::{Client, ClientError, Context, Request, Response, Server, ServerHandle};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::sync::Notify;
use tokio::sync::mpsc::unbounded_channel;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

use crate::certificates::{Authority, Issued, self_signed, self_signed_authority};
use crate::support::{OK, Peer, Received, Scripted, Stage, ask};

fn identity(issued: &Issued) -> tls::Identity {
    tls::Identity::from_pem(&issued.chain, &issued.key).unwrap()
}

/// A server that answers with the number of the peer's certificates, and its address, for any host.
struct Secured {
    listener: MemoryListener,
    running: ServerHandle,
}

impl Secured {
    fn new(tls: ServerTls) -> Secured {
        let listener = MemoryListener::new();
        // Some rows are of certificates that a client refuses for their dates.
        let server = Server::bind(listener.clone()).cores(1).tls(tls.check_dates(false));
        let running = server.start(|ctx: &mut Context| {
            let peers = ctx.tls().map_or(0, |tls| tls.certificates.len());
            ctx.response.set_text(format!("{peers} certificates"));
        });
        Secured { listener, running: running.unwrap() }
    }

    async fn ask(&self, tls: ClientTls, url: &str) -> Result<String, ClientError> {
        let client = Client::builder().connect_to(&self.listener).tls(tls).build();
        let request = Request::get(url).unwrap();
        let first = ask(&client, &request).await?;
        assert_eq!(ask(&client, &request).await?, first);
        assert_eq!(
            (client.idle_connections(), client.busy_connections()),
            (1, 0),
            "the connection was used again"
        );
        Ok(first.1)
    }
}

impl Drop for Secured {
    fn drop(&mut self) {
        self.running.stop(Duration::ZERO);
    }
}

#[track_caller]
fn check_distrust(asked: Result<String, ClientError>) {
    let error = asked.unwrap_err();
    let is_certificate = matches!(error.cause(), ClientCause::Tls(tls::Error::Certificate(_)));
    assert!(is_certificate && error.phase() == ClientPhase::Tls && !error.is_sent(), "{error:#}");
}

#[tokio::test]
async fn only_a_server_that_proves_to_be_the_host_is_asked() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let trusting = || ClientTls::new().roots(tls::Roots::from_pem(ours.pem()).unwrap());
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

/// Certificates and keys that ring or rustls-webpki cannot verify, of a server that is OpenSSL. Skipped without it.
#[tokio::test]
async fn any_certificate_is_accepted_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let openssl = |arguments: &str| {
        let words = arguments.split_whitespace();
        Command::new("openssl")
            .args(words)
            .current_dir(&dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
    };
    if !openssl("version").is_ok_and(|status| status.success()) {
        return eprintln!("skipped: openssl is not installed");
    }
    let of_version_1 = "x509 -req -in v1.csr -signkey v1.key -out v1.pem";
    let cases = [
        ("p521", "-newkey ec -pkeyopt ec_paramgen_curve:P-521", "", &["-tls1_3"][..]),
        (
            "sha512",
            "-newkey ec -pkeyopt ec_paramgen_curve:P-384 -sha512",
            "-sigalgs ECDSA+SHA512",
            &["-tls1_2"],
        ),
        ("ed448", "-newkey ed448", "", &["-tls1_3"]),
        ("pss", "-newkey rsa-pss -pkeyopt rsa_keygen_bits:2048", "", &["-tls1_3"]),
        ("short", "-newkey rsa:1024 -sha1", "-cipher DEFAULT@SECLEVEL=0", &["-tls1_2", "-tls1_3"]),
        ("v1", "-newkey ec -pkeyopt ec_paramgen_curve:P-256", "", &["-tls1_2", "-tls1_3"]),
    ];
    for (name, key, options, versions) in cases {
        let made = format!("req {key} -nodes -subj /CN=a.example -keyout {name}.key");
        let is_made = match name {
            "v1" => openssl(&format!("{made} -new -out v1.csr")).is_ok() && openssl(of_version_1).is_ok(),
            name => openssl(&format!("{made} -x509 -out {name}.pem")).is_ok(),
        };
        assert!(is_made, "{name}");
        for version in versions {
            let server = format!(
                "s_server -accept 127.0.0.1:0 -www -cert {name}.pem -key {name}.key {options} {version}"
            );
            let mut server = Command::new("openssl")
                .args(server.split_whitespace())
                .current_dir(&dir)
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut lines = io::BufReader::new(server.stdout.take().unwrap()).lines().map(Result::unwrap);
            let listening = lines.find(|line| line.starts_with("ACCEPT")).expect("it listens");
            let url = format!("https://127.0.0.1:{}/", listening.rsplit(':').next().unwrap());
            let ask = async |tls: ClientTls| Client::builder().tls(tls).build().get(&url).await;
            let trusting = ClientTls::new().roots(tls::Roots::from_pem(&self_signed(&["a"]).chain).unwrap());
            let (distrusted, accepted) =
                (ask(trusting.clone()).await, ask(trusting.dangerous().accept_any_certificate()).await);
            server.kill().unwrap();
            server.wait().unwrap();
            let error = distrusted.unwrap_err();
            assert!(matches!(error.cause(), ClientCause::Tls(_)), "{name} {version}: {error:#}");
            let response = accepted.unwrap_or_else(|error| panic!("{name} {version}: {error:#}"));
            assert_eq!(response.status.as_u16(), 200, "{name} {version}");
        }
    }
}

#[tokio::test]
async fn a_certificate_that_signs_itself_is_its_own_root_unless_it_is_an_authority() {
    let (plain, authority) = (self_signed(&["a.example"]), self_signed_authority(&["a.example"]));
    let ask = async |issued: &Issued| {
        let trusting = ClientTls::new().roots(tls::Roots::from_pem(&issued.chain).unwrap());
        Secured::new(ServerTls::new(identity(issued))).ask(trusting, "https://a.example/").await
    };
    assert_eq!(ask(&plain).await.unwrap(), "0 certificates");
    check_distrust(ask(&authority).await);
}

#[tokio::test]
async fn a_server_may_ask_for_a_certificate() {
    let ours = Authority::new("ours");
    let roots = || tls::Roots::from_pem(ours.pem()).unwrap();
    let tls = ServerTls::new(identity(&ours.issue(&["a.example"]))).client_auth_required(roots());
    let server = Secured::new(tls);
    let known = ClientTls::new().roots(roots()).identity(identity(&ours.issue(&["me"])));
    assert_eq!(server.ask(known, "https://a.example/").await.unwrap(), "1 certificates");
    let stranger =
        ClientTls::new().roots(roots()).identity(identity(&Authority::new("theirs").issue(&["me"])));
    for tls in [ClientTls::new().roots(roots()), stranger] {
        server.ask(tls, "https://a.example/").await.unwrap_err();
    }
}

/// A connection whose writes fail after the handshake, as they do once the server has refused the certificate and
/// closed.
struct Deaf {
    stream: DuplexStream,
    /// How often the client may still flush, as it does after each of its two flights of the handshake.
    flushes_left: u32,
    /// How often a write waits before it fails, so that the server can speak first.
    waits_left: u32,
}

impl AsyncRead for Deaf {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, out)
    }
}

impl AsyncWrite for Deaf {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.flushes_left {
            0 if self.waits_left > 0 => {
                self.waits_left -= 1;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            0 => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            _ => Pin::new(&mut self.stream).poll_write(cx, data),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        self.flushes_left = self.flushes_left.saturating_sub(1);
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Dials a server that wants a certificate, over connections that are deaf or not.
#[derive(Clone)]
struct DeafDialer(TlsAcceptor, bool);

impl Dialer for DeafDialer {
    type Stream = Deaf;

    async fn dial(&self, _: &str, _: u16) -> io::Result<Deaf> {
        let (near, far) = duplex(64 << 10);
        let acceptor = self.0.clone();
        tokio::spawn(async move { acceptor.accept(far).await.map(drop) });
        Ok(Deaf { stream: near, flushes_left: if self.1 { 2 } else { u32::MAX }, waits_left: 8 })
    }
}

/// In TLS 1.3 the client has finished its handshake before its certificate is refused. The alert is the cause, whether
/// the request could still be written or not.
#[tokio::test]
async fn an_alert_is_the_cause_though_a_write_has_failed_rfc8446_4_4_2() {
    let ours = Authority::new("ours");
    let roots = || tls::Roots::from_pem(ours.pem()).unwrap();
    let issued = ours.issue(&["a.example"]);
    let chain = CertificateDer::pem_slice_iter(issued.chain.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
    let mut store = RootCertStore::empty();
    let authority = ours.pem();
    store.add_parsable_certificates(CertificateDer::pem_slice_iter(authority.as_bytes()).map(Result::unwrap));
    let provider = Arc::new(ring::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(store.into(), provider.clone()).build().unwrap();
    let config = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13]).unwrap();
    let config = config.with_client_cert_verifier(verifier).with_single_cert(chain, key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let url = "https://a.example/";
    let mut upgrade = Request::get(url).unwrap();
    upgrade.headers.set("upgrade", "own").unwrap();
    for is_deaf in [true, false] {
        let dialer = DeafDialer(acceptor.clone(), is_deaf);
        let client = Client::builder().dialer(dialer).tls(ClientTls::new().roots(roots())).build();
        let mut response = Response::new();
        let mut post = Request::post(url).unwrap();
        post.body.set_bytes(vec![b'x'; 1 << 20]);
        let called = async {
            let mut call = client.open_call(&post).await?;
            call.write_all(&vec![b'x'; 1 << 20]).await?;
            call.finish(&mut Response::new()).await.map(drop)
        };
        let called = called.await;
        let pipeline = client.pipeline(url).unwrap().build();
        for (way, failed) in [
            ("get", client.get(url).await.map(drop)),
            ("post", client.send(&post, &mut response).await),
            ("call", called),
            ("upgrade", client.upgrade(&upgrade, &mut response).await.map(drop)),
            ("pipeline", pipeline.send(&Request::get("/").unwrap(), &mut response).await),
        ] {
            let error = failed.unwrap_err();
            let is_alert = matches!(error.cause(), ClientCause::Tls(tls::Error::Refused(_)));
            assert!(is_alert, "{way} {is_deaf}: {error:#}");
            assert!(format!("{error:#}").ends_with("received fatal alert: CertificateRequired"), "{error:#}");
            assert_eq!((client.busy_connections(), client.idle_connections()), (0, 0), "{way} {is_deaf}");
        }
    }
}

#[tokio::test]
async fn a_server_that_does_not_shake_hands_fails_or_times_out() {
    let plain =
        Scripted::new(|mut peer, _| async move { peer.send("HTTP/1.1 400 Bad Request\r\n\r\n").await }).await;
    let error = Client::new().get(&plain.url.replace("http:", "https:")).await.unwrap_err();
    assert!(matches!(error.cause(), ClientCause::Tls(_)) && error.phase() == ClientPhase::Tls, "{error:#}");

    let silent = Scripted::new(|mut peer, _| async move { peer.receive_all().await }).await;
    let timeouts = ClientTimeouts { tls: Duration::from_millis(50), ..ClientTimeouts::default() };
    // The limit is of this phase, or of all phases.
    let patient = ClientTimeouts { tls: Duration::MAX, ..timeouts };
    for (hurried, lone) in [
        (Client::builder().timeouts(timeouts), 0),
        (Client::builder().timeouts(patient).timeout(6 * timeouts.tls), 1),
    ] {
        let client = hurried.build();
        let url = silent.url.replace("http:", "https:");
        let asked = tokio::time::timeout(Duration::from_secs(60), client.get(&url)).await;
        let error = asked.expect("it is over").unwrap_err();
        assert!(error.is_timeout() && error.phase() == ClientPhase::Tls, "{error:#}");
        // A handshake that has time goes on for the next request.
        assert_eq!((client.busy_connections(), client.idle_connections(), error.is_sent()), (lone, 0, false));
    }
}

#[tokio::test]
async fn row_82_a_host_that_no_certificate_could_be_for_is_not_dialed() {
    let stage = Stage::always(OK);
    for host in ["a..b", "-a", "a.-b", "a!b"] {
        let request = Request::get(&format!("https://{host}/")).unwrap();
        for tls in [ClientTls::new(), ClientTls::new().dangerous().accept_any_certificate()] {
            let client = stage.builder().tls(tls).build();
            let error = client.send(&request, &mut Response::new()).await.unwrap_err();
            assert!(matches!(error.cause(), ClientCause::Tls(tls::Error::Host)), "{host}: {error:#}");
            assert_eq!(
                (error.phase(), error.is_sent(), client.busy_connections()),
                (ClientPhase::Tls, false, 0)
            );
        }
    }
    assert_eq!(stage.dialed(), [""; 0]);
}

/// A server of another crate, which prefers HTTP/2.
pub fn foreign(issued: &Issued, version: &'static SupportedProtocolVersion) -> TlsAcceptor {
    let chain = CertificateDer::pem_slice_iter(issued.chain.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap();
    let mut config = config.with_no_client_auth().with_single_cert(chain, key).unwrap();
    config.alpn_protocols = ["h2", "http/1.1"].map(Vec::from).into();
    TlsAcceptor::from(Arc::new(config))
}

#[tokio::test]
async fn both_versions_are_spoken_and_http_1_1_agreed_on() {
    let ours = Authority::new("ours");
    for version in [&TLS12, &TLS13] {
        let acceptor = foreign(&ours.issue(&["127.0.0.1"]), version);
        let server = Scripted::new(move |peer, _| {
            let acceptor = acceptor.clone();
            async move {
                let peer = Peer::new(acceptor.accept(peer.stream).await?, Received::default());
                let agreed = peer.stream.get_ref().1.alpn_protocol().unwrap_or(b"nothing").to_owned();
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", agreed.len());
                peer.answer([head.as_bytes(), &agreed].concat()).await
            }
        })
        .await;
        let tls = ClientTls::new().roots(tls::Roots::from_pem(ours.pem()).unwrap());
        let (client, mut response) = (Client::builder().tls(tls).build(), Response::new());
        let request = Request::get(&server.url.replace("http:", "https:")).unwrap();
        for is_reused in [false, true, true] {
            client.send(&request, &mut response).await.unwrap();
            assert_eq!(response.body.text(), Ok("http/1.1"));
            let timings = response.timings();
            assert_eq!((timings.tls.is_zero(), timings.reused), (is_reused, is_reused), "{timings:?}");
            let session = response.connection().and_then(|connection| connection.tls()).unwrap();
            let spoken =
                if version.version == TLS12.version { tls::Version::Tls12 } else { tls::Version::Tls13 };
            assert_eq!((session.version, session.resumed, session.certificates.len()), (spoken, false, 1));
        }
        assert_eq!(server.connections(), 1);
    }
}

/// How a server ends a secure connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leave {
    SaysSo,
    SaysNothing,
    Resets,
    /// The connection stays open, and the server sends bytes without a request.
    Babbles,
}

/// A signal to the server to leave, and one to the test that it has left.
#[derive(Clone, Default)]
struct Signs(Arc<(Notify, Notify)>);

/// A server that answers once on its first connection, and leaves.
async fn leaving(ours: &Authority, response: &'static str, leave: Leave, signs: &Signs) -> Scripted {
    let (acceptor, signs) = (foreign(&ours.issue(&["127.0.0.1"]), &TLS13), signs.clone());
    Scripted::new(move |peer, number| {
        let (acceptor, signs) = (acceptor.clone(), signs.clone());
        async move {
            let mut peer = Peer::new(acceptor.accept(peer.stream).await?, Received::default());
            if number > 0 {
                return peer.answer(OK).await;
            }
            let (may_leave, has_left) = &*signs.0;
            peer.request().await?;
            peer.send(response).await?;
            peer.stream.flush().await?;
            may_leave.notified().await;
            match leave {
                Leave::SaysSo => peer.stream.shutdown().await?,
                Leave::SaysNothing => {}
                Leave::Resets => SockRef::from(peer.stream.get_ref().0).set_linger(Some(Duration::ZERO))?,
                Leave::Babbles => {
                    peer.send(OK).await?;
                    peer.stream.flush().await?;
                    has_left.notify_one();
                    peer.receive_all().await?;
                }
            }
            drop(peer);
            has_left.notify_one();
            Ok(())
        }
    })
    .await
}

#[tokio::test]
async fn a_secure_connection_closed_while_it_was_idle_is_not_used() {
    let ours = Authority::new("ours");
    for leave in [Leave::SaysSo, Leave::SaysNothing, Leave::Resets, Leave::Babbles] {
        let signs = Signs::default();
        let server = leaving(&ours, OK, leave, &signs).await;
        let tls = ClientTls::new().roots(tls::Roots::from_pem(ours.pem()).unwrap());
        let client = Client::builder().tls(tls).build();
        let mut request = Request::post(&server.url.replace("http:", "https:")).unwrap();
        request.body.set_stream(&b"hello"[..], None);
        assert_eq!(ask(&client, &request).await.unwrap(), (200, "ok".into()), "{leave:?}");
        assert_eq!(client.idle_connections(), 1, "{leave:?}");
        signs.0.0.notify_one();
        signs.0.1.notified().await;
        // The runtime polls the system for events before it sleeps.
        tokio::time::sleep(Duration::from_millis(5)).await;
        request.body.set_stream(&b"hello"[..], None);
        assert_eq!(ask(&client, &request).await.unwrap(), (200, "ok".into()), "{leave:?}");
        assert_eq!(server.connections(), 2, "{leave:?}");
    }
}

/// How a client ends a secure connection.
#[derive(Clone, Copy, Debug)]
enum Part {
    Told,
    Tired,
    CloseIdle,
    Drop,
}

/// A server must be able to distinguish an end from an attack, too.
#[tokio::test(start_paused = true)]
async fn a_server_hears_the_end_of_a_connection_rfc9112_9_8() {
    const LAST: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
    let ours = Authority::new("ours");
    for part in [Part::Told, Part::Tired, Part::CloseIdle, Part::Drop] {
        let (acceptor, (tell, mut told)) =
            (foreign(&ours.issue(&["a.example"]), &TLS13), unbounded_channel());
        let response = if matches!(part, Part::Told) { LAST } else { OK };
        let stage = Stage::new(move |peer, _| {
            let (acceptor, tell) = (acceptor.clone(), tell.clone());
            async move {
                let mut peer = Peer::new(acceptor.accept(peer.stream).await?, Received::default());
                peer.request().await?;
                peer.send(response).await?;
                peer.stream.flush().await?;
                let end = peer.stream.read(&mut [0]).await;
                tell.send(end.map_err(|error| error.kind())).unwrap();
                Ok(())
            }
        });
        let tls = ClientTls::new().roots(tls::Roots::from_pem(ours.pem()).unwrap());
        let client = stage.builder().tls(tls).build();
        let request = Request::get("https://a.example/").unwrap();
        assert_eq!(ask(&client, &request).await.unwrap(), (200, "ok".into()));
        match part {
            Part::Told | Part::Tired => {}
            Part::CloseIdle => client.close_idle(),
            Part::Drop => drop(client),
        }
        assert_eq!(told.recv().await, Some(Ok(0)), "{part:?}");
    }
}

/// An attacker on the way could have cut the response short (RFC 9112 §9.8).
#[tokio::test]
async fn an_end_without_close_notify_does_not_end_a_body_rfc9112_9_8() {
    const UNTIL_CLOSE: &str = "HTTP/1.1 200 OK\r\n\r\nhello";
    const SIZED: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
    const CUT: &str = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhello";
    let ours = Authority::new("ours");
    for (reply, leave, is_good) in [
        (UNTIL_CLOSE, Leave::SaysSo, true),
        (UNTIL_CLOSE, Leave::SaysNothing, false),
        (SIZED, Leave::SaysSo, true),
        (SIZED, Leave::SaysNothing, true),
        (CUT, Leave::SaysSo, false),
        (CUT, Leave::SaysNothing, false),
    ] {
        let signs = Signs::default();
        signs.0.0.notify_one();
        let server = leaving(&ours, reply, leave, &signs).await;
        let tls = ClientTls::new().roots(tls::Roots::from_pem(ours.pem()).unwrap());
        let client = Client::builder().tls(tls).build();
        let asked = client.get(&server.url.replace("http:", "https:")).await;
        match asked {
            Ok(response) => assert!(is_good && response.body.text() == Ok("hello"), "{reply:?} {leave:?}"),
            Err(error) => {
                let text = format!("{error:#}");
                assert!(!is_good && error.phase() == ClientPhase::Receive, "{reply:?} {leave:?}: {text}");
                let expected = match reply {
                    UNTIL_CLOSE => "without close_notify, as if it had been cut",
                    _ => "the peer closed before the message was complete",
                };
                assert!(text.contains(expected), "{leave:?}: {text}");
            }
        }
        assert_eq!((client.busy_connections(), server.connections()), (0, 1));
    }
}

/// A dialer in memory: plain at port 80, and secure at other ports.
struct Both {
    plain: MemoryConnector,
    secure: MemoryConnector,
}

impl Dialer for Both {
    type Stream = MemoryStream;

    async fn dial(&self, _: &str, port: u16) -> io::Result<MemoryStream> {
        match port {
            80 => self.plain.connect().await,
            _ => self.secure.connect().await,
        }
    }
}

/// The scheme is part of the origin, so credentials do not go from one to the other.
#[tokio::test]
async fn row_81_https_is_another_origin_than_http_rfc9110_4_3_1() {
    let ours = Authority::new("ours");
    let listeners = [(); 2].map(|()| MemoryListener::new());
    let both = Both { plain: listeners[0].connector(), secure: listeners[1].connector() };
    let handler = |ctx: &mut Context| match ctx.request.path() {
        "/up" => ctx.response.set_redirect(corehttp::Status::FOUND, "https://a.example/end").unwrap(),
        "/here" => ctx.response.set_redirect(corehttp::Status::FOUND, "/end").unwrap(),
        _ => {
            let said = ctx.request.headers.get("authorization").unwrap_or("nothing").to_owned();
            ctx.response.set_text(said);
        }
    };
    let [plain, secure] = listeners.map(|listener| Server::bind(listener).cores(1));
    let issued = identity(&ours.issue(&["a.example"]));
    let running = [plain, secure.tls(ServerTls::new(issued))].map(|server| server.start(handler).unwrap());
    let tls = ClientTls::new().roots(tls::Roots::from_pem(ours.pem()).unwrap());
    let (client, mut response) = (Client::builder().dialer(both).tls(tls).build(), Response::new());
    for (url, expected) in [
        ("http://a.example/here", "secret"),
        ("https://a.example/here", "secret"),
        ("https://a.example/up", "secret"),
        ("http://a.example/up", "nothing"),
    ] {
        let mut request = Request::get(url).unwrap();
        request.headers.set("authorization", "secret").unwrap();
        client.send(&request, &mut response).await.unwrap();
        assert_eq!(response.body.text(), Ok(expected), "{url}");
    }
    running.iter().for_each(|running| running.stop(Duration::ZERO));
}

/// A redirect from https to http would reveal the target of a secure request.
#[tokio::test]
async fn row_81_a_redirect_from_https_to_http_is_refused() {
    let ours = Authority::new("ours");
    let listener = MemoryListener::new();
    let server =
        Server::bind(listener.clone()).cores(1).tls(ServerTls::new(identity(&ours.issue(&["a.example"]))));
    let running = server.start(|ctx: &mut Context| {
        let to = if ctx.request.path() == "/up" { "https://a.example/end" } else { "http://a.example/end" };
        match ctx.request.path() {
            "/end" => ctx.response.set_text("here"),
            _ => ctx.response.set_redirect(corehttp::Status::FOUND, to).unwrap(),
        }
    });
    let tls = ClientTls::new().roots(tls::Roots::from_pem(ours.pem()).unwrap());
    let client = Client::builder().connect_to(&listener).tls(tls).build();
    assert_eq!(client.get("https://a.example/up").await.unwrap().body.text(), Ok("here"));
    let error = client.get("https://a.example/down").await.unwrap_err();
    assert!(matches!(error.cause(), ClientCause::Downgrade), "{error:#}");
    let expected = "https://a.example/down: following the redirect: it leads from https to http";
    assert_eq!(format!("{error:#}"), expected);
    running.unwrap().stop(Duration::ZERO);
}
