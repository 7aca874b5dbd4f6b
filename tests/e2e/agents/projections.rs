//! Messages and state, at any seq.

use std::sync::atomic::Ordering::SeqCst;

use reqwest::Method;
use serde_json::{Value, json};
use threadline_core::{ProjectId, Seq, ThreadId, ThreadKey, projection::conversation::Conversation};

use super::{agent, ask, ended, finished, messages, said, user};
use crate::harness::{Client, Options, Server, eventually, everywhere, http::send, number, text};

/// A run with something of everything, in which nothing is open for long.
fn rich(number: usize, size: usize) -> Vec<Value> {
    let (message, call) = (format!("m{number}"), format!("c{number}"));
    let input = json!({ "messages": [user(&format!("u{number}"), "hi")] });
    let mut events = vec![json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r", "input": input })];
    events.extend(said(&message, &"word ".repeat(size)));
    events.extend([
        json!({ "type": "STATE_SNAPSHOT", "snapshot": { "steps": [], "n": number } }),
        json!({ "type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": "search", "parentMessageId": message }),
        json!({ "type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": "{}" }),
        json!({ "type": "TOOL_CALL_END", "toolCallId": call }),
        json!({ "type": "STATE_DELTA", "delta": [{ "op": "add", "path": "/steps/-", "value": "a" }] }),
        json!({ "type": "STATE_DELTA", "delta": [{ "op": "remove", "path": "/nowhere" }] }),
        json!({ "type": "A_TYPE_TO_COME", "x": 1 }),
        json!({ "type": "TOOL_CALL_RESULT", "messageId": format!("t{call}"), "toolCallId": call, "content": "found" }),
        finished("r"),
    ]);
    events
}

async fn put(client: &Client, run: &str, events: &[Value]) {
    client.put(&format!("/v1/threads/t/runs/{run}"), json!(events)).await.ok(201);
}

/// All events, as bytes.
async fn log(client: &Client) -> Vec<Vec<u8>> {
    let request = client.request(Method::GET, "/v1/threads/t/events").header("accept", "application/x-ndjson");
    let answer = send(request).await;
    let event = |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["event"].to_string().into_bytes();
    answer.text().lines().map(event).collect()
}

fn value(json: Vec<u8>) -> Value {
    serde_json::from_slice(&json).expect("JSON")
}

/// What both routes say at a seq must be what the fold says.
async fn agrees(client: &Client, seq: Seq, fold: &Conversation) {
    let page = client.get(&format!("/v1/threads/t/messages?at={seq}")).await.ok(200);
    assert_eq!((number(&page, "seq"), &page["messages"]), (seq, &value(fold.messages_json())), "at {seq}");
    assert_eq!(page["pendingToolCallIds"], json!(fold.pending_tool_calls()), "at {seq}");
    assert_eq!(page["interrupts"], value(fold.interrupts_json()), "at {seq}");
    let state = client.get(&format!("/v1/threads/t/state?at={seq}")).await.ok(200);
    assert_eq!((number(&state, "seq"), &state["state"]), (seq, &value(fold.state_json())), "at {seq}");
    assert_eq!(number(&state, "skippedDeltas"), fold.skipped_deltas(), "at {seq}");
    assert_eq!(number(&state, "skippedNumbers"), fold.skipped_numbers(), "at {seq}");
}

everywhere! {
    async fn the_projection_at_every_seq_is_the_fold_of_the_events_up_to_it(server) {
        let dev = server.client();
        dev.thread("t").await;
        put(&dev, "r", &rich(0, 1)).await;
        dev.run("t", "open").await;
        dev.append("t", "open", 1, json!(said("half", "not yet")[..2])).await.ok(200);
        let log = log(&dev).await;
        let mut fold = Conversation::default();
        agrees(&dev, 0, &fold).await;
        for (at, event) in log.iter().enumerate() {
            fold.observe(event);
            agrees(&dev, at as Seq + 1, &fold).await;
        }
        assert_eq!(messages(&dev).await["messages"], value(fold.messages_json()));
        // One coordinate: the projection at any seq, with the later events, gives the final projection.
        for seq in 0..=log.len() {
            let mut client = Conversation::default();
            let parts = [("messages", "messages", "MESSAGES_SNAPSHOT"), ("state", "snapshot", "STATE_SNAPSHOT")];
            for (path, member, event) in parts {
                let page = dev.get(&format!("/v1/threads/t/{path}?at={seq}")).await.ok(200);
                client.observe(json!({ "type": event, member: page[path] }).to_string().as_bytes());
            }
            log[seq..].iter().for_each(|event| client.observe(event));
            assert_eq!(value(client.messages_json()), value(fold.messages_json()), "from {seq}");
            assert_eq!(value(client.state_json()), value(fold.state_json()), "from {seq}");
        }
    }
}

everywhere! {
    async fn pages_and_what_is_refused(server) {
        let (dev, bob) = (server.client(), server.user("bob"));
        let thread = dev.thread("t").await;
        let epoch = text(&thread, "epoch");
        let mut empty = json!({ "threadId": "t", "epoch": epoch, "seq": 0, "messages": [], "hasMore": false, "skippedNumbers": 0 });
        for member in ["interrupts", "pendingToolCallIds"] {
            empty[member] = json!([]);
        }
        assert_eq!(messages(&dev).await, empty);
        let state = json!({ "threadId": "t", "epoch": epoch, "seq": 0, "state": {}, "skippedDeltas": 0, "skippedNumbers": 0 });
        assert_eq!(dev.get("/v1/threads/t/state").await.ok(200), state);
        put(&dev, "r", &(0..5).flat_map(|n| said(&format!("m{n}"), "x")).collect::<Vec<_>>()).await;
        let page = async |query: &str| {
            let page = dev.get(&format!("/v1/threads/t/messages?{query}")).await.ok(200);
            let ids = page["messages"].as_array().expect("messages").iter().map(|m| text(m, "id").to_owned());
            (ids.collect::<Vec<_>>().join(" "), page["hasMore"] == true)
        };
        for (query, ids, more) in [
            ("", "m0 m1 m2 m3 m4", false),
            ("limit=2", "m3 m4", true),
            ("limit=2&before=m3", "m1 m2", true),
            ("limit=2&before=m1", "m0", false),
            ("before=m0", "", false),
            ("limit=99", "m0 m1 m2 m3 m4", false),
            ("limit=2&at=6", "m0 m1", false),
            ("limit=1&at=7&before=m2", "m1", true),
        ] {
            assert_eq!(page(query).await, (ids.to_owned(), more), "{query}");
        }
        for path in ["messages", "state"] {
            let get = async |query: &str| dev.get(&format!("/v1/threads/t/{path}?{query}")).await;
            assert_eq!(get(&format!("at=3&epoch={epoch}")).await.ok(200)["seq"], 3);
            let ahead = get("at=17").await.problem(416, "cursor-ahead");
            assert_eq!((&ahead["tail"], &ahead["epoch"]), (&json!(16), &json!(epoch)));
            for other in ["0000000000000000", "nonsense"] {
                let replaced = get(&format!("at=3&epoch={other}")).await.problem(410, "log-replaced");
                assert_eq!((&replaced["tail"], &replaced["epoch"]), (&json!(16), &json!(epoch)));
            }
            for bad in ["at=-1", "at=x", "at=99999999999999999999"] {
                get(bad).await.problem(400, "invalid-request");
            }
            get("att=3").await.problem(400, "unknown-parameter");
            bob.get(&format!("/v1/threads/t/{path}")).await.problem(404, "thread-not-found");
            dev.get(&format!("/v1/threads/u/{path}")).await.problem(404, "thread-not-found");
        }
        for bad in ["limit=x", "limit=-1", "before=nobody", "before=m4&at=3"] {
            dev.get(&format!("/v1/threads/t/messages?{bad}")).await.problem(400, "invalid-request");
        }
    }
}

async fn key(server: &Server) -> ThreadKey {
    let (project, id) = (ProjectId::new("default").expect("an id"), ThreadId::new("t").expect("an id"));
    server.store.thread_named(&project, &id).await.expect("a store").thread().expect("a thread").key
}

/// The seqs of the snapshots, once one is as new as this.
async fn snapshots(server: &Server, key: ThreadKey, newest: Seq) -> Vec<Seq> {
    eventually("a snapshot", async || {
        let seqs = server.store.snapshot_seqs(key).await.expect("a store");
        let seqs: Vec<_> = seqs.into_iter().map(|(seq, _)| seq).collect();
        seqs.last().is_some_and(|last| *last >= newest).then_some(seqs)
    })
    .await
}

everywhere! {
    async fn snapshots_change_nothing_but_the_cost(server: |options| options.with_glass()) {
        let dev = server.client();
        dev.thread("t").await;
        let key = key(server).await;
        let mut tail = 0;
        for (number, words) in [14_000, 14_000, 15_000, 23_000, 500, 500].into_iter().enumerate() {
            // A snapshot is due with each run but the last ones: it brings half of what there is.
            let events = rich(number, words);
            put(&dev, &format!("r{number}"), &events).await;
            tail += events.len() as Seq;
            if words > 500 {
                snapshots(server, key, tail).await;
            }
        }
        let seqs = snapshots(server, key, 1).await;
        assert!(seqs.len() > 1, "{seqs:?}");
        let log = log(&dev).await;
        let mut fold = Conversation::default();
        for (at, event) in log.iter().enumerate() {
            fold.observe(event);
            let seq = at as Seq + 1;
            let near = seqs.iter().any(|snapshot| snapshot.abs_diff(seq) <= 1);
            if near || seq.is_multiple_of(11) || seq == tail {
                agrees(&dev, seq, &fold).await;
            }
        }
        // One of another version, and one that cannot be read, are as good as none.
        use threadline_store::Snapshot;
        let version = Conversation::VERSION;
        for (version, body) in [(version + 1, &b"of the future"[..]), (version, b"\xffbroken")] {
            let snapshot = Snapshot { seq: tail, version, body: bytes::Bytes::copy_from_slice(body) };
            server.store.put_snapshot(key, snapshot, &[]).await.expect("kept");
            agrees(&dev, tail, &fold).await;
        }
    }
}

everywhere! {
    async fn a_run_in_a_long_thread_begins_with_a_snapshot_and_what_is_new(server: |options| options.with_glass()) {
        let dev = server.client();
        dev.thread("t").await;
        let key = key(server).await;
        let all: Vec<_> = (0..5_000).flat_map(|n| said(&format!("m{n}"), "a sentence of some length")).collect();
        put(&dev, "w", &all).await;
        snapshots(server, key, all.len() as Seq).await;
        put(&dev, "x", &said("new", "after the snapshot")).await;
        let agent = agent(&dev).await;
        let intercept = server.intercept();
        for counter in [&intercept.reads, &intercept.events_read, &intercept.snapshots] {
            counter.store(0, SeqCst);
        }
        dev.post("/v1/threads/t/runs", ask("r", json!([user("u", "hi")]))).await.ok(201);
        let call = agent.call().await;
        assert_eq!(intercept.snapshots.load(SeqCst), 1);
        assert!(intercept.reads.load(SeqCst) <= 2, "{} reads", intercept.reads.load(SeqCst));
        let events = intercept.events_read.load(SeqCst);
        assert!(events <= 8, "{events} events were read of {}", all.len());
        let ids = call.message_ids();
        assert_eq!((ids.len(), ids[4_999].as_str()), (5_002, "m4999"));
        assert_eq!(ids[5_000..], ["new", "u"]);
        call.finish(&[finished("r")]).await;
        ended(&dev, "r").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_slow_fold_blocks_no_other_request() {
    // One thread serves everything here: a fold on it would be all that is done. On a runtime of another flavour, the
    // fold would run in place.
    let server = Server::start(Options::memory()).await;
    let dev = server.client();
    dev.thread("t").await;
    let shift = json!({ "op": "add", "path": "/0", "value": 0 });
    let events = [
        json!({ "type": "STATE_SNAPSHOT", "snapshot": vec![0; 200_000] }),
        json!({ "type": "STATE_DELTA", "delta": vec![shift; 1_000] }),
    ];
    put(&dev, "r", &events).await;
    let order = std::cell::RefCell::new(Vec::new());
    let fold = async {
        let state = dev.get("/v1/threads/t/state").await.ok(200);
        assert_eq!(number(&state, "skippedDeltas"), 1, "more work than its purse allows");
        order.borrow_mut().push("fold");
    };
    let others = async {
        for _ in 0..5 {
            dev.get("/v1/threads/t").await.ok(200);
        }
        order.borrow_mut().push("others");
    };
    tokio::join!(fold, others);
    assert_eq!(*order.borrow(), ["others", "fold"]);
    server.stop().await;
}

// A number beyond what a double can hold costs itself, and nothing beside it.
everywhere! {
    async fn a_number_beyond_a_double_is_left_out_and_counted(server) {
        let dev = server.client();
        dev.thread("t").await;
        dev.run("t", "r").await;
        let show = async |path: &str| dev.get(&format!("/v1/threads/t/{path}")).await.ok(200);
        let steps = [
            (r#"{"type":"STATE_SNAPSHOT","snapshot":{"plan":["a",1e400,"c"],"budget":-1e999,"n":1}}"#,
                json!({ "plan": ["a", null, "c"], "budget": null, "n": 1 }), 2),
            (r#"{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/plan/2","value":"d"},{"op":"add","path":"/m","value":1e400}]}"#,
                json!({ "plan": ["a", null, "d"], "budget": null, "n": 1, "m": null }), 3),
            (r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"u","role":"user","content":"hi","x":1e400},{"id":"a","role":"assistant","content":"yes","metadata":{"n":[7,2e308]}}]}"#,
                json!({ "plan": ["a", null, "d"], "budget": null, "n": 1, "m": null }), 5),
        ];
        for (producer_seq, (event, state, skipped)) in (1..).zip(steps) {
            let path = format!("/v1/threads/t/runs/r/events?producerSeq={producer_seq}");
            dev.ndjson(reqwest::Method::POST, &path, event).await.ok(200);
            let shown = show("state").await;
            assert_eq!((&shown["state"], number(&shown, "skippedNumbers")), (&state, skipped), "{event}");
            assert_eq!(number(&shown, "skippedDeltas"), 0, "{event}");
        }
        let shown = show("messages").await;
        assert_eq!(shown["messages"], json!([
            { "id": "u", "role": "user", "content": "hi", "x": null },
            { "id": "a", "role": "assistant", "content": "yes", "metadata": { "n": [7, null] } },
        ]));
        assert_eq!(number(&shown, "skippedNumbers"), 5);
        // The log has the bytes that came.
        let events = dev.get("/v1/threads/t/events").await;
        assert!(events.text().contains(r#""plan":["a",1e400,"c"]"#), "{}", events.text());
    }
}
