//! A database that loses commits under nodes that serve: no reader is given anything that contradicts what anyone was
//! given before, and all others notice nothing but a pause.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use futures_util::StreamExt;
use serde_json::{Value, json};
use threadline_client::{
    Client, ClientConfig, EventBody, EventQuery, RunOptions, RunStatus, StartRun, TailItem, TailOptions,
};
use threadline_core::Epoch;
use threadline_http::cursor::{Cursor, CursorKind};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::block_in_place,
    time::Instant,
};

use crate::{
    cluster::*,
    failover::{Acknowledged, Bodies, Follower, Pair, Producer, append_and_hold},
    server::Server,
};

/// Longer than any failover here.
const LONG_LEASE: Duration = Duration::from_secs(600);

fn long(run: &str) -> RunOptions {
    RunOptions { run_id: Some(run.into()), lease: Some(LONG_LEASE), ..RunOptions::default() }
}

/// A thread with an active run `r`.
async fn running(client: &Client, thread: &str) {
    make_thread(client, thread).await;
    let lease = Some(LONG_LEASE.as_secs());
    let start = StartRun { run_id: Some("r".into()), lease_seconds: lease, ..StartRun::default() };
    client.start_run(thread, &start).await.expect("starts");
}

/// The whole log and its epoch, noted like every other answer.
async fn whole(client: &Client, thread: &str, bodies: &Bodies) -> (String, Vec<String>) {
    let (mut log, mut cursor) = (Vec::new(), None);
    loop {
        let query = EventQuery { cursor: cursor.clone(), limit: Some(10_000), ..EventQuery::default() };
        // A node that has not adopted the history yet refuses.
        let page = eventually("a page", async || client.events(thread, &query).await.ok()).await;
        for event in &page.events {
            let body: Value = serde_json::from_str(event.event.get()).expect("JSON");
            bodies.note(thread, &page.epoch, event.seq, &body.to_string());
            log.push(body.to_string());
            assert_eq!(event.seq, log.len() as u64, "dense");
        }
        if page.events.is_empty() {
            return (page.epoch, log);
        }
        cursor = Some(page.next_cursor);
    }
}

/// Readers of one thread: a socket, an event stream and a long-poll.
struct LostReader {
    tail: threadline_client::Tail,
    stream: reqwest::Response,
    poll: tokio::task::JoinHandle<(u16, Value)>,
}

impl LostReader {
    /// Returns once the thread is followed by all three; with this reader, `polls` long-polls wait.
    async fn start(url: &str, thread: &str, polls: usize) -> Self {
        let client = Client::new(ClientConfig::new(url)).expect("a client");
        let mut tail = client.tail(thread, TailOptions::default());
        let mut epoch = None;
        loop {
            match tail.next().await.expect("an item").expect("no end") {
                TailItem::Hello { epoch: told, .. } => epoch = Some(told),
                TailItem::CaughtUp(_) => break,
                item => panic!("{item:?}"),
            }
        }
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client");
        let events = format!("{url}/v1/threads/{thread}/events");
        let mut stream = http.get(&events).header("accept", "text/event-stream").send().await.expect("an answer");
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains("event: caught_up") {
            seen.extend_from_slice(&stream.chunk().await.expect("reads").expect("no end"));
        }
        let epoch = epoch.expect("hello comes first");
        let request = http.get(format!("{events}?after=0&epoch={epoch}&wait=60"));
        let poll = tokio::spawn(async move {
            let answer = request.send().await.expect("an answer");
            (answer.status().as_u16(), answer.json().await.expect("JSON"))
        });
        let list = format!("{url}/v1/threads/{thread}/subscriptions");
        eventually("the long-poll waits", async || {
            let list: Value = http.get(&list).send().await.ok()?.json().await.ok()?;
            let waiting = list["subscriptions"].as_array()?.iter().filter(|entry| entry["transport"] == "long-poll");
            (waiting.count() >= polls).then_some(())
        })
        .await;
        Self { tail, stream, poll }
    }

