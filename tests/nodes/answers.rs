//! The answer of each statement of each write is lost in turn, after Postgres has executed it: a request that may be
//! repeated is done once after its repetition, and one that may not says so.

use std::collections::BTreeSet;

use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::{sync::Mutex, task::block_in_place};

use crate::{
    backing::{AnswerProxy, Postgres},
    cluster::{Cluster, PATIENCE, with_key},
    server::Server,
};

const KEY: &str = "the-operators-key-of-this-test";
/// Parts of the statements of background work: beats, due runs, jobs, feeds, tickets.
const BACKGROUND: [&str; 7] = [
    "INSERT INTO nodes",
    "t.check_at <=",
    "UPDATE jobs",
    "WITH quiet",
    "WITH doomed",
    "feed_heads",
    "WHERE until <= $1",
];
/// More statements than any request needs, also on a connection of its own.
const MOST: usize = 40;

/// A request: method, path and body. `ID` in it stands for the id of the attempt.
type Step = (Method, &'static str, Value);

/// Puts the thread in the trash, as retention does.
const TRASH: &str = "
    UPDATE heads SET key = -key WHERE key = (SELECT key FROM threads WHERE project = 'ID');
    UPDATE threads SET deleted = 4, trashed_at = sort_at, purge_at = sort_at + 1000000000 WHERE project = 'ID'";
/// Has retention wait for an approval.
const HOLD: &str = "INSERT INTO retention_holds (project, idle, threads) VALUES ('ID', 200, 300)";

/// A kind of write, in a project of its own for each attempt.
struct Write {
    name: &'static str,
    /// Requests before it, which lose nothing.
    before: Vec<Step>,
    /// SQL after these requests.
    sql: &'static str,
    request: Step,
    /// Value of the header `Idempotency-Key`.
    key: bool,
    /// False if a lost answer must be called an unknown outcome.
    repeatable: bool,
    /// Problem that a repetition may get because the write was done already.
    conflict: Option<&'static str>,
    /// True if the project does not exist before it.
    bare: bool,
    /// Action that each attempt records in the audit before it begins, with what is to be done; the entries of the ends say
    /// what was left.
    begins: Option<&'static str>,
}

impl Write {
    fn new(name: &'static str, before: &[Step], request: Step) -> Self {
        Self {
            name,
            before: before.to_vec(),
            sql: "",
            request,
            key: false,
            repeatable: true,
            conflict: None,
            bare: false,
            begins: None,
        }
    }

    fn after(self, sql: &'static str) -> Self {
        Self { sql, ..self }
    }

    fn or(self, conflict: &'static str) -> Self {
        Self { conflict: Some(conflict), ..self }
    }

    fn begins(self, action: &'static str) -> Self {
        Self { begins: Some(action), ..self }
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
    let project = (Method::PUT, "/v1/projects/ID", json!({ "limits": { "subscriptionsPerSocket": 7 } }));
    let named_key = post("/v1/keys", json!({ "keyId": "k" }));
    let approve = post("/v1/projects/ID/retention/approve", json!({ "count": 5 }));
    let secret = post("/v1/projects/ID/token-secret", Value::Null);
    let list = json!({ "messages": [{ "id": "m", "role": "user", "content": "Lisbon" }] });
    let saved = (Method::PUT, "/v1/conversations/ID", list);
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
        Write::new("erase a user", &appended, (Method::DELETE, "/v1/users/ID", Value::Null)).begins("user.erases"),
        Write::new("save a conversation", &[], saved.clone()),
        Write::new("delete a conversation", &[saved], (Method::DELETE, "/v1/conversations/ID", Value::Null)),
        Write { bare: true, ..Write::new("create a project", &[], project.clone()) },
        Write::new("change a project", &[], project),
        Write::new("renew a secret", &[], secret).unrepeatable(),
        Write::new("create a key", &[], named_key.clone()).or("key-exists"),
        Write::new("create a key without an id", &[], post("/v1/keys", json!({}))).unrepeatable(),
        Write::new("revoke a key", &[named_key], (Method::DELETE, "/v1/keys/k", Value::Null)),
        Write::new("create a ticket", &[], post("/v1/socket-tickets", Value::Null)),
        Write::new("restore", &created, post("/v1/trash/ID/restore", Value::Null)).after(TRASH),
        Write::new("approve", &[], approve).after(HOLD).unrepeatable(),
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
            .filter(|(name, _)| {
                // A repetition of a save says that it appended nothing. The feed is written in the background, and the
                // usage of a project is counted there: it has what was written behind a lost answer after a day.
                let behind = ["feedEntries", "usage"];
                let other =
                    ["at", "instance", "threadId", "requestId", "ticket", "key", "secret", "outcome", "appended"];
                !behind.contains(&name.as_str()) && !other.contains(&name.as_str())
            })
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
    /// Session of the test's own, whose answers are not lost.
    sql: Mutex<PgConnection>,
}

impl Caller {
    /// A request in the project `ID`; of its user `ID`, if it concerns threads.
    fn request(&self, id: &str, method: Method, path: &str) -> RequestBuilder {
        let request =
            self.http.request(method, format!("{}{}", self.node.url, path.replace("ID", id))).bearer_auth(KEY);
        let request = if path.starts_with("/v1/projects") { request } else { request.header("threadline-project", id) };
        let of_user = ["/v1/threads", "/v1/conversations"].iter().any(|start| path.starts_with(start));
        if of_user { request.header("threadline-user", id) } else { request }
    }

    fn step(&self, id: &str, (method, path, body): &Step) -> RequestBuilder {
        let request = self.request(id, method.clone(), path);
        if body.is_null() {
            return request;
        }
        request.header("content-type", "application/json").body(body.to_string().replace("ID", id))
    }

    async fn before(&self, id: &str, write: &Write) {
        // Names are given in the background.
        let project = (Method::PUT, "/v1/projects/ID", json!({ "generateThreadNames": false }));
        for step in (!write.bare).then_some(&project).into_iter().chain(&write.before) {
            let (status, body) = send(self.step(id, step)).await;
            assert!(status.is_success(), "{}: {step:?}: {status} {body}", write.name);
        }
        let sql = AssertSqlSafe(write.sql.replace("ID", id));
        sqlx::raw_sql(sql).execute(&mut *self.sql.lock().await).await.expect("SQL");
    }

    async fn write(&self, id: &str, write: &Write) -> (StatusCode, Value) {
        let request = self.step(id, &write.request);
        send(if write.key { request.header("idempotency-key", id) } else { request }).await
    }

    /// All that this project has: the threads of its user, what administers it, and its audit.
    async fn view(&self, id: &str, write: &Write) -> Value {
        let get = async |path: &str| send(self.request(id, Method::GET, path)).await.1;
        let list = get("/v1/threads").await;
        let mut view = Vec::new();
        for path in ["/v1/agents/ID", "/v1/keys", "/v1/projects/ID", "/v1/trash"] {
            view.push(get(path).await);
        }
        for thread in list["threads"].as_array().into_iter().flatten() {
            let thread = thread["threadId"].as_str().expect("an id");
            for part in ["runs", "events"] {
                view.push(get(&format!("/v1/threads/{thread}/{part}")).await);
            }
        }
        view.push(list);
        // The secrets of a project are not shown, but each change of them counts.
        let version = sqlx::query_scalar::<_, i64>("SELECT coalesce(max(version), 0) FROM projects WHERE id = $1");
        let version = version.bind(id).fetch_one(&mut *self.sql.lock().await).await.expect("SQL");
        view.push(version.into());
        let mut audit = get("/v1/audit").await;
        if let Some(begins) = write.begins {
            let entries = audit["entries"].as_array_mut().expect("entries");
            // The oldest entry says it all.
            entries.retain(|entry| entry["action"] == begins);
            entries.drain(..entries.len().saturating_sub(1));
        }
        // Entries of all projects have numbers of one sequence.
        for entry in audit["entries"].as_array_mut().into_iter().flatten() {
            entry.as_object_mut().expect("an entry").remove("number");
        }
        view.push(audit);
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
    let sql = Mutex::new(PgConnection::connect(&cluster.database).await.expect("connects"));
    let proxy = AnswerProxy::start(postgres.port(), |text| !BACKGROUND.iter().any(|part| text.contains(part)));
    let database = cluster.database.rsplit('/').next().expect("a name").to_owned();
    cluster.database = postgres.url_by(&proxy.address().to_string(), &database);
    let command = with_key(cluster.command(&cluster.database, &cluster.redis.url()), KEY);
    let node = block_in_place(|| Server::start(command));
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).timeout(PATIENCE).build().expect("a client");
    let caller = Caller { http, node, sql };
    for (number, write) in writes().iter().enumerate() {
        let name = write.name;
        let id = format!("w{number}-whole");
        caller.before(&id, write).await;
        let before = caller.view(&id, write).await;
        let (status, answer) = caller.write(&id, write).await;
        assert!(status.is_success(), "{name}: {status} {answer}");
        let answer = comparable(answer, &id);
        let done = caller.view(&id, write).await;
        assert!(write.begins.is_none_or(|begins| done.to_string().contains(begins)), "{name}: {done}");
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
                let view = caller.view(&id, write).await;
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
            let conflict = write.conflict.is_some_and(|slug| body["type"] == format!("/problems/{slug}"));
            assert!(status.is_success() || conflict, "{name}, {statement}: {status} {body}");
            if !conflict && write.begins.is_none() {
                assert_eq!(comparable(body, &id), answer, "{name}, {statement}");
            }
            assert_eq!(caller.view(&id, write).await, done, "{name}, {statement}");
        }
        println!("{name}: {repeated} repeated, {unknown} unknown; {lost:?}");
    }
}
