//! Certificates from Pebble, the authority that Let's Encrypt tests ACME clients with. It is built with `go`.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use corehttp::acme::{Acme, AcmeCertificate, AcmeReport, Challenge};
use corehttp::client::ClientTimeouts;
use corehttp::middleware::wrap;
use corehttp::net::MemoryListener;
use corehttp::tls::rustls::{self, ClientConfig};
use corehttp::tls::{ClientTls, Identity, Roots, ServerTls};
use corehttp::{Client, Context, Server, ServerHandle};
use tempfile::TempDir;

/// The names of the certificates.
const NAMES: [&str; 2] = ["a.example", "www.a.example"];

/// How long an authority may take.
const SOON: Duration = Duration::from_secs(60);

/// The folder with the programs, which are built once.
fn programs() -> Option<&'static Path> {
    static PROGRAMS: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = PROGRAMS.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pebble");
        if ["pebble", "pebble-challtestsrv"].iter().all(|program| folder.join(program).exists()) {
            return Some(folder);
        }
        let module = |program: &str| format!("github.com/letsencrypt/pebble/v2/cmd/{program}@v2.10.3");
        let go = Command::new("go")
            .args(["install", &module("pebble"), &module("pebble-challtestsrv")])
            .env("GOBIN", &folder)
            .output();
        let is_built = go.is_ok_and(|output| output.status.success());
        if !is_built {
            eprintln!("skipped: Pebble needs `go`, and its modules");
        }
        is_built.then_some(folder)
    });
    built.as_deref()
}

/// An authority that issues certificates which are valid for so many seconds.
struct Pebble {
    folder: TempDir,
    children: Vec<Child>,
    ports: Ports,
}

/// Where the authority listens, and where it validates names.
#[derive(Clone, Copy)]
struct Ports {
    directory: u16,
    management: u16,
    http: u16,
    tls: u16,
}

impl Ports {
    fn new() -> Ports {
        Ports { directory: free_port(), management: free_port(), http: free_port(), tls: free_port() }
    }

    fn directory(self) -> String {
        format!("https://localhost:{}/dir", self.directory)
    }
}

/// A port below those that the system gives to clients, which could take it before a server does.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (process::id() % 100) as u16 * 100;
    loop {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Waits until `is_so`.
fn wait_until(otherwise: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < end, "{otherwise}");
        thread::sleep(Duration::from_millis(20));
    }
}

impl Pebble {
    fn start(valid_for: u64, ports: Ports) -> Option<Pebble> {
        let programs = programs()?;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(at("cert.pem"), own.cert.pem()).unwrap();
        fs::write(at("key.pem"), own.signing_key.serialize_pem()).unwrap();
        let config = serde_json::json!({ "pebble": {
            "listenAddress": format!("127.0.0.1:{}", ports.directory),
            "managementListenAddress": format!("127.0.0.1:{}", ports.management),
            "certificate": at("cert.pem"),
            "privateKey": at("key.pem"),
            "httpPort": ports.http,
            "tlsPort": ports.tls,
            "retryAfter": { "authz": 1, "order": 1 },
            "keyAlgorithm": "ecdsa",
            "profiles": { "default": { "description": "", "validityPeriod": valid_for } },
        }});
        fs::write(at("config.json"), config.to_string()).unwrap();
        let dns = format!("127.0.0.1:{}", free_port());
        let listens = |address: &str| TcpStream::connect(address).is_ok();
        let spawn = |command: &mut Command| {
            command
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("a program that was built runs")
        };
        let names = spawn(Command::new(programs.join("pebble-challtestsrv")).args([
            "-defaultIPv6",
            "",
            "-dnsserver",
            &dns,
            "-http01",
            "",
            "-https01",
            "",
            "-tlsalpn01",
            "",
            "-doh",
            "",
            "-management",
            &format!("127.0.0.1:{}", free_port()),
        ]));
        wait_until("names are not served", || listens(&dns));
        let pebble = spawn(
            Command::new(programs.join("pebble"))
                .args(["-config", &at("config.json"), "-dnsserver", &dns, "-strict"])
                .env("PEBBLE_VA_NOSLEEP", "1"),
        );
        wait_until("Pebble does not answer", || listens(&format!("127.0.0.1:{}", ports.directory)));
        Some(Pebble { folder, children: vec![names, pebble], ports })
    }

    /// A client that trusts the authority's own server.
    fn client(&self) -> Client {
        let roots = Roots::from_file(self.folder.path().join("cert.pem")).unwrap();
        Client::builder().tls(ClientTls::new().roots(roots)).build()
    }