    async fn learns_of_the_loss(mut self) {
        let error = loop {
            match self.tail.next().await.expect("an item") {
                Ok(TailItem::Reconnecting { error, .. }) => panic!("{error}"),
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        let problem = error.problem("log-replaced").unwrap_or_else(|| panic!("{error}"));
        assert_eq!((&problem.facts["commonUpTo"], &problem.facts["epoch"]), (&Value::Null, &Value::Null));
        let mut rest = Vec::new();
        while let Some(piece) = self.stream.chunk().await.expect("reads") {
            rest.extend_from_slice(&piece);
        }
        let rest = String::from_utf8_lossy(&rest).into_owned();
        let ended = rest.split("event: ended\ndata: ").nth(1).unwrap_or_else(|| panic!("{rest}"));
        let ended: Value = serde_json::from_str(ended.trim()).expect("JSON");
        assert_eq!((&ended["reason"], &ended["commonUpTo"]), (&json!("log-replaced"), &Value::Null), "{ended}");
        let (status, problem) = self.poll.await.expect("answered");
        assert_eq!((status, &problem["commonUpTo"]), (410, &Value::Null), "{problem}");
    }
}

/// Waits until the node answers that it is ready.
async fn ready(node: &Server) {
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).timeout(PATIENCE).build().expect("a client");
    eventually("the node is ready", async || {
        let answer = http.get(format!("{}/readyz", node.url)).send().await.ok()?;
        (answer.status() == 200).then_some(())
    })
    .await;
}

/// Waits until each producer has so many more answers.
async fn progress(producers: &[Producer], more: usize) {
    let goals: Vec<usize> = producers.iter().map(|producer| producer.count() + more).collect();
    eventually("the producers progress", async || {
        producers.iter().zip(&goals).all(|(producer, goal)| producer.count() >= *goal).then_some(())
    })
    .await;
}

/// Checks that of the acknowledged appends only those are missing that the standby could not have; returns their number.
fn lost(acknowledged: &[Acknowledged], log: &[String]) -> usize {
    let first = acknowledged.first().expect("an append").epoch.clone();
    let is_there = |append: &Acknowledged| {
        let from = append.first_seq as usize - 1;
        log.get(from..from + append.events.len()) == Some(&append.events[..])
    };
    let missing: Vec<_> = acknowledged.iter().filter(|append| !is_there(append)).collect();
    for append in &missing {
        assert!(!append.safe && append.epoch == first, "acknowledged by a history that went on: {append:?}");
    }
    missing.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_seq_has_two_bodies_after_a_failover_that_loses_commits() {
    let pair = block_in_place(Pair::start);
    let cluster = block_in_place(|| pair.cluster(2));
    let (a, b) = (cluster.client(0), cluster.client(1));
    let (bodies, lags) = (Arc::<Bodies>::default(), Arc::<AtomicBool>::default());
    let follow = |thread: &str| {
        let on = |node: &Server| Follower::start(&node.url, thread, &bodies);
        cluster.nodes.iter().map(on).collect::<Vec<_>>()
    };
    let mut producers = Vec::new();
    let mut readers = Vec::new();
    let names: Vec<String> = (0..4).map(|n| format!("busy-{n}")).collect();
    for (n, thread) in names.iter().enumerate() {
        running(&a, thread).await;
        readers.push(follow(thread));
        producers.push(Producer::start(&cluster.nodes[n % 2].url, thread, "r", &bodies, &lags));
    }
    for thread in ["quiet", "cut", "idle"] {
        make_thread(&a, thread).await;
    }
    let mut quiet = a.run("quiet", long("r")).await.expect("starts");
    quiet.append(numbered(1..=3)).await.expect("appends");
    quiet.finish().await.expect("finishes");
    let mut cut = b.run("cut", long("r")).await.expect("starts");
    cut.append(numbered(1..=5)).await.expect("appends");
    let (quiet_readers, cut_readers) = (follow("quiet"), follow("cut"));
    let all_see = async |readers: &[Follower], events: usize| {
        let all = || readers.iter().all(|reader| reader.view().seen.len() >= events);
        eventually("the readers see it", async || all().then_some(())).await;
    };
    all_see(&quiet_readers, 4).await;
    all_see(&cut_readers, 5).await;
    progress(&producers, 20).await;

    lags.store(true, SeqCst);
    block_in_place(|| pair.lag());
    cut.append(numbered(6..=7)).await.expect("appends");
    let _held = append_and_hold(&cluster.nodes[1].url, "cut", "r", 8, &word(8)).await;
    all_see(&cut_readers, 8).await;
    progress(&producers, 20).await;
    make_thread(&a, "lost").await;
    let mut lost_readers = Vec::new();
    for (node, polls) in cluster.nodes.iter().zip(1..) {
        lost_readers.push(LostReader::start(&node.url, "lost", polls).await);
    }
    drop(b.run("idle", long("lost")).await.expect("starts"));
    let key_of = |thread: &str| format!("SELECT key FROM threads WHERE id = '{thread}'");
    let fence_of =
        |thread: &str| format!("SELECT h.fence FROM heads h, threads t WHERE t.key = h.key AND t.id = '{thread}'");
    let (lost_key, lost_fence) = (pair.before(&key_of("lost")), pair.before(&fence_of("idle")));
    let epoch = cut_readers[0].view().epoch.expect("known");
    block_in_place(|| pair.fail_over());

    let begun = Instant::now();
    eventually("the history is adopted", async || (pair.after("SELECT count(*) FROM lineage") > 1).then_some(())).await;
    for node in &cluster.nodes {
        ready(node).await;
    }
    println!("all nodes were ready {:?} after the address led to the standby", begun.elapsed());
    // Whoever has seen what was lost is told, though nothing was written since.
    for reader in &cut_readers {
        eventually("the reader is told", async || (!reader.view().replaced.is_empty()).then_some(())).await;
        assert_eq!((reader.view().replaced, reader.view().rebased), (vec![(8, 5)], vec![]));
    }
    // The readers of a thread that was lost as a whole are not told that somebody has deleted it.
    for reader in lost_readers {
        in_time(PATIENCE, "the readers are told", reader.learns_of_the_loss()).await;
    }
    // A browser comes again by the id of the last event alone.
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).timeout(PATIENCE).build().expect("a client");
    for (node, (seq, status)) in cluster.nodes.iter().flat_map(|node| [(node, (8, 410)), (node, (5, 200))]) {
        let stream = http.get(format!("{}/v1/threads/cut/events", node.url)).header("accept", "text/event-stream");
        let answer = stream.header("last-event-id", format!("{epoch}:{seq}")).send().await.expect("an answer");
        assert_eq!(answer.status(), status, "after {seq}");
    }
    // Nothing that was lost is given to a new reader from memory.
    let new_readers = follow("cut");
    for reader in &new_readers {
        eventually("the end is reached", async || (reader.view().caught_up > 0).then_some(())).await;
        assert_eq!(reader.view().seen.len(), 5);
    }
    for client in [&a, &b] {
        let at = |after| EventQuery { after: Some(after), epoch: Some(epoch.clone()), ..EventQuery::default() };
        let error = client.events("cut", &at(8)).await.expect_err("it saw what was lost");
        assert_eq!(error.problem("log-replaced").expect("a 410").facts["commonUpTo"], 5);
        assert!(client.events("cut", &at(5)).await.expect("a page").events.is_empty());
        let epoch = Epoch::parse(&epoch).expect("an epoch");
        let cursor = |seq| Cursor::new(CursorKind::Events, epoch, seq).to_string();
        let at = |seq| EventQuery { cursor: Some(cursor(seq)), ..EventQuery::default() };
        let error = client.events("cut", &at(8)).await.expect_err("it saw what was lost");
        assert_eq!(error.problem("log-replaced").expect("a 410").facts["commonUpTo"], 5);
        assert!(client.events("cut", &at(5)).await.expect("a page").events.is_empty());
        let gone = client.events("lost", &EventQuery::default()).await.expect_err("lost");
        assert!(gone.problem("thread-not-found").is_some(), "{gone}");
    }
    progress(&producers, 20).await;
    // A reader of a log that lost nothing is told only with the first event after the failover.
    for reader in &quiet_readers {
        let view = reader.view();
        assert_eq!((view.seen.len(), view.replaced, view.rebased), (4, vec![], vec![]));
    }
    b.run("quiet", options("s")).await.expect("starts").finish().await.expect("finishes");
    all_see(&quiet_readers, 5).await;
    for reader in &quiet_readers {
        let view = reader.view();
        assert_eq!((view.seen, view.replaced, view.rebased), (whole(&a, "quiet", &bodies).await.1, vec![], vec![4]));
    }

    let (mut missing, mut told) = (0, 0);
    for ((thread, producer), readers) in names.iter().zip(producers).zip(&readers) {
        let acknowledged = producer.end().await;
        let (epoch, log) = whole(&b, thread, &bodies).await;
        missing += lost(&acknowledged, &log);
        all_see(readers, log.len()).await;
        for reader in readers {
            let view = reader.view();
            assert!(view.seen == log && view.epoch == Some(epoch.clone()), "{thread}");
            assert!(view.replaced.len() <= 1, "{:?}", view.replaced);
            told += view.replaced.len();
        }
    }
    println!("{missing} appends were lost, {told} readers were told, {} places were compared", bodies.count());
    assert!(missing > 0 && told > 0, "the standby did not lag");

    // One generation, whoever adopted it, and nothing of the lost history is given again.
    assert_eq!(pair.after("SELECT max(generation) FROM lineage"), 2);
    make_thread(&a, "later").await;
    b.run("idle", long("later")).await.expect("free").finish().await.expect("finishes");
    assert!(pair.after(&key_of("later")) > lost_key.max(1 << 40), "{lost_key}");
    assert!(pair.after(&fence_of("idle")) > lost_fence.max(1 << 32), "{lost_fence}");
}

/// A node that has looked the run up before learns of the loss only from the append.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_to_a_run_whose_start_was_lost_names_the_run_and_not_the_thread() {
    let (postgres, name, cluster) = block_in_place(|| Cluster::apart(1));
    let client = cluster.client(0);
    running(&client, "t").await;
    let event = || EventBody::Ndjson("{\"type\":\"X\"}\n".into());
    client.append("t", "r", Some(1), event()).await.expect("appends");
    let loss = "DELETE FROM runs; DELETE FROM turns; UPDATE heads SET active = FALSE, run = NULL, fence = 0";
    block_in_place(|| loss.split("; ").for_each(|statement| drop(postgres.psql(&name, statement))));
    let refused = client.append("t", "r", Some(2), event()).await.expect_err("the run is not there");
    assert!(refused.problem("run-not-found").is_some(), "{refused}");
    assert_eq!(client.thread("t").await.expect("the thread is there").thread_id, "t");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_that_is_put_back_under_living_nodes_is_another_history() {
    let (postgres, name, cluster) = block_in_place(|| Cluster::apart(2));
    let (bodies, lags) = (Arc::<Bodies>::default(), Arc::<AtomicBool>::default());
    running(&cluster.client(0), "t").await;
    let readers: Vec<_> = cluster.nodes.iter().map(|node| Follower::start(&node.url, "t", &bodies)).collect();
    let producers = [Producer::start(&cluster.nodes[0].url, "t", "r", &bodies, &lags)];
    progress(&producers, 10).await;
    lags.store(true, SeqCst);
    block_in_place(|| postgres.keep());
    // Each node commits a beat that the copy does not have.
    let beats = || postgres.psql(&name, "SELECT min(beat) FROM nodes").parse::<i64>().expect("a number");
    let before = beats();
    eventually("beats", async || (beats() > before + 1).then_some(())).await;
    progress(&producers, 10).await;
    block_in_place(|| postgres.put_back());
    eventually("it is found", async || (postgres.psql(&name, "SELECT count(*) FROM lineage") == "2").then_some(()))
        .await;
    assert_eq!(postgres.psql(&name, "SELECT cause FROM lineage WHERE generation = 2"), "rolled-back");
    progress(&producers, 10).await;
    let [producer] = producers;
    let acknowledged = producer.end().await;
    let (_, log) = whole(&cluster.client(1), "t", &bodies).await;
    assert!(lost(&acknowledged, &log) > 0, "nothing was put back");
    for reader in &readers {
        eventually("the reader has it all", async || (reader.view().seen.len() >= log.len()).then_some(())).await;
        assert!(reader.view().seen == log);
        assert_eq!(reader.view().replaced.len(), 1, "{:?}", reader.view().replaced);
    }
    assert_eq!(postgres.psql(&name, "SELECT count(*) FROM lineage"), "2", "two nodes open one generation");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_deleted_and_revoked_stays_so_after_a_loss_of_commits() {
    let pair = block_in_place(Pair::start);
    let cluster = block_in_place(|| pair.cluster(2));
    let (a, b) = (cluster.client(0), cluster.client(1));
    let created = a.create_key(&json!({ "keyId": "stolen" })).await.expect("a key");
    let key = created["key"].as_str().expect("its text").to_owned();
    for thread in ["deleted", "kept"] {
        make_thread(&a, thread).await;
    }
    let mut config = ClientConfig::new(&cluster.nodes[0].url);
    config.user = Some("erased".to_owned());
    let erased = Client::new(config).expect("a client");
    make_thread(&erased, "private").await;

    block_in_place(|| pair.lag());
    a.delete_thread("deleted", None).await.expect("deleted");
    a.revoke_key("stolen", false).await.expect("revoked");
    a.sign_out_user("alice").await.expect("signed out");
    b.erase_user("erased").await.expect("erased");
    b.put_project("default", &json!({ "limits": { "subscriptionsPerSocket": 77 } })).await.expect("set");
    let thread = |id: &str| format!("SELECT count(*) FROM threads WHERE id = '{id}' AND deleted = 0");
    let revoked = "SELECT count(*) FROM api_keys WHERE revoked_at IS NOT NULL";
    let set = "SELECT count(*) FROM projects WHERE settings LIKE '%77%'";
    // Cutoffs of the user who was signed out, and of the one who was erased.
    let signed_out = "SELECT count(*) FROM cutoffs";
    let state = |ask: &dyn Fn(&str) -> i64| {
        let threads = [thread("deleted"), thread("kept"), thread("private")].map(|sql| ask(&sql));
        (threads, [revoked, set, signed_out].map(ask))
    };
    assert_eq!(state(&|sql| pair.before(sql)), ([0, 1, 0], [1, 1, 2]));
    assert_eq!(state(&|sql| pair.after(sql)), ([1, 1, 1], [0, 0, 0]), "the standby has none of it");
    block_in_place(|| pair.fail_over());
    eventually("they are carried out again", async || {
        (state(&|sql| pair.after(sql)) == ([0, 1, 0], [1, 1, 2])).then_some(())
    })
    .await;
    for node in &cluster.nodes {
        ready(node).await;
        let mut config = ClientConfig::new(&node.url);
        config.api_key = Some(key.clone());
        let stolen = Client::new(config).expect("a client");
        eventually("the key is refused", async || stolen.keys().await.is_err().then_some(())).await;
    }
    let gone = b.events("deleted", &EventQuery::default()).await.expect_err("deleted");
    assert!(gone.problem("thread-not-found").is_some(), "{gone}");
}

/// An agent that says what the test tells it to.
struct Agent {
    url: String,
    calls: mpsc::UnboundedReceiver<mpsc::UnboundedSender<Value>>,
}

impl Agent {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let url = format!("http://{}/", listener.local_addr().expect("bound"));
        let (called, calls) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (words, said) = mpsc::unbounded_channel();
                tokio::spawn(answer(socket, said, called.clone(), words));
            }
        });
        Self { url, calls }
    }

    /// The next call, for a run that this starts.
    async fn call(&mut self, client: &Client, thread: &str) -> (String, mpsc::UnboundedSender<Value>) {
        make_thread(client, thread).await;
        let start = StartRun { agent_id: Some("told".into()), ..agent_run("Hello") };
        let run = client.start_run(thread, &start).await.expect("starts").run.run_id;
        (run, in_time(PATIENCE, "a call", self.calls.recv()).await.expect("a call"))
    }
}

