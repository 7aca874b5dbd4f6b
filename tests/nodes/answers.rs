//! The answer of each statement of each write is lost in turn, after Postgres has executed it: a request that may be
//! repeated is done once after its repetition, and one that may not says so.

use std::collections::BTreeSet;

use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::{
    backing::{AnswerProxy, Postgres},
    cluster::{Cluster, PATIENCE},
    server::Server,
};

const KEY: &str = "the-operators-key-of-this-test";
/// Parts of the statements of background work: beats, due runs, jobs, feeds.
const BACKGROUND: [&str; 7] =
    ["INSERT INTO nodes", "t.check_at <=", "UPDATE jobs", "DELETE FROM jobs", "WITH doomed", "feed_heads", "tickets"];
/// More statements than any request needs, also on a connection of its own.
const MOST: usize = 40;

/// A request: method, path and body. `ID` in it stands for the id of the attempt.
type Step = (Method, &'static str, Value);

/// A kind of write, in a thread of its own for each attempt.
struct Write {
    name: &'static str,
    /// Requests before it, which lose nothing.
    before: Vec<Step>,
    request: Step,
    /// Value of the header `Idempotency-Key`.
    key: bool,
    /// False if a lost answer must be called an unknown outcome.
    repeatable: bool,
}

impl Write {
    fn new(name: &'static str, before: &[Step], request: Step) -> Self {
        Self { name, before: before.to_vec(), request, key: false, repeatable: true }
    }

    fn with_key(self) -> Self {
        Self { key: true, ..self }
    }

    fn unrepeatable(self) -> Self {
        Self { repeatable: false, ..self }
    }
}

fn writes() -> Vec<Write> {
    let post = |path, body| (Method::POST, path, body);
    let thread = post("/v1/threads", json!({ "threadId": "ID" }));
    let run = post("/v1/threads/ID/runs", json!({ "runId": "r" }));
    let event = json!([{ "type": "CUSTOM", "name": "n", "value": 1 }]);
    let whole = json!([{ "type": "RUN_STARTED" }, { "type": "RUN_FINISHED" }]);
    let agent = (Method::PUT, "/v1/agents/ID", json!({ "url": "https://agents.example/" }));
    let created = [thread.clone()];
    let started = [thread.clone(), run.clone()];
    let appended = [thread.clone(), run.clone(), post("/v1/threads/ID/runs/r/events?producerSeq=1", event.clone())];
    let act = |name, path| Write::new(name, &started, post(path, json!({})));
    vec![
        Write::new("create a thread", &[], thread.clone()),
        Write::new("create a thread by key", &[], post("/v1/threads", json!({}))).with_key(),
        Write::new("create a thread without an id", &[], post("/v1/threads", json!({}))).unrepeatable(),
        Write::new("rename", &created, (Method::PATCH, "/v1/threads/ID", json!({ "name": "Lisbon" }))),
        Write::new("delete", &started, (Method::DELETE, "/v1/threads/ID", Value::Null)),
        Write::new("start", &created, run.clone()),
        Write::new("start by key", &created, post("/v1/threads/ID/runs", json!({}))).with_key(),
        Write::new("start without an id", &created, post("/v1/threads/ID/runs", json!({}))).unrepeatable(),
        Write::new("append", &started, post("/v1/threads/ID/runs/r/events?producerSeq=1", event.clone())),
        Write::new("append an end", &started, post("/v1/threads/ID/runs/r/finish?producerSeq=0", json!({}))),
        Write::new("append without a number", &started, post("/v1/threads/ID/runs/r/events", event)).unrepeatable(),
        Write::new("append a complete run", &created, (Method::PUT, "/v1/threads/ID/runs/whole", whole)),
        Write::new("mark read", &appended, (Method::PUT, "/v1/threads/ID/read", json!({ "seq": 1 }))),
        act("heartbeat", "/v1/threads/ID/runs/r/heartbeat"),
        act("stop", "/v1/threads/ID/runs/r/stop"),
        act("release", "/v1/threads/ID/runs/r/release"),
        act("finish", "/v1/threads/ID/runs/r/finish"),
        act("fail", "/v1/threads/ID/runs/r/fail"),
        Write::new("put an agent", &[], agent.clone()),
        Write::new("delete an agent", &[agent], (Method::DELETE, "/v1/agents/ID", Value::Null)),
        Write::new("erase a user", &appended, (Method::DELETE, "/v1/users/ID", Value::Null)),
    ]
}

/// Parts of a document that are equal in two attempts: without ids, times and epochs.
fn comparable(value: Value, id: &str) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .filter(|(name, _)| {
                !name.ends_with("At") && !name.ends_with("Until") && !name.ends_with("poch") && !name.ends_with("ursor")
            })
            .filter(|(name, _)| !["at", "instance", "threadId", "requestId"].contains(&name.as_str()))
            .map(|(name, value)| (name, comparable(value, id)))
            .collect(),
        Value::Array(items) => items.into_iter().map(|item| comparable(item, id)).collect(),
        // IDs that the server chose.
        Value::String(text)
            if text.len() >= 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') =>
        {
            "CHOSEN".into()
        }
        Value::String(text) => text.replace(id, "ID").into(),
        other => other,
    }
}

