//! The queue: words for a busy thread wait, and their runs begin one after the other.

use std::sync::atomic::Ordering::SeqCst;

use threadline_http::egress::Network;

use super::*;
use crate::{
    harness::{Backend, Options, Server, agent::Call, everywhere, intercept::Failing, run, sse::Events},
    identity::bearer,
};

/// The body of a start that waits if the thread is busy.
fn wait(run: &str, content: &str) -> Value {
    let mut body = ask(run, json!([{ "role": "user", "content": content }]));
    body["busy"] = json!("enqueue");
    body
}

async fn enqueue(client: &Client, run: &str, content: &str) -> Value {
    client.post("/v1/threads/t/runs", wait(run, content)).await.ok(202)["queued"].clone()
}

async fn queue(client: &Client) -> Value {
    client.get("/v1/threads/t/queue").await.ok(200)
}

/// Runs that wait, in their order.
async fn order(client: &Client) -> Vec<String> {
    let queue = queue(client).await;
    queue["items"].as_array().expect("a list").iter().map(|item| text(item, "runId").to_owned()).collect()
}

/// A thread in which run `first` is active, and the call of its agent.
async fn busy(client: &Client) -> (FakeAgent, Call) {
    client.thread("t").await;
    let agent = agent(client).await;
    client.post("/v1/threads/t/runs", wait("first", "hi")).await.ok(201);
    let call = agent.call().await;
    (agent, call)
}

/// The events of the thread, as they come.
async fn followed(client: &Client) -> Events {
    Events::open(client.request(Method::GET, "/v1/threads/t/events").header("accept", "text/event-stream")).await
}

/// The next news of the queue on a stream of events.
async fn news_of(events: &mut Events) -> Value {
    loop {
        let event = events.next().await.expect("an event");
        if event.event.as_deref() == Some("queue") {
            return event.json();
        }
    }
}

/// Types and ids of all events of a stream, to its end.
async fn data(events: &mut Events) -> Vec<(String, Option<String>)> {
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        if event.comment.is_none() {
            seen.push((text(&event.json(), "type").to_owned(), event.id));
        }
    }
    seen
}

fn contents(input: &Value) -> Vec<String> {
    input["messages"].as_array().expect("a list").iter().map(|message| text(message, "content").to_owned()).collect()
}

everywhere! {
    async fn what_is_said_to_a_busy_thread_is_answered_in_its_turn(server) {
        let dev = server.client();
        let (agent, call) = busy(&dev).await;
        let placed = enqueue(&dev, "a", "more").await;
        assert_eq!(placed, json!({ "runId": "a", "place": 1, "version": 1 }));
        assert_eq!(enqueue(&dev, "b", "and more").await["place"], 2);
        assert_eq!(enqueue(&dev, "a", "more").await, json!({ "runId": "a", "place": 1, "version": 2 }), "repeated");
        dev.post("/v1/threads/t/runs", wait("a", "else")).await.problem(409, "run-exists");
        dev.post("/v1/threads/t/runs", ask("c", json!([user("u", "x")]))).await.problem(409, "run-active");

        let waiting = dev.get("/v1/threads/t/runs/a").await.ok(200);
        assert_eq!((&waiting["status"], &waiting["place"], &waiting["agentId"]), (&json!("queued"), &json!(1), &json!("a")));
        let shown = queue(&dev).await;
        assert_eq!((&shown["version"], &shown["held"], order(&dev).await), (&json!(2), &json!(null), vec!["a".to_owned(), "b".to_owned()]));
        let said = &shown["items"][0];
        assert_eq!((&said["messages"][0]["content"], &said["askedBy"]), (&json!("more"), &json!("development")));
        let id = text(&said["messages"][0], "id").to_owned();
        let row = dev.get("/v1/threads/t").await.ok(200);
        assert_eq!((&row["queued"], &row["held"]), (&json!(2), &json!(null)));

        call.finish(&whole("first", "m1", "hello")).await;
        let call = agent.call().await;
        assert_eq!(contents(&call.input()), ["hi", "hello", "more"]);
        assert!(call.message_ids().contains(&id), "the message keeps its id");
        let begun = dev.get("/v1/threads/t/runs/a").await.ok(200);
        assert_eq!((&begun["status"], &begun["attempt"], &begun["author"]), (&json!("running"), &json!(1), &json!("agent:a")));
        assert_eq!(dev.post("/v1/threads/t/runs", wait("a", "more")).await.ok(200)["run"]["runId"], "a");
        assert_eq!(order(&dev).await, ["b"]);
        call.finish(&whole("a", "m2", "again")).await;
        agent.call().await.finish(&whole("b", "m3", "bye")).await;
        assert_eq!(ended(&dev, "b").await["status"], "finished");
        let document = messages(&dev).await;
        assert_eq!(contents(&document), ["hi", "hello", "more", "again", "and more", "bye"]);
        assert_eq!(dev.types("t").await.iter().filter(|kind| *kind == "RUN_STARTED").count(), 3);
        assert_eq!((agent.requests(), order(&dev).await.len()), (3, 0));
    }
}

