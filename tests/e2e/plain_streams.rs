//! Plain streams of the Durable Streams protocol. The protocol's own conformance tests run in `tests/real/conformance.rs`.

use reqwest::{Method, RequestBuilder};
use serde_json::json;
use threadline_core::{Clock, Timestamp, limits::MAX_STREAM_APPEND_BYTES};

use crate::harness::{
    Answer, Backend, Client, Options, Server, everywhere,
    http::send,
    run,
    sse::{Event, Events},
};

const STREAM: &str = "/streams/v1/stream/logs/a%20b";

fn text(dev: &Client, method: Method, path: &str, body: &str) -> RequestBuilder {
    dev.request(method, path).header("content-type", "text/plain").body(body.to_owned())
}

async fn create(dev: &Client, path: &str, body: &str) -> Answer {
    send(text(dev, Method::PUT, path, body)).await
}

async fn append(dev: &Client, path: &str, body: &str) -> Answer {
    send(text(dev, Method::POST, path, body)).await
}

/// An append of a producer.
async fn produce(dev: &Client, (epoch, seq): (u64, u64), body: &str) -> Answer {
    let request = text(dev, Method::POST, STREAM, body).header("producer-id", "w");
    send(request.header("producer-epoch", epoch).header("producer-seq", seq)).await
}

async fn fork(dev: &Client, path: &str, source: &str, at: Option<&str>) -> Answer {
    let request = dev.request(Method::PUT, path).header("stream-forked-from", source);
    send(at.into_iter().fold(request, |request, at| request.header("stream-fork-offset", at))).await
}

fn next(answer: &Answer) -> String {
    answer.header("stream-next-offset").to_owned()
}

async fn data(events: &mut Events) -> Event {
    loop {
        let event = events.next().await.expect("an event");
        if event.event.as_deref() == Some("data") {
            return event;
        }
    }
}

everywhere! {
    async fn a_stream_of_bytes_is_written_read_and_closed(server) {
        let dev = server.client();
        append(&dev, STREAM, "x").await.problem(404, "stream-not-found");
        let made = create(&dev, STREAM, "one").await;
        assert_eq!((made.status, made.header("content-type")), (201, "text/plain"));
        assert_eq!(made.header("content-security-policy"), "sandbox; default-src 'none'");
        assert_eq!(made.header("location"), format!("http://{}{STREAM}", server.addr));
        assert_eq!(create(&dev, STREAM, "other").await.status, 200, "the content is not compared");
        send(dev.request(Method::PUT, STREAM).header("content-type", "a/b")).await.problem(409, "stream-conflict");
        let two = append(&dev, STREAM, " two").await;
        assert_eq!((two.status, two.text()), (204, ""));
        assert!(next(&two).starts_with("0000000000000007_"), "{}", next(&two));
        let all = dev.get(&format!("{STREAM}?utm=1&offset=-1")).await;
        assert_eq!((all.status, all.text(), next(&all)), (200, "one two", next(&two)), "other parameters are ignored");
        assert_eq!((all.header("stream-up-to-date"), all.header("stream-closed")), ("true", ""));
        let rest = dev.get(&format!("{STREAM}?offset={}", next(&made))).await;
        assert_eq!(rest.text(), " two");
        let tagged = dev.request(Method::GET, STREAM).header("if-none-match", all.header("etag"));
        assert_eq!(send(tagged.try_clone().expect("a request")).await.status, 304);
        let closed = send(dev.request(Method::POST, STREAM).header("stream-closed", "true")).await;
        assert_eq!((closed.status, closed.header("stream-closed"), next(&closed)), (204, "true", next(&two)));
        assert_eq!(send(tagged).await.header("stream-closed"), "true", "a closed stream has another tag");
        let late = append(&dev, STREAM, "x").await;
        late.problem(409, "stream-conflict");
        assert_eq!((late.header("stream-closed"), next(&late)), ("true", next(&two)));
        let head = send(dev.request(Method::HEAD, STREAM)).await;
        assert_eq!((head.status, head.header("stream-closed"), head.header("cache-control")), (200, "true", "no-store"));
        assert_eq!(dev.delete(STREAM).await.status, 204);
        dev.get(STREAM).await.problem(404, "stream-not-found");
        assert_eq!(create(&dev, STREAM, "again").await.status, 201);
        let old = dev.get(&format!("{STREAM}?offset={}", next(&made))).await;
        old.problem(410, "stream-gone");
        let ahead = next(&create(&dev, STREAM, "").await).replace("05_", "99_");
        dev.get(&format!("{STREAM}?offset={ahead}")).await.problem(416, "cursor-ahead");
    }
}

