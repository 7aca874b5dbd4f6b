//! Secrets of a running server: where they are not, and what a backup is worth without the key file.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use nix::sys::signal::Signal;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;

use crate::{
    private::logged,
    server::{Server, command},
};

const BINARY: &str = env!("CARGO_BIN_EXE_threadline");
const OPERATOR: &str = "operator-key-0123456789abcdef";
const PATIENCE: Duration = Duration::from_secs(30);

/// A server, and a credential for requests to it.
struct Api<'a> {
    http: Client,
    server: &'a Server,
    credential: String,
}

impl<'a> Api<'a> {
    fn of(server: &'a Server, credential: &str) -> Self {
        let http = Client::builder().no_proxy().tls_certs_only([]).timeout(PATIENCE).build().expect("a client");
        Self { http, server, credential: credential.to_owned() }
    }

    async fn send(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        let request = self.http.request(method, format!("{}{path}", self.server.url)).bearer_auth(&self.credential);
        let response = request.json(&body).send().await.expect("an answer");
        let status = response.status().as_u16();
        (status, response.json().await.unwrap_or(Value::Null))
    }

    /// The answer to a request that succeeds.
    async fn done(&self, method: Method, path: &str, body: Value) -> Value {
        let (status, answer) = self.send(method, path, body).await;
        assert!((200..300).contains(&status), "{path}: {status} {answer}\n{}", self.server.said());
        answer
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        self.done(Method::POST, path, body).await
    }

    async fn token(&self) -> String {
        text(&self.post("/v1/tokens", json!({ "userId": "ann" })).await, "token")
    }
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}")).to_owned()
}

/// The server on a data directory, with its log in a file.
fn logging(data: &Path, log: &Path) -> Command {
    let script = format!("exec \"$@\" 2>>'{}'", log.display());
    let mut command = command(data, &["sh", "-c", &script, "sh"]);
    command.env("THREADLINE_API_KEY", OPERATOR);
    command.env_remove("THREADLINE_DEVELOPMENT").env_remove("THREADLINE_SECRET_KEY_FILE");
    command
}

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    for name in ["API_KEY", "DEVELOPMENT", "STORE", "DATA", "SECRET_KEY_FILE", "USER", "PROJECT"] {
        command.env_remove(format!("THREADLINE_{name}"));
    }
    command.args(arguments).output().expect("the program runs")
}

#[track_caller]
fn done(arguments: &[&str]) -> (String, String) {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn stop(mut server: Server) {
    server.signal(Signal::SIGTERM);
    assert!(server.wait(Duration::from_secs(20)).is_some_and(|status| status.success()), "{}", server.said());
}

/// Files below a directory, other than the key file.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| !path.ends_with("secret.key")).collect()
}