    /// A client that trusts the certificates that it issues, and finds all names at `address`.
    fn trusting(&self, server: &ServerHandle) -> Client {
        let url = format!("https://localhost:{}/roots/0", self.ports.management);
        let root = corehttp::block_on(async { self.client().get(&url).await.unwrap() }).unwrap();
        let roots = Roots::from_pem(root.body.bytes()).unwrap();
        // Each request is for a handshake of its own.
        let timeouts = ClientTimeouts { idle: Duration::ZERO, tls: SOON, ..ClientTimeouts::default() };
        let tls = ClientTls::new().roots(roots);
        Client::builder().tls(tls).timeouts(timeouts).connect_to(server.local_addr()).build()
    }

    fn acme(&self, reports: &Reports) -> Acme {
        acme(&self.ports.directory(), reports).client(self.client()).contact("mailto:ops@a.example")
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The reports, as one word each, and their texts.
struct Reports {
    sender: std::sync::mpsc::Sender<(&'static str, String)>,
    received: Receiver<(&'static str, String)>,
}

impl Reports {
    fn new() -> Reports {
        let (sender, received) = channel();
        Reports { sender, received }
    }

    #[track_caller]
    fn expect(&self, expected: &str) -> String {
        let (word, text) = self.received.recv_timeout(SOON).expect("there is a report");
        assert_eq!(word, expected, "{text}");
        text
    }
}

fn acme(directory: &str, reports: &Reports) -> Acme {
    let sender = reports.sender.clone();
    let note = move |report: &AcmeReport| {
        let word = match report {
            AcmeReport::Issued { not_after } => {
                assert!(*not_after > SystemTime::now());
                "issued"
            }
            AcmeReport::Loaded { .. } => "loaded",
            _ => "failed",
        };
        let _ = sender.send((word, report.to_string()));
    };
    Acme::new(directory, NAMES).unwrap().on_report(note)
}

fn serve(certificates: &AcmeCertificate, port: u16) -> ServerHandle {
    Server::bind(("127.0.0.1", port))
        .cores(1)
        .tls(certificates.tls())
        .start(|ctx: &mut Context| {
            let tls = ctx.tls().map(|tls| tls.server_name.clone());
            ctx.response.set_text(format!("{tls:?}"));
        })
        .unwrap()
}

/// The status of a request for each name, or the error.
fn answers(client: &Client) -> String {
    corehttp::block_on(async {
        let mut answers = Vec::new();
        for name in NAMES {
            answers.push(match client.get(&format!("https://{name}/")).await {
                Ok(response) => response.status.as_u16().to_string(),
                Err(error) => error.to_string(),
            });
        }
        answers.join(" ")
    })
    .unwrap()
}

#[test]
fn a_certificate_is_issued_by_a_handshake_and_kept_for_the_next_start() {
    let ports = Ports::new();
    let Some(pebble) = Pebble::start(90 * 24 * 60 * 60, ports) else { return };
    let folder = tempfile::tempdir().unwrap();
    let reports = Reports::new();
    let certificates = pebble.acme(&reports).folder(folder.path()).start().unwrap();
    let server = serve(&certificates, ports.tls);
    // The first handshakes wait for the certificate.
    assert_eq!(answers(&pebble.trusting(&server)), "200 200");
    assert!(reports.expect("issued").contains("valid until"));
    server.stop(Duration::ZERO);
    drop(certificates);

    let again = pebble.acme(&reports).folder(folder.path()).start().unwrap();
    let server = serve(&again, 0);
    reports.expect("loaded");
    assert_eq!(answers(&pebble.trusting(&server)), "200 200");
    assert!(reports.received.recv_timeout(Duration::from_millis(300)).is_err(), "nothing more happens");
}

#[test]
fn a_certificate_is_renewed_in_time_and_an_account_that_is_lost_is_made_anew() {
    let ports = Ports::new();
    let Some(pebble) = Pebble::start(15, ports) else { return };
    let folder = tempfile::tempdir().unwrap();
    let reports = Reports::new();
    let certificates = pebble.acme(&reports).folder(folder.path()).start().unwrap();
    let server = serve(&certificates, ports.tls);
    reports.expect("issued");
    let first = certificates.tls().not_after().unwrap();
    reports.expect("issued");
    assert!(certificates.tls().not_after().unwrap() > first);
    assert_eq!(answers(&pebble.trusting(&server)), "200 200");
    server.stop(Duration::ZERO);
    drop(certificates);

    // Another authority in its place knows neither the account nor the certificate, which has expired.
    drop(pebble);
    let Some(pebble) = Pebble::start(90 * 24 * 60 * 60, ports) else { return };
    thread::sleep(Duration::from_secs(15));
    reports.received.try_iter().for_each(drop);
    let certificates = pebble.acme(&reports).folder(folder.path()).start().unwrap();
    let server = serve(&certificates, ports.tls);
    reports.expect("issued");
    assert_eq!(answers(&pebble.trusting(&server)), "200 200");
}

#[test]
fn a_certificate_is_issued_by_a_request_to_one_of_two_servers() {
    let ports = Ports::new();
    let Some(pebble) = Pebble::start(90 * 24 * 60 * 60, ports) else { return };
    let folder = tempfile::tempdir().unwrap();
    let reports = Reports::new();
    let start = || {
        let acme = pebble.acme(&reports).challenge(Challenge::Http01).folder(folder.path());
        acme.start().unwrap()
    };
    let one = start();
    let refused = |ctx: &mut Context| ctx.response.status = corehttp::Status::FORBIDDEN;
    let plain = Server::bind(("127.0.0.1", ports.http)).cores(1);
    let _plain = plain.start(wrap(one.challenges(), refused)).unwrap();
    reports.expect("issued");
    let other = start();
    reports.expect("loaded");
    for certificates in [one, other] {
        let server = serve(&certificates, 0);
        assert_eq!(answers(&pebble.trusting(&server)), "200 200");
    }
}

#[test]
fn what_fails_is_reported_and_tried_again() {
    let ports = Ports::new();
    let Some(pebble) = Pebble::start(90 * 24 * 60 * 60, ports) else { return };
    let reports = Reports::new();
    // Nothing listens where the authority validates.
    let certificates = pebble.acme(&reports).challenge(Challenge::Http01).start().unwrap();
    let text = reports.expect("failed");
    assert!(text.contains("no certificate") && text.contains("next try in 60 s"), "{text}");
    drop(certificates);
    // A directory that is away.
    let _away = acme("https://localhost:1/dir", &reports).start().unwrap();
    let text = reports.expect("failed");
    assert!(text.contains("no certificate"), "{text}");
}

/// No answer of an authority is worse than an error, whichever step it answers.
#[test]
fn nonsense_is_an_error_at_each_step() {
    let own = rcgen::generate_simple_self_signed(NAMES.map(str::to_owned)).unwrap();
    let foreign = own.cert.pem();
    let directory = "{\"newNonce\":\"/\",\"newAccount\":\"\",\"newOrder\":7}";
    let deep = "[".repeat(100_000);
    let steps = [
        ("/dir", &["", "{}", "[]", "\u{1f}\u{8b}", directory, &deep][..]),
        ("/nonce", &["", "{}"]),
        ("/account", &["{", "null"]),
        ("/orders", &["", "{}", "[]", "{\"status\": \"ready\", \"authorizations\": 7, \"finalize\": \"\"}"]),
        ("/authorization/0", &["", "{}", "{\"identifier\": {\"type\": \"ip\"}}", &deep]),
        ("/challenge", &["", "{", "\"valid\""]),
        ("/order", &["", "{}", "{\"status\": \"gone\", \"authorizations\": [], \"finalize\": \"\"}"]),
        ("/finalize", &["", "{}", "<html>"]),
        // No certificate, half of one, and one with another key.
        ("/certificate", &["", "{}", "-----BEGIN CERTIFICATE-----\n", &foreign]),
    ];
    thread::scope(|scope| {
        for (step, bodies) in steps {
            scope.spawn(move || bodies.iter().for_each(|body| check_nonsense(step, body)));
        }
    });
}

/// An authority that issues nothing, and answers one of its steps with `body`.
#[track_caller]
fn check_nonsense(step: &'static str, body: &str) {
    let (asked, last) = channel();
    let is_final = AtomicBool::new(false);
    let nonsense = body.to_owned();
    let client = authority(move |ctx| {
        let path = ctx.request.path().to_owned();
        let answer = match &*path {
            path if path == step => nonsense.clone(),
            "/finalize" => {
                is_final.store(true, Ordering::Relaxed);
                order("valid").to_string()
            }
            "/order" if is_final.load(Ordering::Relaxed) => order("valid").to_string(),
            path => answer(path).to_string(),
        };
        ctx.response.body.set_bytes(answer);
        match &*path {
            path if path == step => ctx.response.headers.set("retry-after", u64::MAX).unwrap(),
            path => write_fields(ctx, path),
        }
        let _ = asked.send(path);
    });
    let reports = Reports::new();
    let _certificates = acme("https://acme/dir", &reports).client(client).start().unwrap();
    let text = reports.expect("failed");
    assert_eq!(last.try_iter().last().as_deref(), Some(step), "{body}: {text}");
}

/// `unauthorized` is the type of a challenge that has failed, too (RFC 8555 §8.2), which is no refusal of the account.
#[test]
fn a_challenge_that_fails_keeps_the_account() {
    let (asked, paths) = channel();
    let is_tried = AtomicBool::new(false);
    let client = authority(move |ctx| {
        let path = ctx.request.path().to_owned();
        let mut answer = answer(&path);
        match &*path {
            "/challenge" => is_tried.store(true, Ordering::Relaxed),
            "/orders" => is_tried.store(false, Ordering::Relaxed),
            "/order" => answer = order("invalid"),
            path if path.starts_with("/authorization") && is_tried.load(Ordering::Relaxed) => {
                answer["challenges"][0]["error"] = serde_json::json!({
                    "type": "urn:ietf:params:acme:error:unauthorized",
                    "detail": "192.0.2.1: no such protocol",
                });
            }
            _ => {}
        }
        ctx.response.body.set_bytes(answer.to_string());
        write_fields(ctx, &path);
        let _ = asked.send(path);
    });
    let folder = tempfile::tempdir().unwrap();
    let reports = Reports::new();
    let certificates = acme("https://acme/dir", &reports).client(client).folder(folder.path());
    let _certificates = certificates.start().unwrap();
    let text = reports.expect("failed");
    assert!(text.contains("no such protocol"), "{text}");
    let asked: Vec<String> = paths.try_iter().collect();
    let times = |asked_for: &str| asked.iter().filter(|path| *path == asked_for).count();
    assert_eq!((times("/account"), times("/orders")), (1, 1), "{asked:?}");
}

/// A stranger that offers the protocol of a validation is refused for it, which is no fault of the server.
#[test]
fn a_validation_of_another_name_is_no_fault_rfc8737_3() {
    let reports = Reports::new();
    let certificates = acme("https://localhost:1/dir", &reports).start().unwrap();
    let (faults, received) = channel();
    let server = Server::bind("127.0.0.1:0").cores(1).tls(certificates.tls());
    let server = server.on_error(move |report| _ = faults.send((report.is_fault(), report.to_string())));
    let running = server.start(|_: &mut Context| ()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    let client = Client::builder().tls(ClientTls::from_config(config)).connect_to(running.local_addr());
    let client = client.build();
    corehttp::block_on(async { client.get("https://a.example/").await.unwrap_err() }).unwrap();
    let (is_fault, text) = received.recv_timeout(SOON).unwrap();
    assert!(!is_fault, "{text}");
}

/// A client of an authority with this handler.
fn authority(handler: impl Fn(&mut Context) + Send + Sync + 'static) -> Client {
    let own = rcgen::generate_simple_self_signed(["acme".to_owned()]).unwrap();
    let identity = Identity::from_pem(own.cert.pem(), own.signing_key.serialize_pem()).unwrap();
    let listener = MemoryListener::new();
    let server = Server::bind(&listener).cores(1).tls(ServerTls::new(identity));
    // The server goes on until the process ends.
    server.start(handler).unwrap();
    let client = Client::builder().connect_to(&listener);
    client.tls(ClientTls::new().dangerous().accept_any_certificate()).build()
}

/// The fields of an answer that makes sense.
fn write_fields(ctx: &mut Context, path: &str) {
    let fields = &mut ctx.response.headers;
    fields.set("replay-nonce", "bm9uY2U").unwrap();
    let made = [("/account", "https://acme/account/1"), ("/orders", "https://acme/order")];
    made.iter().filter(|(at, _)| *at == path).for_each(|(_, url)| fields.set("location", *url).unwrap());
}

/// An answer that makes sense.
fn answer(path: &str) -> serde_json::Value {
    match path {
        "/dir" => serde_json::json!({
            "newNonce": "https://acme/nonce",
            "newAccount": "https://acme/account",
            "newOrder": "https://acme/orders",
        }),
        "/account" => serde_json::json!({ "status": "valid" }),
        "/orders" => order("pending"),
        "/order" => order("ready"),
        "/challenge" => challenge(),
        path => match path.strip_prefix("/authorization/").and_then(|at| at.parse::<usize>().ok()) {
            Some(at) => serde_json::json!({
                "identifier": { "type": "dns", "value": NAMES[at] },
                "status": "pending",
                "challenges": [challenge()],
            }),
            None => serde_json::json!({}),
        },
    }
}

fn order(status: &str) -> serde_json::Value {
    serde_json::json!({
        "status": status,
        "authorizations": ["https://acme/authorization/0", "https://acme/authorization/1"],
        "finalize": "https://acme/finalize",
        "certificate": "https://acme/certificate",
    })
}

fn challenge() -> serde_json::Value {
    serde_json::json!({
        "type": "tls-alpn-01",
        "url": "https://acme/challenge",
        "token": "dG9rZW4",
        "status": "pending",
    })
}
