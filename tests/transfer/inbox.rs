//! Open interrupts move with the log that they are read from.

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    backing::Postgres,
    command::{command, export, import, run},
    harness::{Backend, Client, Options, Server},
};

fn requests(ids: &[&str]) -> Value {
    let interrupts: Vec<_> = ids.iter().map(|id| json!({ "id": id, "reason": "tool_call", "message": "é?" })).collect();
    json!({ "type": "RUN_FINISHED", "outcome": { "type": "interrupt", "interrupts": interrupts } })
}

fn answers(ids: &[&str]) -> Value {
    let resume: Vec<_> = ids.iter().map(|id| json!({ "interruptId": id, "status": "resolved" })).collect();
    json!({ "type": "RUN_STARTED", "input": { "resume": resume } })
}

/// The inbox, and what the lists say of each thread.
async fn inbox(client: &Client) -> (Value, Value) {
    let page = client.get("/v1/interrupts").await.ok(200);
    let list = client.get("/v1/threads?status=waiting").await.ok(200);
    let threads = list["threads"].as_array().expect("a list").iter();
    let counts = threads.map(|thread| json!([thread["threadId"], thread["openInterrupts"]])).collect();
    (page["interrupts"].clone(), counts)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_interrupts_are_imported_as_they_were() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let server = Server::in_directory(&at("first"), Options::new(Backend::Sqlite)).await;
    let alice = server.user("alice");
    let put = async |thread: &str, run: &str, events: Value| {
        alice.put(&format!("/v1/threads/{thread}/runs/{run}"), events).await.ok(201);
    };
    for thread in ["settled", "some", "failed", "again"] {
        alice.thread(thread).await;
        put(thread, "asks", json!([{ "type": "X" }, requests(&["i", "k"])])).await;
    }
    let done = json!({ "type": "RUN_FINISHED" });
    put("settled", "answers", json!([answers(&["i", "k"]), done])).await;
    put("some", "answers", json!([answers(&["k"]), { "type": "X" }, done])).await;
    put("failed", "answers", json!([answers(&["i", "k"]), { "type": "RUN_ERROR", "message": "no" }])).await;
    put("again", "answers", json!([answers(&["i", "k"]), requests(&["i"])])).await;
    let before = inbox(&alice).await;
    assert_eq!(before.1, json!([["again", 1], ["failed", 2], ["some", 1]]));
    server.stop().await;

    export(&at("first"), &at("moved")).done();
    import(&at("second"), &at("moved")).done();
    let server = Server::in_directory(&at("second"), Options::new(Backend::Sqlite)).await;
    assert_eq!(inbox(&server.user("alice")).await, before);
    server.stop().await;
    let url = Postgres::shared().fresh_database();
    let mut into_postgres = command("import", Path::new("/nowhere"), &at("moved"));
    into_postgres.env("THREADLINE_STORE", &url);
    run(into_postgres).done();
    let server = Server::in_database(&url, Options::new(Backend::Production)).await;
    let alice = server.user("alice");
    assert_eq!(inbox(&alice).await, before);
    // A later answer settles what was imported.
    alice.put("/v1/threads/some/runs/later", json!([answers(&["i"]), { "type": "RUN_FINISHED" }])).await.ok(201);
    assert_eq!(inbox(&alice).await.1, json!([["again", 1], ["failed", 2]]));
    server.stop().await;
}