everywhere! {
    async fn a_queue_is_edited_held_and_released(server) {
        let dev = server.client();
        let (agent, call) = busy(&dev).await;
        for run in ["a", "b", "c", "d"] {
            enqueue(&dev, run, run).await;
        }
        let path = |run: &str| format!("/v1/threads/t/queue/{run}");
        dev.patch(&path("d"), json!({ "before": "a" })).await.ok(200);
        dev.patch(&path("b"), json!({ "before": null })).await.ok(200);
        assert_eq!(order(&dev).await, ["d", "a", "c", "b"]);
        let version = queue(&dev).await["version"].clone();
        dev.patch(&path("a"), json!({ "before": "d", "version": 1 })).await.problem(412, "queue-changed");
        let input = json!({ "messages": [{ "role": "user", "content": "other words" }] });
        let edited = dev.patch(&path("d"), json!({ "input": input, "version": version })).await.ok(200);
        assert_eq!(edited["items"][0]["messages"][0]["content"], "other words");
        dev.patch(&path("d"), json!({ "before": "x" })).await.problem(404, "turn-not-found");
        dev.patch(&path("x"), json!({ "before": "a" })).await.problem(404, "turn-not-found");
        dev.patch(&path("d"), json!({ "input": { "messages": [{ "role": "banana" }] } })).await.problem(400, "invalid-request");
        dev.patch(&path("first"), json!({ "before": "a" })).await.problem(409, "turn-begun");
        dev.delete(&path("first")).await.problem(409, "turn-begun");
        assert_eq!(dev.delete(&path("a")).await.status, 204);
        assert_eq!(dev.delete(&path("a")).await.status, 204, "it is gone");

        assert_eq!(dev.post("/v1/threads/t/queue/hold", json!({})).await.ok(200)["held"], "hand");
        call.finish(&whole("first", "m1", "hello")).await;
        assert_eq!(ended(&dev, "first").await["status"], "finished");
        assert_eq!(order(&dev).await, ["d", "c", "b"]);
        assert_eq!(dev.get("/v1/threads/t").await.ok(200)["held"], "hand");
        assert_eq!(dev.post("/v1/threads/t/queue/release", json!({})).await.ok(200)["held"], json!(null));
        let call = agent.call().await;
        assert_eq!(contents(&call.input()), ["hi", "hello", "other words"]);

        // A turn that is started comes first, and the active run is stopped.
        dev.post(&format!("{}/start", path("b")), json!({})).await.ok(202);
        let after = agent.call().await;
        assert_eq!(contents(&after.input()).last().map(String::as_str), Some("b"));
        assert_eq!(ended(&dev, "d").await["status"], "stopped");
        drop(call);
        after.finish(&whole("b", "m2", "yes")).await;
        agent.call().await.finish(&whole("c", "m3", "bye")).await;
        assert_eq!(ended(&dev, "c").await["status"], "finished");
    }
}

