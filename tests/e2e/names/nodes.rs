//! Several nodes, and nodes that end.

use super::*;
use crate::{backing::Postgres, harness::after};

#[tokio::test]
async fn the_node_where_a_run_ends_names_its_thread_and_all_show_it() {
    let (url, model) = (Postgres::shared().fresh_database(), FakeAgent::start().await);
    let options = || Options::new(Backend::Production).with_naming(endpoint(&model));
    let (one, other) = (Server::in_database(&url, options()).await, Server::in_database(&url, options()).await);
    let (here, there) = (one.client(), other.client());
    here.thread("t").await;
    let mut place = after(&there.get("/v1/threads").await.ok(200));
    converse(&here, "t", "r", "Plan a trip to Ghent".into()).await;
    answer(model.call().await, "Trip to Ghent").await;
    eventually("the other node's feed tells it", async || {
        let feed = there.get(&format!("/v1/feed?{place}&wait=10")).await.ok(200);
        place = after(&feed);
        let entries = feed["entries"].as_array().expect("entries");
        entries.iter().any(|entry| entry["thread"]["name"] == "Trip to Ghent").then_some(())
    })
    .await;
    named(&there, "t", "Trip to Ghent", "title").await;
    // A person at the other node is quicker than the model.
    here.thread("u").await;
    converse(&here, "u", "r", "Plan a trip to Bruges".into()).await;
    let call = model.call().await;
    there.patch("/v1/threads/u", json!({ "name": "Mine" })).await.ok(200);
    answer(call, "Trip to Bruges").await;
    outcome(&one, "overtaken", 1.0).await;
    assert_eq!(look(&here, "u").await["nameSource"], "person");
    outcome(&other, "title", 0.0).await;
    assert_eq!(model.requests(), 2, "one node asks");
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn names_that_a_node_did_not_generate_come_with_the_next_run() {
    let (directory, model) = (tempfile::tempdir().expect("a directory"), FakeAgent::start().await);
    let options = || Options::new(Backend::Sqlite).with_naming(endpoint(&model));
    let server = Server::in_directory(directory.path(), options()).await;
    let dev = server.client();
    dev.thread("t").await;
    converse(&dev, "t", "r", "Plan a trip to Ghent".into()).await;
    let mut asked = model.call().await;
    // The model is not waited for.
    server.stop().await;
    asked.hung_up().await;
    let server = Server::in_directory(directory.path(), options()).await;
    let dev = server.client();
    named(&dev, "t", "Plan a trip to Ghent", "auto").await;
    converse(&dev, "t", "next", "And back".into()).await;
    answer(model.call().await, "Trip to Ghent").await;
    named(&dev, "t", "Trip to Ghent", "title").await;
    server.stop().await;
}
