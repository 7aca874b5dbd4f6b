//! CopilotKit's platform API, used by its Node runtime and browser packages, over plain HTTP and raw frames:
//! the checks of the protocol that need no package, each named by its number.

mod following;
mod frames;
mod lent;
mod lists;
mod locks;
mod polls;
mod projections;
mod runners;
mod shutting_down;
mod strangers;
mod threads;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Server, eventually, http::send, text};
pub use frames::Frames;

/// The key of the servers here.
pub const KEY: &str = "secret";

/// A call of the Node runtime.
pub async fn call(server: &Server, method: Method, path: &str, body: Value) -> Answer {
    let request = server.project().request(method, path).header("content-type", "application/json");
    send(if body.is_null() { request } else { request.body(body.to_string()) }).await
}

pub async fn get(server: &Server, path: &str) -> Answer {
    call(server, Method::GET, path, Value::Null).await
}

pub async fn post(server: &Server, path: &str, body: Value) -> Answer {
    call(server, Method::POST, path, body).await
}

pub async fn patch(server: &Server, path: &str, body: Value) -> Answer {
    call(server, Method::PATCH, path, body).await
}

pub async fn delete(server: &Server, path: &str, body: Value) -> Answer {
    call(server, Method::DELETE, path, body).await
}

/// Creates a thread of Ann's.
pub async fn thread(server: &Server, id: &str) -> Value {
    let body = json!({ "threadId": id, "userId": "ann", "agentId": "agent" });
    post(server, "/api/threads", body).await.ok(201)["thread"].take()
}

/// Acquires the lock of a thread of Ann's: the token of its run.
pub async fn lock(server: &Server, thread: &str, run: &str) -> String {
    let answer = try_lock(server, thread, run).await.ok(200);
    assert_eq!((text(&answer, "threadId"), text(&answer, "runId")), (thread, run));
    text(&answer, "joinToken").to_owned()
}

pub async fn try_lock(server: &Server, thread: &str, run: &str) -> Answer {
    let body = json!({ "runId": run, "userId": "ann", "agentId": "agent", "ttlSeconds": 20 });
    post(server, &format!("/api/threads/{thread}/lock"), body).await
}

/// A token with which Ann connects to a thread.
pub async fn connect(server: &Server, thread: &str) -> String {
    let path = format!("/api/threads/{thread}/connect");
    text(&post(server, &path, json!({ "userId": "ann", "agentId": "agent" })).await.ok(200), "joinToken").to_owned()
}

/// The topic of Ann's list, and a token for it.
pub async fn feed(server: &Server) -> (String, String) {
    let list = get(server, "/api/threads?userId=ann&agentId=agent").await.ok(200);
    let token = post(server, "/api/threads/subscribe", json!({ "userId": "ann" })).await.ok(200);
    (format!("user_meta:{}", text(&list, "joinCode")), text(&token, "joinToken").to_owned())
}

/// A socket of Ann's that has joined her list.
pub async fn listening(server: &Server) -> Frames {
    let (topic, token) = feed(server).await;
    let mut page = Frames::page(server, &token).await.expect("accepted");
    page.joins(&topic, json!({})).await;
    page
}

/// An event of a run as a runner sends it; its id is the run and its number.
pub fn event(thread: &str, run: &str, number: u64, mut event: Value) -> Value {
    let metadata = json!({ "cpki_event_id": format!("{run}-{number}"), "cpki_event_seq": number });
    let own = json!({
        "threadId": thread, "runId": run, "thread_id": thread, "run_id": run, "metadata": metadata
    });
    event.as_object_mut().expect("an object").extend(own.as_object().expect("an object").clone());
    event
}

/// The events of a run that writes this text in two deltas.
pub fn said(thread: &str, run: &str, words: &str) -> Vec<Value> {
    let message = format!("m-{run}");
    let (first, second) = words.split_at(words.len() / 2);
    [
        json!({ "type": "RUN_STARTED", "input": { "threadId": thread, "runId": run, "messages": [
            { "id": format!("u-{run}"), "role": "user", "content": "go" }
        ] } }),
        json!({ "type": "TEXT_MESSAGE_START", "messageId": message, "role": "assistant" }),
        json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": first }),
        json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": second }),
        json!({ "type": "TEXT_MESSAGE_END", "messageId": message }),
        json!({ "type": "RUN_FINISHED" }),
    ]
    .into_iter()
    .zip(1..)
    .map(|(value, number)| event(thread, run, number, value))
    .collect()
}

/// A complete run, from its lock to the acknowledgement of its end.
pub async fn ran(server: &Server, thread: &str, run: &str) -> Vec<Value> {
    lock(server, thread, run).await;
    let mut runner = Frames::producing(server, thread, run).await;
    let events = said(thread, run, "Hello world");
    runner.sends(&events).await;
    runner.leaves().await;
    events
}

/// All events of a thread, as the inspector reads them.
pub async fn inspected(server: &Server, thread: &str) -> Vec<Value> {
    let shown = get(server, &format!("/api/_inspect/threads/{thread}/events")).await.ok(200);
    assert_eq!((&shown["truncated"], &shown["decodeErrorRowIds"]), (&json!(false), &json!([])));
    shown["events"].as_array().expect("events").clone()
}

/// The types of events.
pub fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| text(event, "type")).collect()
}

/// Waits until a thread's log has this many events.
pub async fn has(server: &Server, thread: &str, count: usize) -> Vec<Value> {
    eventually(&format!("{count} events"), async || {
        Some(inspected(server, thread).await).filter(|all| all.len() >= count)
    })
    .await
}

/// The page of checks names tests and cases that exist, and all 52 checks.
#[test]
fn the_page_of_checks_names_existing_tests() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &std::path::Path| std::fs::read_to_string(path).expect("a file");
    let all = |folder: &str| -> String {
        let files = std::fs::read_dir(root.join(folder)).expect("a folder").map(|file| file.expect("a file").path());
        files.filter(|path| path.is_file()).map(|path| read(&path)).collect()
    };
    let (raw, cases) = (all("tests/e2e/copilotkit"), all("tests/copilotkit/cases"));
    let page = read(&root.join("docs/copilotkit-checks.md"));
    let mut expected = 1;
    for line in page.lines().filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit()) {
        let cells: Vec<_> = line.trim_matches('|').split(" |").map(str::trim).collect();
        let [number, _, test, case] = cells[..] else { panic!("{line}") };
        assert_eq!(number, expected.to_string(), "{line}");
        expected += 1;
        let test = test.trim_matches('`');
        assert!(test.is_empty() || raw.contains(&format!("fn {test}(")), "{line}");
        assert!(test.is_empty() || test.starts_with(&format!("c{number:0>2}_")), "{line}");
        let exists = case.is_empty() || case.starts_with("all cases") || cases.contains(&format!("\"{case}\""));
        assert!(exists, "{line}");
        assert!(!test.is_empty() || !case.is_empty(), "{line}");
    }
    assert_eq!(expected, 53, "all 52 checks");
}
