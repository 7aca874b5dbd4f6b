//! Data that the disk has changed: reads end in front of damaged events, and say so; a damaged page makes the node unready.

use serde_json::json;
use sqlx::{Connection, PgConnection, SqliteConnection};

use crate::{
    backing::Postgres,
    harness::{Backend, Options, Server, eventually, number, text},
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
async fn a_damaged_page_makes_the_node_unready() {
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::in_directory(data.path(), Options::new(Backend::Sqlite)).await;
    server.client().thread("t").await;
    server.stop().await;
    let file = data.path().join("threadline.db");
    let mut own = SqliteConnection::connect(&format!("sqlite://{}", file.display())).await.expect("connects");
    let place =
        "SELECT rootpage, (SELECT page_size FROM pragma_page_size) FROM sqlite_master WHERE name = 'threads_by_id'";
    let (page, size): (i64, i64) = sqlx::query_as(place).fetch_one(&mut own).await.expect("an index");
    own.close().await.expect("closes");
    let mut bytes = std::fs::read(&file).expect("a file");
    let end = usize::try_from(page * size).expect("an offset");
    bytes[end - 16..end].iter_mut().for_each(|byte| *byte ^= 0xff);
    std::fs::write(&file, bytes).expect("writes");

    let server = Server::in_directory(data.path(), Options::new(Backend::Sqlite)).await;
    server.client().get("/v1/threads/t").await.problem(500, "internal");
    let why = eventually("the next beat", async || {
        let ready = server.client().get("/readyz").await;
        (ready.status == 503).then(|| ready.json()["why"].clone()).filter(|why| why != "starting")
    });
    assert_eq!(why.await, "store-is-corrupt");
    server.stop().await;
}
