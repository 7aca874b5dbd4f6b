//! Tests of the registry of metrics.

use super::*;

#[test]
fn nodes_count_for_themselves_and_everything_is_explained() {
    let (one, other) = (Metrics::new(), Metrics::new());
    one.bus_resyncs.inc();
    one.limited("requests");
    one.limited_so_far("sockets", 3);
    one.limited_so_far("sockets", 2);
    let held = GaugeGuard::new(&one.sockets);
    one.http.know(["/v1/threads/{threadId}".to_owned()].into_iter());
    one.http.answered("GET", Some("/v1/threads/{threadId}"), 200, std::time::Duration::from_millis(3));
    one.http.answered("BREW", Some("/coffee"), 404, std::time::Duration::ZERO);
    let text = one.text(&GaugeSnapshot { connections: 7, store_up: true, ..GaugeSnapshot::default() });
    for line in [
        "threadline_bus_resyncs_total 1",
        "threadline_limited_total{limit=\"requests\"} 1",
        "threadline_limited_total{limit=\"sockets\"} 3",
        "threadline_sockets 1",
        "threadline_connections 7",
        "threadline_dependency_up{dependency=\"store\"} 1",
        "threadline_http_requests_total{route=\"/v1/threads/{threadId}\",method=\"GET\",status=\"2xx\"} 1",
        "threadline_http_requests_total{route=\"none\",method=\"other\",status=\"4xx\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
    assert!(!text.contains("redis") && !text.contains("coffee"), "{text}");
    drop(held);
    assert!(one.text(&GaugeSnapshot::default()).contains("\nthreadline_sockets 0\n"));
    let text = other.text(&GaugeSnapshot::default());
    assert!(text.contains("\nthreadline_bus_resyncs_total 0\n") && text.ends_with("# EOF\n"), "{text}");
    for line in text.lines().filter(|line| line.starts_with("# HELP")) {
        assert!(line.split_whitespace().count() > 5, "{line}");
    }
}
