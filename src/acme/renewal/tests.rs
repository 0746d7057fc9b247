//! Certificates that are loaded, obtained and renewed, or not.

use std::sync::{LazyLock, Mutex};
use std::thread;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rcgen::{CertificateParams, Issuer, KeyPair, PublicKeyData};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::super::LETS_ENCRYPT;
use super::*;
use crate::Server;
use crate::client::client::Client;
use crate::memory::lock;
use crate::message::Status;
use crate::net::MemoryListener;
use crate::net::tls::enabled::ClientTls;
use crate::runtime::{block_on, now, select};
use crate::server::Context;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A chain and its key, for these names, valid from so many days after today on to so many.
fn issued(names: &[&str], from: i64, to: i64) -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params =
        rcgen::CertificateParams::new(names.iter().map(|name| name.to_string()).collect::<Vec<_>>()).unwrap();
    (params.not_before, params.not_after) = (day(from).into(), day(to).into());
    format!("{}{}", params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

/// So many days after today.
fn day(days: i64) -> SystemTime {
    match days >= 0 {
        true => SystemTime::now() + DAY * days as u32,
        false => SystemTime::now() - DAY * days.unsigned_abs() as u32,
    }
}

/// The renewal of a certificate for two names, which has one already.
fn renewal(folder: Option<&std::path::Path>) -> Renewal {
    let settings = Settings::new(LETS_ENCRYPT, ["a.example", "b.example"]).unwrap();
    let settings = Settings { folder: folder.map(Into::into), on_report: Some(Arc::new(|_| {})), ..settings };
    let folder = Folder::open(&settings).unwrap();
    let first = issued(&["a.example", "b.example"], -1, 5);
    let tls = ServerTls::new(Identity::from_pem(&first, &first).unwrap());
    let is_ready = Arc::new(watch::Sender::new(false));
    Renewal::new(settings, folder, tls, Arc::default(), is_ready)
}

#[test]
fn a_certificate_that_cannot_serve_is_not_shown() {
    let both = ["a.example", "b.example"];
    let (one, other) = (issued(&both, -1, 89), issued(&both, -1, 89));
    let of_another_key = [&one[..one.find("-----BEGIN PRIVATE").unwrap()], &other].concat();
    let of_another_key = of_another_key.replace(other.split("-----BEGIN PRIVATE").next().unwrap(), "");
    for (text, expected) in [
        (issued(&["c.example", "d.example"], -1, 89), "the certificate has not all of the names"),
        (issued(&["a.example"], -1, 89), "the certificate has not all of the names"),
        (issued(&["*.example"], -1, 89), "the certificate has not all of the names"),
        // The clock of this machine, or that of the authority, is a year off.
        (issued(&both, 365, 455), "the certificate cannot be used"),
        (issued(&both, -455, -365), "the certificate cannot be used"),
        (issued(&both, 1, -1), "the certificate cannot be used"),
        (of_another_key, "the certificate cannot be used"),
        (String::new(), "the certificate cannot be used"),
        (one[..one.len() / 2].to_owned(), "the certificate cannot be used"),
    ] {
        let mut renewal = renewal(None);
        let before = renewal.tls.not_after();
        assert_eq!(renewal.show(&text).unwrap_err().to_string(), expected, "{text}");
        assert_eq!(renewal.tls.not_after(), before);
        assert!(renewal.current.is_none() && !*renewal.is_ready.borrow());
        renewal.show(&one).unwrap();
        assert!(renewal.tls.not_after() > before && *renewal.is_ready.borrow());
    }
}

/// With a clock that is a year behind, a new certificate would be of no use; with one that is ahead, it is asked for.
#[test]
fn a_clock_that_is_off_keeps_what_is_in_the_folder() {
    let both = ["a.example", "b.example"];
    for (text, expected) in [
        (issued(&both, -1, 89), Ok(true)),
        (issued(&both, 365, 455), Err("the certificate cannot be used".to_owned())),
        (issued(&both, -455, -365), Ok(false)),
        (issued(&["c.example"], -1, 89), Ok(false)),
        ("nonsense".to_owned(), Ok(false)),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut renewal = renewal(Some(folder.path()));
        renewal.folder.as_ref().unwrap().set_certificate(&text).unwrap();
        for expected in [expected.clone(), expected.map(|_| false)] {
            assert_eq!(renewal.load().map_err(|error| error.to_string()), expected, "{text}");
        }
        assert_eq!(renewal.folder.as_ref().unwrap().certificate().unwrap(), Some(text));
    }
}

/// As on a full disk.
#[test]
fn a_certificate_that_could_not_be_written_is_written_at_the_next_step() {
    let at = tempfile::tempdir().unwrap();
    let folder = at.path().join("acme");
    let mut renewal = renewal(Some(&folder));
    let text = issued(&["a.example", "b.example"], -1, 89);
    renewal.show(&text).unwrap();
    renewal.unwritten = Some(text.clone());
    std::fs::remove_dir(&folder).unwrap();
    block_on(renewal.step()).unwrap().unwrap_err();
    std::fs::create_dir(&folder).unwrap();
    block_on(renewal.step()).unwrap().unwrap();
    assert_eq!(renewal.folder.as_ref().unwrap().certificate().unwrap(), Some(text));
    assert!(renewal.unwritten.is_none() && !renewal.load().unwrap(), "it is not loaded again");
}

#[test]
fn a_third_of_its_time_is_left_when_a_certificate_is_renewed() {
    let day = Duration::from_secs(24 * 60 * 60);
    let now = SystemTime::now();
    for days in [6, 45, 90] {
        let left = (now + day * days).duration_since(due(now, now + day * days)).unwrap();
        assert!((day * days / 3..=day * days * 35 / 100).contains(&left), "{days}: {left:?}");
    }
    assert!(due(now, now - day) <= now, "dates without sense are no panic");
}

/// An authority that revokes certificates moves their windows into the past.
#[test]
fn a_new_certificate_is_renewed_when_the_authority_asks_rfc9773_4_2() {
    let (now, hour) = (SystemTime::now(), DAY / 24);
    let mut renewal = renewal(None);
    for (days, put_off, at_window) in [(90, 45 * DAY, 6 * hour), (6, 3 * DAY, 6 * hour)] {
        renewal.show(&issued(&["a.example", "b.example"], -1, days)).unwrap();
        let current = renewal.current.as_mut().unwrap();
        current.put_off(now);
        assert!(current.until_due(now).unwrap() + hour > put_off, "{days} days");
        let past = RenewalWindow { start: now - 2 * DAY, end: now - DAY, asked_again_after: hour };
        current.move_into(&past);
        assert!(current.until_due(now).unwrap() <= at_window, "{days} days");
        assert!(current.until_due(now + at_window + hour).is_none());
    }
    // One of a clock that is wrong is due at once, and still put off.
    let current = renewal.current.as_mut().unwrap();
    current.due = now - DAY;
    current.put_off(now);
    assert!(current.until_due(now).unwrap() > 2 * DAY);
}

/// The clock of an authority may be wrong.
#[test]
fn a_certificate_is_renewed_before_it_expires_whatever_the_authority_asks_rfc9773_4_2() {
    let now = SystemTime::now();
    let mut renewal = renewal(None);
    renewal.show(&issued(&["a.example", "b.example"], -10, 90)).unwrap();
    let current = renewal.current.as_mut().unwrap();
    // In days from now, the window and when the renewal may be due.
    for (start, end, due_from, due_to) in [
        (70, 72, 70, 72),
        (80, 84, 80, 84),
        (80, 10_000, 80, 85),
        (88, 89, 84, 85),
        (100, 200, 84, 85),
        (10, 12, 10, 12),
    ] {
        let window = RenewalWindow { start: now + start * DAY, end: now + end * DAY, asked_again_after: DAY };
        for _ in 0..2 {
            current.move_into(&window);
            let due = current.until_due(now).unwrap();
            // The dates of certificates are in seconds, and `now` was taken a moment before.
            let moment = Duration::from_secs(2);
            assert!((due_from * DAY..=due_to * DAY + moment).contains(&due), "{start}: {due:?}");
        }
    }
}

#[test]
fn failures_are_tried_again_less_and_less_often() {
    let day = Duration::from_secs(24 * 60 * 60);
    let minutes = |left| Vec::from_iter((1..14).map(|failures| back_off(failures, left).as_secs() / 60));
    assert_eq!(minutes(30 * day), [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1440, 1440]);
    assert_eq!(minutes(day)[8..], [256, 360, 360, 360, 360]);
    assert_eq!(minutes(Duration::ZERO)[5..8], [32, 60, 60]);
    assert_eq!(back_off(u32::MAX, Duration::MAX), BACK_OFF_MAX);
}

#[test]
fn a_certificate_is_renewed_without_renewal_info_rfc9773() {
    let authority = FakeAuthority::start(|path, _, answer| {
        if path == "/dir" {
            answer.body.as_object_mut().unwrap().remove("renewalInfo");
        }
    });
    authority.renew(1);
}

/// The order that was made is used: each other one would count against the limits of the authority.
#[test]
fn a_certificate_is_renewed_if_the_order_does_not_reflect_the_old_one_rfc9773_5() {
    let authority = FakeAuthority::start(|_, _, answer| {
        if let Some(fields) = answer.body.as_object_mut() {
            fields.remove("replaces");
        }
    });
    authority.renew(1);
}

#[test]
fn a_certificate_is_renewed_if_the_authority_refuses_to_replace_the_old_one_rfc9773_5() {
    for_each(["alreadyReplaced", "malformed", "unauthorized", "conflict"], |kind| {
        let authority = FakeAuthority::start(move |path, nth, answer| {
            if (path, nth) == ("/orders", 1) {
                answer.refuse(Status::CONFLICT, kind);
            }
        });
        authority.renew(2);
    });
}

#[test]
fn a_window_without_retry_after_counts_rfc9773_4_3() {
    for_each([(None, 6), (Some("soon"), 6), (Some("7200"), 2)], |(retry_after, hours)| {
        let authority = FakeAuthority::start(move |path, _, answer| {
            if path.starts_with("/renewal/") {
                answer.retry_after = retry_after;
            }
        });
        let mut renewal = authority.renewal(None);
        block_on(renewal.step()).unwrap().unwrap();
        block_on(renewal.step()).unwrap().unwrap();
        let current = renewal.current.as_ref().unwrap();
        assert!(current.due < SystemTime::now(), "{retry_after:?}");
        let asked_after = current.asked_at.duration_since(SystemTime::now()).unwrap();
        assert_eq!((asked_after.as_secs() + 60) / 3600, hours, "{retry_after:?}");
    });
}

#[test]
fn an_order_outlives_an_authority_that_is_busy_rfc8555_6_6() {
    let busy = Status::SERVICE_UNAVAILABLE;
    let cases = [
        ("/challenge", busy, "0"),
        ("/order", busy, "0"),
        ("/order", Status::TOO_MANY_REQUESTS, "1"),
        ("/finalize", busy, "0"),
        ("/certificate", busy, "0"),
    ];
    for_each(cases, |(step, status, wait)| {
        let authority = FakeAuthority::start(move |path, nth, answer| {
            if (path, nth) == (step, 1) {
                answer.refuse(status, "rateLimited");
                answer.retry_after = Some(wait);
            }
        });
        let before = now();
        block_on(authority.renewal(None).step()).unwrap().unwrap();
        assert_eq!(authority.count("/orders"), 1, "{step}");
        assert!(wait == "0" || now() - before >= Duration::from_secs(1), "{step}");
    });
}

#[test]
fn a_refusal_is_reported_and_its_wait_is_kept_rfc8555_6_6() {
    let check = |step: &'static str, refuse: fn(&mut Answer), expected: &str, wait: u64| {
        let authority = FakeAuthority::start(move |path, _, answer| {
            if path == step {
                refuse(answer);
            }
        });
        let (error, retried_after) = authority.failure();
        assert!(error.contains(expected), "{step}: {error}");
        assert_eq!(retried_after, Duration::from_secs(wait), "{step}: {error}");
    };
    let busy = |answer: &mut Answer| {
        (answer.status, answer.retry_after) = (Status::SERVICE_UNAVAILABLE, Some("300"));
        answer.body = "<html>busy</html>".into();
    };
    check("/dir", busy, "503 Service Unavailable", 300);
    check("/nonce", busy, "503 Service Unavailable", 300);
    check("/order", busy, "503 Service Unavailable", 300);
    let missing = |answer: &mut Answer| (answer.status, answer.body) = (Status::NOT_FOUND, json!({}));
    check("/dir", missing, "404 Not Found", 60);
    check("/orders", missing, "404 Not Found", 60);
    let limited = |answer: &mut Answer| {
        answer.refuse(Status::TOO_MANY_REQUESTS, "rateLimited");
        answer.retry_after = Some("3600");
    };
    check(
        "/orders",
        limited,
        "429 Too Many Requests: API error: no (urn:ietf:params:acme:error:rateLimited)",
        3600,
    );
    let endless = |answer: &mut Answer| {
        answer.status = Status::SERVICE_UNAVAILABLE;
        answer.retry_after = Some("18446744073709551615");
    };
    check("/account", endless, "503 Service Unavailable", DAY.as_secs());
    let invalid = |answer: &mut Answer| answer.body["status"] = "invalid".into();
    check("/order", invalid, "the order is invalid", 60);
}