everywhere! {
    async fn stops_and_errors_hold_what_is_queued(server) {
        let dev = server.client();
        let (agent, call) = busy(&dev).await;
        enqueue(&dev, "a", "a").await;
        dev.stop("t", "first").await;
        assert_eq!(ended(&dev, "first").await["status"], "stopped");
        drop(call);
        let held = queue(&dev).await;
        assert_eq!((&held["held"], order(&dev).await), (&json!("stop"), vec!["a".to_owned()]));
        // Into the free thread a start begins at once, and what is held stays.
        dev.post("/v1/threads/t/runs", wait("now", "now")).await.ok(201);
        let call = agent.call().await;
        call.finish(&whole("now", "m1", "yes")).await;
        assert_eq!(ended(&dev, "now").await["status"], "finished");
        assert_eq!(order(&dev).await, ["a"]);
        dev.post("/v1/threads/t/queue/release", json!({})).await.ok(200);
        let call = agent.call().await;
        enqueue(&dev, "b", "b").await;
        call.finish(&[json!({ "type": "RUN_ERROR", "message": "no", "code": "x" })]).await;
        assert_eq!(ended(&dev, "a").await["status"], "error");
        assert_eq!((queue(&dev).await["held"].clone(), order(&dev).await), (json!("error"), vec!["b".to_owned()]));

        // An interruption stops the active run and goes on.
        dev.post("/v1/threads/t/queue/release", json!({})).await.ok(200);
        let call = agent.call().await;
        enqueue(&dev, "c", "c").await;
        let mut body = wait("d", "d");
        body["busy"] = json!("interrupt");
        assert_eq!(dev.post("/v1/threads/t/runs", body).await.ok(202)["queued"]["place"], 1);
        let next = agent.call().await;
        assert_eq!(contents(&next.input()).last().map(String::as_str), Some("d"));
        assert_eq!(ended(&dev, "b").await["status"], "stopped");
        drop(call);
        next.finish(&whole("d", "m2", "yes")).await;
        agent.call().await.finish(&whole("c", "m3", "bye")).await;
        assert_eq!(ended(&dev, "c").await["status"], "finished");
    }
}

everywhere! {
    async fn a_queue_waits_for_answers_to_interrupts(server) {
        let dev = server.client();
        let (agent, call) = busy(&dev).await;
        enqueue(&dev, "a", "a").await;
        let asks = json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": "first",
            "outcome": { "type": "interrupt", "interrupts": [{ "id": "i", "reason": "x" }] } });
        call.finish(&[asks]).await;
        assert_eq!(ended(&dev, "first").await["status"], "finished");
        assert_eq!(order(&dev).await, ["a"]);
        assert_eq!(queue(&dev).await["held"], json!(null), "interrupts are no hold of their own");
        let mut answer = ask("answer", json!([]));
        answer["input"]["resume"] = json!([{ "interruptId": "i", "status": "resolved", "payload": {} }]);
        let mut waiting = answer.clone();
        waiting["busy"] = json!("enqueue");
        dev.post("/v1/threads/t/runs", waiting).await.problem(400, "invalid-request");
        dev.post("/v1/threads/t/runs", answer).await.ok(201);
        agent.call().await.finish(&whole("answer", "m1", "done")).await;
        agent.call().await.finish(&whole("a", "m2", "bye")).await;
        assert_eq!(ended(&dev, "a").await["status"], "finished");
    }
}

everywhere! {
    async fn a_producer_that_ends_its_run_begins_the_next_turn(server) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        dev.run("t", "pushed").await;
        enqueue(&dev, "a", "a").await;
        let events = json!([{ "type": "RUN_STARTED", "threadId": "t", "runId": "pushed" }, finished("pushed")]);
        let receipt = dev.append("t", "pushed", 1, events.clone()).await.ok(200);
        assert_eq!((&receipt["firstSeq"], &receipt["lastSeq"]), (&json!(1), &json!(2)));
        let call = agent.call().await;
        assert_eq!(dev.append("t", "pushed", 1, events).await.ok(200)["lastSeq"], 2, "a repetition finds its events");
        call.finish(&whole("a", "m1", "bye")).await;
        assert_eq!(ended(&dev, "a").await["status"], "finished");
        // The server ends runs for their producers by the same commit.
        dev.run("t", "other").await;
        enqueue(&dev, "b", "b").await;
        dev.act("t", "other", "finish").await.ok(200);
        agent.call().await.finish(&whole("b", "m2", "bye")).await;
        assert_eq!(ended(&dev, "b").await["status"], "finished");
    }
}

