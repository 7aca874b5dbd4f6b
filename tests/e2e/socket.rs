//! The socket: what its frames do.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Socket, everywhere, number, text};

everywhere! {
    async fn replay_becomes_live(server) {
        let dev = server.client();
        let epoch = text(&dev.thread("t").await, "epoch").to_owned();
        dev.run("t", "r").await;
        dev.append("t", "r", 1, json!([{ "type": "A" }, { "type": "B" }])).await.ok(200);
        let mut socket = server.socket("dev").await;
        socket.send(json!({ "id": "s", "subscribe": { "threadId": "t", "after": "1", "epoch": epoch } })).await;
        let (id, hello) = socket.answer("hello").await;
        assert_eq!((id.as_deref(), &hello["epoch"]), (Some("s"), &json!(epoch)));
        assert_eq!((number(&hello, "after"), number(&hello, "tail")), (1, 2));
        let events = socket.frame("events").await;
        assert_eq!(events["batches"][0]["seq"], 2);
        assert_eq!(events["batches"][0]["events"], json!([{ "type": "B" }]));
        let caught_up = socket.frame("caughtUp").await;
        assert_eq!((&caught_up["threadId"], text(&caught_up, "epoch"), number(&caught_up, "seq")), (&json!("t"), &*epoch, 2));
        let mut other = server.socket("dev").await;
        for (start, after) in [(&hello, 1), (&caught_up, 2)] {
            other.send(json!({ "subscribe": { "threadId": "t", "cursor": start["nextCursor"] } })).await;
            assert_eq!(number(&other.until("hello").await.1, "after"), after);
        }
        dev.append("t", "r", 3, json!([{ "type": "C" }, { "type": "D" }])).await.ok(200);
        let live = socket.frame("events").await;
        assert_eq!((&live["batches"][0]["seq"], &live["batches"][0]["runId"]), (&json!(3), &json!("r")));
        // A thread that is deleted ends its subscription.
        dev.delete("/v1/threads/t").await;
        let ended = socket.frame("ended").await;
        assert_eq!((&ended["reason"], number(&ended, "seq")), (&json!("thread-deleted"), 4));
    }
}

everywhere! {
    async fn many_threads_on_one_socket(server) {
        let dev = server.client();
        let mut socket = server.socket("dev").await;
        for index in 0..20 {
            let id = format!("t{index}");
            dev.thread(&id).await;
            dev.run(&id, "r").await;
            socket.send(json!({ "id": id, "subscribe": { "threadId": id } })).await;
            assert_eq!(socket.answer("hello").await.0, Some(id.clone()));
            assert_eq!(socket.frame("caughtUp").await["threadId"], *id);
        }
        for round in 1..=3 {
            for index in 0..20 {
                dev.append(&format!("t{index}"), "r", round, json!([{ "type": format!("E{round}") }])).await.ok(200);
            }
        }
        let mut seen = std::collections::HashMap::<String, Vec<u64>>::new();
        while seen.values().map(Vec::len).sum::<usize>() < 60 {
            let frame = socket.frame("events").await;
            for batch in frame["batches"].as_array().expect("batches") {
                let count = batch["events"].as_array().expect("events").len() as u64;
                let seqs = number(batch, "seq")..number(batch, "seq") + count;
                seen.entry(text(&frame, "threadId").to_owned()).or_default().extend(seqs);
            }
        }
        assert!(seen.len() == 20 && seen.values().all(|seqs| *seqs == [1, 2, 3]), "{seen:?}");
    }
}

everywhere! {
    async fn a_second_subscription_replaces_the_first(server) {
        let dev = server.client();
        dev.thread("t").await;
        dev.run("t", "r").await;
        let events: Vec<_> = (0..3000).map(|n| json!({ "type": "E", "n": n })).collect();
        dev.append("t", "r", 1, json!(events)).await.ok(200);
        let epoch = dev.epoch("t").await;
        let mut socket = server.socket("dev").await;
        socket.send(json!({ "id": "1", "subscribe": { "threadId": "t" } })).await;
        socket.send(json!({ "id": "2", "subscribe": { "threadId": "t", "after": 2998, "epoch": epoch } })).await;
        // Whatever came of the first one ends with the second hello.
        while socket.until("hello").await.0.as_deref() != Some("2") {}
        let frame = socket.frame("events").await;
        assert_eq!((&frame["batches"][0]["seq"], frame["batches"].as_array().map(Vec::len)), (&json!(2999), Some(1)));
        socket.frame("caughtUp").await;
        // One that is refused leaves the one that is there.
        socket.send(json!({ "id": "3", "subscribe": { "threadId": "t", "after": 9999, "epoch": epoch } })).await;
        let problem = socket.problem("3", 416, "cursor-ahead").await;
        assert_eq!((&problem["threadId"], number(&problem, "tail")), (&json!("t"), 3000));
        dev.append("t", "r", 3001, json!([{ "type": "X" }])).await.ok(200);
        assert_eq!(socket.frame("events").await["batches"][0]["seq"], 3001);
        socket.send(json!({ "id": "4", "unsubscribe": { "threadId": "t" } })).await;
        let (id, ended) = socket.answer("ended").await;
        assert_eq!((id.as_deref(), &ended["reason"]), (Some("4"), &json!("unsubscribed")));
        dev.append("t", "r", 3002, json!([{ "type": "Y" }])).await.ok(200);
        socket.send(json!({ "id": "5", "ping": {} })).await;
        assert_eq!(socket.answer("pong").await.0.as_deref(), Some("5"), "nothing came of the thread");
    }
}

