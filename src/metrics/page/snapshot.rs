//! [`snapshot`]: the metrics as the script of the page reads them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::iter::zip;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::client::{BalancerCounts, ClientCounts, HostCounts};
use crate::metrics::client_metrics::PHASES;
use crate::metrics::core_metrics::CoreSnapshot;
use crate::metrics::histogram::HistogramCounts;
use crate::metrics::latest_errors::LatestError;
use crate::metrics::metrics::Metrics;
use crate::metrics::process::ProcessInfo;
use crate::metrics::route_metrics::OTHER;
use crate::metrics::slow_exchanges::SlowExchange;
use crate::metrics::timeline::{SLOT, SLOTS, SlotCounts, SlotSeries, slot_number};
use crate::server::CoreCounts;

/// The number of the current slot, and the metrics as an object of JSON. If slots up to the number `sent` were sent before,
/// those before it are left out, since they do not change any more. Times are in microseconds, ages in seconds.
pub(super) fn snapshot(metrics: &Metrics, sent: Option<u64>) -> (u64, String) {
    let uptime = metrics.uptime();
    let slot = slot_number(uptime);
    let first = sent.unwrap_or((slot + 1).saturating_sub(SLOTS)).max(1);
    let recent_first = (slot + 1).saturating_sub(RECENT_SLOTS).max(1);
    let empty = SlotSeries::new(first.min(recent_first), slot);
    let timelines = metrics.timelines(&empty);
    let mut total = empty.clone();
    timelines.values().for_each(|series| total += series);
    let routes = metrics.routes().into_iter().map(|route| {
        let series = timelines.get(route.pattern.as_str()).unwrap_or(&empty);
        json!({
            "pattern": route.pattern,
            "methods": route.methods().collect::<Vec<_>>(),
            "classes": route.classes.each_ref().map(|class| class.duration.count()),
            "recent": figures(&series.sum_since(recent_first)),
            "slots": slots(series, first),
        })
    });
    let cores = metrics.core_counts();
    let core_timelines = metrics.core_timelines(&SlotSeries::new(recent_first, slot));
    let core_recent = |index: &usize| {
        core_timelines.get(index).map(|series| series.sum_since(recent_first)).unwrap_or_default()
    };
    let process = ProcessInfo::read();
    let mut server = CoreCounts::default();
    cores.values().for_each(|core| server += &core.server);
    let data = json!({
        "uptime": uptime.as_secs_f64(),
        "slot": slot,
        "slots": SLOTS,
        "slotSeconds": SLOT.as_secs(),
        "recentSeconds": uptime.as_secs_f64() - ((recent_first - 1) * SLOT.as_secs()) as f64,
        "total": slots(&total, first),
        "recent": figures(&total.sum_since(recent_first)),
        "routes": routes.collect::<Value>(),
        "cores": cores.iter().map(|(index, counts)| core(*index, counts, &core_recent(index))).collect::<Value>(),
        "hosts": hosts(metrics, &SlotSeries::new(recent_first, slot)),
        "balancers": balancers(metrics),
        "slow": slow(metrics),
        "errors": errors(metrics, &server),
        "memory": memory(metrics, &server),
        "process": {
            "resident": process.resident_bytes,
            "cpu": process.cpu_seconds,
            "fds": process.open_fds,
        },
    });
    (slot, data.to_string())
}

/// The slots of the last minute, the current one included.
const RECENT_SLOTS: u64 = 6;

fn slots(series: &SlotSeries, first: u64) -> Value {
    let slots = series.since(first).map(|(number, slot)| (number.to_string(), figures(slot)));
    Value::Object(slots.collect::<Map<_, _>>())
}

/// How many exchanges there were, how many of them failed, and within how many microseconds 50%, 90%, 99% and all of them
/// had a response.
fn figures(slot: &SlotCounts) -> Value {
    let [half, most, nearly_all, all] =
        [500, 900, 990, 1000].map(|share| slot.per_mille(share) as f64 / 1000.0);
    json!([slot.count(), slot.failed, half, most, nearly_all, all])
}

