//! Reading a log: pages, NDJSON, SSE, long-poll; and the feed.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Client, Options, Server, after, everywhere, number, run, sse::Events, text};

const PATH: &str = "/v1/threads/t/events";

fn seqs(page: &Value) -> Vec<u64> {
    page["events"].as_array().expect("events").iter().map(|event| number(event, "seq")).collect()
}

/// A thread with the finished run `one` (seqs 1 to 4), and the active run `two` (5 to 7).
async fn prepare(dev: &Client) -> Value {
    dev.thread("t").await;
    dev.put("/v1/threads/t/runs/one", json!([{ "type": "A" }, { "type": "B" }, { "type": "C" }])).await.ok(201);
    let started = dev.run("t", "two").await;
    dev.append("t", "two", 1, json!([{ "type": "D" }, { "type": "E" }, { "type": "F" }])).await.ok(200);
    started
}

everywhere! {
    async fn pages_go_both_ways(server) {
        let dev = server.client();
        let epoch = text(&prepare(&dev).await, "epoch").to_owned();
        let page = async |query: &str| dev.get(&format!("{PATH}?{query}")).await.ok(200);
        let all = page("").await;
        assert_eq!((seqs(&all), number(&all, "tail")), ((1..=7).collect(), 7));
        assert_eq!((&all["hasMore"], &all["epoch"], &all["threadId"]), (&json!(false), &json!(epoch), &json!("t")));
        // The cursor of a page has its direction.
        let next = |page: &Value| format!("cursor={}", text(page, "nextCursor"));
        for (start, parts) in [
            (format!("after=0&epoch={epoch}"), vec![vec![1, 2, 3], vec![4, 5, 6], vec![7]]),
            (format!("before=8&epoch={epoch}"), vec![vec![5, 6, 7], vec![2, 3, 4], vec![1]]),
        ] {
            let (mut start, mut found) = (start, Vec::new());
            loop {
                let part = page(&format!("{start}&limit=3")).await;
                found.push(seqs(&part));
                start = next(&part);
                if part["hasMore"] == false {
                    break;
                }
            }
            assert_eq!(found, parts);
            assert_eq!(seqs(&page(&start).await), [0; 0], "nothing is behind the last page");
        }
        let at = async |query: &str| seqs(&page(&format!("{query}&epoch={epoch}")).await);
        assert_eq!(at("before=18446744073709551615&limit=2").await, [6, 7]);
        assert_eq!(at("before=0").await, [0; 0]);
        assert_eq!(at("before=1").await, [0; 0]);
        assert_eq!(at("after=7").await, [0; 0]);
        assert_eq!(at("after=6&limit=0").await, [7], "a limit of 0 is taken for the smallest");
        // Bounded to a run.
        assert_eq!(seqs(&page("runId=one").await), [1, 2, 3, 4]);
        assert_eq!(seqs(&page("runId=two&limit=2").await), [5, 6]);
        assert_eq!(at("runId=one&before=3").await, [1, 2]);
        let last = page(&format!("runId=two&before=7&limit=1&epoch={epoch}")).await;
        assert_eq!((seqs(&last), &last["hasMore"]), (vec![6], &json!(true)));
        let last = page(&format!("runId=two&{}", next(&last))).await;
        assert_eq!((seqs(&last), &last["hasMore"]), (vec![5], &json!(false)));
    }
}

everywhere! {
    async fn a_cursor_of_another_log_is_refused_in_every_form(server) {
        let dev = server.client();
        let present = text(&prepare(&dev).await, "epoch").to_owned();
        for form in ["application/json", "application/x-ndjson", "text/event-stream"] {
            for ahead in ["8", "9223372036854775807", "18446744073709551615"] {
                let answer = dev.get_as(&format!("{PATH}?after={ahead}&epoch={present}"), form).await;
                assert_eq!(number(&answer.problem(416, "cursor-ahead"), "tail"), 7, "{form} {ahead}");
            }
            for epoch in ["0000000000000000", "nonsense", ""] {
                let answer = dev.get_as(&format!("{PATH}?after=3&epoch={epoch}"), form).await;
                let facts = answer.problem(410, "log-replaced");
                assert!(facts["epoch"].is_string() && facts["tail"] == 7, "{facts}");
            }
            dev.get_as(&format!("{PATH}?runId=none"), form).await.problem(404, "run-not-found");
            dev.get_as("/v1/threads/none/events", form).await.problem(404, "thread-not-found");
            dev.get_as(&format!("{PATH}?after=1&before=3"), form).await.problem(400, "invalid-request");
        }
        dev.get_as(PATH, "image/png").await.problem(406, "not-acceptable");
        let weighed = dev.get_as(PATH, "image/png, text/event-stream;q=0.1, application/x-ndjson").await;
        assert_eq!(weighed.header("content-type"), "application/x-ndjson", "the greater weight wins");
    }
}

