//! Metrics of clients: the times of each host add up to its counts, however exchanges end.

use std::time::Duration;

use corehttp::Client;
use corehttp::client::{ClientLimits, ClientTimeouts};
use corehttp::metrics::{self, Metrics};
use tokio::time::sleep;

use crate::support::{Scripted, Stage, ask, get, paused};
use crate::{counts, storm};

const SECOND: Duration = Duration::from_secs(1);

/// The sum of the samples whose names and labels begin so.
fn sum(text: &str, name: &str) -> f64 {
    let lines = text.lines().filter_map(|line| line.strip_prefix(name));
    lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
}

/// A server that takes two seconds for a response.
fn slow() -> Stage {
    Stage::new(|mut peer, _| async move {
        while peer.request().await?.is_some() {
            sleep(2 * SECOND).await;
            peer.send("HTTP/1.1 204 No Content\r\n\r\n").await?;
        }
        Ok(())
    })
}

#[test]
fn a_host_has_a_histogram_of_each_phase() {
    paused(async {
        let timeouts = ClientTimeouts { queue: 3 * SECOND, ..ClientTimeouts::default() };
        let (metrics, also) = (Metrics::new(), Metrics::new());
        let builder = slow().builder().observe(metrics.clone()).observe(also.clone());
        let client = builder
            .limits(ClientLimits { connections_per_host_max: 1, ..ClientLimits::default() })
            .timeouts(timeouts)
            .build();
        let ask = || async { ask(&client, &get()).await.is_ok() };
        let answered = tokio::join!(ask(), ask(), ask());
        assert_eq!(answered, (true, true, false), "the third waits for too long");
        let text = metrics.to_text(metrics::Format::Prometheus);
        for (name, expected) in [
            ("responses_total{host=\"http://a\"}", 2.0),
            ("failures_total{host=\"http://a\",phase=\"queue\"}", 1.0),
            ("phase_seconds_count{host=\"http://a\",phase=\"queue\"}", 1.0),
            ("phase_seconds_sum{host=\"http://a\",phase=\"queue\"}", 2.0),
            ("phase_seconds_count{host=\"http://a\",phase=\"wait\"}", 2.0),
            ("phase_seconds_bucket{host=\"http://a\",phase=\"wait\",le=\"1.073741824\"}", 0.0),
            ("phase_seconds_bucket{host=\"http://a\",phase=\"wait\",le=\"2.147483648\"}", 2.0),
            ("phase_seconds_sum{host=\"http://a\",phase=\"wait\"}", 4.0),
            // The second one has also waited for its connection.
            ("exchange_seconds_sum{host=\"http://a\"}", 6.0),
            ("connections_busy{host=\"http://a\"}", 0.0),
            ("connections_idle{host=\"http://a\"}", 1.0),
            ("requests_waiting{host=\"http://a\"}", 0.0),
        ] {
            let found = sum(&text, &format!("corehttp_client_{name}"));
            assert!((found - expected).abs() < 0.01, "{name}: {found}\n{text}");
        }
        let also = also.to_text(metrics::Format::Prometheus);
        let count = |name: &str| sum(&also, &format!("corehttp_client_{name}"));
        assert_eq!((count("responses_total"), count("exchange_seconds_count")), (2.0, 2.0));
        // The counts stay, and the connections are gone.
        drop(client);
        let text = metrics.to_text(metrics::Format::OpenMetrics);
        let count = |name: &str| sum(&text, &format!("corehttp_client_{name}"));
        assert_eq!((count("responses_total"), count("connections_idle")), (2.0, 0.0));
    });
}

/// URLs that others choose fill no memory, and no text.
#[test]
fn hosts_beyond_the_bound_are_one() {
    paused(async {
        let metrics = Metrics::with_options(metrics::Options { hosts_max: 3, ..Default::default() });
        let client = Client::builder()
            .timeout(SECOND)
            .connect_to(corehttp::net::MemoryListener::new())
            .observe(metrics.clone())
            .build();
        let answered = slow().builder().observe(metrics.clone()).build();
        for number in 0..600 {
            client.get(&format!("http://host{number}.example/")).await.unwrap_err();
            answered.get(&format!("http://host{}.example/", number % 7)).await.unwrap();
        }
        let text = metrics.to_text(metrics::Format::Prometheus);
        let count = |name: &str| sum(&text, &format!("corehttp_client_{name}"));
        assert_eq!(count("exchange_seconds_count"), 600.0);
        assert_eq!(text.matches("exchange_seconds_count{").count(), 4, "{text}");
        assert!(count("exchange_seconds_count{host=\"(other)\"}") > 300.0, "{text}");
        assert_eq!(count("responses_total"), 600.0);
        assert_eq!(
            text.matches("client_responses_total{").count(),
            257,
            "the first 256 of each client, and others"
        );
    });
}

/// Resets, ends in the middle, callers that go away: histograms and counters agree, and no connection seems busy.
#[tokio::test]
async fn histograms_add_up_to_the_counters_after_a_storm() {
    let server = Scripted::new(storm::spoil).await;
    let metrics = Metrics::new();
    let builder = Client::builder()
        .limits(ClientLimits { connections_per_host_max: 8, ..ClientLimits::default() })
        .timeout(20 * SECOND);
    let client = builder.observe(metrics.clone()).build();
    storm::ask_impatiently(&client, &server.url).await;
    let total = counts::check_counts(&client);
    assert_eq!((total.busy, total.waiting), (0, 0));
    let text = metrics.to_text(metrics::Format::Prometheus);
    let count = |name: &str| sum(&text, &format!("corehttp_client_{name}")) as u64;
    assert_eq!(count("exchange_seconds_count"), total.answered);
    let queued =
        format!("phase_seconds_count{{host=\"{}\",phase=\"queue\"}}", server.url.trim_end_matches('/'));
    assert_eq!(count(&queued), total.queue.ended);
    assert_eq!(count("connections_busy"), 0);
    assert_eq!(count("failures_total"), total.failed + total.connect.failed + total.queue.failed);
    assert!(total.answered > 100 && total.failed > 10 && total.canceled > 0, "{total:?}");
}
