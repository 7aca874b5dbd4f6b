//! Data that the disk has changed: reads end in front of damaged events, and say so; a damaged page makes the node unready.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection, SqliteConnection};
use threadline_core::ThreadKey;

use crate::{
    backing::Postgres,
    damaged_page::damage_index,
    harness::{Backend, Client, Options, Server, eventually, http::open, number, sse::Events, text},
};

#[tokio::test]
async fn damaged_events_are_told_and_never_shown() {
    let database = Postgres::shared().fresh_database();
    let server = Server::in_database(&database, Options::new(Backend::Production)).await;
    let dev = server.client();
    let epoch = text(&dev.thread("t").await, "epoch").to_owned();
    dev.run("t", "r").await;
    for (n, kind) in (1..).zip(["A", "B", "C"]) {
        dev.append("t", "r", n, json!([{ "type": kind }])).await.ok(200);
    }
    let mut disk = PgConnection::connect(&database).await.expect("connects");
    let change = "UPDATE log SET body = set_byte(body, 0, get_byte(body, 0) # 1) WHERE first_seq = 2";
    assert_eq!(sqlx::raw_sql(change).execute(&mut disk).await.expect("changes").rows_affected(), 1);

    let page = async |after: u64| dev.get(&format!("/v1/threads/t/events?after={after}&epoch={epoch}")).await;
    let intact = page(0).await.ok(200);
    let events = intact["events"].as_array().map(Vec::len);
    assert_eq!((events, &intact["hasMore"]), (Some(1), &json!(true)), "{intact}");
    let next = format!("/v1/threads/t/events?cursor={}", text(&intact, "nextCursor"));
    dev.get(&next).await.problem(500, "log-damaged");
    let problem = page(1).await.problem(500, "log-damaged");
    let facts = (number(&problem, "firstSeq"), number(&problem, "lastSeq"), &problem["retryable"]);
    assert_eq!(facts, (2, 2, &json!(false)), "{problem}");
    assert_eq!(page(2).await.ok(200)["events"].as_array().expect("events").len(), 1, "what follows is intact");
    let counted = dev.get("/metrics").await;
    assert!(!counted.text().contains("threadline_damaged_rows_total 0\n"), "{}", counted.text());
    server.stop().await;
}

#[tokio::test]
async fn missing_events_are_told_and_never_skipped() {
    let (directory, database) = (tempfile::tempdir().expect("a directory"), Postgres::shared().fresh_database());
    let file = format!("sqlite://{}", directory.path().join("threadline.db").display());
    const KEY: &str = "SELECT key FROM threads WHERE id = 't'";
    const DELETE: &str = "DELETE FROM log WHERE first_seq = 2";

    let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
    fill(&server.client()).await;
    let mut disk = SqliteConnection::connect(&file).await.expect("connects");
    let key = sqlx::query_scalar(KEY).fetch_one(&mut disk).await.expect("a key");
    assert_eq!(sqlx::raw_sql(DELETE).execute(&mut disk).await.expect("deletes").rows_affected(), 1);
    disk.close().await.expect("closes");
    tell_what_is_missing(server, ThreadKey(key)).await;

    let server = Server::in_database(&database, Options::new(Backend::Production)).await;
    fill(&server.client()).await;
    let mut disk = PgConnection::connect(&database).await.expect("connects");
    let key = sqlx::query_scalar(KEY).fetch_one(&mut disk).await.expect("a key");
    assert_eq!(sqlx::raw_sql(DELETE).execute(&mut disk).await.expect("deletes").rows_affected(), 1);
    tell_what_is_missing(server, ThreadKey(key)).await;
}

/// A thread `t` with a run of four events, each in a row of its own.
async fn fill(dev: &Client) {
    dev.thread("t").await;
    dev.run("t", "r").await;
    for (n, kind) in (1..).zip(["A", "B", "C"]) {
        dev.append("t", "r", n, json!([{ "type": kind }])).await.ok(200);
    }
    dev.act("t", "r", "finish").await.ok(200);
}