everywhere! {
    async fn an_ag_ui_client_waits_for_its_run(server) {
        let dev = server.client();
        let (agent, call) = busy(&dev).await;
        let ask = |run: &str, busy: &'static str| {
            agui(&dev, run, json!([user(run, run)])).header("threadline-busy", busy)
        };
        crate::harness::http::send(ask("x", "maybe")).await.problem(400, "invalid-request");
        crate::harness::http::send(ask("x", "reject")).await.problem(409, "run-active");
        let mut waits = Events::open(ask("a", "enqueue")).await;
        let mut gone = Events::open(ask("b", "enqueue")).await;
        assert_eq!(order(&dev).await, ["a", "b"]);
        assert_eq!(dev.delete("/v1/threads/t/queue/b").await.status, 204);
        assert_eq!(data(&mut gone).await, [("RUN_ERROR".to_owned(), None)]);
        call.finish(&whole("first", "m1", "hello")).await;
        agent.call().await.finish(&whole("a", "m2", "bye")).await;
        let seen = data(&mut waits).await;
        let types: Vec<_> = seen.iter().map(|(kind, _)| kind.as_str()).collect();
        let said = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"];
        assert_eq!(types, [&["RUN_STARTED"][..], &said, &["RUN_FINISHED"]].concat());
        assert!(seen.iter().all(|(_, id)| id.is_some()), "events of the log have an id: {seen:?}");
    }
}

everywhere! {
    async fn a_start_that_ends_the_run_before_holds_what_is_queued(server) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        dev.run("t", "pushed").await;
        enqueue(&dev, "a", "a").await;
        dev.append("t", "pushed", 1, json!([{ "type": "CUSTOM", "name": "x", "value": 1 }])).await.ok(200);
        // The lock is free, and the last events of the run do not come.
        dev.act("t", "pushed", "release").await.ok(200);
        dev.post("/v1/threads/t/runs", ask("now", json!([user("u", "now")]))).await.ok(201);
        agent.call().await.finish(&whole("now", "m1", "yes")).await;
        assert_eq!(ended(&dev, "now").await["status"], "finished");
        assert_eq!(ended(&dev, "pushed").await["errorCode"], "lock-released");
        assert_eq!((queue(&dev).await["held"].clone(), order(&dev).await), (json!("error"), vec!["a".to_owned()]));
    }
}

everywhere! {
    async fn a_queue_has_limits_and_goes_with_its_thread(server) {
        let dev = server.client();
        let (_agent, _call) = busy(&dev).await;
        for run in 0..32 {
            enqueue(&dev, &format!("r{run}"), "x").await;
        }
        dev.post("/v1/threads/t/runs", wait("more", "x")).await.problem(409, "queue-full");
        dev.delete("/v1/threads/t/queue/r0").await;
        dev.post("/v1/threads/t/runs", wait("large", &"x".repeat(1 << 20))).await.problem(409, "queue-full");
        enqueue(&dev, "fits", "x").await;
        let mut wrong = wait("w", "x");
        wrong["busy"] = json!("maybe");
        dev.post("/v1/threads/t/runs", wrong).await.problem(400, "invalid-request");
        dev.post("/v1/threads/t/runs", json!({ "busy": "enqueue" })).await.problem(400, "invalid-request");
        let feed = dev.get("/v1/feed").await.ok(200);
        let newest = feed["entries"].as_array().and_then(|entries| entries.last()).expect("an entry");
        assert_eq!(newest["thread"]["queued"], 32);
        assert_eq!(dev.delete("/v1/threads/t").await.status, 204);
        dev.get("/v1/threads/t/queue").await.problem(404, "thread-not-found");
        dev.thread("t").await;
        assert_eq!((order(&dev).await.len(), queue(&dev).await["version"].clone()), (0, json!(0)));
    }
}

everywhere! {
    async fn followers_are_told_of_the_queue(server) {
        let dev = server.client();
        let (_agent, call) = busy(&dev).await;
        let mut socket = server.socket("dev").await;
        socket.send(json!({ "id": "s", "subscribe": { "threadId": "t" } })).await;
        socket.until("caughtUp").await;
        enqueue(&dev, "a", "a").await;
        let (_, told) = socket.until("queue").await;
        assert_eq!((&told["threadId"], &told["version"], &told["queued"], &told["held"]), (&json!("t"), &json!(1), &json!(1), &json!(null)));
        assert_eq!(told["epoch"], json!(dev.epoch("t").await));
        // A later follower is told of what waits.
        let mut events = Events::open(dev.request(Method::GET, "/v1/threads/t/events").header("accept", "text/event-stream")).await;
        assert_eq!(news_of(&mut events).await["queued"], 1);
        dev.post("/v1/threads/t/queue/hold", json!({})).await.ok(200);
        assert_eq!(socket.until("queue").await.1["held"], "hand");
        assert_eq!(news_of(&mut events).await["held"], "hand");
        dev.delete("/v1/threads/t/queue/a").await;
        assert_eq!(socket.until("queue").await.1["queued"], 0);
        drop(call);
    }
}

