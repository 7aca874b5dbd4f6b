//! What a node says when it is started, rightly and wrongly.

use std::process::Command;

use crate::{
    backing::{Postgres, Redis, RedisCluster, ports::free_port},
    cluster::*,
    server::{Server, command},
    watched::ready,
};

/// Waits until the program exits with an error; returns its output.
fn refused(mut command: Command) -> String {
    let output = command.output().expect("runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    said
}

#[test]
fn mistakes_are_explained() {
    let serve = |store: Option<&str>, redis: Option<&str>| {
        let data = tempfile::tempdir().expect("a directory");
        let mut command = command(data.path(), &[]);
        if let Some(store) = store {
            command.args(["--store", store]);
        }
        if let Some(redis) = redis {
            command.args(["--redis", redis]);
        }
        refused(command)
    };
    let said = serve(None, Some("redis://127.0.0.1:1/"));
    assert!(said.contains("--store postgres://"), "{said}");
    let said = serve(Some("mysql://x"), None);
    assert!(said.contains("postgres://user:password@host/database"), "{said}");
    let unknown = format!("postgres://me:s3cret@127.0.0.1:{}/nowhere", Postgres::shared().port());
    let said = serve(Some(&unknown), None);
    assert!(said.contains("127.0.0.1") && !said.contains("s3cret"), "{said}");
    let database = Postgres::shared().fresh_database();
    let said = serve(Some(&database), Some("http://127.0.0.1"));
    assert!(said.contains("redis://"), "{said}");
    let said = serve(Some(&database), Some("redis+sentinel://:s3cret@127.0.0.1,127.0.0.2"));
    assert!(
        said.contains("no name of a master") && said.contains("redis+sentinel://") && !said.contains("s3cret"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_waits_for_its_database_and_answers_meanwhile() {
    let postgres = Postgres::start(&[]);
    let database = postgres.fresh_database();
    postgres.kill();
    let url = format!("http://127.0.0.1:{}", free_port());
    let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
    let listen = url.trim_start_matches("http://");
    let admin = format!("127.0.0.1:{}", free_port());
    command.args([
        "dev",
        "--listen",
        listen,
        "--store",
        &database,
        "--drain-delay",
        "0",
        "--drain-spread",
        "0",
        "--admin-listen",
        &admin,
    ]);
    command.env("NO_COLOR", "1").env_remove("THREADLINE_API_KEY");
    let mut node = Server::spawn(command);
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client");
    let get = async |path: &str| http.get(format!("{url}{path}")).send().await;
    let answer = eventually("an answer without a database", async || get("/readyz").await.ok()).await;
    assert_eq!((answer.status().as_u16(), answer.headers()["retry-after"].to_str().ok()), (503, Some("1")));
    let problem: serde_json::Value = answer.json().await.expect("a problem");
    let facts = (&problem["type"], &problem["why"], &problem["retryable"]);
    assert_eq!(facts, (&"/problems/store-unavailable".into(), &"starting".into(), &true.into()));
    assert_eq!(get("/livez").await.expect("an answer").status(), 200);
    assert_eq!(get("/v1/threads").await.expect("an answer").status(), 503);
    let watch = async |path: &str| http.get(format!("http://{admin}{path}")).send().await.expect("an answer");
    assert_eq!(watch("/livez").await.status(), 200);
    let starting: serde_json::Value = watch("/readyz").await.json().await.expect("a problem");
    assert_eq!(starting["why"], "starting");
    postgres.restart();
    let ready = async || get("/readyz").await.ok().filter(|answer| answer.status() == 200);
    eventually("ready once the database is there", ready).await;
    assert_eq!(watch("/readyz").await.status(), 200);
    assert_eq!(watch("/v1/threads").await.status(), 404);
    assert_eq!(get("/v1/threads").await.expect("an answer").status(), 200);
    assert!(node.ready() && node.said().contains("cannot open the database"), "{}", node.said());
    node.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_starts_without_redis_and_uses_it_once_it_is_there() {
    let cluster = Cluster::start(0);
    cluster.redis.kill();
    let node = cluster.node();
    assert!(node.said().contains("Redis"), "{}", node.said());
    let client = client(&node.url);
    make_thread(&client, "t").await;
    client.run("t", options("one")).await.expect("starts").finish().await.expect("finishes");
    cluster.redis.restart();
    let mut runs = 0;
    let held = async || {
        runs += 1;
        let producer = client.run("t", options(&format!("r{runs}"))).await.expect("starts");
        let holder = cluster.redis.command(&["GET", "threadline:lock:default:dev:t"]);
        producer.finish().await.expect("finishes");
        (holder == format!("r{runs}")).then_some(())
    };
    eventually("the lock is used", held).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_over_tls() {
    let redis = Redis::with_tls(&[]);
    let mut cluster = Cluster::start(0);
    let mut command = cluster.command(&cluster.database, &redis.tls_url());
    command.env("SSL_CERT_FILE", redis.authority());
    cluster.nodes.push(Server::start(command));
    let client = cluster.client(0);
    make_thread(&client, "t").await;
    let producer = client.run("t", options("r")).await.expect("starts");
    assert_eq!(redis.command(&["GET", "threadline:lock:default:dev:t"]), "r");
    producer.finish().await.expect("finishes");
    // Without the authority it is not trusted: the store decides alone, and the log says why.
    let untrusted = Server::start(cluster.command(&cluster.database, &redis.tls_url()));
    assert!(untrusted.said().contains("ertificate"), "{}", untrusted.said());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_their_master_over_tls() {
    let redis = Redis::with_tls(&[]);
    let (_sentinel, url) = redis.tls_sentinel("main");
    let mut cluster = Cluster::start(0);
    let mut command = cluster.command(&cluster.database, &url);
    command.env("SSL_CERT_FILE", redis.authority());
    cluster.nodes.push(Server::start(command));
    ready(&cluster.nodes[0], 200, "\"status\":\"ready\"").await;
    let client = cluster.client(0);
    make_thread(&client, "t").await;
    let producer = client.run("t", options("r")).await.expect("starts");
    assert_eq!(redis.command(&["GET", "threadline:lock:default:dev:t"]), "r");
    producer.finish().await.expect("finishes");
    let untrusted = Server::start(cluster.command(&cluster.database, &url));
    assert!(untrusted.said().contains("ertificate"), "{}", untrusted.said());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_name_different_servers_of_a_cluster_over_tls_hear_each_other() {
    let redis = RedisCluster::with_tls();
    let mut cluster = Cluster::start(0);
    for master in [0, 1] {
        let mut command = cluster.command(&cluster.database, &redis.tls_url(master));
        command.env("SSL_CERT_FILE", redis.servers()[0].authority());
        cluster.nodes.push(Server::start(command));
        ready(&cluster.nodes[master], 200, "\"status\":\"ready\"").await;
    }
    let clients = [cluster.client(0), cluster.client(1)];
    make_thread(&clients[0], "t").await;
    let mut reader = Reader::open(&clients[1], "t");
    reader.caught_up().await;
    let mut producer = clients[0].run("t", options("r")).await.expect("starts");
    assert_eq!(redis.holder("threadline:lock:default:dev:t").command(&["GET", "threadline:lock:default:dev:t"]), "r");
    // The subscription to the bus may still be in the making. After a recheck the next one is two seconds away.
    let mut appended = 0;
    eventually("two events by the bus", async || {
        for _ in 0..2 {
            appended += 1;
            producer.append(numbered(appended..=appended)).await.expect("appends");
            tokio::time::timeout(BY_THE_BUS, reader.reads(appended as usize)).await.ok()?;
        }
        Some(())
    })
    .await;
    producer.finish().await.expect("finishes");
    let untrusted = Server::start(cluster.command(&cluster.database, &redis.tls_url(0)));
    // On a busy machine the first connection may time out before the certificate is refused.
    assert!(untrusted.said().contains("Redis accepts no locks"), "{}", untrusted.said());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_start_at_once_share_one_migration() {
    let cluster = Cluster::start(0);
    let nodes: Vec<_> =
        (0..4).map(|_| Server::spawn(cluster.command(&cluster.database, &cluster.redis.url()))).collect();
    for mut node in nodes {
        assert!(node.ready(), "{}", node.said());
        assert!(client(&node.url).list_threads(&Default::default()).await.expect("a list").threads.is_empty());
    }
}

#[test]
fn secrets_are_not_shown() {
    let cluster = Cluster::start(0);
    let redis = format!("redis://:pa55word@127.0.0.1:{}/", cluster.redis.port());
    let node = Server::start(cluster.command(&cluster.database, &redis));
    while !node.said().contains("Ctrl-C") {
        std::thread::yield_now();
    }
    assert!(!node.said().contains("pa55word"), "{}", node.said());
    assert!(node.said().contains("postgres://127.0.0.1") && node.said().contains("redis://127"), "{}", node.said());
    let mut help = Command::new(env!("CARGO_BIN_EXE_threadline"));
    let help = help.args(["serve", "--help"]).env("THREADLINE_REDIS", &redis).output().expect("runs");
    let help = String::from_utf8(help.stdout).expect("text");
    assert!(help.contains("THREADLINE_REDIS") && !help.contains("pa55word"), "{help}");
}
