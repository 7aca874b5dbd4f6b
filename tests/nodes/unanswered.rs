//! An import, of which the answer of each statement that writes is lost in turn, after Postgres has executed it.
//! Repeated, it is done once.

use std::{path::Path, process::Command};

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::{
    backing::{AnswerProxy, Postgres},
    cluster::*,
    server::Server,
};

const KEY: &str = "the-operators-key-of-this-test";
/// More statements than any of this work needs.
const MOST: usize = 60;
fn http() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().expect("a client")
}

fn of_user(id: &str, request: RequestBuilder) -> RequestBuilder {
    request.header("threadline-project", id).header("threadline-user", id)
}

async fn sent(request: RequestBuilder) {
    let answer = request.bearer_auth(KEY).send().await.expect("an answer");
    assert!(answer.status().is_success(), "{}", answer.text().await.expect("a text"));
}

/// A project with retention, and in it a thread with a complete run that is long enough for a segment.
async fn fill(node: &Server, id: &str) {
    let http = http();
    let put = |path: &str, body: Value| http.request(Method::PUT, format!("{}{path}", node.url)).json(&body);
    let settings = json!({ "generateThreadNames": false, "retention": { "deleteAfterDays": 30 } });
    sent(put(&format!("/v1/projects/{id}"), settings)).await;
    sent(of_user(id, http.post(format!("{}/v1/threads", node.url))).json(&json!({ "threadId": id }))).await;
    let mut events = vec![json!({ "type": "RUN_STARTED" })];
    events.extend((0..300).map(|n| json!({ "type": "CUSTOM", "name": "n", "value": n })));
    events.push(json!({ "type": "RUN_FINISHED" }));
    sent(of_user(id, put(&format!("/v1/threads/{id}/runs/r"), events.into()))).await;
}

/// Runs the program to its end; returns whether it succeeded, and its output.
fn program(words: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_threadline")).args(words).output().expect("runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_whose_statement_is_not_answered_can_be_repeated() {
    let (postgres, cluster) = block_in_place(|| (Postgres::shared(), Cluster::start(0)));
    let home = tempfile::tempdir().expect("a directory");
    let files = |name: &str| home.path().join(name).display().to_string();
    let mut command = cluster.command(&cluster.database, &cluster.redis.url());
    command.env("THREADLINE_API_KEY", KEY);
    let node = block_in_place(|| Server::start(command));
    for id in ["a", "b"] {
        fill(&node, id).await;
    }
    drop(node);
    let done = |words: &[&str]| {
        let (well, said) = block_in_place(|| program(words));
        assert!(well, "{words:?}: {said}");
    };
    done(&["export", "--store", &cluster.database, &files("moved")]);
    let expected = contents(Path::new(&files("moved")));
    assert!(expected.len() > 2, "{expected:?}");
    // The statements that open the store are not those of an import.
    let empty = block_in_place(|| postgres.fresh_database());
    done(&["migrate", "--store", &empty]);
    let template = empty.rsplit('/').next().expect("a name").to_owned();
    let writes = ["INSERT INTO", "UPDATE ", "DELETE FROM"];
    let mut lost = Vec::new();
    for nth in 0..MOST {
        let name = format!("{template}_{nth}");
        block_in_place(|| postgres.psql("postgres", &format!("CREATE DATABASE {name} TEMPLATE {template}")));
        let proxy = AnswerProxy::start(postgres.port(), move |text| writes.iter().any(|part| text.contains(part)));
        proxy.lose_after(nth);
        let by_proxy = postgres.url_by(&proxy.address().to_string(), &name);
        let (well, said) = block_in_place(|| program(&["import", "--store", &by_proxy, &files("moved")]));
        let Some(statement) = proxy.heal() else {
            assert!(well, "{said}");
            break;
        };
        done(&["import", "--store", &by_proxy, &files("moved")]);
        let again = format!("again-{nth}");
        done(&["export", "--store", &by_proxy, &files(&again)]);
        assert_eq!(contents(Path::new(&files(&again))), expected, "{statement}: {said}");
        lost.push(statement);
    }
    assert!((2..MOST).contains(&lost.len()), "{lost:?}");
}

/// The files of an export and their bytes; not the manifest, which names the moment.
fn contents(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        for entry in std::fs::read_dir(next).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
            } else if !path.ends_with("manifest.ndjson") {
                let name = path.strip_prefix(directory).expect("below").display().to_string();
                found.push((name, std::fs::read(&path).expect("a file")));
            }
        }
    }
    found.sort();
    found
}