everywhere! {
    async fn an_append_of_a_producer_is_stored_once(server) {
        let dev = server.client();
        create(&dev, STREAM, "").await;
        let first = produce(&dev, (0, 0), "a").await;
        assert_eq!((first.status, first.header("producer-seq")), (200, "0"));
        assert_eq!(produce(&dev, (0, 1), "b").await.status, 200);
        let repeated = produce(&dev, (0, 0), "a").await;
        assert_eq!((repeated.status, repeated.header("producer-seq")), (204, "1"));
        let gap = produce(&dev, (0, 5), "x").await;
        gap.problem(409, "producer-seq-gap");
        assert_eq!((gap.header("producer-expected-seq"), gap.header("producer-received-seq")), ("2", "5"));
        assert_eq!(produce(&dev, (1, 0), "c").await.status, 200);
        let stale = produce(&dev, (0, 2), "x").await;
        stale.problem(403, "stale-producer");
        assert_eq!(stale.header("producer-epoch"), "1");
        produce(&dev, (2, 1), "x").await.problem(400, "invalid-request");
        // Appends that race are each stored once.
        let all = (0..8).map(|_| produce(&dev, (1, 1), "d"));
        let statuses: Vec<u16> = futures_util::future::join_all(all).await.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
        assert_eq!(dev.get(STREAM).await.text(), "abcd");
    }
}

everywhere! {
    async fn messages_are_followed_live(server) {
        let dev = server.client();
        let path = "/streams/v1/stream/events";
        let made = dev.put(path, json!([{ "n": 1 }, [2]])).await;
        assert_eq!((made.status, dev.get(path).await.ok(200)), (201, json!([{ "n": 1 }, [2]])));
        dev.post(path, json!([])).await.problem(400, "invalid-request");
        let junk = dev.request(Method::POST, path).header("content-type", "application/json").body("{");
        send(junk).await.problem(400, "invalid-request");
        let mut events = Events::open(dev.request(Method::GET, &format!("{path}?offset=-1&live=sse"))).await;
        assert_eq!(data(&mut events).await.json(), json!([{ "n": 1 }, [2]]));
        let control = events.named("control").await.json();
        assert_eq!((&control["streamNextOffset"], &control["upToDate"]), (&json!(next(&made)), &json!(true)));
        let polled = async { dev.get(&format!("{path}?offset={}&live=long-poll&cursor=99999999", next(&made))).await };
        let appended = async { dev.post(path, json!({ "n": 3 })).await };
        let (polled, appended) = tokio::join!(polled, appended);
        assert_eq!((polled.ok(200), next(&polled)), (json!([{ "n": 3 }]), next(&appended)));
        assert_eq!(polled.header("stream-cursor"), "100000000");
        assert_eq!(data(&mut events).await.json(), json!([{ "n": 3 }]));
        let last = dev.request(Method::POST, path).header("stream-closed", "true").json(&json!("end"));
        assert_eq!(send(last).await.status, 204);
        assert_eq!(data(&mut events).await.json(), json!(["end"]));
        assert_eq!(events.named("control").await.json()["streamClosed"], json!(true));
        assert_eq!(events.next().await, None);
        let polled = dev.get(&format!("{path}?offset=now&live=long-poll")).await;
        assert_eq!((polled.status, polled.header("stream-closed")), (204, "true"));
    }
}

everywhere! {
    async fn a_fork_reads_on_after_its_source_is_gone(server) {
        let dev = server.client();
        let (source, one, other) = ("/streams/v1/stream/s", "/streams/v1/stream/f", "/streams/v1/stream/g");
        fork(&dev, one, source, None).await.problem(404, "stream-not-found");
        let made = create(&dev, source, "ab").await;
        append(&dev, source, "cd").await;
        assert_eq!(fork(&dev, one, source, Some(&next(&made))).await.status, 201);
        append(&dev, one, "!").await;
        assert_eq!(fork(&dev, other, one, None).await.status, 201);
        append(&dev, other, "?").await;
        assert_eq!(dev.get(other).await.text(), "ab!?");
        assert_eq!(fork(&dev, other, one, None).await.status, 200);
        fork(&dev, other, source, None).await.problem(409, "stream-conflict");
        fork(&dev, "/streams/v1/stream/x", source, Some("0000000000000009_0000000000000000")).await.problem(400, "invalid-request");
        for path in [source, one] {
            assert_eq!(dev.delete(path).await.status, 204);
            dev.get(path).await.problem(410, "stream-gone");
            append(&dev, path, "x").await.problem(410, "stream-gone");
            dev.delete(path).await.problem(410, "stream-gone");
            create(&dev, path, "x").await.problem(409, "stream-conflict");
        }
        assert_eq!(dev.get(other).await.text(), "ab!?");
        assert_eq!(dev.delete(other).await.status, 204);
        for path in [source, one, other] {
            dev.get(path).await.problem(404, "stream-not-found");
        }
    }
}