everywhere! {
    async fn no_position_is_taken_without_the_log_that_it_belongs_to(server) {
        let dev = server.client();
        let epoch = text(&prepare(&dev).await, "epoch").to_owned();
        let page = dev.get(&format!("{PATH}?limit=3")).await.ok(200);
        let (cursor, list) = (text(&page, "nextCursor").to_owned(), dev.get("/v1/threads").await.ok(200));
        // Another character in its place would be the same one in a run of 64: the epoch is random.
        let damaged = format!("{}{}", &cursor[..9], &cursor[10..]);
        let feed = dev.get("/v1/feed").await.ok(200);
        let foreign = text(&feed, "nextCursor");
        let (mut socket, position) = (server.socket("dev").await, json!({ "after": 3 }));
        for form in ["application/json", "application/x-ndjson", "text/event-stream"] {
            for (query, says) in [
                ("after=3", "after is 3"),
                ("before=3", "before is 3"),
                (&*format!("cursor={damaged}"), &*damaged),
                ("cursor=3", "\"3\""),
                ("cursor=", "\"\""),
                (&format!("cursor={foreign}"), "a feed"),
            ] {
                let problem = dev.get_as(&format!("{PATH}?{query}"), form).await.problem(400, "invalid-cursor");
                assert!(text(&problem, "detail").contains(says), "{problem}");
            }
            for both in [format!("after=3&epoch={epoch}"), "before=3".to_owned(), format!("epoch={epoch}")] {
                dev.get_as(&format!("{PATH}?cursor={cursor}&{both}"), form).await.problem(400, "invalid-request");
            }
        }
        for (id, start) in [position, json!({ "cursor": damaged }), json!({ "cursor": foreign })].iter().enumerate() {
            let mut subscribe = start.clone();
            subscribe["threadId"] = "t".into();
            socket.send(json!({ "id": id.to_string(), "subscribe": subscribe })).await;
            socket.problem(&id.to_string(), 400, "invalid-cursor").await;
        }
        for (path, cursor) in [("/v1/feed", &*cursor), ("/v1/threads", &*cursor), ("/v1/threads", foreign)] {
            dev.get(&format!("{path}?cursor={cursor}")).await.problem(400, "invalid-cursor");
        }
        assert!(list["nextCursor"].is_null(), "{list}");
    }
}

everywhere! {
    async fn ndjson_is_the_whole_log_up_to_the_tail_of_the_moment(server) {
        let dev = server.client();
        prepare(&dev).await;
        let path = format!("{PATH}?after=2&epoch={}", dev.epoch("t").await);
        let answer = dev.get_as(&path, "application/x-ndjson").await;
        assert_eq!((answer.header("threadline-tail"), answer.header("threadline-epoch").len()), ("7", 16));
        let lines: Vec<Value> =
            answer.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(lines.iter().map(|line| number(line, "seq")).collect::<Vec<_>>(), [3, 4, 5, 6, 7]);
        let one = dev.get_as(&format!("{PATH}?runId=one"), "application/x-ndjson").await;
        assert_eq!(one.text().lines().count(), 4);
        let two = dev.get_as(&format!("{PATH}?runId=two"), "application/x-ndjson").await;
        assert_eq!(two.text().lines().count(), 3, "the active run does not make it wait");
    }
}