/// A restart finds what waits, and the turn of the run that ended with the server.
#[tokio::test]
async fn a_queue_survives_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
    let dev = server.client();
    dev.thread("t").await;
    let agent = agent_that(&dev, json!({ "recovery": "none" })).await;
    dev.post("/v1/threads/t/runs", wait("first", "hi")).await.ok(201);
    let mut call = agent.call().await;
    call.say(&said("m", "half")[..2]).await;
    enqueue(&dev, "a", "a").await;
    server.stop().await;
    drop(call);
    let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
    let dev = server.client();
    assert_eq!(ended(&dev, "first").await["status"], "error");
    assert_eq!((order(&dev).await, queue(&dev).await["held"].clone()), (vec!["a".to_owned()], json!("error")));
    dev.post("/v1/threads/t/queue/release", json!({})).await.ok(200);
    agent.call().await.finish(&whole("a", "m1", "bye")).await;
    assert_eq!(ended(&dev, "a").await["status"], "finished");
    server.stop().await;
}

/// The commit that ends a run has begun the next turn, whether or not its answer arrives.
#[tokio::test]
async fn a_turn_begins_though_the_answer_to_the_end_was_lost() {
    run(Options::memory().with_glass(), async |server: &Server| {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        dev.run("t", "pushed").await;
        enqueue(&dev, "a", "a").await;
        server.intercept().fail(&[Failing::After]);
        dev.act("t", "pushed", "finish").await.problem(503, "store-unavailable");
        agent.call().await.finish(&whole("a", "m1", "bye")).await;
        assert_eq!(dev.act("t", "pushed", "finish").await.ok(200)["status"], "finished");
        assert_eq!((ended(&dev, "a").await["status"].clone(), agent.requests()), (json!("finished"), 1));
        // An end that failed has left nothing, and its repetition begins the next turn once.
        dev.run("t", "other").await;
        enqueue(&dev, "b", "b").await;
        server.intercept().fail(&[Failing::Before]);
        dev.act("t", "other", "finish").await.problem(503, "store-unavailable");
        assert_eq!(order(&dev).await, ["b"]);
        dev.act("t", "other", "finish").await.ok(200);
        agent.call().await.finish(&whole("b", "m2", "bye")).await;
        assert_eq!((ended(&dev, "b").await["status"].clone(), agent.requests()), (json!("finished"), 2));
    })
    .await;
}

/// A revoked key begins nothing: what it has asked for is dropped, and noted.
#[tokio::test]
async fn turns_of_a_revoked_key_are_dropped() {
    run(Options::memory().with_key("secret").with_agent_networks(vec![Network::Loopback]), async |server: &Server| {
        let dev = server.client();
        let body = json!({ "keyId": "k", "scopes": ["read", "chat"] });
        let made = server.project().post("/v1/keys", body).await.ok(201);
        let other = Client { key: Some(text(&made, "key").to_owned()), ..server.client() };
        dev.thread("t").await;
        let agent = super::agent(&server.project()).await;
        dev.post("/v1/threads/t/runs", wait("first", "hi")).await.ok(201);
        let call = agent.call().await;
        other.post("/v1/threads/t/runs", wait("a", "a")).await.ok(202);
        enqueue(&dev, "b", "b").await;
        server.project().delete("/v1/keys/k").await.ok(200);
        call.finish(&whole("first", "m1", "hello")).await;
        let call = agent.call().await;
        assert_eq!(contents(&call.input()).last().map(String::as_str), Some("b"));
        dev.get("/v1/threads/t/runs/a").await.problem(404, "run-not-found");
        let audit = server.project().get("/v1/audit").await.ok(200).to_string();
        assert!(audit.contains("turn.cancelled") && audit.contains("key-revoked"), "{audit}");
        call.finish(&whole("b", "m2", "bye")).await;
        assert_eq!(ended(&dev, "b").await["status"], "finished");
    })
    .await;
}