#[tokio::test]
async fn a_stream_expires_after_its_last_use() {
    let clock = Clock::manual(Timestamp(1_700_000_000_000));
    run(Options { clock: clock.clone(), ..Options::memory() }, async |server: &Server| {
        let dev = server.client();
        let made = text(&dev, Method::PUT, STREAM, "x").header("stream-ttl", "60");
        assert_eq!(send(made).await.status, 201);
        for _ in 0..3 {
            clock.advance(std::time::Duration::from_secs(40));
            assert_eq!(dev.get(STREAM).await.status, 200, "a read keeps it");
        }
        clock.advance(std::time::Duration::from_secs(40));
        let head = send(dev.request(Method::HEAD, STREAM)).await;
        assert_eq!((head.status, head.header("stream-ttl")), (200, "60"));
        clock.advance(std::time::Duration::from_secs(21));
        dev.get(STREAM).await.problem(404, "stream-not-found");
        let until = text(&dev, Method::PUT, STREAM, "y").header("stream-expires-at", "2023-11-15T00:00:00Z");
        assert_eq!(send(until).await.status, 201, "the place of an expired stream is free");
        let head = send(dev.request(Method::HEAD, STREAM)).await;
        assert_eq!(head.header("stream-expires-at"), "2023-11-15T00:00:00.000Z");
    })
    .await;
}

everywhere! {
    async fn a_stream_belongs_to_its_user_and_is_erased_with_them(server) {
        let project = server.client();
        let [ann, bob] = ["ann", "bob"].map(|name| Client { user: Some(name.to_owned()), ..server.client() });
        for (who, body) in [(&ann, "of ann"), (&bob, "of bob"), (&project, "of the project")] {
            assert_eq!(create(who, STREAM, body).await.status, 201);
        }
        for (who, body) in [(&ann, "of ann"), (&bob, "of bob"), (&project, "of the project")] {
            assert_eq!(who.get(STREAM).await.text(), body);
        }
        let receipt = project.delete("/v1/users/ann").await.ok(200);
        assert_eq!(receipt["erased"]["streams"], 1, "{receipt}");
        ann.get(STREAM).await.problem(404, "stream-not-found");
        assert_eq!((bob.get(STREAM).await.status, project.get(STREAM).await.status), (200, 200));
    }
}

#[tokio::test]
async fn what_a_stream_cannot_be_is_refused() {
    run(Options::memory(), async |server: &Server| {
        let dev = server.client();
        for path in ["threads", "threads/t/x/y/z", "__ds/jwks.json"] {
            create(&dev, &format!("/streams/v1/stream/{path}"), "").await.problem(404, "not-found");
        }
        for path in ["a//b", "a/", "a%0Ab"] {
            create(&dev, &format!("/streams/v1/stream/{path}"), "").await.problem(400, "invalid-request");
        }
        let large = "x".repeat(MAX_STREAM_APPEND_BYTES + 1);
        create(&dev, STREAM, &large).await.problem(413, "too-large");
        assert_eq!(create(&dev, STREAM, &large[1..]).await.status, 201);
        append(&dev, STREAM, &large).await.problem(413, "too-large");
        append(&dev, STREAM, "").await.problem(400, "invalid-request");
        send(dev.request(Method::POST, STREAM).body("x")).await.problem(400, "invalid-request");
        for name in ["stream-ttl", "stream-expires-at", "stream-fork-offset", "stream-forked-from"] {
            let odd = text(&dev, Method::PUT, "/streams/v1/stream/odd", "").header(name, "?");
            send(odd).await.problem(400, "invalid-request");
        }
        dev.get(&format!("{STREAM}?offset=-1&offset=now")).await.problem(400, "invalid-request");
        dev.get(&format!("{STREAM}?live=sse")).await.problem(400, "invalid-request");
        dev.get(&format!("{STREAM}?offset=7")).await.problem(400, "invalid-cursor");
        let all = dev.get(STREAM).await;
        assert_eq!(all.body.len(), MAX_STREAM_APPEND_BYTES);
    })
    .await;
}

#[tokio::test]
async fn hundreds_of_live_readers_of_a_stream_all_get_what_is_appended() {
    run(Options::new(Backend::Sqlite), async |server: &Server| {
        let dev = server.client();
        assert_eq!(create(&dev, STREAM, "x").await.status, 201);
        let mut readers = Vec::new();
        for _ in 0..300 {
            let mut events = Events::open(dev.request(Method::GET, &format!("{STREAM}?offset=now&live=sse"))).await;
            events.named("control").await;
            readers.push(events);
        }
        assert_eq!(append(&dev, STREAM, "y").await.status, 204);
        for events in &mut readers {
            assert_eq!(data(events).await.data, "y");
        }
    })
    .await;
}

#[tokio::test]
async fn a_full_storage_takes_no_content_but_an_end() {
    let options = Options::memory().with_key("secret").with_limits(|limits| limits.project.stored_bytes = 1);
    run(options, async |server: &Server| {
        let ann = server.user("ann");
        assert_eq!(create(&ann, STREAM, "x").await.status, 201);
        append(&ann, STREAM, "y").await.problem(507, "storage-full");
        create(&ann, "/streams/v1/stream/other", "").await.problem(507, "storage-full");
        assert_eq!(send(ann.request(Method::POST, STREAM).header("stream-closed", "true")).await.status, 204);
        assert_eq!(ann.get(STREAM).await.text(), "x");
        assert_eq!(ann.delete(STREAM).await.status, 204);
    })
    .await;
}