everywhere! {
    async fn sse_replays_and_continues_live(server) {
        let dev = server.client();
        let epoch = text(&prepare(&dev).await, "epoch").to_owned();
        let id = |seq: u64| Some(format!("{epoch}:{seq}"));
        let follow = |query: &str| dev.request(Method::GET, &format!("{PATH}{query}"));
        let mut events = Events::open(follow(&format!("?after=5&epoch={epoch}"))).await;
        let hello = events.named("hello").await;
        assert_eq!((number(&hello.json(), "after"), number(&hello.json(), "tail"), &hello.id), (5, 7, &None));
        for seq in [6, 7] {
            assert_eq!(events.message().await.id, id(seq));
        }
        let caught_up = events.named("caught_up").await;
        assert_eq!((number(&caught_up.json(), "seq"), &caught_up.id), (7, &None));
        for (start, after) in [(hello.json(), 5), (caught_up.json(), 7)] {
            let mut again = Events::open(follow(&format!("?cursor={}", text(&start, "nextCursor")))).await;
            assert_eq!(number(&again.named("hello").await.json(), "after"), after);
        }
        dev.append("t", "two", 4, json!([{ "type": "G" }])).await.ok(200);
        let live = events.message().await;
        assert_eq!((&live.id, &live.json()["event"]["type"]), (&id(8), &json!("G")));
        drop(events);
        // Coming again as a browser does: the header wins over the query.
        let mut again = Events::open(follow("?cursor=any").header("last-event-id", format!("{epoch}:7"))).await;
        assert_eq!(number(&again.named("hello").await.json(), "after"), 7);
        assert_eq!(again.message().await.id, id(8));
        for bad in ["x", "7", ":7", &epoch, &format!("{epoch}:"), &format!("{epoch}:+7"), &format!("{epoch}:x"), "abc:7"] {
            let bad = follow("").header("accept", "text/event-stream").header("last-event-id", bad);
            let problem = crate::harness::http::send(bad).await.problem(400, "invalid-cursor");
            assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("<epoch>:<seq>")), "{problem}");
        }
        // To the tail only.
        let mut tail = Events::open(follow(&format!("?after=7&epoch={epoch}&until=tail"))).await;
        tail.named("hello").await;
        tail.message().await;
        tail.named("caught_up").await;
        assert_eq!(tail.next().await, None);
        // One run, to its end.
        let mut run = Events::open(follow("?runId=two")).await;
        assert_eq!(number(&run.named("hello").await.json(), "after"), 4);
        for _ in 5..=8 {
            run.message().await;
        }
        run.named("caught_up").await;
        dev.act("t", "two", "finish").await.ok(200);
        assert_eq!(run.message().await.json()["event"]["type"], "RUN_FINISHED");
        let ended = run.named("ended").await.json();
        assert_eq!((&ended["reason"], number(&ended, "seq")), (&json!("run-ended"), 9));
        assert_eq!(run.next().await, None);
        // To the end of the thread.
        let mut gone = Events::open(follow(&format!("?after=9&epoch={epoch}"))).await;
        gone.named("hello").await;
        gone.named("caught_up").await;
        dev.delete("/v1/threads/t").await;
        assert_eq!(gone.named("ended").await.json()["reason"], "thread-deleted");
        assert_eq!(gone.next().await, None);
    }
}

// A browser that reconnects continues by the id of the last event alone, and stops for good at 410.
everywhere! {
    async fn a_stream_does_not_continue_in_another_log(server) {
        let dev = server.client();
        prepare(&dev).await;
        let mut events = Events::open(dev.request(Method::GET, PATH)).await;
        events.named("hello").await;
        let seen = events.message().await.id.expect("an id");
        drop(events);
        let cursor = text(&dev.get(&format!("{PATH}?limit=1")).await.ok(200), "nextCursor").to_owned();
        assert_eq!(dev.delete("/v1/threads/t").await.status, 204);
        let fresh = text(&prepare(&dev).await, "epoch").to_owned();
        for form in ["text/event-stream", "application/json", "application/x-ndjson"] {
            let again = dev.request(Method::GET, PATH).header("accept", form).header("last-event-id", &seen);
            let problem = crate::harness::http::send(again).await.problem(410, "log-replaced");
            assert_eq!((text(&problem, "epoch"), number(&problem, "tail")), (&*fresh, 7), "{form}");
            let problem = dev.get_as(&format!("{PATH}?cursor={cursor}"), form).await.problem(410, "log-replaced");
            assert_eq!((text(&problem, "epoch"), &problem["commonUpTo"]), (&*fresh, &Value::Null), "{form}");
        }
        let mut socket = server.socket("dev").await;
        socket.send(json!({ "id": "1", "subscribe": { "threadId": "t", "cursor": cursor } })).await;
        socket.problem("1", 410, "log-replaced").await;
    }
}

everywhere! {
    async fn a_quiet_stream_has_heartbeats_with_the_tail(
        server: |options| options.with_timeouts(|patience| patience.heartbeat = Duration::from_millis(50))
    ) {
        let dev = server.client();
        prepare(&dev).await;
        let path = format!("{PATH}?after=7&epoch={}", dev.epoch("t").await);
        let mut events = Events::open(dev.request(Method::GET, &path)).await;
        events.named("hello").await;
        events.named("caught_up").await;
        for _ in 0..2 {
            let beat = events.next().await.expect("a heartbeat");
            assert_eq!((beat.comment.as_deref(), beat.data.as_str()), (Some("tail 7"), ""));
        }
        let mut feed = Events::open(dev.request(Method::GET, "/v1/feed")).await;
        feed.named("hello").await;
        while feed.next().await.expect("a heartbeat").comment.is_none() {}
    }
}

