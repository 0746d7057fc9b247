//! Error logs: a line for each fault, never more than a few a second, and no core that waits for the one who reads them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use corehttp::server::ErrorLog;
use corehttp::{BodyPlan, Context, Error, Handler, Request, Server, Status};

use crate::support::{Served, alone, eventually, get, status};

/// The text that was written so far.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A terminal that stands still until something is sent.
struct Stalled(Receiver<()>);

impl Write for Stalled {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.recv();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn fails(ctx: &mut Context) -> corehttp::Result {
    match ctx.request.path() {
        "/fault" => Err(Error::other("the pool is\r\nclosed")),
        "/refused" => Err(Error::new(Status::FORBIDDEN, "not for you")),
        _ => Ok(()),
    }
}

#[test]
fn a_fault_is_a_line_with_its_time_and_level() {
    for (is_all, expected) in [(false, &["error"][..]), (true, &["info", "error", "info"])] {
        let written = Written::default();
        let log = ErrorLog::from_writer(written.clone());
        let log = if is_all { log.all() } else { log };
        let served = Served::with(|server| server.observe(log), fails);
        assert_eq!(status(&served.ask(get("/refused"))), 403);
        assert_eq!(status(&served.ask(get("/fault"))), 500);
        assert_eq!(status(&served.ask("nonsense\r\n\r\n")), 400);
        eventually("all lines are there", || written.text().lines().count() == expected.len());
        drop(served);
        for (line, level) in written.text().lines().zip(expected) {
            let (time, rest) = line.split_once(' ').unwrap();
            assert!(time.len() == 20 && time.starts_with("20") && time.ends_with('Z'), "{line}");
            assert!(rest.starts_with(&format!("{level} ")), "{line}");
        }
        let fault = "GET /fault: the handler failed: the pool is\\r\\nclosed\n";
        assert!(written.text().contains(fault), "{}", written.text());
    }
}

#[test]
fn a_flood_of_one_kind_is_a_few_lines_and_their_number() {
    let written = Written::default();
    let log = ErrorLog::from_writer(written.clone());
    let served = Served::with(|server| server.observe(log), fails);
    let mut faults = 0;
    eventually("a later line tells of those left out", || {
        served.ask(get("/fault").repeat(50));
        written.text().contains(" more suppressed")
    });
    while faults < 100 {
        faults += 1;
        assert_eq!(status(&served.ask(get("/fault"))), 500);
    }
    drop(served);
    assert!(written.text().lines().count() < 200, "{}", written.text());
}

/// A scanner that is refused must not hide that a dependency is away.
#[test]
fn a_flood_of_refusals_hides_no_fault_of_the_same_kind() {
    struct Refuses;
    impl Handler for Refuses {
        fn on_head(&self, ctx: &mut Context) -> BodyPlan {
            BodyPlan::Refuse(match ctx.request.path() {
                "/fault" => Status::SERVICE_UNAVAILABLE,
                _ => Status::FORBIDDEN,
            })
        }
        async fn handle(&self, _: &mut Context) -> corehttp::Result {
            Ok(())
        }
    }
    let written = Written::default();
    let log = ErrorLog::from_writer(written.clone()).all();
    let served = Served::with(|server| server.observe(log), Refuses);
    (0..30).for_each(|_| _ = served.ask(get("/")));
    assert_eq!(status(&served.ask(get("/fault"))), 503);
    eventually("the fault is a line", || written.text().contains(" error 503 "));
}

/// Faults come just when there can be no further thread.
#[cfg(target_os = "linux")]
#[test]
fn a_log_whose_thread_cannot_be_made_counts_its_lines_and_tries_again() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    alone("observe::error_log::a_log_whose_thread_cannot_be_made_counts_its_lines_and_tries_again", || {
        let written = Written::default();
        let log = ErrorLog::from_writer(written.clone());
        let service = Server::new().observe(log.clone()).service(fails);
        let fault = async || _ = service.respond(Request::get("/fault").unwrap()).await;
        corehttp::block_on(async {
            let before = getrlimit(Resource::As);
            setrlimit(Resource::As, Rlimit { current: Some(1 << 20), ..before }).unwrap();
            fault().await;
            setrlimit(Resource::As, before).unwrap();
            assert_eq!(log.dropped(), 1);
            fault().await;
        })
        .unwrap();
        eventually("the next one is written", || written.text().lines().count() == 1);
        assert_eq!(log.dropped(), 1);
    });
}

