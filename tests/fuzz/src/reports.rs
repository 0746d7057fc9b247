//! A server whose hooks read all that they are given, and whose access logs have all formats. No hook panics, each
//! response has a report, and what a report shows was sent.

use std::cell::RefCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use corehttp::access_log::{self, AccessLog};
use corehttp::server::{ErrorReport, ExchangeReport, ForwardedHeader, error_page, problem_details};
use corehttp::{BoxHandler, Context, Server, TrustedProxies, routes};

use crate::everything;
use crate::memory::bounded;
use crate::settings::Settings;
use crate::wired::Wired;

/// Bit 0: the peer ends its side. Bit 1: limits are small. Bit 2: errors are pages.
pub fn run(data: &[u8]) {
    let Some((settings, wire)) = Settings::split(data) else { return };
    SERVERS.with(|servers| {
        let wired = &servers[usize::from(settings.flags >> 1 & 3)];
        let received =
            bounded(MEMORY_MAX + 400 * wire.len(), || wired.ask(settings.cut(wire), settings.flag(0)).octets);
        let shown = wire.escape_ascii();
        let responses = received.windows(STATUS_LINE.len()).filter(|octets| *octets == STATUS_LINE).count();
        let reports = REPORTS.take();
        // A client that waits for `100 Continue` gets that as well.
        assert!(
            reports.len() <= responses && (responses == 0 || !reports.is_empty()),
            "{reports:?} of {shown}"
        );
        for Report { fields, has_panicked } in reports {
            assert!(!has_panicked, "a hook has panicked: {shown}");
            let is_sent = |field: &Vec<u8>| wire.windows(field.len().max(1)).any(|octets| octets == field);
            assert!(fields.iter().all(|field| field.is_empty() || is_sent(field)), "{fields:?} of {shown}");
        }
    });
}

/// The memory of a connection, and of texts of all that its requests have.
const MEMORY_MAX: usize = 2 << 20;

const STATUS_LINE: &[u8] = b"HTTP/1.1 ";

thread_local! {
    static SERVERS: [Wired<BoxHandler>; 4] = [0, 1, 2, 3].map(|kind| {
        let limits = if kind & 1 == 1 { crate::server::small() } else { corehttp::Limits::default() };
        let handler = routes! { any "/{name}/{*rest}" => hello, any "/" => hello };
        Wired::new(watched(Server::new().limits(limits), kind & 2 == 2), BoxHandler::new(handler))
    });

    static REPORTS: RefCell<Vec<Report>> = RefCell::default();
}

/// The report of an exchange.
#[derive(Debug)]
struct Report {
    /// The names and the values that it shows.
    fields: Vec<Vec<u8>>,
    has_panicked: bool,
}

fn hello(ctx: &mut Context) {
    ctx.response.set_text("hello");
}

/// Makes the hooks of `server` read all that they are given.
fn watched(server: Server, are_errors_pages: bool) -> Server {
    let own = access_log::Format::from_fn(|report, line| line.extend(of_exchange(report).bytes()));
    let formats = [access_log::Format::Common, access_log::Format::Combined, access_log::Format::Json, own];
    let logs = formats.map(|format| AccessLog::from_writer(io::sink(), format).unwrap());
    logs.into_iter()
        .fold(server, Server::observe)
        .trusted_proxies(proxies())
        .on_exchange(move |report| {
            let has_panicked = catch_unwind(AssertUnwindSafe(|| of_exchange(report))).is_err();
            let fields = report.request.headers.iter();
            let fields =
                fields.flat_map(|(name, value)| [name.as_bytes().to_vec(), value.to_vec()]).collect();
            REPORTS.with_borrow_mut(|reports| reports.push(Report { fields, has_panicked }));
        })
        .on_error(|report| {
            let has_panicked = catch_unwind(AssertUnwindSafe(|| of_error(report))).is_err();
            assert!(!has_panicked, "`on_error` has panicked");
        })
        .error_response(move |report, response| {
            of_error(report);
            if are_errors_pages {
                error_page(report, response)
            } else {
                problem_details(report, response)
            }
            everything::of_response(response);
        })
}

fn proxies() -> TrustedProxies {
    use ForwardedHeader::{Forwarded, XForwardedFor};
    TrustedProxies::from_fn(|_| true).headers([Forwarded, XForwardedFor])
}

fn of_exchange(report: &ExchangeReport) -> String {
    let whole = format!("{report} {report:?} {:?}", report.client_ip());
    let parts = format!("{:?} {} {:?}", report.method, report.target, report.matched_pattern());
    [whole, parts, everything::of_request(report.request)].concat()
}

fn of_error(report: &ErrorReport) -> String {
    let request = report.request.map(everything::of_request);
    format!("{report} {report:?} {:?} {request:?}", report.problem())
}