struct Caller {
    http: reqwest::Client,
    node: Server,
}

impl Caller {
    /// A request of the user `id`; of the operator, if it concerns agents or the user as a whole.
    fn request(&self, id: &str, method: Method, path: &str) -> RequestBuilder {
        let request =
            self.http.request(method, format!("{}{}", self.node.url, path.replace("ID", id))).bearer_auth(KEY);
        if path.starts_with("/v1/threads") { request.header("threadline-user", id) } else { request }
    }

    fn step(&self, id: &str, (method, path, body): &Step) -> RequestBuilder {
        let body = body.to_string().replace("ID", id);
        self.request(id, method.clone(), path).header("content-type", "application/json").body(body)
    }

    async fn before(&self, id: &str, write: &Write) {
        for step in &write.before {
            let (status, body) = send(self.step(id, step)).await;
            assert!(status.is_success(), "{}: {step:?}: {status} {body}", write.name);
        }
    }

    async fn write(&self, id: &str, write: &Write) -> (StatusCode, Value) {
        let request = self.step(id, &write.request);
        send(if write.key { request.header("idempotency-key", id) } else { request }).await
    }

    /// All that this user has, and the agent of this id.
    async fn view(&self, id: &str) -> Value {
        let get = async |path: &str| send(self.request(id, Method::GET, path)).await.1;
        let list = get("/v1/threads").await;
        let mut view = vec![get("/v1/agents/ID").await];
        for thread in list["threads"].as_array().expect("threads") {
            let thread = thread["threadId"].as_str().expect("an id");
            for part in ["runs", "events"] {
                view.push(get(&format!("/v1/threads/{thread}/{part}")).await);
            }
        }
        view.push(list);
        comparable(view.into(), id)
    }
}

async fn send(request: RequestBuilder) -> (StatusCode, Value) {
    let answer = request.send().await.expect("an answer");
    (answer.status(), answer.json().await.unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_answer_was_lost_is_done_once_after_its_repetition_or_called_unknown() {
    let (postgres, mut cluster) = block_in_place(|| (Postgres::shared(), Cluster::start(0)));
    let proxy = AnswerProxy::start(postgres.port(), BACKGROUND.to_vec());
    let database = cluster.database.rsplit('/').next().expect("a name").to_owned();
    cluster.database = postgres.url_by(&proxy.address().to_string(), &database);
    let mut command = cluster.command(&cluster.database, &cluster.redis.url());
    command.env("THREADLINE_API_KEY", KEY);
    let node = block_in_place(|| Server::start(command));
    let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().expect("a client");
    let caller = Caller { http, node };
    for (number, write) in writes().iter().enumerate() {
        let name = write.name;
        let id = format!("w{number}-whole");
        caller.before(&id, write).await;
        let before = caller.view(&id).await;
        let (status, body) = caller.write(&id, write).await;
        assert!(status.is_success(), "{name}: {status} {body}");
        let done = caller.view(&id).await;
        let mut lost = BTreeSet::new();
        let (mut repeated, mut unknown) = (0, 0);
        let mut nth = 0;
        for attempt in 0.. {
            assert!(attempt < MOST, "{name}: the request executes statements for ever: {lost:?}");
            let id = format!("w{number}-{attempt}");
            caller.before(&id, write).await;
            proxy.lose_after(nth);
            let (mut status, mut body) = caller.write(&id, write).await;
            let Some(statement) = proxy.heal() else {
                // Background work may have taken the place of the request's own statements.
                if repeated + unknown > 0 {
                    break;
                }
                nth = 0;
                continue;
            };
            nth += 1;
            lost.insert(statement.lines().next().unwrap_or_default().chars().take(60).collect::<String>());
            if status == 503 && body["outcome"] == "unknown" {
                assert_eq!(
                    (&body["retryable"], write.repeatable),
                    (&json!(false), false),
                    "{name}, {statement}: {body}"
                );
                let view = caller.view(&id).await;
                assert!(view == before || view == done, "{name}, {statement}: half done: {view}");
                unknown += 1;
                continue;
            }
            for _ in 0..3 {
                if status != 503 {
                    break;
                }
                assert_eq!(body["retryable"], true, "{name}, {statement}: {body}");
                repeated += 1;
                (status, body) = caller.write(&id, write).await;
            }
            assert!(status.is_success(), "{name}, {statement}: {status} {body}");
            assert_eq!(caller.view(&id).await, done, "{name}, {statement}");
        }
        println!("{name}: {repeated} repeated, {unknown} unknown; {lost:?}");
    }
}