everywhere! {
    async fn a_subscription_to_a_run_ends_with_it(server) {
        let dev = server.client();
        dev.thread("t").await;
        dev.put("/v1/threads/t/runs/one", json!([{ "type": "A" }])).await.ok(201);
        dev.run("t", "two").await;
        dev.append("t", "two", 1, json!([{ "type": "B" }])).await.ok(200);
        let mut socket = server.socket("dev").await;
        socket.send(json!({ "subscribe": { "threadId": "t", "runId": "one" } })).await;
        assert_eq!(socket.frame("hello").await["runId"], "one");
        let batches = socket.frame("events").await;
        assert_eq!(batches["batches"][0]["events"].as_array().map(Vec::len), Some(2), "{batches}");
        assert_eq!(socket.frame("ended").await["reason"], "run-ended");
        socket.send(json!({ "subscribe": { "threadId": "t", "runId": "two" } })).await;
        assert_eq!(socket.frame("hello").await["after"], 2);
        assert_eq!(socket.frame("events").await["batches"][0]["seq"], 3);
        socket.frame("caughtUp").await;
        dev.act("t", "two", "finish").await.ok(200);
        assert_eq!(socket.frame("events").await["batches"][0]["events"][0]["type"], "RUN_FINISHED");
        assert_eq!(socket.frame("ended").await["seq"], 4);
        socket.send(json!({ "id": "x", "subscribe": { "threadId": "t", "runId": "none" } })).await;
        socket.problem("x", 404, "run-not-found").await;
        socket.send(json!({ "id": "y", "subscribe": { "threadId": "t", "epoch": "other" } })).await;
        assert!(socket.problem("y", 410, "log-replaced").await["epoch"].is_string());
    }
}

everywhere! {
    async fn appends_are_acknowledged_in_order_and_their_producer_receives_stop_requests(server) {
        let dev = server.client();
        dev.thread("t").await;
        dev.run("t", "r").await;
        let mut socket = server.socket("dev").await;
        for seq in 1..=100 {
            let event = json!({ "type": "E", "n": seq });
            let append = json!({ "threadId": "t", "runId": "r", "producerSeq": seq, "events": [event] });
            socket.send(json!({ "id": seq.to_string(), "append": append })).await;
        }
        let mut answers = Vec::new();
        while answers.len() < 100 {
            let (id, receipt) = socket.answer("appended").await;
            assert_eq!((number(&receipt, "firstSeq"), number(&receipt, "lastSeq")), (number(&receipt, "producerSeq"), number(&receipt, "producerSeq")));
            assert_eq!(id, Some(receipt["producerSeq"].to_string()));
            assert_eq!((&receipt["threadId"], &receipt["runId"], &receipt["stopRequested"]), (&json!("t"), &json!("r"), &json!(false)));
            answers.push(number(&receipt, "firstSeq"));
        }
        answers.sort_unstable();
        assert_eq!(answers, (1..=100).collect::<Vec<_>>());
        let append = |seq: u64, events: Value| json!({ "threadId": "t", "runId": "r", "producerSeq": seq, "events": events });
        socket.send(json!({ "id": "gap", "append": append(200, json!([{ "type": "X" }])) })).await;
        assert_eq!(number(&socket.problem("gap", 409, "producer-seq-gap").await, "expected"), 101);
        socket.send(json!({ "id": "twice", "append": append(100, json!([{ "type": "Y" }])) })).await;
        socket.problem("twice", 422, "producer-seq-conflict").await;
        socket.send(json!({ "id": "bad", "append": append(101, json!([{ "type": "Z" }, 7])) })).await;
        let bad = socket.problem("bad", 422, "invalid-event").await;
        assert_eq!((number(&bad, "index"), &bad["threadId"]), (1, &json!("t")));
        // A stop by another client, over HTTP; and one by the socket itself.
        dev.act("t", "r", "stop").await.ok(202);
        assert_eq!(socket.frame("stopRequested").await, json!({ "threadId": "t", "runId": "r" }));
        socket.send(json!({ "id": "s", "stop": { "threadId": "t", "runId": "r" } })).await;
        let (id, stopping) = socket.answer("stopping").await;
        assert_eq!((id.as_deref(), &stopping["stopRequested"]), (Some("s"), &json!(true)));
        socket.send(json!({ "id": "h", "heartbeat": { "threadId": "t", "runId": "r" } })).await;
        assert_eq!(socket.answer("alive").await.1["status"], "running");
        socket.send(json!({ "id": "end", "append": append(101, json!([{ "type": "RUN_FINISHED" }])) })).await;
        let (_, last) = socket.answer("appended").await;
        assert_eq!((number(&last, "lastSeq"), &last["leaseUntil"]), (101, &Value::Null));
        assert_eq!(dev.get("/v1/threads/t/runs/r").await.ok(200)["status"], "stopped");
        socket.send(json!({ "id": "late", "heartbeat": { "threadId": "t", "runId": "r" } })).await;
        assert_eq!(socket.problem("late", 409, "run-fenced").await["threadId"], "t");
    }
}