everywhere! {
    async fn a_users_token_neither_queues_an_answer_nor_edits_what_a_key_has_queued(server: |options| options.with_key("secret").with_agent_networks(vec![Network::Loopback])) {
        let agent = FakeAgent::start().await;
        server.project().put("/v1/agents/a", json!({ "url": agent.url, "approvals": "backend" })).await.ok(200);
        let made = server.project().post("/v1/tokens", json!({ "userId": "dev", "scopes": ["read", "chat"] })).await.ok(201);
        let (page, backend) = (bearer(server, text(&made, "token")), server.user("dev"));
        page.thread("t").await;
        page.post("/v1/threads/t/runs", ask("first", json!([user("u1", "hi")]))).await.ok(201);
        let call = agent.call().await;
        for answer in [
            json!({ "messages": [], "resume": [{ "interruptId": "i", "status": "resolved" }] }),
            json!({ "messages": [], "forwardedProps": { "command": { "resume": "yes" } } }),
        ] {
            let body = json!({ "runId": "answer", "agentId": "a", "busy": "enqueue", "input": answer });
            page.post("/v1/threads/t/runs", body).await.problem(400, "invalid-request");
            enqueue(&page, "own", "own words").await;
            page.patch("/v1/threads/t/queue/own", json!({ "input": answer })).await.problem(400, "invalid-request");
            assert_eq!(page.delete("/v1/threads/t/queue/own").await.status, 204);
        }
        enqueue(&backend, "of-key", "the backend's words").await;
        let words = json!({ "input": { "messages": [user("u2", "other words")] } });
        page.patch("/v1/threads/t/queue/of-key", words.clone()).await.problem(403, "run-not-yours");
        enqueue(&page, "own", "own words").await;
        page.patch("/v1/threads/t/queue/own", words).await.ok(200);
        call.finish(&whole("first", "m1", "hello")).await;
        let call = agent.call().await;
        assert_eq!(contents(&call.input()).last().map(String::as_str), Some("the backend's words"));
        call.finish(&whole("of-key", "m2", "bye")).await;
        let run = ended(&page, "of-key").await;
        assert!(text(&run, "askedBy").starts_with("key:") || run["askedBy"] == "operator", "{run}");
        let call = agent.call().await;
        assert_eq!(contents(&call.input()).last().map(String::as_str), Some("other words"));
        call.finish(&whole("own", "m3", "bye")).await;
        assert_eq!(ended(&page, "own").await["askedBy"], "user:dev");
    }
}

everywhere! {
    async fn a_repetition_while_its_turn_begins_finds_the_run(server: |options| options.with_glass()) {
        let dev = server.client();
        let (agent, call) = busy(&dev).await;
        enqueue(&dev, "a", "more").await;
        // The turn is a run, and no node has called its agent.
        server.intercept().take_gate.hold();
        call.finish(&whole("first", "m1", "hello")).await;
        server.intercept().take_gate.reached().await;
        let snapshots = &server.intercept().snapshots;
        let (same, other, before) = (dev.clone(), dev.clone(), snapshots.load(SeqCst));
        let same = tokio::spawn(async move { same.post("/v1/threads/t/runs", wait("a", "more")).await });
        let other = tokio::spawn(async move { other.post("/v1/threads/t/runs", wait("a", "else")).await });
        eventually("both are judged", async || (snapshots.load(SeqCst) >= before + 2).then_some(())).await;
        server.intercept().take_gate.open();
        assert_eq!(same.await.expect("an answer").ok(200)["run"]["runId"], "a");
        other.await.expect("an answer").problem(409, "run-exists");
        agent.call().await.finish(&whole("a", "m2", "again")).await;
        assert_eq!(ended(&dev, "a").await["status"], "finished");
    }
}

everywhere! {
    async fn a_follower_learns_that_a_queue_is_empty_again(server) {
        let dev = server.client();
        let (_agent, _call) = busy(&dev).await;
        enqueue(&dev, "a", "more").await;
        let mut events = followed(&dev).await;
        assert_eq!(news_of(&mut events).await["queued"], 1);
        drop(events);
        assert_eq!(dev.delete("/v1/threads/t/queue/a").await.status, 204);
        let mut events = followed(&dev).await;
        assert_eq!(news_of(&mut events).await["queued"], 0);
    }
}
