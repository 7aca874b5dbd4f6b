//! A line of the log says where: which agent and address, which thread and run, and whose.

use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, client::IntoClientRequest};

use crate::{
    api::Api,
    server::{Server, command},
};

const PATIENCE: Duration = Duration::from_secs(60);

/// The fields of the first line with this message.
async fn line(server: &Server, message: &str) -> Value {
    let found = async {
        loop {
            let said = server.said();
            let mut lines = said.lines().filter_map(|line| serde_json::from_str::<Value>(line.trim()).ok());
            if let Some(line) =
                lines.find(|line| line["fields"]["message"].as_str().is_some_and(|it| it.contains(message)))
            {
                let fields = [&line["span"], &line["fields"]].into_iter().filter_map(Value::as_object).flatten();
                return fields
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect::<serde_json::Map<_, _>>()
                    .into();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let found = tokio::time::timeout(PATIENCE, found).await;
    found.unwrap_or_else(|_| panic!("no {message:?} in\n{}", server.said()))
}

/// An endpoint that takes one request and answers it with these bytes.
async fn endpoint(answer: &'static str) -> std::net::SocketAddr {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut read = Vec::new();
        while !read.windows(4).any(|it| it == b"\r\n\r\n") {
            stream.read_buf(&mut read).await.expect("a head");
        }
        stream.write_all(answer.as_bytes()).await.expect("written");
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_about_agents_and_runs_name_their_place() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let refusing = endpoint("HTTP/1.1 418 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno").await;
    let html = endpoint("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n").await;
    let torn =
        endpoint("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 900\r\n\r\ndata: {").await;
    let model = endpoint(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n\
         data: {\"error\":{\"code\":\"overloaded\"}}\n\n",
    )
    .await;
    let data = tempfile::tempdir().expect("a directory");
    let file = data.path().join("threadline.toml");
    let agents = [("away", free), ("refusing", refusing), ("html", html), ("torn", torn)];
    let mut text: String = agents
        .iter()
        .map(|(name, address)| format!("[agents.{name}]\nurl = \"http://{address}/run?key=s3cret\"\n"))
        .collect();
    text.push_str(&format!(
        "[agents.model]\nkind = \"openai\"\nbase_url = \"http://{model}/v1?key=s3cret\"\nmodel = \"m\"\napi_key = \"s3cret\"\n"
    ));
    std::fs::write(&file, text).expect("written");
    let mut command = command(data.path(), &[]);
    command.env("THREADLINE_LOG_FORMAT", "json").arg("--config").arg(&file).env("THREADLINE_LOG", "info");
    let server = Server::start(command);
    let api = Api::of(&server.url);
    for (agent, message, path) in [
        ("away", "cannot connect to an agent", "/run"),
        ("refusing", "an agent rejected a run", "/run"),
        ("html", "an agent's response is not an event stream", "/run"),
        ("torn", "lost the connection to an agent", "/run"),
        ("model", "a model's endpoint reported an error", "/v1/chat/completions"),
    ] {
        api.post("/v1/threads", json!({ "threadId": agent }).to_string()).await.done();
        let run = json!({ "runId": format!("run-{agent}"), "agentId": agent,
            "input": { "messages": [{ "id": "m", "role": "user", "content": "Hi" }] } });
        api.post(&format!("/v1/threads/{agent}/runs"), run.to_string()).await.done();
        let line = line(&server, message).await;
        let address = agents.iter().find(|(name, _)| *name == agent).map_or(model, |(_, address)| *address);
        for (field, value) in [
            ("agent", agent.to_owned()),
            ("url", format!("http://{address}{path}")),
            ("thread", agent.to_owned()),
            ("run", format!("run-{agent}")),
            ("project", "default".to_owned()),
        ] {
            assert_eq!(line[field], json!(value), "{field} of {line}");
        }
    }
    // A producer that says nothing.
    api.post("/v1/threads", r#"{"threadId":"left"}"#).await.done();
    api.post("/v1/threads/left/runs", r#"{"runId":"alone","leaseSeconds":1}"#).await.done();
    let line = line(&server, "ended a run").await;
    for (field, value) in [("run", "alone"), ("thread", "left"), ("project", "default")] {
        assert_eq!(line[field], json!(value), "{field} of {line}");
    }
    assert!(!server.said().contains("s3cret"), "{}", server.said());
}

/// Close code of a socket that a page of this origin opens.
async fn closed(server: &Server, origin: &str) -> u16 {
    let url = format!("{}/v1/socket", server.url.replace("http", "ws"));
    let mut request = url.into_client_request().expect("a request");
    request.headers_mut().insert("origin", origin.parse().expect("a value"));
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.expect("opens");
    match tokio::time::timeout(PATIENCE, socket.next()).await.expect("in time") {
        Some(Ok(Message::Close(Some(frame)))) => frame.code.into(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_page_is_named_once_with_the_flag_that_allows_it() {
    let data = tempfile::tempdir().expect("a directory");
    let mut command = command(data.path(), &[]);
    command.env("THREADLINE_API_KEY", "the-operators-key-of-this-test").env_remove("THREADLINE_DEVELOPMENT");
    command.env("THREADLINE_LOG_FORMAT", "json").args(["--allowed-origins", "https://listed.example"]);
    let server = Server::start(command);
    let told = |origin: &str| format!("rejected a page: origin {origin} is not in --allowed-origins");
    for _ in 0..3 {
        assert_eq!(closed(&server, "https://one.example").await, 4503);
    }
    assert_eq!(closed(&server, "https://two.example").await, 4503);
    for origin in ["https://one.example", "https://two.example"] {
        let line = line(&server, &told(origin)).await;
        let message = line["message"].as_str().expect("text");
        assert!(message.ends_with(&format!("add --allowed-origins {origin}")), "{line}");
        assert_eq!((&line["origin"], &line["path"]), (&json!(origin), &json!("/v1/socket")));
    }
    assert_eq!(server.said().matches(&told("https://one.example")).count(), 1, "{}", server.said());
}
