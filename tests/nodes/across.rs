//! What is done on one node is seen on the others, at once.

use std::time::Duration;

use serde_json::{Value, json};
use threadline_client::{ClientError, ClientFrame, EventBody, FeedQuery, PatchThread, ServerFrame, StartRun};
use tokio::time::Instant;

use crate::{cluster::*, server::Server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn append_on_one_read_on_another_stop_from_a_third_list_on_a_fourth() {
    let cluster = Cluster::start(4);
    let [a, b, c, d] = [0, 1, 2, 3].map(|node| cluster.client(node));
    make_thread(&a, "t").await;
    let mut reader = Reader::open(&b, "t");
    in_time(PATIENCE, "a reader is live", reader.caught_up()).await;
    let feed = d.feed(&FeedQuery::default()).await.expect("a page");
    // A few rounds: one that came by the recheck could be quick by chance.
    for round in 1..=5 {
        let run = format!("r{round}");
        let (epoch, wait) = (Some(feed.epoch.clone()), Some(PATIENCE));
        let waiting = FeedQuery { epoch, after: feed.cursor, wait, ..FeedQuery::default() };
        let mut producer = a.run("t", options(&run)).await.expect("starts");
        producer.append(numbered(1..=10)).await.expect("appends");
        in_time(BY_THE_BUS, "the other node's reader sees it", reader.reads(reader.seen.len() + 10)).await;
        let entries = in_time(PATIENCE, "the feed", d.feed(&waiting)).await.expect("a page");
        assert_eq!(entries.entries.len(), 1);
        // The producer receives the stop on its own node.
        let stop = producer.stop_token();
        let begun = Instant::now();
        c.stop("t", &run).await.expect("asked");
        in_time(PATIENCE, "the producer receives the stop", stop.cancelled()).await;
        println!("round {round}: the stop was received after {:?}", begun.elapsed());
        producer.finish().await.expect("finishes");
        in_time(BY_THE_BUS, "the end", reader.reads(reader.seen.len() + 1)).await;
    }
    assert_eq!(reader.seen, log(&c, "t").await);
    assert_eq!(reader.reconnects, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_start_anywhere_is_refused_with_the_facts() {
    let cluster = Cluster::start(2);
    let (a, b) = (cluster.client(0), cluster.client(1));
    make_thread(&a, "t").await;
    let mut producer = a.run("t", leased("first")).await.expect("starts");
    producer.append(numbered(1..=3)).await.expect("appends");
    let error = b.run("t", options("second")).await.expect_err("held");
    let problem = error.problem("run-active").expect("a 409");
    assert_eq!((problem.status, problem.facts["run"]["runId"].as_str()), (409, Some("first")));
    let lock = cluster.redis.command(&["GET", "threadline:lock:default:dev:t"]);
    assert_eq!(lock, "first");
    producer.finish().await.expect("finishes");
    b.run("t", options("second")).await.expect("free").finish().await.expect("finishes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_run_by_one_node_is_stopped_from_another() {
    let cluster = Cluster::start(2);
    let (a, b) = (cluster.client(0), cluster.client(1));
    make_thread(&a, "t").await;
    let mut reader = Reader::open(&b, "t");
    in_time(PATIENCE, "live", reader.caught_up()).await;
    let run = a.start_run("t", &agent_run("long")).await.expect("starts").run.run_id;
    in_time(PATIENCE, "it speaks", reader.reads(8)).await;
    b.stop("t", &run).await.expect("asked");
    let begun = Instant::now();
    let ended = in_time(PATIENCE, "it ends", ended(&b, "t", &run)).await;
    assert_eq!(ended.status.as_str(), "stopped");
    assert!(begun.elapsed() < BY_THE_BUS, "by the bus, not after {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_recreated_on_another_node_is_a_new_thread_here() {
    let cluster = Cluster::start(2);
    let (a, b) = (cluster.client(0), cluster.client(1));
    make_thread(&a, "t").await;
    a.run("t", options("r")).await.expect("starts").finish().await.expect("finishes");
    assert!(!log(&b, "t").await.is_empty());
    b.patch_thread("t", &PatchThread { name: Some(Some("seen by both".into())), ..PatchThread::default() }, None)
        .await
        .expect("renamed");
    assert_eq!(a.thread("t").await.expect("there").name.as_deref(), Some("seen by both"));
    a.delete_thread("t", None).await.expect("deleted");
    let gone = b.thread("t").await.expect_err("gone");
    assert!(gone.problem("thread-not-found").is_some(), "{gone}");
    make_thread(&b, "t").await;
    assert!(log(&a, "t").await.is_empty(), "nothing of the old one");
    let mut producer = a.run("t", options("r")).await.expect("the id is free again");
    producer.append(numbered(1..=1)).await.expect("appends");
    producer.finish().await.expect("finishes");
    let log = log(&b, "t").await;
    assert!(log.iter().all(|line| line.starts_with("r ")) && log[0].contains("\"value\":1"), "{log:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_over_an_old_look_up_reaches_the_thread_that_has_the_id_now() {
    let cluster = Cluster::start(2);
    let (a, b) = (cluster.client(0), cluster.client(1));
    let append = |number: u64| {
        let body = EventBody::Ndjson(numbered(number..=number).body().clone());
        let b = &b;
        async move { b.append("t", "r", Some(1), body).await }
    };
    for round in 1..=3 {
        make_thread(&a, "t").await;
        let start = StartRun { run_id: Some("r".into()), lease_seconds: Some(600), ..StartRun::default() };
        a.start_run("t", &start).await.expect("started");
        // From the second round on, the other node knows the run of the thread before.
        let appended = append(round).await.expect("appended");
        assert_eq!((appended.first_seq, appended.last_seq), (1, 1), "round {round}");
        assert!(log(&a, "t").await[0].contains(&format!("\"value\":{round}")), "round {round}");
        a.delete_thread("t", None).await.expect("deleted");
    }
    let gone = append(4).await.expect_err("no thread has the id");
    assert!(gone.problem("thread-not-found").is_some(), "{gone}");
    make_thread(&a, "t").await;
    let gone = append(4).await.expect_err("the thread has no such run");
    assert!(gone.problem("run-not-found").is_some(), "{gone}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_are_listed_on_every_node() {
    let cluster = Cluster::start(3);
    let [a, b, c] = [0, 1, 2].map(|node| cluster.client(node));
    make_thread(&a, "t").await;
    let mut readers = [Reader::open(&b, "t"), Reader::open(&c, "t"), Reader::open(&c, "t")];
    for reader in &mut readers {
        in_time(PATIENCE, "a reader is live", reader.caught_up()).await;
    }
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).timeout(PATIENCE).build().expect("a client");
    let mut seen = Vec::new();
    for node in 0..3 {
        // A node that has just started may not listen to questions yet.
        let found = in_time(PATIENCE, "all nodes answer", async {
            loop {
                let url = format!("{}/v1/threads/t/subscriptions", cluster.nodes[node].url);
                let answer = http.get(url).send().await.expect("an answer");
                let found: Value = answer.json().await.expect("JSON");
                if found["nodes"] == 3 {
                    break found;
                }
            }
        })
        .await;
        assert_eq!(found["count"], 3, "{found}");
        let mut nodes: Vec<_> =
            found["subscriptions"].as_array().expect("a list").iter().map(|each| each["nodeId"].to_string()).collect();
        nodes.sort();
        seen.push(nodes);
    }
    assert!(seen.iter().all(|nodes| *nodes == seen[0]), "{seen:?}");
    seen[0].dedup();
    assert_eq!(seen[0].len(), 2, "one of the nodes is followed on by two: {seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_feed_of_a_user_who_is_erased_on_one_node_ends_on_the_other() {
    let cluster = Cluster::start(2);
    let [a, b] = [0, 1].map(|node| cluster.client(node));
    make_thread(&a, "t").await;
    let user = a.thread("t").await.expect("a thread").user_id;
    let waiting = FeedQuery { wait: Some(PATIENCE), ..FeedQuery::default() };
    let before = in_time(PATIENCE, "the feed", b.feed(&waiting)).await.expect("a page");
    let mut socket = b.socket().await.expect("a socket");
    let subscribe =
        ClientFrame::SubscribeFeed { epoch: Some(before.epoch.clone()), after: before.cursor, user_id: None };
    socket.send(None, &subscribe).await.expect("sent");
    let caught_up =
        async { while !matches!(socket.next().await.expect("a frame").1, ServerFrame::FeedCaughtUp { .. }) {} };
    in_time(PATIENCE, "the follower is live", caught_up).await;
    a.erase_user(&user).await.expect("erased");
    let ended = async { while !matches!(socket.next().await.expect("a frame").1, ServerFrame::FeedEnded) {} };
    in_time(BY_THE_BUS, "the follower is told", ended).await;
    // The user comes back: the new feed gives the same positions again.
    make_thread(&b, "u").await;
    let now = in_time(PATIENCE, "the new feed", a.feed(&waiting)).await.expect("a page");
    assert_ne!(now.epoch, before.epoch);
    let old = FeedQuery { epoch: Some(before.epoch), after: before.cursor, ..FeedQuery::default() };
    for client in [&a, &b] {
        match client.feed(&old).await {
            Err(ClientError::Problem(problem)) => {
                assert_eq!((problem.status, problem.slug.as_str()), (410, "log-replaced"))
            }
            other => panic!("a cursor of the erased feed: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_a_user_writes_on_another_node_outlives_the_erasure() {
    const KEY: &str = "the-operators-key-of-this-test";
    let mut cluster = Cluster::start(0);
    for _ in 0..2 {
        let node = Server::start(with_key(cluster.command(&cluster.database, &cluster.redis.url()), KEY));
        cluster.nodes.push(node);
    }
    let [a, b] = [0, 1].map(|node| cluster.nodes[node].url.clone());
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client");
    let made = http.post(format!("{a}/v1/tokens")).bearer_auth(KEY).json(&json!({ "userId": "ann" }));
    let made: Value = made.send().await.expect("an answer").json().await.expect("JSON");
    let token = made["token"].as_str().expect("a token").to_owned();
    // The user creates threads on the other node until that refuses the token.
    let writes = tokio::spawn({
        let (http, b) = (http.clone(), b.clone());
        async move {
            let mut created = 0;
            // Within the user's quota of requests.
            let mut pace = tokio::time::interval(Duration::from_millis(50));
            loop {
                pace.tick().await;
                let create = http.post(format!("{b}/v1/threads")).bearer_auth(&token).json(&json!({}));
                match create.send().await.expect("an answer").status().as_u16() {
                    201 => created += 1,
                    401 => return created,
                    429 => {}
                    other => panic!("{other}"),
                }
            }
        }
    });
    let threads = async || -> usize {
        let listed = http.get(format!("{a}/v1/threads?includeArchived=true")).bearer_auth(KEY);
        let listed = listed.header("threadline-user", "ann").send().await.expect("an answer");
        listed.json::<Value>().await.expect("JSON")["threads"].as_array().expect("a list").len()
    };
    eventually("threads", async || (threads().await > 0).then_some(())).await;
    let erased = http.delete(format!("{a}/v1/users/ann")).bearer_auth(KEY).send().await.expect("an answer");
    assert_eq!(erased.status(), 200, "{}", erased.text().await.unwrap_or_default());
    assert_eq!(threads().await, 0);
    let created: usize = in_time(PATIENCE, "the token is refused", writes).await.expect("no panic");
    assert!(created > 0);
    assert_eq!(threads().await, 0);
}