#[test]
fn an_authorization_that_has_failed_is_named() {
    let authority = FakeAuthority::start(|path, _, answer| {
        if ["/orders", "/order", "/authorization"].contains(&path) {
            answer.body["status"] = "invalid".into();
        }
    });
    let (error, _) = authority.failure();
    assert!(error.contains("the authorization of a.example is invalid"), "{error}");
}

/// Authorities admit few accounts from one place.
#[test]
fn one_account_is_made_for_all_tries_without_a_folder() {
    let authority = FakeAuthority::start(|path, nth, answer| {
        if path == "/orders" && nth <= 2 {
            answer.refuse(Status::FORBIDDEN, "caa");
        }
    });
    let mut renewal = authority.renewal(None);
    for is_issued in [false, false, true] {
        assert_eq!(block_on(renewal.step()).unwrap().is_ok(), is_issued);
    }
    assert_eq!(authority.count("/account"), 1);
}

#[test]
fn an_account_that_is_refused_is_made_anew_rfc8555_7_3_6() {
    for_each([false, true], |has_folder| {
        let folder = tempfile::tempdir().unwrap();
        let authority = FakeAuthority::start(|path, nth, answer| {
            if (path, nth) == ("/orders", 1) {
                answer.refuse(Status::UNAUTHORIZED, "unauthorized");
            }
        });
        let mut renewal = authority.renewal(has_folder.then(|| folder.path()));
        block_on(renewal.step()).unwrap().unwrap();
        assert_eq!(authority.count("/account"), 2);
    });
}

