//! Nodes that die, stand still, or are replaced one after the other.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use threadline_client::{Client, RunStatus, StartRun};
use threadline_core::NewEvents;
use tokio::time::{self, Instant};

use crate::cluster::*;

/// By when a run whose node was lost is driven by another one: the age of a beat, and 3 s.
const TAKEN_OVER: Duration = Duration::from_secs(4 + 3);

/// The second attempt of a run has begun.
async fn second_attempt(client: &Client, thread: &str, run: &str) {
    eventually("another attempt", async || {
        let now = client.run_record(thread, run).await.ok()?;
        (now.attempt == 2).then_some(())
    })
    .await;
}

/// The second attempt has said some words.
async fn speaks_again(reader: &mut Reader) {
    let words = |seen: &[String]| {
        let after = seen.iter().skip_while(|line| !line.contains("threadline.attempt"));
        after.filter(|line| kind(line) == "TEXT_MESSAGE_CONTENT").count()
    };
    while words(&reader.seen) < 10 {
        reader.reads(reader.seen.len() + 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_producer_continues_at_another_node_when_its_own_is_killed() {
    let mut cluster = Cluster::start(2);
    let balancer = cluster.balancer().await;
    let client = client(&balancer.url);
    make_thread(&client, "t").await;
    let mut reader = Reader::open(&client, "t");
    let mut producer = client.run("t", options("r")).await.expect("starts");
    for batch in 0..40u64 {
        if batch == 20 {
            cluster.nodes[0].kill();
            balancer.set(vec![address(&cluster.nodes[1].url)]);
        }
        // An append whose answer was lost is sent again, with the same number.
        producer.append(numbered(batch * 5 + 1..=batch * 5 + 5)).await.expect("appends");
    }
    producer.finish().await.expect("finishes");
    in_time(PATIENCE, "the reader has it all", reader.reads(201)).await;
    let log = log(&client, "t").await;
    assert_eq!(reader.seen, log);
    for (n, line) in (1..=200).zip(&log) {
        assert!(line.ends_with(&format!("\"value\":{n}}}")), "{n}: {line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_of_a_killed_node_are_taken_over_or_ended_by_another() {
    let mut cluster = Cluster::start(2);
    let (a, b) = (cluster.client(0), cluster.client(1));
    make_thread(&a, "agent").await;
    make_thread(&a, "producer").await;
    let mut reader = Reader::open(&b, "agent");
    let run = a.start_run("agent", &agent_run("long")).await.expect("starts").run.run_id;
    let mut producer = a.run("producer", options("r")).await.expect("starts");
    producer.append(numbered(1..=3)).await.expect("appends");
    in_time(PATIENCE, "the agent speaks", reader.reads(8)).await;
    cluster.nodes[0].kill();
    let killed = Instant::now();
    let record = in_time(ENDED, "another node ends it", ended(&b, "producer", "r")).await;
    assert_eq!((record.status, record.error_code.as_deref()), (RunStatus::Error, Some("lease-expired")));
    assert_eq!(log(&b, "producer").await.last().map(|line| kind(line)).as_deref(), Some("RUN_ERROR"));
    in_time(TAKEN_OVER, "another node takes it over", second_attempt(&b, "agent", &run)).await;
    println!("the agent's run was taken over after {:?}", killed.elapsed());
    in_time(PATIENCE, "the agent speaks again", speaks_again(&mut reader)).await;
    b.stop("agent", &run).await.expect("stops");
    let record = in_time(PATIENCE, "the answer ends", ended(&b, "agent", &run)).await;
    assert_eq!((record.status, record.attempt), (RunStatus::Stopped, 2));
    let log = log(&b, "agent").await;
    let attempts = log.iter().filter(|line| line.contains("threadline.attempt")).count();
    assert_eq!((attempts, log.last().map(|line| kind(line)).as_deref()), (1, Some("RUN_FINISHED")));
    // The conversation has the second of the two attempts.
    let messages = b.messages("agent", None).await.expect("messages").messages;
    assert_eq!(messages.iter().filter(|said| said["role"] == "assistant").count(), 1);
    // The thread is free, and its lock blocks no run.
    b.run("agent", options("next")).await.expect("starts").finish().await.expect("finishes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_continues_keeps_what_its_killed_node_had_completed() {
    let mut cluster = Cluster::start(2);
    let (a, b) = (cluster.client(0), cluster.client(1));
    make_thread(&a, "t").await;
    let definition = json!({ "kind": "demo", "recovery": "continue" });
    let made = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client");
    let made = made.put(format!("{}/v1/agents/steps", cluster.nodes[0].url)).json(&definition).send().await;
    assert!(made.expect("an answer").status().is_success());
    let mut reader = Reader::open(&b, "t");
    let start = StartRun { agent_id: Some("steps".into()), ..agent_run("some words") };
    let run = a.start_run("t", &start).await.expect("starts").run.run_id;
    // Reasoning and a tool call with its result come before the answer.
    let answers = async {
        while !reader.seen.iter().any(|line| kind(line) == "TEXT_MESSAGE_CONTENT") {
            reader.reads(reader.seen.len() + 1).await;
        }
    };
    in_time(PATIENCE, "the agent answers", answers).await;
    cluster.nodes[0].kill();
    let record = in_time(PATIENCE, "another node goes on", ended(&b, "t", &run)).await;
    assert_eq!((record.status, record.attempt), (RunStatus::Finished, 2));
    let log = log(&b, "t").await;
    let named = log.iter().find(|line| line.contains("threadline.attempt")).expect("the second attempt");
    let named: Value = serde_json::from_str(&named[named.find('{').expect("an event")..]).expect("JSON");
    assert_eq!((&named["value"]["reason"], &named["value"]["unverified"]), (&json!("node-lost"), &json!([])));
    let kept = named["value"]["kept"].as_array().expect("ids").clone();
    let messages = b.messages("t", None).await.expect("messages").messages;
    let ids: Vec<_> = messages.iter().map(|message| message["id"].clone()).collect();
    assert_eq!((kept.len(), &kept[..]), (3, &ids[1..4]), "{ids:?}");
    let answers = messages.iter().filter(|said| said["role"] == "assistant" && said["content"].is_string());
    assert_eq!(answers.count(), 1);
}

/// The end of a run begins the next turn in its commit, so the turn is there for another node, however soon the first one dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_begins_though_the_node_that_ended_the_run_dies() {
    let mut cluster = Cluster::start(2);
    let (a, b) = (cluster.client(0), cluster.client(1));
    make_thread(&a, "t").await;
    let mut producer = a.run("t", options("first")).await.expect("starts");
    producer.append(numbered(1..=3)).await.expect("appends");
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client");
    let ask = |run: &str| {
        let input = json!({ "messages": [{ "role": "user", "content": "word" }] });
        let body = json!({ "runId": run, "agentId": "demo", "input": input, "busy": "enqueue" });
        http.post(format!("{}/v1/threads/t/runs", cluster.nodes[1].url)).json(&body).send()
    };
    for run in ["second", "third"] {
        let queued = ask(run).await.expect("an answer");
        assert_eq!(queued.status(), 202, "{:?}", queued.text().await);
    }
    producer
        .append(NewEvents::from_array(br#"[{"type":"RUN_FINISHED","threadId":"t","runId":"first"}]"#).expect("events"))
        .await
        .expect("ends");
    cluster.nodes[0].kill();
    let answered = async {
        for run in ["second", "third"] {
            let record = ended(&b, "t", run).await;
            assert_eq!(record.status, RunStatus::Finished, "{record:?}");
        }
    };
    in_time(TAKEN_OVER + PATIENCE, "both are answered", answered).await;
    let log = log(&b, "t").await;
    let runs: Vec<_> = log.iter().filter(|line| kind(line) == "RUN_STARTED").collect();
    assert!(runs[0].contains("second") && runs[1].contains("third") && runs.len() == 2, "{runs:?}");
    let messages = b.messages("t", None).await.expect("messages").messages;
    assert_eq!(messages.iter().filter(|said| said["role"] == "user").count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_paused_is_fenced_when_it_resumes() {
    let cluster = Cluster::start(2);
    let (a, b) = (cluster.client(0), cluster.client(1));
    make_thread(&b, "t").await;
    let run = a.start_run("t", &agent_run("long")).await.expect("starts").run.run_id;
    let mut reader = Reader::open(&b, "t");
    in_time(PATIENCE, "the agent speaks", reader.reads(8)).await;
    cluster.nodes[0].signal(Signal::SIGSTOP);
    in_time(TAKEN_OVER, "the other node takes it over", second_attempt(&b, "t", &run)).await;
    // The node wakes in the middle of an attempt that is no longer its own, with unwritten words of the old one.
    cluster.nodes[0].signal(Signal::SIGCONT);
    in_time(PATIENCE, "the agent speaks again", speaks_again(&mut reader)).await;
    b.stop("t", &run).await.expect("stops");
    let record = in_time(PATIENCE, "the answer ends", ended(&b, "t", &run)).await;
    assert_eq!((record.status, record.attempt), (RunStatus::Stopped, 2));
    let log = log(&b, "t").await;
    let at = log.iter().position(|line| line.contains("threadline.attempt")).expect("the second attempt");
    // One whole answer of the demo, and nothing of the first attempt in it.
    let after = |name: &str| log[at..].iter().filter(|line| kind(line) == name).count();
    assert_eq!((after("TEXT_MESSAGE_START"), after("TEXT_MESSAGE_END"), after("RUN_FINISHED")), (1, 1, 1));
    let mut next = b.run("t", options("next")).await.expect("starts");
    next.append(numbered(1..=3)).await.expect("the only writer");
    next.finish().await.expect("finishes");
    // And it serves again.
    assert_eq!(self::log(&a, "t").await, self::log(&b, "t").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_replaced_one_by_one_under_load() {
    let mut cluster = Cluster::start(3);
    let balancer = Arc::new(cluster.balancer().await);
    let client = client(&balancer.url);
    let threads: Vec<_> = (0..6).map(|n| format!("t{n}")).collect();
    let done = Arc::new(AtomicBool::new(false));
    let mut producers = Vec::new();
    let mut readers = Vec::new();
    for thread in &threads {
        make_thread(&client, thread).await;
        let mut reader = Reader::open(&client, thread);
        reader.caught_up().await;
        readers.push(reader);
        let (client, thread, done) = (client.clone(), thread.clone(), done.clone());
        producers.push(tokio::spawn(async move {
            let (mut runs, mut appended) = (0u64, 0u64);
            while !done.load(SeqCst) {
                runs += 1;
                let mut producer = client.run(&thread, leased(&format!("r{runs}"))).await.expect("starts");
                for _ in 0..20 {
                    producer.append(numbered(appended + 1..=appended + 3)).await.expect("appends");
                    appended += 3;
                    time::sleep(Duration::from_millis(5)).await;
                }
                producer.finish().await.expect("finishes");
            }
            (appended + runs) as usize
        }));
    }
    for node in 0..3 {
        let started = cluster.node();
        let mut old = std::mem::replace(&mut cluster.nodes[node], started);
        balancer.set(cluster.addresses());
        old.signal(Signal::SIGTERM);
        let mut ended = None;
        // The readers read on all the while.
        let read = async {
            loop {
                for reader in &mut readers {
                    let _ = time::timeout(Duration::from_millis(10), reader.reads(reader.seen.len() + 1)).await;
                }
                ended = old.wait(Duration::ZERO);
                if ended.is_some() {
                    return;
                }
            }
        };
        in_time(PATIENCE, "the old node ends", read).await;
        assert!(ended.is_some_and(|status| status.success()), "a drain is a good end");
    }
    done.store(true, SeqCst);
    let mut drained = 0;
    for ((thread, producer), mut reader) in threads.iter().zip(producers).zip(readers) {
        let events = in_time(PATIENCE, "the producer ends", producer).await.expect("no panic");
        in_time(PATIENCE, "the reader has it all", reader.reads(events)).await;
        assert_eq!(reader.seen, log(&client, thread).await);
        assert!(reader.closed_with.iter().all(|code| *code == 4000), "{:?}", reader.closed_with);
        drained += reader.closed_with.len();
    }
    println!("{drained} readers were sent to other nodes");
    assert!(drained >= 6, "each of the first nodes had readers, and sent them the reason: {drained}");
}
