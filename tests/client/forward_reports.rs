//! The part of a server behind in the report of an exchange: how many attempts there were, at which address, and what it
//! answered.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::time::Duration;

use corehttp::access_log::{AccessLog, Format};
use corehttp::client::{Call, Retry};
use corehttp::server::{ExchangeReport, ForwardReport};
use corehttp::{
    Client, ClientBuilder, ClientError, Context, Request, Response, Server, ServerHandle, Status,
};

/// A server that answers 503 so many times, and then 200.
fn failing(times: usize) -> ServerHandle {
    let left = AtomicUsize::new(times);
    let server = Server::bind("127.0.0.1:0").cores(1).start(move |ctx: &mut Context| {
        if left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
            ctx.response.status = Status::SERVICE_UNAVAILABLE;
            ctx.response.headers.set("retry-after", 0).unwrap();
        }
    });
    server.unwrap()
}

fn retrying() -> ClientBuilder {
    let backoff = Duration::from_millis(1);
    Client::builder().retry(Retry::new().attempts_max(3).backoff(backoff, backoff))
}

/// The status of a response, what was reported of the server behind, and what was logged.
type Outcome = (u16, ForwardReport, String);

/// Forwards a request by the call that `open` opens, and returns the status of the response with what was reported and
/// logged.
async fn forward(
    open: impl AsyncFn(&Request) -> Result<Call, ClientError> + Send + Sync + 'static,
) -> Outcome {
    let (reports, reported) = mpsc::channel();
    let (log_file, writer) = std::io::pipe().unwrap();
    let log = AccessLog::from_writer(writer, Format::Json).unwrap();
    let observe = move |report: &ExchangeReport| reports.send(report.forward).unwrap();
    let server = Server::new().observe(log.clone()).on_exchange(observe);
    let service = server.service(async move |ctx: &mut Context| {
        if ctx.request.path() == "/own" {
            return Ok(());
        }
        let onward = ctx.request.forwarded_to("/")?;
        // The report has the status behind, whatever the gateway makes of it.
        let accept = |response: &mut Response| response.status = Status::ACCEPTED;
        ctx.forward_with(open(&onward), accept).await
    });
    let response = service.respond(Request::get("http://a/").unwrap()).await;
    let forwarded = reported.recv().unwrap().expect("the request was forwarded");
    // The next exchange has no notes of this one.
    service.respond(Request::get("http://a/own").unwrap()).await;
    assert_eq!(reported.recv().unwrap(), None);
    drop((service, log));
    let lines = std::io::read_to_string(log_file).unwrap();
    let members = |line: &str| {
        let forward = line.split(',').filter(|member| member.contains("forward"));
        forward.collect::<Vec<_>>().join(",")
    };
    let logged: Vec<_> = lines.lines().map(members).collect();
    assert_eq!(logged[1], "", "{lines}");
    (response.status.as_u16(), forwarded, logged[0].clone())
}

#[tokio::test]
async fn the_attempts_of_a_gateway_are_reported_and_logged() {
    for (client, failures, status, attempts) in [
        (Client::new(), 0, 200, 1),
        (Client::new(), 1, 503, 1),
        (retrying().build(), 0, 200, 1),
        (retrying().build(), 2, 200, 3),
        (retrying().build(), 9, 503, 3),
    ] {
        let behind = failing(failures);
        let addr = behind.local_addr();
        let host = client.host(&behind.to_string()).unwrap();
        let (answered, report, logged) = forward(async move |onward| host.open_call(onward).await).await;
        assert_eq!((answered, report.attempts, report.peer_addr), (202, attempts, Some(addr)));
        assert_eq!(report.status.map(Status::as_u16), Some(status));
        let expected =
            format!(r#""forward_addr":"{addr}","forward_status":{status},"forward_attempts":{attempts}"#);
        assert_eq!(logged, expected);
    }
}

#[tokio::test]
async fn a_server_behind_that_nobody_reaches_has_no_status() {
    let host = retrying().build().host("http://127.0.0.1:1").unwrap();
    let (answered, report, logged) = forward(async move |onward| host.open_call(onward).await).await;
    assert_eq!((answered, report.attempts, report.status), (502, 3, None));
    assert_eq!(logged, r#""forward_attempts":3"#);
}

#[tokio::test]
async fn the_attempts_at_all_hosts_of_a_balancer_count() {
    let behind = failing(0);
    let hosts = ["http://127.0.0.1:1", &behind.to_string()];
    let balancer = retrying().build().balance(hosts).unwrap().build();
    let mut attempts = Vec::new();
    for _ in 0..4 {
        let balancer = balancer.clone();
        let (_, report, _) = forward(async move |onward| balancer.open_call(onward).await).await;
        assert_eq!(report.peer_addr, Some(behind.local_addr()));
        attempts.push(report.attempts);
    }
    assert!(attempts.contains(&1) && attempts.contains(&2), "{attempts:?}");
}