#[test]
fn one_account_is_made_for_all_certificates_of_a_folder() {
    let authority = FakeAuthority::start(|path, _, answer| {
        if path == "/orders" {
            answer.refuse(Status::FORBIDDEN, "caa");
        }
    });
    let folder = tempfile::tempdir().unwrap();
    thread::scope(|scope| {
        for at in 0..6 {
            let mut renewal = authority.renewal_of(&[&format!("n{at}.example")], Some(folder.path()));
            scope.spawn(move || block_on(renewal.step()).unwrap().unwrap_err());
        }
    });
    assert_eq!((authority.count("/account"), authority.count("/orders")), (1, 6));
}

/// Checks the cases side by side: each waits for an order to be polled.
fn for_each<C: Send + 'static>(cases: impl IntoIterator<Item = C>, check: impl Fn(C) + Copy + Send) {
    thread::scope(|scope| {
        cases.into_iter().for_each(|case| drop(scope.spawn(move || check(case))));
    });
}

/// An authority in memory, which issues certificates for one name.
struct FakeAuthority {
    client: Client,
    /// The paths that were asked for.
    asked: Arc<Mutex<Vec<String>>>,
}

/// An answer of an authority. A text is no JSON.
struct Answer {
    status: Status,
    retry_after: Option<&'static str>,
    body: Value,
}

