//! Threads and runs as streams of the Durable Streams protocol. Its own client reads them in `tests/real/node/streams.test.mjs`.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{
    Answer, Client, Options, Server, everywhere,
    http::send,
    run,
    sse::{Event, Events},
    text,
};

const THREAD: &str = "/streams/v1/stream/threads/t";

/// A thread with the finished run `one` (seqs 1 to 3), and the active run `two` (4 to 5).
async fn prepare(dev: &Client) {
    dev.thread("t").await;
    dev.put("/v1/threads/t/runs/one", json!([{ "type": "A" }, { "type": "B" }])).await.ok(201);
    dev.run("t", "two").await;
    dev.append("t", "two", 1, json!([{ "type": "D" }, { "type": "E" }])).await.ok(200);
}

fn types(body: &Value) -> Vec<&str> {
    body.as_array().expect("an array").iter().map(|event| text(event, "type")).collect()
}

/// Header fields: next offset, up to date, closed.
fn end(answer: &Answer) -> (String, bool, bool) {
    let is = |name: &str| answer.headers.get(name).map(|value| value == "true").unwrap_or_default();
    (answer.header("stream-next-offset").to_owned(), is("stream-up-to-date"), is("stream-closed"))
}

fn control(event: &Event) -> Value {
    assert_eq!(event.event.as_deref(), Some("control"), "{event:?}");
    event.json()
}

everywhere! {
    async fn a_thread_is_a_stream_that_stays_open(server) {
        let dev = server.client();
        prepare(&dev).await;
        let epoch = dev.epoch("t").await;
        let all = dev.get(THREAD).await;
        assert_eq!(types(&all.ok(200)), ["A", "B", "RUN_FINISHED", "D", "E"]);
        let tail = format!("0000000000000005_{epoch}");
        assert_eq!(end(&all), (tail.clone(), true, false));
        assert_eq!(all.header("content-type"), "application/json");
        assert_eq!(dev.get(&format!("{THREAD}?offset=-1")).await.text(), all.text());
        let rest = dev.get(&format!("{THREAD}?offset=0000000000000003_{epoch}")).await;
        assert_eq!((types(&rest.ok(200)), end(&rest).0), (vec!["D", "E"], tail.clone()));
        for (query, has_tag) in [(format!("offset={tail}"), true), ("offset=now".to_owned(), false)] {
            let nothing = dev.get(&format!("{THREAD}?{query}")).await;
            assert_eq!((nothing.text(), end(&nothing)), ("[]", (tail.clone(), true, false)), "{query}");
            assert_eq!(nothing.headers.contains_key("etag"), has_tag, "{query}");
        }
        let head = send(dev.request(Method::HEAD, THREAD)).await;
        assert_eq!((head.status, end(&head), head.text()), (200, (tail.clone(), true, false), ""));
        assert_eq!(head.header("cache-control"), "no-store");
    }
}

everywhere! {
    async fn a_run_is_a_stream_that_its_end_closes(server) {
        let dev = server.client();
        prepare(&dev).await;
        let epoch = dev.epoch("t").await;
        let (one, two) = (format!("{THREAD}/runs/one"), format!("{THREAD}/runs/two"));
        let first = dev.get(&one).await;
        let last = format!("0000000000000003_{epoch}");
        assert_eq!((types(&first.ok(200)), end(&first)), (vec!["A", "B", "RUN_FINISHED"], (last.clone(), true, true)));
        for query in [format!("offset={last}"), "offset=now".to_owned()] {
            let nothing = dev.get(&format!("{one}?{query}")).await;
            assert_eq!((nothing.text(), end(&nothing)), ("[]", (last.clone(), true, true)), "{query}");
            let polled = dev.get(&format!("{one}?{query}&live=long-poll")).await;
            assert_eq!((polled.status, end(&polled)), (204, (last.clone(), true, true)), "{query}");
            assert!(!polled.headers.contains_key("stream-cursor"), "no further request is expected");
            let mut events = Events::open(dev.request(Method::GET, &format!("{one}?{query}&live=sse"))).await;
            let told = control(&events.next().await.expect("a control event"));
            assert_eq!(told, json!({ "streamNextOffset": last, "upToDate": true, "streamClosed": true }));
            assert_eq!(events.next().await, None);
        }
        // The end of an active run closes its stream, and changes the entity tag.
        let open = dev.get(&two).await;
        let tail = format!("0000000000000005_{epoch}");
        assert_eq!((types(&open.ok(200)), end(&open)), (vec!["D", "E"], (tail.clone(), true, false)));
        let tag = open.header("etag").to_owned();
        let again = async || send(dev.request(Method::GET, &two).header("if-none-match", &tag)).await;
        assert_eq!(again().await.status, 304);
        let mut events = Events::open(dev.request(Method::GET, &format!("{two}?offset={tail}&live=sse"))).await;
        let told = control(&events.next().await.expect("a control event"));
        assert_eq!((&told["streamNextOffset"], &told["upToDate"]), (&json!(tail), &json!(true)));
        let polled = async { dev.get(&format!("{two}?offset={tail}&live=long-poll")).await };
        let ended = async { dev.act("t", "two", "finish").await.ok(200) };
        let (polled, _) = tokio::join!(polled, ended);
        let last = format!("0000000000000006_{epoch}");
        assert_eq!((types(&polled.ok(200)), end(&polled).0), (vec!["RUN_FINISHED"], last.clone()));
        let data = events.next().await.expect("data");
        assert_eq!((data.event.as_deref(), types(&data.json())), (Some("data"), vec!["RUN_FINISHED"]));
        let (told, closed) = (control(&events.next().await.expect("control")), control(&events.next().await.expect("control")));
        assert_eq!((&told["streamNextOffset"], &told["streamClosed"]), (&json!(last), &Value::Null));
        assert_eq!(closed, json!({ "streamNextOffset": last, "upToDate": true, "streamClosed": true }));
        assert_eq!(events.next().await, None);
        assert_eq!(again().await.status, 200, "a closed stream has another tag");
        assert_eq!(end(&send(dev.request(Method::HEAD, &two)).await), (last, true, true));
    }
}

