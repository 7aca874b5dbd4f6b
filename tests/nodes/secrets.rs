//! Nodes with and without the key file of their database.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::{
    cluster::{Cluster, eventually},
    server::Server,
};

const KEY: &str = "the-operators-key-of-this-test";

async fn projects(node: &Server) -> Value {
    let request = reqwest::Client::new().get(format!("{}/v1/projects", node.url)).bearer_auth(KEY);
    request.send().await.expect("an answer").json().await.expect("JSON")
}

async fn token(node: &Server) -> String {
    let request = reqwest::Client::new().post(format!("{}/v1/tokens", node.url)).bearer_auth(KEY);
    let made: Value =
        request.json(&json!({ "userId": "ann" })).send().await.expect("an answer").json().await.expect("JSON");
    made["token"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
}

async fn accepts(node: &Server, token: &str) -> bool {
    let request = reqwest::Client::new().get(format!("{}/v1/threads", node.url)).bearer_auth(token);
    request.send().await.expect("an answer").status() == 200
}

async fn said(node: &Server, word: &str) {
    eventually(word, async || node.said().contains(word).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_of_a_new_secret_are_good_on_every_node_at_once() {
    let cluster = block_in_place(|| Cluster::start(0));
    let node = || {
        let mut command = cluster.command(&cluster.database, &cluster.redis.url());
        command.env("THREADLINE_API_KEY", KEY).env_remove("THREADLINE_DEVELOPMENT");
        block_in_place(|| Server::start(command))
    };
    let (first, second) = (node(), node());
    let old = token(&first).await;
    assert!(accepts(&second, &old).await);
    for _ in 0..2 {
        let renew = reqwest::Client::new().post(format!("{}/v1/projects/default/token-secret", first.url));
        assert!(renew.bearer_auth(KEY).send().await.expect("an answer").status().is_success());
        let new = token(&first).await;
        assert!(accepts(&second, &new).await, "the other node has not read the secret yet");
    }
    assert!(!accepts(&second, &old).await, "its secret was renewed twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_is_unsealed_until_its_nodes_have_a_key_file() {
    let cluster = block_in_place(|| Cluster::start(0));
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("keys");
    std::fs::write(&file, format!("k1:{}=\n", "A".repeat(43))).expect("written");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("ours");
    // Nodes with the key file read their URLs from files as well, as systemd and containers give them.
    let urls = [("THREADLINE_STORE", cluster.database.clone()), ("THREADLINE_REDIS", cluster.redis.url())];
    let urls = urls.map(|(name, url)| {
        let path = home.path().join(name);
        std::fs::write(&path, url + "\n").expect("written");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o400)).expect("ours");
        (name, path)
    });
    let command = |file: Option<&Path>| {
        let mut command = cluster.command(&cluster.database, &cluster.redis.url());
        command.env("THREADLINE_API_KEY", KEY);
        command.env_remove("THREADLINE_DEVELOPMENT").env_remove("THREADLINE_SECRET_KEY_FILE");
        if let Some(file) = file {
            command.env("THREADLINE_SECRET_KEY_FILE", file);
            for (name, path) in &urls {
                command.env_remove(name).env(format!("{name}_FILE"), path);
            }
        }
        command
    };
    let node = |file: Option<&Path>| block_in_place(|| Server::start(command(file)));
    let first = node(None);
    said(&first, "secrets unsealed").await;
    said(&first, "set --secret-key-file").await;
    let token = token(&first).await;
    assert_eq!(projects(&first).await["projects"][0]["secrets"], "unsealed");
    // Nodes get the file one after another; what is there stays readable for all of them.
    let second = node(Some(&file));
    said(&second, "sealed with the key k1").await;
    said(&second, "threadline secrets reseal").await;
    assert!(accepts(&first, &token).await && accepts(&second, &token).await);
    let mut refused = block_in_place(|| Server::spawn(command(None)));
    let ended = block_in_place(|| refused.wait(Duration::from_secs(20))).expect("it ends");
    assert_eq!(ended.code(), Some(1));
    said(&refused, "sealed with the key \"k1\"").await;
    drop(first);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_threadline"))
        .args(["secrets", "reseal", "--store", &cluster.database, "--secret-key-file"])
        .arg(&file)
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "2 secrets are sealed with the key k1\n");
    assert_eq!(projects(&second).await["projects"][0]["secrets"], "sealed");
    let third = node(Some(&file));
    assert!(accepts(&second, &token).await && accepts(&third, &token).await);
}