impl Answer {
    fn refuse(&mut self, status: Status, kind: &str) {
        self.status = status;
        self.body = json!({ "type": format!("urn:ietf:params:acme:error:{kind}"), "detail": "no" });
    }
}

impl FakeAuthority {
    /// Starts an authority that makes sense, but for the answers that `change` changes. It gets the path, and how often that
    /// was asked for.
    fn start(change: impl Fn(&str, usize, &mut Answer) + Send + Sync + 'static) -> FakeAuthority {
        let own = rcgen::generate_simple_self_signed(["acme".to_owned()]).unwrap();
        let identity = Identity::from_pem(own.cert.pem(), own.signing_key.serialize_pem()).unwrap();
        let listener = MemoryListener::new();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let (noted, orders) = (asked.clone(), Mutex::new(FakeOrder::default()));
        let server = Server::bind(&listener).cores(1).tls(ServerTls::new(identity));
        let handler = move |ctx: &mut Context| {
            let path = ctx.request.path().to_owned();
            let body = lock(&orders).answer(&path, &payload(ctx));
            let mut answer = Answer { status: Status::OK, retry_after: None, body };
            lock(&noted).push(path.clone());
            let nth = lock(&noted).iter().filter(|asked| **asked == path).count();
            change(&path, nth, &mut answer);
            send(ctx, &path, &answer);
        };
        // The server goes on until the process ends.
        server.start(handler).unwrap();
        let client = Client::builder().connect_to(&listener);
        let client = client.tls(ClientTls::new().dangerous().accept_any_certificate()).build();
        FakeAuthority { client, asked }
    }