fn core(index: usize, core: &CoreSnapshot, recent: &SlotCounts) -> Value {
    json!({
        "core": index,
        "open": core.server.open,
        "exchanges": core.exchanges_open,
        "requests": core.server.requests,
        "received": core.server.received,
        "sent": core.server.sent,
        "recent": figures(recent),
        "cut": core.cuts,
        "timed": core.times_polls,
        "busy": core.busy.as_secs_f64(),
        "blocked": core.polls_slow,
        "longest": micros(core.poll_longest),
        "longestRoute": core.poll_longest_route,
        "accepted": core.server.accepted,
        "waited": core.accept_waits.quantile(0.99).map(|nanos| nanos as f64 / 1000.0),
    })
}

/// The hosts of clients. Their recent figures count the exchanges that failed apart, and the times of phases are the 99th
/// percentiles since the start. A host whose times are among those of [`OTHER`] has no recent figures of its own.
fn hosts(metrics: &Metrics, recent: &SlotSeries) -> Value {
    let Some(ClientCounts { hosts, other, .. }) = metrics.client_counts() else { return json!([]) };
    let times = metrics.host_counts();
    let timelines = metrics.host_timelines(recent);
    let has_others = other != HostCounts::default() || times.contains_key(OTHER);
    let others = has_others.then(|| (OTHER.into(), other));
    let hosts = hosts.into_iter().chain(others).map(|(host, counts)| {
        let times = times.get(&host).cloned().unwrap_or_default();
        let late = |(name, phase): (&'static str, &HistogramCounts)| {
            Some((name.to_owned(), json!(phase.quantile(0.99)? as f64 / 1000.0)))
        };
        let failures = counts.phases().into_iter().filter(|(_, phase)| phase.failed > 0);
        json!({
            "host": host,
            "recent": timelines.get(&host).map(|series| figures(&series.sum_since(0))),
            "busy": counts.busy,
            "idle": counts.idle,
            "dials": counts.dials,
            "answered": counts.answered,
            "reused": counts.reused,
            "stale": counts.stale,
            "retries": counts.retries + counts.retries_by_policy,
            "canceled": counts.canceled,
            "failures": failures.map(|(name, phase)| json!([name, phase.failed])).collect::<Value>(),
            "phases": zip(PHASES, &times.phases).filter_map(late).collect::<Map<_, _>>(),
        })
    });
    hosts.collect()
}

/// The hosts of balancers, with their counts since the start.
fn balancers(metrics: &Metrics) -> Value {
    let panics = metrics.balancers().panics();
    let hosts = metrics.balancers().hosts().into_iter().map(|(labels, counts)| {
        json!({
            "balancer": labels.balancer,
            "panic": panics.get(&labels.balancer).is_some_and(|panic| panic.is_on),
            "host": labels.host,
            "address": labels.address,
            "troubles": troubles(&counts),
            "tier": counts.tier,
            "weight": counts.weight,
            "pending": counts.pending,
            "penalties": counts.penalties,
            "classes": counts.classes,
            "failed": counts.failed,
            "ejections": counts.ejections,
        })
    });
    hosts.collect()
}

/// Why a host gets no requests, or fewer; none if it is fit for use.
fn troubles(counts: &BalancerCounts) -> Vec<String> {
    let down = counts.down.map(|failure| format!("down: {failure}"));
    let ejected = counts.ejected.map(|cause| format!("ejected: {cause}"));
    let drained = (counts.weight == 0).then(|| "drained".to_owned());
    down.into_iter().chain(ejected).chain(drained).collect()
}

fn slow(metrics: &Metrics) -> Value {
    let mut slow: Vec<SlowExchange> = metrics.slow_exchanges();
    slow.sort_by_key(|exchange| Reverse(exchange.duration));
    // One slow route must not hide the others.
    let mut shown = BTreeMap::<&str, usize>::new();
    let few = slow.iter().filter(|exchange| {
        let of_route = shown.entry(&exchange.pattern).or_default();
        *of_route += 1;
        *of_route <= SLOW_OF_ROUTE_MAX
    });
    let slow = few.take(SLOW_SHOWN_MAX).map(|exchange| {
        json!({
            "took": micros(exchange.duration),
            "handler": exchange.until_handler.map(micros),
            "response": exchange.until_response.map(micros),
            "request": exchange.request,
            "pattern": exchange.pattern,
            "status": exchange.status.map(|status| status.as_u16()),
            "cut": exchange.cut.map(|cut| cut.as_str()),
            "received": exchange.received,
            "sent": exchange.sent,
            "peer": exchange.peer,
            "ago": exchange.ended.elapsed().as_secs_f64(),
        })
    });
    slow.collect()
}

