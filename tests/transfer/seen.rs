//! What clients see of a store: answers to be compared with those of another time or another store.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::harness::{Client, Server};

/// The answer to one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub user: String,
    pub path: String,
    pub status: u16,
    pub body: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    next_cursor: String,
    has_more: bool,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct Head {
    thread_id: String,
    epoch: String,
    tail: u64,
    has_more: bool,
}

/// As it stands in a file: one line.
impl From<&Seen> for Value {
    fn from(seen: &Seen) -> Self {
        json!({ "user": seen.user, "path": seen.path, "status": seen.status, "body": seen.body })
    }
}

impl From<&Value> for Seen {
    fn from(line: &Value) -> Self {
        let text = |name: &str| line[name].as_str().unwrap_or_else(|| panic!("no {name}: {line}")).to_owned();
        let status = line["status"].as_u64().expect("a status") as u16;
        Self { user: text("user"), path: text("path"), status, body: text("body") }
    }
}

/// Everything that these users can see, and how they do not see each other's.
pub async fn everything(server: &Server, users: &[&str]) -> Vec<Seen> {
    let mut seen = Vec::new();
    for user in users {
        let client = server.user(user);
        let list = look(&client, "/v1/threads?includeArchived=true&limit=500", &mut seen).await;
        look(&client, "/v1/threads?order=created&limit=500", &mut seen).await;
        look(&client, "/v1/feed?after=0&limit=500", &mut seen).await;
        look(&client, "/v1/agents", &mut seen).await;
        let threads: Value = serde_json::from_str(&list).expect("a list");
        for thread in threads["threads"].as_array().expect("threads") {
            thread_of(&client, &escaped(thread["threadId"].as_str().expect("an id")), &mut seen).await;
        }
    }
    seen
}

async fn thread_of(client: &Client, id: &str, seen: &mut Vec<Seen>) {
    let base = format!("/v1/threads/{id}");
    let thread = look(client, &base, seen).await;
    let thread: Value = serde_json::from_str(&thread).expect("a thread");
    look(client, &format!("{base}/messages"), seen).await;
    look(client, &format!("{base}/state"), seen).await;
    let runs = look(client, &format!("{base}/runs?limit=500"), seen).await;
    let runs: Value = serde_json::from_str(&runs).expect("runs");
    for run in runs["runs"].as_array().expect("runs") {
        let run = escaped(run["runId"].as_str().expect("an id"));
        look(client, &format!("{base}/runs/{run}"), seen).await;
    }
    // Every page of the log, from both ends.
    let end = format!("before={}&epoch={}", u32::MAX, thread["epoch"].as_str().expect("an epoch"));
    for mut start in ["after=0".to_owned(), end] {
        loop {
            let page = look(client, &format!("{base}/events?{start}&limit=100"), seen).await;
            // Not as a tree: an event may hold half of a surrogate pair.
            let page: Page = serde_json::from_str(&page).expect("a page");
            start = format!("cursor={}", page.next_cursor);
            if !page.has_more {
                break;
            }
        }
    }
}

/// An id in a path.
pub fn escaped(id: &str) -> String {
    id.bytes()
        .map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

async fn look(client: &Client, path: &str, seen: &mut Vec<Seen>) -> String {
    let answer = client.get(path).await;
    let body = answer.text().to_owned();
    let user = client.user.clone().expect("a user");
    seen.push(Seen { user, path: path.to_owned(), status: answer.status, body: body.clone() });
    body
}

/// Path by which this is asked today. A release before the first took positions without their epoch, which its answers name.
fn path(seen: &Seen) -> String {
    let needs_epoch = ["events?after=", "events?before="].iter().any(|start| seen.path.contains(start));
    match seen.body.split_once("\"epoch\":\"") {
        Some((_, rest)) if needs_epoch && !seen.path.contains("epoch=") => {
            format!("{}&epoch={}", seen.path, rest.split('"').next().expect("an epoch"))
        }
        _ => seen.path.clone(),
    }
}

/// What every release says of a page of events, and the bytes of the events.
fn events(body: &str) -> (Head, &str) {
    let (_, events) = body.split_once("\"events\":").unwrap_or_else(|| panic!("a page: {body}"));
    (serde_json::from_str(body).expect("a page"), events)
}

/// Asks again what was asked then. Events are the same byte for byte. Of everything else the members that were there
/// are the same; an answer may say more by now.
pub async fn assert_same(server: &Server, then: &[Seen]) {
    assert!(!then.is_empty());
    for before in then {
        let now = server.user(&before.user).get(&path(before)).await;
        assert_eq!((now.status, &before.path), (before.status, &before.path), "{}", now.text());
        if now.text() == before.body {
            continue;
        }
        if before.path.contains("/events?") {
            assert_eq!(events(now.text()), events(&before.body), "{}", before.path);
            continue;
        }
        let (old, new) = (serde_json::from_str(&before.body).expect("JSON"), now.json());
        assert!(holds(&new, &old), "{} of {}:\n{}\nis not\n{}", before.path, before.user, now.text(), before.body);
    }
}

/// True if `new` says all that `old` says. Leases may end at another time: those of a store that was just opened begin again.
fn holds(new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            let same = |name: &str, new: &Value, old: &Value| match name {
                "leaseUntil" => new.is_null() == old.is_null(),
                _ => holds(new, old),
            };
            old.iter().all(|(name, old)| new.get(name).is_some_and(|new| same(name, new, old)))
        }
        (Value::Array(new), Value::Array(old)) => {
            new.len() == old.len() && new.iter().zip(old).all(|(new, old)| holds(new, old))
        }
        (new, old) => new == old,
    }
}