    fn count(&self, path: &str) -> usize {
        lock(&self.asked).iter().filter(|asked| *asked == path).count()
    }

    fn renewal(&self, folder: Option<&std::path::Path>) -> Renewal {
        self.renewal_of(&["a.example"], folder)
    }

    fn renewal_of(&self, names: &[&str], folder: Option<&std::path::Path>) -> Renewal {
        let mut renewal = renewal(None);
        renewal.settings = Settings {
            folder: folder.map(Into::into),
            client: Some(self.client.clone()),
            on_report: renewal.settings.on_report,
            ..Settings::new("https://acme/dir", names).unwrap()
        };
        let folder = Folder::open(&renewal.settings).unwrap();
        Renewal::new(renewal.settings, folder, renewal.tls, renewal.table, renewal.is_ready)
    }

    /// Renews a certificate with so many orders.
    #[track_caller]
    fn renew(&self, orders: usize) {
        let mut renewal = self.renewal(None);
        let key = KeyPair::generate().unwrap();
        renewal.show(&format!("{}{}", leaf(&key, -80, 5), key.serialize_pem())).unwrap();
        let before = renewal.tls.not_after();
        block_on(renewal.step()).unwrap().unwrap();
        assert!(renewal.tls.not_after() > before);
        assert_eq!(self.count("/orders"), orders);
    }

    /// The text of the first failure, and the time until the next try.
    fn failure(&self) -> (String, Duration) {
        let (sender, mut reports) = mpsc::unbounded_channel();
        let mut renewal = self.renewal(None);
        renewal.settings.on_report = Some(Arc::new(move |report: &AcmeReport| {
            let AcmeReport::Failed { retried_after, .. } = report else { return };
            let _ = sender.send((report.to_string(), *retried_after));
        }));
        let endless = async {
            renewal.run().await;
            None
        };
        block_on(select(endless, reports.recv())).unwrap().unwrap()
    }
}

/// The newest order at an authority.
#[derive(Default)]
struct FakeOrder {
    fields: Value,
    csr: Vec<u8>,
}