everywhere! {
    async fn long_poll_waits_for_the_next_event_and_no_longer(server) {
        let dev = server.client();
        let epoch = text(&prepare(&dev).await, "epoch").to_owned();
        let after = |seq: u64| format!("{PATH}?after={seq}&epoch={epoch}");
        let waiting = tokio::spawn({
            let (dev, path) = (dev.clone(), after(7));
            async move { dev.get(&format!("{path}&wait=60")).await.ok(200) }
        });
        // There is something already: no waiting.
        assert_eq!(seqs(&dev.get(&format!("{}&wait=60", after(6))).await.ok(200)), [7]);
        assert!(!waiting.is_finished());
        dev.append("t", "two", 4, json!([{ "type": "G" }])).await.ok(200);
        assert_eq!(seqs(&waiting.await.expect("answered")), [8]);
        let empty = dev.get(&format!("{}&wait=0.05", after(8))).await.ok(200);
        assert_eq!(seqs(&empty), [0; 0]);
        let waited = format!("{PATH}?cursor={}&wait=60", text(&empty, "nextCursor"));
        for bad in ["wait=-1", "wait=x", "wait=NaN", "wait=1e300"] {
            dev.get(&format!("{}&{bad}", after(8))).await.problem(400, "invalid-request");
        }
        dev.get(&format!("{PATH}?before=8&epoch={epoch}&wait=1")).await.problem(400, "invalid-request");
        // A stream bounded to a run ends with the run, though the thread continues.
        let waiting = tokio::spawn({
            let (dev, path) = (dev.clone(), after(9));
            async move { dev.get(&format!("{path}&runId=two&wait=60")).await }
        });
        dev.act("t", "two", "finish").await.ok(200);
        let answer = waiting.await.expect("answered");
        assert!(matches!(answer.status, 200 | 416), "{}", answer.text());
        assert_eq!(seqs(&dev.get(&waited).await.ok(200)), [9]);
        let done = dev.get(&format!("{}&runId=two&wait=60", after(9))).await.ok(200);
        assert_eq!((seqs(&done).len(), &done["hasMore"]), (0, &json!(false)));
    }
}

everywhere! {
    async fn the_feed_has_every_change_and_keeps_the_newest_of_a_thread(server) {
        let dev = server.client();
        for id in ["a", "b", "c"] {
            dev.thread(id).await;
        }
        server.user("eve").thread("eves").await;
        // The first entry gives the feed its epoch.
        let page = dev.get("/v1/feed?wait=10").await.ok(200);
        let epoch = text(&page, "epoch").to_owned();
        let mut events = Events::open(dev.request(Method::GET, "/v1/feed")).await;
        assert_eq!(text(&events.named("hello").await.json(), "epoch"), epoch);
        let mut cursor = 0;
        // The next entry about a thread, whatever heartbeats and older versions come before it.
        let mut next = async |id: &str, wanted: &dyn Fn(&Value) -> bool| loop {
            let event = events.next().await.expect("an event");
            let Some(at) = &event.id else { continue };
            let entry = event.json();
            assert_eq!(at, &format!("{epoch}:{}", number(&entry, "cursor")));
            assert!(number(&entry, "cursor") > cursor, "positions grow");
            assert_ne!(entry["threadId"], "eves");
            cursor = number(&entry, "cursor");
            if entry["threadId"] == id && wanted(&entry) {
                return cursor;
            }
        };
        for id in ["a", "b", "c"] {
            next(id, &|_| true).await;
        }
        dev.patch("/v1/threads/a", json!({ "name": "N" })).await.ok(200);
        next("a", &|entry| entry["thread"]["name"] == "N").await;
        dev.run("b", "r").await;
        next("b", &|entry| entry["thread"]["activeRun"]["runId"] == "r").await;
        dev.act("b", "r", "finish").await.ok(200);
        next("b", &|entry| entry["thread"]["activeRun"].is_null() && entry["thread"]["lastRun"]["status"] == "finished").await;
        dev.delete("/v1/threads/c").await;
        let last = next("c", &|entry| entry["type"] == "delete" && entry.get("thread").is_none()).await;
        let page = dev.get("/v1/feed?limit=2").await.ok(200);
        let entries = page["entries"].as_array().expect("entries");
        assert_eq!((entries.len(), &page["hasMore"]), (2, &json!(true)));
        let rest = dev.get(&format!("/v1/feed?{}", after(&page))).await.ok(200);
        let threads = |page: &Value| page["entries"].as_array().expect("entries").iter().map(|e| e["threadId"].clone()).collect::<Vec<_>>();
        assert_eq!([threads(&page), threads(&rest)].concat(), [json!("a"), json!("b"), json!("c")]);
        assert_eq!((number(&rest, "cursor"), &rest["hasMore"]), (last, &json!(false)));
        for ahead in [last + 1, u64::MAX] {
            assert_eq!(number(&dev.get(&format!("/v1/feed?after={ahead}&epoch={epoch}")).await.problem(416, "cursor-ahead"), "tail"), last);
        }
        dev.get_as("/v1/feed", "application/x-ndjson").await.problem(406, "not-acceptable");
    }
}