everywhere! {
    async fn state_of_a_run_in_a_socket_does_not_outlive_its_thread(server) {
        let dev = server.client();
        let mut socket = server.socket("dev").await;
        let append = |seq: u64| {
            json!({ "id": "a", "append": { "threadId": "t", "runId": "r", "producerSeq": seq, "events": [{ "type": "X" }] } })
        };
        // The same ids three times: each is another thread, and its first append is right at once.
        for _ in 0..3 {
            let epoch = text(&dev.thread("t").await, "epoch").to_owned();
            dev.run("t", "r").await;
            for seq in 1..=3 {
                socket.send(append(seq)).await;
                let receipt = socket.until("appended").await.1;
                assert_eq!((number(&receipt, "lastSeq"), text(&receipt, "epoch")), (seq, epoch.as_str()));
            }
            dev.delete("/v1/threads/t").await;
            socket.send(append(4)).await;
            socket.problem("a", 404, "thread-not-found").await;
        }
    }
}

everywhere! {
    async fn the_feed_on_the_socket(server) {
        let dev = server.client();
        let mut socket = server.socket("dev").await;
        socket.send(json!({ "id": "f", "subscribeFeed": {} })).await;
        let (id, hello) = socket.answer("feedHello").await;
        assert_eq!((id.as_deref(), number(&hello, "cursor")), (Some("f"), 0));
        assert_eq!(text(&hello, "epoch"), "0000000000000000", "the feed has no entry yet");
        socket.frame("feedCaughtUp").await;
        dev.thread("t").await;
        let rebased = socket.frame("feedRebased").await;
        assert_eq!((&rebased["from"], number(&rebased, "cursor")), (&hello["epoch"], 0));
        let epoch = text(&rebased, "epoch").to_owned();
        let feed = socket.frame("feed").await;
        assert_eq!((&feed["entries"][0]["threadId"], &feed["entries"][0]["type"]), (&json!("t"), &json!("upsert")));
        let cursor = number(&feed, "cursor");
        dev.delete("/v1/threads/t").await;
        let feed = socket.frame("feed").await;
        assert_eq!(feed["entries"][0]["type"], "delete");
        assert!(number(&feed, "cursor") > cursor);
        // Again from where we were: the place of the first is taken.
        socket.send(json!({ "subscribeFeed": { "after": cursor, "epoch": epoch } })).await;
        assert_eq!(number(&socket.frame("feedHello").await, "cursor"), cursor);
        assert_eq!(socket.frame("feed").await["entries"].as_array().map(Vec::len), Some(1));
        let caught_up = socket.frame("feedCaughtUp").await;
        socket.send(json!({ "subscribeFeed": { "cursor": caught_up["nextCursor"] } })).await;
        assert_eq!(socket.frame("feedHello").await["cursor"], caught_up["cursor"]);
        socket.frame("feedCaughtUp").await;
        socket.send(json!({ "id": "x", "subscribeFeed": { "after": 999, "epoch": epoch } })).await;
        socket.problem("x", 416, "cursor-ahead").await;
        socket.send(json!({ "id": "y", "subscribeFeed": { "userId": "eve" } })).await;
        socket.problem("y", 400, "invalid-request").await;
        socket.send(json!({ "id": "u", "unsubscribeFeed": {} })).await;
        assert_eq!(socket.answer("feedEnded").await.0.as_deref(), Some("u"));
        dev.thread("u").await;
        let next = dev.get(&format!("/v1/feed?after={}&epoch={epoch}&wait=10", number(&feed, "cursor"))).await.ok(200);
        assert_eq!(next["entries"][0]["threadId"], "u");
        socket.send(json!({ "ping": {} })).await;
        socket.frame("pong").await;
    }
}

everywhere! {
    async fn heartbeats_say_where_the_threads_end(
        server: |options| options.with_timeouts(|patience| patience.heartbeat = Duration::from_millis(50))
    ) {
        let dev = server.client();
        let thread = dev.thread("t").await;
        dev.run("t", "r").await;
        let mut socket: Socket = server.socket("dev").await;
        assert_eq!(socket.until("heartbeat").await.1["tails"], json!([]));
        socket.send(json!({ "subscribe": { "threadId": "t" } })).await;
        let tails = |tail: u64| json!([{ "threadId": "t", "epoch": thread["epoch"], "tail": tail }]);
        while socket.until("heartbeat").await.1["tails"] != tails(0) {}
        dev.append("t", "r", 1, json!([{ "type": "A" }])).await.ok(200);
        while socket.until("heartbeat").await.1["tails"] != tails(1) {}
    }
}
