//! The files in `kit/` name the ports, paths, times and metrics that the server has. The log of HAProxy is read as it is written.

use std::collections::BTreeSet;
use std::fs;

use corehttp::health::Health;
use corehttp::metrics::{self, Metrics};
use corehttp::net::MemoryListener;
use corehttp::{Client, Context, Request, Result, Server, block_on};
use serde_json::Value;

use crate::balancer_log::BalancerLog;
use crate::service::{GRACE, OPERATIONS_PORT, PORT, STOP_DELAY, operations};

fn kit(name: &str) -> String {
    fs::read_to_string(format!("{}/fleet/kit/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The names of all samples that a server, a client and a balancer export after an exchange.
fn exported() -> Result<BTreeSet<String>> {
    let metrics = Metrics::new();
    let listener = MemoryListener::new();
    let client = Client::builder().connect_to(&listener).observe(metrics.clone()).build();
    let balancer = client.balance(["http://one"])?.build();
    metrics.add_balancer("one", &balancer);
    let hello = |ctx: &mut Context| ctx.response.set_text("hello");
    let running = Server::bind(listener).cores(1).observe(metrics.clone()).start(hello)?;
    block_on(async { balancer.send(&Request::get("/")?, &mut Default::default()).await })??;
    // An exchange is counted when it is over, which may be after its response has arrived.
    running.stop(GRACE);
    running.wait()?;
    let text = metrics.to_text(metrics::Format::Prometheus);
    let names = text.lines().filter(|line| !line.starts_with('#'));
    Ok(names.filter_map(|line| line.split(['{', ' ']).next()).map(str::to_owned).collect())
}

/// The names of metrics in expressions of PromQL.
fn named(expressions: &str) -> BTreeSet<String> {
    let words = expressions.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_metric = |word: &&str| word.starts_with("corehttp_") || word.starts_with("process_");
    words.filter(is_metric).map(str::to_owned).collect()
}

/// Whether `metrics` are exported; at least as many as are known to be used.
#[track_caller]
fn check_exported(expressions: &str, least: usize) {
    let named = named(expressions);
    let exported = exported().unwrap();
    assert!(named.len() >= least, "{named:?}");
    // The files of Linux, of which those of the process are read, are not everywhere.
    let is_everywhere = |name: &str| cfg!(target_os = "linux") || !name.starts_with("process_");
    let missing: Vec<_> = named.difference(&exported).filter(|name| is_everywhere(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn each_rule_uses_metrics_that_are_exported() {
    let rules = kit("alerts.yml");
    // Annotations and names of rules are no expressions.
    let is_expression = |line: &&str| !line.contains("summary:") && !line.trim_start().starts_with('#');
    check_exported(&rules.lines().filter(is_expression).collect::<Vec<_>>().join("\n"), 8);
    let tested = kit("alerts_test.yml");
    let series = tested.lines().filter(|line| line.contains("series:"));
    check_exported(&series.collect::<Vec<_>>().join("\n"), 6);
}

#[test]
fn the_dashboard_is_json_whose_queries_use_metrics_that_are_exported() {
    let dashboard: Value = serde_json::from_str(&kit("dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    let mut queries = String::new();
    for target in panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap()) {
        queries = queries + target["expr"].as_str().unwrap() + "\n";
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        queries = queries + variable["definition"].as_str().unwrap_or_default() + "\n";
    }
    check_exported(&queries, 15);
}

#[test]
fn manifest_and_unit_have_the_ports_paths_and_times_of_the_server() {
    let manifest = kit("kubernetes.yaml");
    let unit = kit("corehttp.service");
    let dockerfile = kit("Dockerfile");
    let rotation = kit("logrotate.conf");
    let stop = GRACE.as_secs() + 5;
    for (file, line) in [
        (&manifest, format!("- {{name: http, containerPort: {PORT}}}")),
        (&manifest, format!("- {{name: operations, containerPort: {OPERATIONS_PORT}}}")),
        (&manifest, format!("prometheus.io/port: \"{OPERATIONS_PORT}\"")),
        (&manifest, format!("terminationGracePeriodSeconds: {stop}")),
        (&dockerfile, format!("EXPOSE {PORT} {OPERATIONS_PORT}")),
        (&dockerfile, "ENTRYPOINT [\"/usr/local/bin/corehttp-service\", \"service\"]".into()),
        (&unit, "ExecStart=/usr/local/bin/corehttp-service service".into()),
        (&unit, format!("TimeoutStopSec={stop}")),
        (&unit, "Environment=ACCESS_LOG=/var/log/corehttp/access.log".into()),
        (&rotation, "/var/log/corehttp/*.log {".into()),
        (&rotation, "systemctl reload corehttp.service".into()),
    ] {
        assert!(file.lines().any(|found| found.trim() == line), "{line}");
    }
    let uid = dockerfile.lines().find_map(|line| line.strip_prefix("USER ")?.split(':').next()).unwrap();
    assert!(manifest.contains(&format!("runAsUser: {uid}\n")));
    // The readiness probe fails before the listener closes.
    let readiness = manifest.split("readinessProbe:").nth(1).unwrap();
    let period = readiness.lines().find_map(|line| line.trim().strip_prefix("periodSeconds: ")).unwrap();
    assert!(period.parse::<u64>().unwrap() * 2 < STOP_DELAY.as_secs());
    let service = Server::new().service(operations(&Metrics::new(), &Health::new()));
    let probed = manifest.split("path: ").skip(1).filter_map(|rest| rest.split([',', '\n', '}']).next());
    let paths: BTreeSet<_> = probed.collect();
    assert_eq!(paths, BTreeSet::from(["/livez", "/metrics", "/readyz"]));
    for path in paths {
        let response = block_on(service.respond(Request::get(path).unwrap())).unwrap();
        assert_eq!(response.status.as_u16(), 200, "{path}");
    }
}

#[test]
fn the_log_of_haproxy_has_changes_failures_and_requests_sent_again() {
    let again = r#"127.0.0.1:1 [29/Nov/2026:10:29:57.823] clients fleet/one 0/7/0/10/17 200 166 - - ---- 17/17/4/2/+1 0/0 "GET / HTTP/1.1""#;
    let failed = r#"127.0.0.1:1 [29/Nov/2026:10:29:57.849] clients fleet/two 0/0/0/-1/10 502 160 - - SH-- 17/17/15/3/0 0/0 "POST / HTTP/1.1""#;
    let gone = r#"127.0.0.1:1 [29/Nov/2026:10:29:57.849] clients fleet/two 0/0/0/-1/10 -1 0 - - CH-- 17/17/15/3/0 0/0 "POST / HTTP/1.1""#;
    let down =
        "Server fleet/two is DOWN, reason: Health analyze, info: \"Detected 3 consecutive errors\". 2 active";
    let warning = format!("[WARNING]  (2866) : {down}");
    let text = [again, &warning, down, failed, gone, again, ""].join("\n");
    let log = BalancerLog::parse(&text);
    let (changes, failed) = (vec![down], vec![failed, gone]);
    assert_eq!(log, BalancerLog { changes, failed, sent_again: 2 });
    assert_eq!(BalancerLog::parse("x\n\n[NOTICE] (1) : New worker"), BalancerLog::default());
}
