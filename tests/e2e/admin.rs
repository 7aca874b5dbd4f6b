//! The admin listener: what it answers while the main listener, or the whole main runtime, does not.

use std::{net::SocketAddr, sync::mpsc, thread, time::Instant};

use serde_json::json;
use threadline::{
    app::{App, ServeConfig},
    config::Authentication,
};
use tokio::{runtime, sync::oneshot, time};

use crate::harness::{Client, DEADLINE, eventually, raw::Raw};

fn client(addr: SocketAddr, key: Option<&'static str>) -> Client {
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client");
    Client { http, addr, key: key.map(str::to_owned), user: None }
}

fn config(directory: &tempfile::TempDir) -> ServeConfig {
    let address: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    ServeConfig { admin_listen: Some(address), ..ServeConfig::embedded(address, directory.path().to_owned()) }
}

/// A server on a runtime of its own, with one worker that can be blocked.
struct Separate {
    main: SocketAddr,
    admin: SocketAddr,
    runtime: runtime::Handle,
    stop: oneshot::Sender<()>,
    thread: thread::JoinHandle<bool>,
}

impl Separate {
    async fn start(config: ServeConfig) -> Self {
        let (started, starting) = oneshot::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::spawn(move || {
            let runtime =
                runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let app = App::start(config).await.expect("started");
                let addresses = (app.local_addr().expect("an address"), app.admin_addr().expect("an address"));
                started.send((addresses, runtime::Handle::current())).expect("the test is there");
                app.run(async { drop(stopped.await) }).await
            })
        });
        let ((main, admin), runtime) = starting.await.expect("started");
        Self { main, admin, runtime, stop, thread }
    }

    async fn end(self) {
        drop(self.stop);
        assert!(tokio::task::spawn_blocking(|| self.thread.join()).await.expect("waited").expect("no panic"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_runtime_is_reported_by_the_admin_listener() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Separate::start(config(&directory)).await;
    let admin = client(server.admin, None);
    assert_eq!(admin.get("/livez").await.ok(200), json!({ "status": "ok" }));
    eventually("ready", async || (admin.get("/readyz").await.status == 200).then_some(())).await;
    let (release, blocked) = mpsc::channel::<()>();
    let worker = server.runtime.spawn(async move { blocked.recv().is_err() });
    let asked = Instant::now();
    let problem = time::timeout(DEADLINE, admin.get("/livez")).await.expect("an answer").problem(503, "unresponsive");
    println!("noticed after {:?}", asked.elapsed());
    assert_eq!(problem["retryable"], true);
    // The node has committed no beat since.
    eventually("unready", async || (admin.get("/readyz").await.status == 503).then_some(())).await;
    let figures = admin.get("/metrics").await;
    assert!(figures.text().contains("threadline_dependency_up{dependency=\"store\"} 0\n"), "{}", figures.text());
    drop(release);
    assert!(worker.await.expect("released"));
    admin.get("/livez").await.ok(200);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_admin_listener_answers_when_no_connection_is_left() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = config(&directory);
    config.limits.connections = 2;
    let server = Separate::start(config).await;
    let ask = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut raw = Raw::connect(server.main).await;
        raw.write(ask).await;
        raw.answer().await.ok(200);
        open.push(raw);
    }
    client(server.main, None).get("/livez").await.problem(503, "too-many-connections");
    let admin = client(server.admin, None);
    admin.get("/livez").await.ok(200);
    admin.get("/readyz").await.ok(200);
    let figures = admin.get("/metrics").await;
    assert!(figures.text().contains("threadline_limited_total{limit=\"connections\"} 1\n"), "{}", figures.text());
    drop(open);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_admin_listener_has_the_routes_for_monitoring_only_and_requires_their_keys() {
    const KEY: &str = "the operator's key in this test";
    let directory = tempfile::tempdir().expect("a directory");
    let server = Separate::start(ServeConfig {
        authentication: Authentication::OperatorKey(KEY.to_owned()),
        ..config(&directory)
    })
    .await;
    let (stranger, operator) = (client(server.admin, None), client(server.admin, Some(KEY)));
    stranger.get("/livez").await.ok(200);
    for path in ["/metrics", "/v1/nodes"] {
        stranger.get(path).await.problem(401, "unauthorized");
        assert_eq!(operator.get(path).await.status, 200, "{path}");
    }
    for path in ["/v1/threads", "/v1/openapi.json", "/"] {
        operator.get(path).await.problem(404, "not-found");
    }
    server.end().await;
}