/// How many of the slowest exchanges are shown, of all routes and of each.
const SLOW_SHOWN_MAX: usize = 24;
const SLOW_OF_ROUTE_MAX: usize = 3;

/// The kinds of errors that there were, with the latest of each.
fn errors(metrics: &Metrics, server: &CoreCounts) -> Value {
    let latest: Vec<Option<LatestError>> = metrics.latest_errors();
    let kinds = zip(server.errors.by_kind(), latest).filter(|((_, count), _)| *count > 0);
    let kinds = kinds.map(|((kind, count), latest)| {
        json!({
            "kind": kind,
            "count": count,
            "ago": latest.as_ref().map(|error| error.at.elapsed().as_secs_f64()),
            "text": latest.map(|error| error.text),
        })
    });
    kinds.collect()
}

/// The objects that the cores have used again or kept for that, and the caches of files.
fn memory(metrics: &Metrics, server: &CoreCounts) -> Value {
    let used = server.pools().filter(|(_, pool)| pool.created > 0);
    let pools =
        used.map(|(name, pool)| (name.to_owned(), [pool.reused, pool.created, pool.kept, pool.bytes]));
    let caches = metrics.cache_counts().into_iter().map(|(name, counts)| (format!("files: {name}"), counts));
    let rows = pools.chain(caches).map(|(kind, [hits, misses, kept, bytes])| {
        json!({ "kind": kind, "hits": hits, "misses": misses, "kept": kept, "bytes": bytes })
    });
    rows.collect()
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Server;
    use crate::client::client::Client;
    use crate::client::{Ejection, HealthCheck};
    use crate::message::{Request, Response, Status};
    use crate::metrics::metrics::Options;
    use crate::server::{Context, Error};

    #[test]
    fn what_happened_is_in_the_snapshot() {
        let metrics = Metrics::new();
        metrics.keep_recent();
        let service =
            Server::new().observe(metrics.clone()).service(|ctx: &mut Context| match ctx.request.path() {
                "/fails" => Err(Error::new(Status::BAD_GATEWAY, "\"quoted\"\u{1b} <b>")),
                _ => Ok(()),
            });
        for path in ["/a", "/a", "/fails?secret=1", "/%22%3Cscript%3E'"] {
            crate::block_on(service.respond(Request::get(path).unwrap())).unwrap();
        }
        let (slot, text) = snapshot(&metrics, None);
        assert!(!text.contains("secret") && !text.contains('\u{1b}'), "{text}");
        let data: Value = serde_json::from_str(&text).unwrap();
        let figures = |value: &Value| (value[0].as_u64(), value[1].as_u64());
        let route = &data["routes"][0];
        let core = &data["cores"][0]["recent"];
        for value in [&data["recent"], &data["total"]["1"], &route["recent"], &route["slots"]["1"], core] {
            assert_eq!(figures(value), (Some(4), Some(1)), "{text}");
        }
        assert_eq!((&route["pattern"], &route["classes"]), (&json!("(none)"), &json!([0, 0, 3, 0, 0, 1])));
        assert_eq!(route["methods"], json!([["GET", 4]]));
        assert_eq!((data["slot"].as_u64(), data["cores"][0]["requests"].as_u64()), (Some(slot), Some(4)));
        assert_eq!(data["slow"].as_array().unwrap().len(), SLOW_OF_ROUTE_MAX);
        let [error] = &data["errors"].as_array().unwrap()[..] else { panic!("{text}") };
        assert_eq!((&error["kind"], &error["count"]), (&json!("handler"), &json!(1)));
        assert!(error["text"].as_str().unwrap().contains("quoted"), "{text}");
        // The slots before the last one that was sent are not sent again.
        let again: Value = serde_json::from_str(&snapshot(&metrics, Some(slot)).1).unwrap();
        assert_eq!(again["total"].as_object().unwrap().len(), 1);
    }

    /// Clients count more hosts than there are times for.
    #[test]
    fn a_host_without_times_has_no_figures_and_those_of_others_are_shown() {
        let metrics = Metrics::with_options(Options { hosts_max: 1, ..Default::default() });
        metrics.keep_recent();
        let client = Client::builder().observe(metrics.clone()).build();
        for url in ["http://127.0.0.1:1/", "http://127.0.0.1:2/"] {
            crate::block_on(client.get(url)).unwrap().unwrap_err();
        }
        let data: Value = serde_json::from_str(&snapshot(&metrics, None).1).unwrap();
        let failed = |host: &Value| (host["host"].as_str().unwrap().to_owned(), host["recent"][1].as_u64());
        let hosts = Vec::from_iter(data["hosts"].as_array().unwrap().iter().map(failed));
        let expected = [("http://127.0.0.1:1", Some(1)), ("http://127.0.0.1:2", None), (OTHER, Some(1))];
        assert_eq!(hosts, expected.map(|(host, failed)| (host.to_owned(), failed)));
    }

    /// The names of hosts are of the application's making, and may be as odd as those of balancers.
    #[test]
    fn each_host_of_a_balancer_is_shown_with_its_troubles() {
        let metrics = Metrics::new();
        let check = HealthCheck::connect().interval(Duration::from_millis(10)).fall(1);
        let builder =
            Client::new().balance(["http://127.0.0.1:1"]).unwrap().weighted("http://two", 0).unwrap();
        let ejection = Ejection::new().failures(1).percent_max(100);
        let balancer = builder.health_check(check).ejection(ejection).penalty_max(0).build();
        metrics.add_balancer("</script><b>\"", &balancer);
        let snapshot = || serde_json::from_str::<Value>(&snapshot(&metrics, None).1).unwrap();
        let mut response = Response::new();
        crate::block_on(async {
            for _ in 0..1_000 {
                balancer.send(&Request::get("/").unwrap(), &mut response).await.unwrap_err();
                if balancer.counts()[0].down.is_some() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .unwrap();
        let hosts = &snapshot()["balancers"];
        assert_eq!(hosts[0]["balancer"], "</script><b>\"");
        assert_eq!(hosts[0]["host"], "http://127.0.0.1:1");
        let troubles = ["down: connecting failed", "ejected: failures in a row"];
        assert_eq!((&hosts[0]["troubles"], &hosts[0]["panic"]), (&json!(troubles), &json!(true)));
        let drained = hosts[1]["troubles"].as_array().unwrap().last().unwrap();
        assert_eq!((drained, &hosts[1]["weight"]), (&json!("drained"), &json!(0)));
        assert!(hosts[0]["ejections"] == 1 && hosts[0]["failed"].as_u64() > Some(0), "{hosts}");
        drop(balancer);
        assert_eq!(snapshot()["balancers"], json!([]));
    }

    #[test]
    fn only_exchanges_that_are_meant_to_last_are_not_slow() {
        let metrics = Metrics::new();
        metrics.keep_recent();
        let service = Server::new().observe(metrics.clone()).service(|ctx: &mut Context| {
            match ctx.request.path() {
                "/events" => {
                    ctx.response.headers.set("content-type", "text/event-stream")?;
                    ctx.response.body.set_stream(&b"data: a\n\n"[..], None);
                }
                _ => ctx.response.status = Status::GATEWAY_TIMEOUT,
            }
            Ok::<_, Error>(())
        });
        for path in ["/events", "/late"] {
            let mut request = Request::get(path).unwrap();
            request.headers.set("accept", "text/event-stream").unwrap();
            crate::block_on(service.respond(request)).unwrap();
        }
        let data: Value = serde_json::from_str(&snapshot(&metrics, None).1).unwrap();
        let [slow] = &data["slow"].as_array().unwrap()[..] else { panic!("{data}") };
        assert_eq!(slow["request"], "GET /late");
    }

    /// A page that nobody asked for costs nothing.
    #[test]
    fn nothing_recent_is_kept_without_a_page() {
        let metrics = Metrics::new();
        let service = Server::new().observe(metrics.clone()).service(|_: &mut Context| {});
        crate::block_on(service.respond(Request::get("/").unwrap())).unwrap();
        let data: Value = serde_json::from_str(&snapshot(&metrics, None).1).unwrap();
        assert_eq!((&data["recent"][0], &data["slow"]), (&json!(0), &json!([])));
        assert_eq!(data["routes"][0]["classes"], json!([0, 0, 1, 0, 0, 0]));
    }
}