async fn answer(
    mut socket: TcpStream,
    mut said: mpsc::UnboundedReceiver<Value>,
    called: mpsc::UnboundedSender<mpsc::UnboundedSender<Value>>,
    words: mpsc::UnboundedSender<Value>,
) {
    let mut request = Vec::new();
    // The body is JSON, and nothing follows it.
    while !request.ends_with(b"}") {
        if socket.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    socket.write_all(head.as_bytes()).await.expect("writes");
    called.send(words).expect("the test waits");
    while let Some(event) = said.recv().await {
        if socket.write_all(format!("data: {event}\n\n").as_bytes()).await.is_err() {
            return;
        }
    }
}

fn word(n: u64) -> Value {
    json!({ "type": "CUSTOM", "name": "n", "value": n })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_driven_run_ends_if_the_store_has_lost_its_events_and_continues_otherwise() {
    let pair = block_in_place(Pair::start);
    let mut agent = Agent::start().await;
    let mut cluster = pair.cluster(0);
    let mut command = cluster.command(&cluster.database, &cluster.redis.url());
    command.arg(format!("--agent=told={}", agent.url));
    cluster.nodes.push(block_in_place(|| Server::start(command)));
    let client = cluster.client(0);
    let (lost, lost_says) = agent.call(&client, "lost").await;
    let (kept, kept_says) = agent.call(&client, "kept").await;
    let has = async |thread: &str, n: u64| {
        eventually("the event is stored", async || {
            let end = format!("\"value\":{n}}}");
            log(&client, thread).await.iter().any(|line| line.ends_with(&end)).then_some(())
        })
        .await;
    };
    for (thread, says) in [("lost", &lost_says), ("kept", &kept_says)] {
        says.send(word(1)).expect("it listens");
        has(thread, 1).await;
    }
    block_in_place(|| pair.lag());
    lost_says.send(word(2)).expect("it listens");
    has("lost", 2).await;
    block_in_place(|| pair.fail_over());
    eventually("the history is adopted", async || (pair.after("SELECT count(*) FROM lineage") > 1).then_some(())).await;
    ready(&cluster.nodes[0]).await;
    lost_says.send(word(3)).expect("it listens");
    kept_says.send(word(3)).expect("it listens");
    kept_says.send(json!({ "type": "RUN_FINISHED", "threadId": "kept", "runId": kept })).expect("it listens");

    let run = in_time(PATIENCE, "it ends", ended(&client, "lost", &lost)).await;
    assert_eq!((run.status, run.error_code.as_deref()), (RunStatus::Error, Some("history-lost")));
    let lines = log(&client, "lost").await;
    assert_eq!(lines.last().map(|line| kind(line)).as_deref(), Some("RUN_ERROR"));
    assert!(!lines.iter().any(|line| line.ends_with("\"value\":3}")), "no event after one that is missing: {lines:?}");
    let run = in_time(PATIENCE, "it ends", ended(&client, "kept", &kept)).await;
    assert_eq!((run.status, run.error_code), (RunStatus::Finished, None));
    has("kept", 1).await;
    has("kept", 3).await;
}