/// Reads the thread `t`, whose event 2 is missing, in every way.
async fn tell_what_is_missing(server: Server, key: ThreadKey) {
    let dev = server.client();
    let epoch = dev.epoch("t").await;
    let read = async |query: &str| dev.get(&format!("/v1/threads/t/events?epoch={epoch}&{query}")).await;
    let seqs = |page: &Value| -> Vec<u64> {
        page["events"].as_array().expect("events").iter().map(|event| number(event, "seq")).collect()
    };
    // Once more after the rows were packed: no event may be read under another seq.
    for _ in 0..2 {
        for (query, intact) in
            [("after=0", vec![1]), ("after=2", vec![3, 4]), ("before=5", vec![3, 4]), ("before=2", vec![1])]
        {
            assert_eq!(seqs(&read(query).await.ok(200)), intact, "{query}");
        }
        assert_eq!(read("after=0").await.ok(200)["hasMore"], true);
        for query in ["after=1", "after=1&limit=1", "after=1&wait=1", "before=3", "before=3&limit=1"] {
            let problem = read(query).await.problem(500, "log-damaged");
            assert_eq!((number(&problem, "firstSeq"), number(&problem, "lastSeq")), (2, 2), "{query}");
        }
        for path in ["/v1/threads/t/messages", "/v1/threads/t/state", "/v1/conversations/t"] {
            assert_eq!(number(&dev.get(path).await.problem(500, "log-damaged"), "firstSeq"), 2, "{path}");
        }
        let input = json!({ "messages": [{ "role": "user", "content": "Hello" }] });
        let start = dev.post("/v1/threads/t/runs", json!({ "agentId": "demo", "input": input })).await;
        assert_eq!(number(&start.problem(500, "log-damaged"), "firstSeq"), 2);
        let lines = dev.get_as(&format!("/v1/threads/t/events?after=1&epoch={epoch}"), "application/x-ndjson").await;
        assert_eq!(number(&lines.problem(500, "log-damaged"), "firstSeq"), 2);
        let mut stream = Events::open(dev.request(Method::GET, "/v1/threads/t/events")).await;
        stream.named("hello").await;
        assert_eq!(number(&stream.message().await.json(), "seq"), 1);
        let ended = stream.named("ended").await.json();
        assert_eq!((text(&ended, "reason"), number(&ended, "firstSeq")), ("log-damaged", 2), "{ended}");
        server.store.pack(key, Duration::ZERO).await.expect("packs");
    }
    server.stop().await;
}

#[tokio::test]
async fn one_damaged_thread_ends_no_other_subscription() {
    let database = Postgres::shared().fresh_database();
    let server = Server::in_database(&database, Options::new(Backend::Production)).await;
    let dev = server.client();
    for thread in ["healthy", "t"] {
        dev.thread(thread).await;
        dev.run(thread, "r").await;
        for (n, kind) in (1..).zip(["A", "B", "C"]) {
            dev.append(thread, "r", n, json!([{ "type": kind }])).await.ok(200);
        }
    }
    let mut disk = PgConnection::connect(&database).await.expect("connects");
    let change = "UPDATE log SET body = set_byte(body, 0, get_byte(body, 0) # 1)
        WHERE first_seq = 2 AND key = (SELECT key FROM threads WHERE id = 't')";
    assert_eq!(sqlx::raw_sql(change).execute(&mut disk).await.expect("changes").rows_affected(), 1);

    let mut socket = server.socket("dev").await;
    socket.send(json!({ "subscribe": { "threadId": "healthy" } })).await;
    socket.until("caughtUp").await;
    socket.send(json!({ "subscribe": { "threadId": "t" } })).await;
    assert_eq!(socket.until("events").await.1["batches"][0]["events"], json!([{ "type": "A" }]));
    let (_, ended) = socket.until("ended").await;
    let facts = (text(&ended, "reason"), number(&ended, "seq"), number(&ended, "firstSeq"), number(&ended, "lastSeq"));
    assert_eq!((text(&ended, "threadId"), facts), ("t", ("log-damaged", 1, 2, 2)), "{ended}");
    dev.append("healthy", "r", 4, json!([{ "type": "D" }])).await.ok(200);
    let (_, live) = socket.until("events").await;
    assert_eq!((text(&live, "threadId"), &live["batches"][0]["seq"]), ("healthy", &json!(4)), "{live}");

    let events = "/v1/threads/t/events";
    let mut stream = Events::open(dev.request(Method::GET, events)).await;
    stream.named("hello").await;
    assert_eq!(number(&stream.message().await.json(), "seq"), 1);
    let told = stream.named("ended").await.json();
    assert_eq!((&told["reason"], &told["firstSeq"], &told["lastSeq"]), (&json!("log-damaged"), &json!(2), &json!(2)));
    assert!(stream.next().await.is_none(), "nothing follows");
    // A body of lines that has not begun is a problem; one that has begun is cut.
    let epoch = dev.epoch("t").await;
    let lines = async |after: u64| {
        let request = dev.request(Method::GET, &format!("{events}?after={after}&epoch={epoch}"));
        open(request.header("accept", "application/x-ndjson")).await
    };
    let refused = lines(1).await;
    assert_eq!(refused.status(), 500);
    assert_eq!(refused.json::<Value>().await.expect("a problem")["firstSeq"], 2);
    let cut = lines(0).await;
    assert_eq!(cut.status(), 200);
    assert!(cut.bytes().await.is_err(), "the client learns that lines are missing");
    assert_eq!(lines(2).await.text().await.expect("intact").lines().count(), 1);
    server.stop().await;
}

#[tokio::test]
async fn a_damaged_page_makes_the_node_unready() {
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::in_directory(data.path(), Options::new(Backend::Sqlite)).await;
    server.client().thread("t").await;
    server.stop().await;
    let file = data.path().join("threadline.db");
    damage_index(&file, "threads_of_user").await;

    let server = Server::in_directory(data.path(), Options::new(Backend::Sqlite)).await;
    server.client().get("/v1/threads/t").await.problem(500, "internal");
    let why = eventually("the next beat", async || {
        let ready = server.client().get("/readyz").await;
        (ready.status == 503).then(|| ready.json()["why"].clone()).filter(|why| why != "starting")
    });
    assert_eq!(why.await, "store-is-corrupt");
    server.stop().await;
}
