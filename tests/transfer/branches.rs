//! Branches of a conversation move with their places.

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    backing::Postgres,
    command::{command, export, import, run},
    harness::{Backend, Client, Options, Server},
    verify::verify,
};

/// Branches of the conversation: id, whether it is listed, and its origin; and the ids in the list.
async fn branches(client: &Client) -> (Value, Value) {
    let page = client.get("/v1/threads/t/branches").await.ok(200);
    let branches = page["branches"].as_array().expect("a list").iter();
    let facts = branches.map(|branch| json!([branch["threadId"], branch["listed"], branch["forkedFrom"]])).collect();
    let list = client.get("/v1/threads?order=created").await.ok(200);
    let ids = list["threads"].as_array().expect("a list").iter().map(|thread| thread["threadId"].clone()).collect();
    (facts, ids)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn branches_are_imported_as_they_were() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let server = Server::in_directory(&at("first"), Options::new(Backend::Sqlite)).await;
    let alice = server.user("alice");
    alice.thread("t").await;
    alice.put("/v1/threads/t/runs/r", json!([{ "type": "A" }, { "type": "B" }, { "type": "C" }])).await.ok(201);
    for (id, body) in [("one", json!({ "at": 2 })), ("two", json!({})), ("copy", json!({ "separate": true }))] {
        let mut body = body;
        body["threadId"] = json!(id);
        alice.post("/v1/threads/t/forks", body).await.ok(201);
    }
    alice.put("/v1/threads/one/runs/own", json!([{ "type": "D" }])).await.ok(201);
    alice.put("/v1/threads/t/branches/listed", json!({ "threadId": "one" })).await.ok(200);
    let before = branches(&alice).await;
    assert_eq!(before.1, json!(["one", "copy"]));
    server.stop().await;
    assert_eq!(verify(&at("first").display().to_string()), (Some(0), Vec::new()));

    export(&at("first"), &at("moved")).done();
    import(&at("second"), &at("moved")).done();
    let server = Server::in_directory(&at("second"), Options::new(Backend::Sqlite)).await;
    let alice = server.user("alice");
    assert_eq!(branches(&alice).await, before);
    assert_eq!(alice.get("/v1/threads/copy").await.ok(200)["forkedFrom"]["threadId"], "t");
    // The family is the same one: a later fork is a branch of it.
    alice.post("/v1/threads/t/forks", json!({ "threadId": "one", "at": 2 })).await.ok(200);
    alice.post("/v1/threads/two/forks", json!({ "threadId": "three" })).await.ok(201);
    assert_eq!(branches(&alice).await.1, json!(["copy", "three"]));
    server.stop().await;

    let url = Postgres::shared().fresh_database();
    let mut into_postgres = command("import", Path::new("/nowhere"), &at("moved"));
    into_postgres.env("THREADLINE_STORE", &url);
    run(into_postgres).done();
    let server = Server::in_database(&url, Options::new(Backend::Production)).await;
    assert_eq!(branches(&server.user("alice")).await, before);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_lists_one_branch_of_a_conversation() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let server = Server::in_directory(&at("first"), Options::new(Backend::Sqlite)).await;
    let alice = server.user("alice");
    alice.thread("t").await;
    alice.put("/v1/threads/t/runs/r", json!([{ "type": "A" }])).await.ok(201);
    alice.post("/v1/threads/t/forks", json!({ "threadId": "f" })).await.ok(201);
    server.stop().await;

    // One that was not listed comes alone, and then the one that was.
    export(&at("first"), &at("all")).done();
    let mut alone = command("export", &at("first"), &at("alone"));
    alone.args(["--thread", "t"]);
    run(alone).done();
    import(&at("second"), &at("alone")).done();
    let listed = async |expected: Value| {
        let server = Server::in_directory(&at("second"), Options::new(Backend::Sqlite)).await;
        assert_eq!(branches(&server.user("alice")).await.1, expected);
        server.stop().await;
    };
    listed(json!(["t"])).await;
    import(&at("second"), &at("all")).done();
    let server = Server::in_directory(&at("second"), Options::new(Backend::Sqlite)).await;
    assert_eq!(branches(&server.user("alice")).await.1.as_array().expect("a list").len(), 1);
    server.stop().await;
}