/// Also while nobody reads standard error, to which the hook of the standard library writes.
#[test]
fn panics_are_lines_of_the_log() {
    alone("observe::error_log::panics_are_lines_of_the_log", || {
        let written = Written::default();
        let log = ErrorLog::from_writer(written.clone());
        std::panic::set_hook(Box::new(log.panic_hook()));
        let served = Served::with(|server| server.observe(log), panics);
        assert_eq!(status(&served.ask(get("/"))), 500);
        // There may be a backtrace, by `RUST_BACKTRACE`.
        eventually("both lines are written", || written.text().matches("Z error ").count() == 2);
        let text = written.text();
        let line = text.lines().find(|line| line.contains(" error thread corehttp-")).unwrap();
        assert!(line.contains("tests/it/observe/error_log.rs:") && line.ends_with(": no  way"), "{line}");
        (0..100).for_each(|_| _ = served.ask(get("/")));
        eventually("some are written", || written.text().matches(" error thread ").count() >= 10);
        assert!(written.text().matches(" error thread ").count() <= 50, "{}", written.text());
        drop(served);
        // The log is gone, and panics are no longer its matter.
        assert!(std::panic::catch_unwind(|| panic!("late")).is_err());
        assert!(!written.text().contains("late"));
        _ = std::panic::take_hook();
    });

    fn panics(_: &mut Context) {
        panic!("no\r\nway")
    }
}

/// A quiet night with logrotate.
#[cfg(unix)]
#[test]
fn a_file_that_was_renamed_before_the_first_line_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let [path, rotated] = ["errors.log", "errors.log.1"].map(|name| folder.path().join(name));
    let log = ErrorLog::open(&path).unwrap();
    std::fs::rename(&path, &rotated).unwrap();
    log.reopen();
    let served = Served::with(|server| server.observe(log), fails);
    assert_eq!(status(&served.ask(get("/fault"))), 500);
    let written = || std::fs::read_to_string(&path).unwrap_or_default();
    eventually("the line is in the new file", || written().contains("/fault"));
    assert_eq!(std::fs::read_to_string(&rotated).unwrap(), "");
}

#[test]
fn a_log_that_nobody_reads_halts_no_core() {
    let (go, stalled) = channel();
    let log = ErrorLog::from_writer(Stalled(stalled));
    let served = Served::with(|server| server.observe(log.clone()), fails);
    for _ in 0..1_000 {
        assert_eq!(status(&served.ask(get("/fault"))), 500);
    }
    assert_eq!(log.dropped(), 0, "they wait");
    drop(go);
}

/// A listener that is shut down cannot accept any more (EINVAL), and the server stops with it.
#[cfg(target_os = "linux")]
#[test]
fn a_listener_that_fails_is_a_line() {
    let written = Written::default();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let same = listener.try_clone().unwrap();
    let log = ErrorLog::from_writer(written.clone());
    let running = Server::bind(listener).cores(1).observe(log).start(fails).unwrap();
    socket2::SockRef::from(&same).shutdown(std::net::Shutdown::Both).unwrap();
    assert!(running.wait().is_err());
    let text = written.text();
    assert!(text.contains(" error the server stops: a listener failed: Invalid argument"), "{text}");
}

/// The certificate of a server, which is valid for 90 days, and for so many more.
#[cfg(feature = "tls")]
fn identity(days_left: i64) -> corehttp::tls::Identity {
    identity_of("a.example", days_left)
}

#[cfg(feature = "tls")]
fn identity_of(name: &str, days_left: i64) -> corehttp::tls::Identity {
    let mut params = rcgen::CertificateParams::new(vec![name.into()]).unwrap();
    let day = std::time::Duration::from_secs(24 * 60 * 60);
    let now = std::time::SystemTime::now();
    let left = day * u32::try_from(days_left.unsigned_abs()).unwrap();
    // An hour more, so that a slow test has as many days.
    let end = if days_left < 0 { now - left } else { now + left + day / 24 };
    params.not_before = (end - 90 * day).into();
    params.not_after = end.into();
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    corehttp::tls::Identity::from_pem(certificate.pem(), key.serialize_pem()).unwrap()
}