#[tokio::test]
async fn a_conversation_that_no_model_could_read_is_refused_and_its_events_are_not() {
    run(Options::memory(), async |server: &Server| {
        let dev = server.client();
        dev.thread("t").await;
        dev.run("t", "r").await;
        let large = "x".repeat(8 * 1024 * 1024 - 200);
        for number in 1..=10 {
            let message = json!({ "id": number.to_string(), "role": "user", "content": large });
            let input = json!({ "messages": [message] });
            dev.append("t", "r", number, json!([{ "type": "RUN_STARTED", "input": input }])).await.ok(200);
        }
        dev.get("/v1/threads/t/state").await.problem(422, "conversation-too-large");
        dev.get("/v1/threads/t/messages").await.problem(422, "conversation-too-large");
        dev.get("/api/threads/t/messages").await.problem(422, "conversation-too-large");
        let asked = json!({ "threadId": "t", "messages": [] });
        for (path, asked) in [
            ("/agui/demo", asked.clone()),
            (
                "/ai/demo",
                json!({ "id": "t", "message": { "role": "user", "parts": [{ "type": "text", "text": "x" }] } }),
            ),
            ("/copilotkit/agent/demo/run", asked.clone()),
            ("/copilotkit/agent/demo/connect", asked.clone()),
            ("/copilotkit", json!({ "method": "agent/run", "params": { "agentId": "demo" }, "body": asked })),
        ] {
            dev.post(path, asked).await.problem(422, "conversation-too-large");
        }
        dev.get("/copilotkit/threads/t/messages").await.problem(422, "conversation-too-large");
        dev.post("/v1/threads/t/runs/r/finish", json!({})).await.ok(200);
        for path in ["", "/state", "/state/0000000000000010", "/runs/r/join"] {
            dev.get(&format!("/langgraph/threads/t{path}")).await.problem(422, "conversation-too-large");
        }
        let run = json!({ "assistant_id": "demo", "input": { "messages": "x" } });
        for (path, body) in [("/state/checkpoint", json!({})), ("/history", json!({})), ("/runs", run.clone())] {
            let answer = dev.post(&format!("/langgraph/threads/t{path}"), body).await;
            answer.problem(422, "conversation-too-large");
        }
        let start = json!({ "id": 1, "method": "run.start", "params": run });
        assert_eq!(dev.post("/langgraph/threads/t/commands", start).await.ok(200)["error"], "invalid_argument");
        let earlier = dev.get("/v1/threads/t/messages?at=2&limit=5").await.ok(200);
        // An answer holds no more than a page, but one message at least.
        assert_eq!(earlier["messages"].as_array().map(Vec::len), Some(1));
        assert_eq!(earlier["hasMore"], true);
        dev.get(&format!("/v1/threads/t/events?after=9&epoch={}", dev.epoch("t").await)).await.ok(200);
        dev.act("t", "r", "finish").await.ok(200);
        let (conversation, item) =
            ("/openai/v1/conversations/conv_t/items", json!([{ "role": "user", "content": "x" }]));
        for answer in [
            dev.get(conversation).await,
            dev.get(&format!("{conversation}/msg_1")).await,
            dev.delete(&format!("{conversation}/msg_1")).await,
            dev.post(conversation, json!({ "items": item })).await,
            dev.post("/openai/v1/responses", json!({ "model": "demo", "input": item, "conversation": "conv_t" })).await,
        ] {
            assert_eq!(answer.ok(422)["error"]["code"], "conversation_too_large");
        }
    })
    .await;
}