fn holds(path: &Path, needle: &str) -> bool {
    let bytes = fs::read(path).expect("a file");
    bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neither_the_files_nor_the_log_hold_a_secret() {
    let home = tempfile::tempdir().expect("a directory");
    let (data, log, config) = (home.path().join("data"), home.path().join("log"), home.path().join("threadline.toml"));
    // The port has no listener, so each run of an agent fails, and says why.
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let planted = |name: &str| format!("planted-{name}-0123456789");
    let configured = format!(
        "[agents.configured]\nurl = \"http://{free}/\"\nheaders = {{ X-Key = \"{}\" }}\n",
        planted("configured")
    );
    fs::write(&config, configured).expect("written");
    let mut command = logging(&data, &log);
    command.arg("--config").arg(&config).env("THREADLINE_LOG", "trace");
    command.env("THREADLINE_ALLOW_AGENT_NETWORKS", "loopback").env("THREADLINE_NAMING_MODEL", "m");
    command.env("THREADLINE_NAMING_BASE_URL", format!("http://{free}/v1"));
    command.env("THREADLINE_NAMING_API_KEY", planted("naming"));
    let server = Server::start(command);
    let operator = Api::of(&server, OPERATOR);

    let key = text(&operator.post("/v1/keys", json!({ "keyId": "backend" })).await, "key");
    let backend = Api::of(&server, &key);
    let token = backend.token().await;
    let ann = Api::of(&server, &token);
    let secret = text(&operator.post("/v1/projects/default/token-secret", json!({})).await, "secret");
    for (name, definition) in [
        ("header", json!({ "url": format!("http://{free}/"), "headers": { "X-Key": planted("header") } })),
        ("query", json!({ "url": format!("http://{free}/?key={}", planted("query")) })),
        (
            "openai",
            json!({ "kind": "openai", "baseUrl": format!("http://{free}/v1"), "model": "m",
                "apiKey": planted("openai"), "instructions": planted("instructions") }),
        ),
    ] {
        operator.done(Method::PUT, &format!("/v1/agents/{name}"), definition).await;
    }
    for agent in ["configured", "header", "query", "openai"] {
        ann.post("/v1/threads", json!({ "threadId": format!("thread-of-{agent}") })).await;
        let input = json!({ "messages": [{ "id": "m", "role": "user", "content": "Where is the station?" }] });
        let run = json!({ "runId": "r", "agentId": agent, "input": input });
        ann.post(&format!("/v1/threads/thread-of-{agent}/runs"), run).await;
        let over = async {
            loop {
                let path = format!("/v1/threads/thread-of-{agent}/events?wait=10");
                let page = ann.done(Method::GET, &path, json!({})).await;
                if page["events"].to_string().contains("RUN_ERROR") {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, over).await.unwrap_or_else(|_| panic!("{agent}: {}", server.said()));
    }
    // The agent never answers, so that the input of its run is kept.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", silent.local_addr().expect("an address"));
    operator.done(Method::PUT, "/v1/agents/silent", json!({ "url": url })).await;
    ann.post("/v1/threads", json!({ "threadId": "thread-of-silent" })).await;
    let forwarded = json!({ "token": planted("forwarded") });
    let input = json!({ "messages": [{ "id": "m", "role": "user", "content": "Hello" }], "forwardedProps": forwarded });
    let run = json!({ "runId": "r", "agentId": "silent", "input": input });
    ann.post("/v1/threads/thread-of-silent/runs", run).await;
    let ticket = text(&ann.post("/v1/socket-tickets", json!({})).await, "ticket");
    let address = server.url.replace("http://", "ws://");
    let socket = connect_async(format!("{address}/v1/socket?ticket={ticket}")).await.expect("connects");
    let unused = text(&ann.post("/v1/socket-tickets", json!({})).await, "ticket");
    let join = text(&backend.post("/api/threads/subscribe", json!({ "userId": "ann" })).await, "joinToken");
    let page =
        connect_async(format!("{address}/client/websocket?join_token={join}&vsn=2.0.0")).await.expect("connects");
    // A wrong secret is not repeated either.
    let mistaken = planted("mistaken");
    assert_eq!(Api::of(&server, &mistaken).send(Method::GET, "/v1/threads", json!({})).await.0, 401);

    let secrets = [
        OPERATOR.to_owned(),
        key,
        token,
        secret,
        ticket,
        unused,
        join,
        mistaken,
        planted("configured"),
        planted("naming"),
        planted("header"),
        planted("query"),
        planted("openai"),
        planted("instructions"),
        planted("forwarded"),
        fs::read_to_string(data.join("secret.key"))
            .expect("a key")
            .split_once(':')
            .expect("a line")
            .1
            .trim()
            .to_owned(),
    ];
    let check = |when: &str| {
        let all: Vec<_> = files(&data).into_iter().chain([log.clone()]).collect();
        assert!(all.iter().any(|path| holds(path, "thread-of-openai")), "{when}: threads are found in {all:?}");
        for secret in &secrets {
            let holding: Vec<_> = all.iter().filter(|path| holds(path, secret)).collect();
            assert!(holding.is_empty(), "{when}: {secret} is in {holding:?}");
        }
        for word in ["TRACE", "cannot connect to an agent"] {
            assert!(holds(&log, word), "{when}: the log has {word:?}");
        }
    };
    assert!(data.join("threadline.db-wal").exists());
    check("while it runs");
    drop((socket, page));
    stop(server);
    check("afterwards");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_of_no_use_without_the_key_file() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let path = |name: &str| at(name).to_str().expect("text").to_owned();
    let log = at("log");
    let server = Server::start(logging(&at("data"), &log));
    let operator = Api::of(&server, OPERATOR);
    let token = operator.token().await;
    operator.done(Method::PUT, "/v1/agents/a", json!({ "url": "https://a.example/" })).await;
    let shown = operator.done(Method::GET, "/v1/projects", json!({})).await;
    assert_eq!(shown["projects"][0]["secrets"], "sealed", "{shown}");
    for copy in ["stolen", "restored"] {
        let (_, said) = done(&["backup", "--data", &path("data"), &path(copy), "--verify"]);
        assert!(said.contains("key file") && said.contains("not in the backup"), "{said}");
        let copied: Vec<_> =
            fs::read_dir(at(copy)).expect("a directory").map(|it| it.expect("an entry").file_name()).collect();
        assert!(!copied.iter().any(|name| name == "secret.key"), "{copied:?}");
    }
    stop(server);

    // The backup alone makes no server that signs or accepts a token.
    let refused = run(&["dev", "--listen", "127.0.0.1:0", "--data", &path("stolen")]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("secret.key") && said.contains("threadline secrets renew"), "{said}");
    assert!(!at("stolen").join("secret.key").exists(), "no other key takes its place");
    let refused = run(&["export", "--with-secrets", "--data", &path("stolen"), &path("exported")]);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("secret.key"));
    done(&["export", "--data", &path("stolen"), &path("exported")]);

    // With the file everything goes on.
    fs::copy(at("data").join("secret.key"), at("restored").join("secret.key")).expect("copied");
    let server = Server::start(logging(&at("restored"), &log));
    let ann = Api::of(&server, &token);
    assert_eq!(ann.send(Method::GET, "/v1/threads", json!({})).await.0, 200);
    assert_eq!(Api::of(&server, OPERATOR).send(Method::GET, "/v1/agents/a", json!({})).await.0, 200);
    stop(server);

    // Without it there are new secrets, and what the old ones have signed is worth nothing.
    assert!(!run(&["secrets", "renew", "--data", &path("stolen")]).status.success(), "only with --yes");
    let (said, _) = done(&["secrets", "renew", "--yes", "--data", &path("stolen")]);
    assert!(said.contains("project default: new secret") && said.contains("agent a of project default"), "{said}");
    let server = Server::start(logging(&at("stolen"), &log));
    assert_eq!(Api::of(&server, &token).send(Method::GET, "/v1/threads", json!({})).await.0, 401);
    let operator = Api::of(&server, OPERATOR);
    assert_eq!(operator.send(Method::GET, "/v1/agents/a", json!({})).await.0, 404);
    let renewed = operator.token().await;
    assert_eq!(Api::of(&server, &renewed).send(Method::GET, "/v1/threads", json!({})).await.0, 200);
    let audit = operator.done(Method::GET, "/v1/audit", json!({})).await;
    let renewals = audit["entries"].as_array().expect("entries").iter().filter(|it| it["action"] == "secrets.renewed");
    assert_eq!(renewals.count(), 2, "{audit}");
    stop(server);
    let (said, _) = done(&["secrets", "renew", "--yes", "--data", &path("stolen")]);
    assert!(said.starts_with("all secrets are sealed"), "nothing is lost any more: {said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_named_key_file_seals_and_follows_a_new_first_line() {
    let home = tempfile::tempdir().expect("a directory");
    let (data, log, file) = (home.path().join("data"), home.path().join("log"), home.path().join("keys"));
    let line = |id: &str, letter: &str| format!("{id}:{}=\n", letter.repeat(43));
    let named = |lines: &str| {
        fs::write(&file, lines).expect("written");
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("ours");
        let mut command = logging(&data, &log);
        command.arg("--secret-key-file").arg(&file);
        command
    };
    let server = Server::start(named(&line("k1", "A")));
    logged(&server, "sealed with the key k1").await;
    let token = Api::of(&server, OPERATOR).token().await;
    assert!(!data.join("secret.key").exists(), "it has a key file already");
    stop(server);
    let both = format!("{}{}", line("k2", "E"), line("k1", "A"));
    let server = Server::start(named(&both));
    logged(&server, "sealed with the key k2").await;
    assert_eq!(Api::of(&server, &token).send(Method::GET, "/v1/threads", json!({})).await.0, 200);
    stop(server);
    // The old line is not needed any more, and the command says so.
    fs::write(&file, line("k2", "E")).expect("written");
    let keys = file.to_str().expect("text");
    let data_text = data.to_str().expect("text");
    let (said, _) = done(&["secrets", "reseal", "--data", data_text, "--secret-key-file", keys]);
    assert_eq!(said, "2 secrets are sealed with the key k2\n");
    let server = Server::start(named(&line("k2", "E")));
    assert_eq!(Api::of(&server, &token).send(Method::GET, "/v1/threads", json!({})).await.0, 200);
    stop(server);
}