impl FakeOrder {
    /// An answer that makes sense.
    fn answer(&mut self, path: &str, payload: &Value) -> Value {
        let challenge = json!({
            "type": "tls-alpn-01", "url": "https://acme/challenge", "token": "dG9rZW4", "status": "pending",
        });
        match path {
            "/dir" => json!({
                "newNonce": "https://acme/nonce", "newAccount": "https://acme/account",
                "newOrder": "https://acme/orders", "renewalInfo": "https://acme/renewal",
            }),
            "/account" => json!({ "status": "valid" }),
            "/orders" => {
                self.fields = json!({
                    "status": "pending", "authorizations": ["https://acme/authorization"],
                    "finalize": "https://acme/finalize", "certificate": "https://acme/certificate",
                    "replaces": payload["replaces"],
                });
                self.fields.clone()
            }
            "/authorization" => json!({
                "identifier": { "type": "dns", "value": "a.example" },
                "status": "pending",
                "challenges": [challenge],
            }),
            "/challenge" => {
                self.fields["status"] = "ready".into();
                challenge
            }
            "/finalize" => {
                self.csr = decode(&payload["csr"]);
                self.fields["status"] = "valid".into();
                self.fields.clone()
            }
            "/order" => self.fields.clone(),
            "/certificate" => leaf(&CsrKey::of(&self.csr), -1, 90).into(),
            path if path.starts_with("/renewal/") => json!({
                "suggestedWindow": { "start": "2025-01-02T04:00:00Z", "end": "2025-01-03T04:00:00Z" },
            }),
            _ => Value::Null,
        }
    }
}

/// The payload of a request to an authority (RFC 8555 §6.2).
fn payload(ctx: &Context) -> Value {
    let jws: Value = serde_json::from_slice(ctx.request.body.bytes()).unwrap_or_default();
    serde_json::from_slice(&decode(&jws["payload"])).unwrap_or_default()
}

fn decode(text: &Value) -> Vec<u8> {
    BASE64_URL_SAFE_NO_PAD.decode(text.as_str().unwrap_or_default()).unwrap()
}

fn send(ctx: &mut Context, path: &str, answer: &Answer) {
    ctx.response.status = answer.status;
    match &answer.body {
        Value::String(text) => ctx.response.body.set_bytes(text),
        json => ctx.response.body.set_bytes(json.to_string()),
    }
    let fields = &mut ctx.response.headers;
    fields.set("replay-nonce", "bm9uY2U").unwrap();
    if let Some(wait) = answer.retry_after {
        fields.set("retry-after", wait).unwrap();
    }
    let made = [("/account", "https://acme/account/1"), ("/orders", "https://acme/order")];
    if let Some((_, url)) = made.iter().find(|(at, _)| *at == path && answer.status == Status::OK) {
        fields.set("location", *url).unwrap();
        ctx.response.status = Status::CREATED;
    }
}

/// A certificate for this key and `a.example`, which names the key of its issuer, as all of public authorities do.
fn leaf(key: &impl PublicKeyData, from: i64, to: i64) -> String {
    static ISSUER: LazyLock<Issuer<'static, KeyPair>> =
        LazyLock::new(|| Issuer::new(CertificateParams::default(), KeyPair::generate().unwrap()));
    let mut params = CertificateParams::new(["a.example".to_owned()]).unwrap();
    params.use_authority_key_identifier_extension = true;
    (params.not_before, params.not_after) = (day(from).into(), day(to).into());
    params.signed_by(key, &*ISSUER).unwrap().pem()
}

/// The public key of a request for a certificate.
struct CsrKey(Vec<u8>);

impl CsrKey {
    /// The point behind the names of its curve (RFC 5480 §2).
    fn of(csr: &[u8]) -> CsrKey {
        let curve = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00];
        let at = csr.windows(curve.len()).position(|window| window == curve).unwrap() + curve.len();
        CsrKey(csr[at..at + 65].to_vec())
    }
}

impl PublicKeyData for CsrKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}