#[cfg(feature = "tls")]
#[test]
fn a_certificate_that_is_refused_or_expires_soon_is_a_line_rfc5280_4_1_2_5() {
    use corehttp::tls::ServerTls;

    let soon = "error TLS: the certificate for a.example expires in 5 days, on ";
    for (days_left, checks_dates, expected) in [(60, true, None), (5, true, Some(soon)), (-1, false, None)] {
        let written = Written::default();
        let log = ErrorLog::from_writer(written.clone());
        let tls = ServerTls::new(identity(days_left)).check_dates(checks_dates);
        // One line, although two addresses on two cores have it.
        let running = Server::bind("127.0.0.1:0")
            .and_bind_tls("127.0.0.1:0", tls.clone())
            .tls(tls.clone())
            .cores(2)
            .observe(log)
            .start(fails)
            .unwrap();
        let lines = usize::from(expected.is_some());
        eventually("the certificate is reported", || written.text().lines().count() == lines);
        assert!(expected.is_none_or(|expected| written.text().contains(expected)), "{}", written.text());
        let checked = tls.clone().check_dates(true);
        checked.replace_identities([identity(60), identity(-2)]).unwrap_err();
        let refused = "error TLS: new certificates were refused, and the earlier ones stay: the certificate for \
                       a.example expired on ";
        eventually("the refusal is reported", || written.text().contains(refused));
        checked.replace_identities([]).unwrap_err();
        eventually("so is an empty list", || written.text().contains("stay: there is no certificate"));
        // The same ones again are no news.
        let replacing = if checks_dates { 1 } else { 0 };
        let soon = identity(3);
        for next in [soon.clone(), soon, identity(60)] {
            tls.replace_identities([next]).unwrap();
            let new = || written.text().matches("expires in 3 days").count() == replacing;
            eventually("one that expires soon is reported at its replacement", new);
        }
        let counted = || running.counts().total.errors.certificate as usize == lines + 2 + replacing;
        eventually("each is counted", counted);
        running.stop(std::time::Duration::ZERO);
        running.wait().unwrap();
    }
}

/// As after a night in which no renewal has worked.
#[cfg(feature = "tls")]
#[test]
fn each_of_many_certificates_that_expire_soon_is_a_line_rfc5280_4_1_2_5() {
    use corehttp::tls::ServerTls;

    let written = Written::default();
    let log = ErrorLog::from_writer(written.clone());
    let names = Vec::from_iter((0..15).map(|number| format!("host-{number}.example")));
    let add = |tls: ServerTls, name: &String| tls.and_identity(identity_of(name, 5));
    let tls = names.iter().fold(ServerTls::new(identity(60)), add);
    let served = Served::with(|server| server.tls(tls).observe(log), fails);
    let is_named = |name: &String| written.text().contains(&format!(" for {name} expires in 5 days"));
    eventually("each is named", || names.iter().all(is_named));
    drop(served);
    assert_eq!(written.text().lines().count(), names.len());
}

/// It is made without a result, and has no core on which a task could look out for them.
#[cfg(feature = "tls")]
#[test]
fn a_service_reports_its_certificates_at_its_connections_rfc5280_4_1_2_5() {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let kept = reports.clone();
    let tls = corehttp::tls::ServerTls::new(identity(-1));
    let server = Server::new().tls(tls.clone());
    let service = server.on_error(move |report| kept.lock().unwrap().push(report.to_string())).service(fails);
    let check = |expected: &[&str]| {
        // The second one shows nothing new.
        for connections in [service.clone(), service.clone()] {
            drop(connections.serve_connection(tokio::io::duplex(1).0));
        }
        let reports = std::mem::take(&mut *reports.lock().unwrap());
        assert_eq!(reports.len(), expected.len(), "{reports:?}");
        assert!(reports.iter().zip(expected).all(|(report, part)| report.contains(part)), "{reports:?}");
    };
    corehttp::block_on(async {
        check(&["a.example expired on "]);
        tls.replace_identities([identity(-2)]).unwrap_err();
        check(&["new certificates were refused"]);
        tls.replace_identities([identity(3)]).unwrap();
        check(&["a.example expires in 3 days"]);
        tls.replace_identities([identity(60)]).unwrap();
        check(&[]);
    })
    .unwrap();
}