everywhere! {
    async fn live_reads_go_on_at_their_offset(server) {
        let dev = server.client();
        prepare(&dev).await;
        let mut events = Events::open(dev.request(Method::GET, &format!("{THREAD}?offset=-1&live=sse"))).await;
        let mut seen = Vec::new();
        let mut offset = Value::Null;
        // Stored events may come in several pieces, each with its control event.
        while seen.len() < 5 {
            let data = events.next().await.expect("data");
            assert_eq!(data.event.as_deref(), Some("data"));
            seen.extend(types(&data.json()).into_iter().map(str::to_owned));
            let told = control(&events.next().await.expect("control"));
            assert!(text(&told, "streamCursor").parse::<u64>().is_ok(), "{told}");
            offset = told["streamNextOffset"].clone();
        }
        assert_eq!(seen, ["A", "B", "RUN_FINISHED", "D", "E"]);
        let offset = offset.as_str().expect("an offset").to_owned();
        let polled = async { dev.get(&format!("{THREAD}?offset=now&live=long-poll&cursor=99999999")).await };
        let appended = async { dev.append("t", "two", 3, json!([{ "type": "F", "text": "line\nof \u{2028} text" }])).await.ok(200) };
        let (polled, _) = tokio::join!(polled, appended);
        // The request may have come after the event: then it waits for nothing, and its end is the same.
        if polled.status == 200 {
            assert_eq!(types(&polled.json()), ["F"]);
        }
        assert_eq!(polled.header("stream-cursor"), "100000000", "a cursor never goes back");
        let next = loop {
            let event = events.next().await.expect("an event");
            if event.event.as_deref() == Some("data") {
                break event.json();
            }
        };
        assert_eq!(next, json!([{ "type": "F", "text": "line\nof \u{2028} text" }]));
        let rest = dev.get(&format!("{THREAD}?offset={offset}")).await;
        assert_eq!((types(&rest.ok(200)), end(&rest).0), (vec!["F"], format!("0000000000000006_{}", dev.epoch("t").await)));
    }
}

everywhere! {
    async fn a_read_that_cannot_continue_is_refused(server) {
        let dev = server.client();
        prepare(&dev).await;
        let epoch = dev.epoch("t").await;
        for path in [THREAD.to_owned(), format!("{THREAD}/runs/two")] {
            for live in ["", "&live=long-poll", "&live=sse"] {
                for (offset, status, slug) in [
                    ("7", 400, "invalid-cursor"),
                    ("", 400, "invalid-cursor"),
                    ("0000000000000003_0123456789abcdef", 410, "log-replaced"),
                    (&format!("0000000000000009_{epoch}"), 416, "cursor-ahead"),
                ] {
                    let answer = dev.get(&format!("{path}?offset={offset}{live}")).await;
                    answer.problem(status, slug);
                }
            }
            dev.get(&format!("{path}?live=sse")).await.problem(400, "invalid-request");
            dev.get(&format!("{path}?offset=-1&live=poll")).await.problem(400, "invalid-request");
            dev.get(&format!("{path}?offset=-1&offset=now")).await.problem(400, "invalid-request");
            for method in [Method::PUT, Method::POST, Method::DELETE] {
                let answer = send(dev.request(method, &path)).await;
                answer.problem(405, "method-not-allowed");
                assert_eq!(answer.header("allow"), "GET,HEAD");
            }
        }
        dev.get("/streams/v1/stream/threads/none").await.problem(404, "thread-not-found");
        dev.get(&format!("{THREAD}/runs/none")).await.problem(404, "run-not-found");
        assert_eq!(dev.delete("/v1/threads/t").await.status, 204);
        dev.get(THREAD).await.problem(404, "thread-not-found");
    }
}

#[tokio::test]
async fn a_long_poll_without_a_message_ends_at_its_offset() {
    run(Options::memory(), async |server: &Server| {
        let dev = server.client();
        prepare(&dev).await;
        let polled = dev.get(&format!("{THREAD}?offset=now&live=long-poll")).await;
        let tail = format!("0000000000000005_{}", dev.epoch("t").await);
        assert_eq!((polled.status, polled.text(), end(&polled)), (204, "", (tail, true, false)));
        assert!(polled.header("stream-cursor").parse::<u64>().is_ok());
    })
    .await;
}
