//! The table of access by others: for every route and frame, what a client may do with the data of another user or project.
//!
//! Routes and frames come from the server's own list. One that is missing here fails the test.

use serde_json::{Value, json};
use threadline::api::router;

use threadline_core::Scope;
use threadline_http::routes::Access;
use tokio_tungstenite::tungstenite;

use super::{bearer, key, token};
use crate::{
    harness::{Answer, Client, Options, Server, Socket, everywhere, http::send, run, socket::handshake, text},
    table::{Route, response_id, routes},
};

/// The kind of client without access.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outsider {
    /// A backend that names another user: its key may see to the project's own affairs.
    OtherUser,
    /// Another user, with a token.
    Token,
    /// A user of the same name in another project, whose key may do everything there.
    OtherProject,
}

async fn ask(client: &Client, route: &Route, thread: &str, run: &str) -> Answer {
    let request = client.request(route.method.parse().expect("a method"), &route.at(thread, run));
    send(request.header("content-type", "application/json").body(route.valid_body())).await
}

/// All data that a client without access could have changed.
async fn state(ann: &Client) -> Value {
    let mut found = Vec::new();
    for path in ["/v1/threads/t", "/v1/threads/t/runs", "/v1/threads/t/events", "/v1/agents"] {
        found.push(ann.get(path).await.ok(200));
    }
    // Positions are assigned after the answers.
    let mut feed = ann.get("/v1/feed").await.ok(200)["entries"].take();
    feed.as_array_mut().expect("entries").iter_mut().for_each(|entry| entry["cursor"] = Value::Null);
    found.push(feed);
    json!(found)
}

async fn nothing_is_theirs(server: &Server, ann: &Client, eve: &Client, outsider: Outsider) {
    ann.post("/v1/threads", json!({ "threadId": "t", "name": "private" })).await.ok(201);
    ann.run("t", "r").await;
    ann.append("t", "r", 1, json!([{ "type": "SECRET" }])).await.ok(200);
    // Nothing that belongs to the project is theirs either.
    let operator = server.project();
    operator.post("/v1/keys", json!({ "keyId": "private-key" })).await.ok(201);
    operator.put("/v1/agents/private-agent", json!({ "url": "https://agents.example/private-url" })).await.ok(200);
    let elsewhere = outsider == Outsider::OtherProject;
    // A token meets only the ids of its own user: see `an_api_that_creates_answers_a_foreign_id_like_an_absent_one`.
    let claims = outsider != Outsider::Token;
    let mut before = None;
    // The feed is written after the answer.
    while before.is_none() {
        before = Some(state(ann).await).filter(|state| state[4].as_array().is_some_and(|all| all.len() == 1));
    }
    for route in routes() {
        let what = format!("{} {}", route.method, route.path);
        if route.access == Access::ADMIN && outsider == Outsider::Token {
            ask(eve, route, "t", "r").await.problem(403, "forbidden");
            continue;
        }
        if matches!(route.access, Access::Backend(_)) && outsider == Outsider::Token {
            ask(eve, route, "t", "r").await.problem(403, "forbidden");
            continue;
        }
        if route.opens_thread_socket() {
            // The frames are in `agents::langgraph_socket`.
            let (foreign, unknown) = (ask(eve, route, "t", "r").await, ask(eve, route, "none", "r").await);
            foreign.problem(400, "invalid-request");
            assert_eq!((foreign.body, foreign.headers.len()), (unknown.body, unknown.headers.len()), "{what}");
            continue;
        }
        if route.path.contains("{threadId}") {
            let foreign = ask(eve, route, "t", "r").await;
            let unknown = ask(eve, route, "none", "r").await;
            if route.is_forgiving() {
                assert!(matches!(foreign.status, 200 | 204), "{what}: {}", foreign.text());
                assert!(!foreign.text().contains("SECRET") && !foreign.text().contains("private"), "{what}");
            } else {
                foreign.problem(404, "thread-not-found");
            }
            assert_eq!((foreign.body, foreign.headers.len()), (unknown.body, unknown.headers.len()), "{what}");
            for form in ["text/event-stream", "application/x-ndjson"] {
                let request = eve.request(route.method.parse().expect("a method"), &route.at("t", "r"));
                let request = request.header("accept", form).header("content-type", "application/x-ndjson");
                let answer = send(request.body("{\"type\":\"X\"}\n")).await;
                let refused = matches!(answer.status, 400 | 404 | 415) || route.is_forgiving();
                assert!(refused, "{what}: {}", answer.text());
                assert!(!answer.text().contains("SECRET") && !answer.text().contains("private"));
            }
            continue;
        }
        match (route.method, route.path.as_str()) {
            ("GET", "/v1/threads") => {
                assert_eq!(eve.get("/v1/threads").await.ok(200)["threads"], json!([]));
            }
            ("GET", "/v1/interrupts") => {
                assert_eq!(eve.get("/v1/interrupts").await.ok(200)["interrupts"], json!([]));
            }
            ("GET", "/v1/feed") => assert_eq!(eve.get("/v1/feed").await.ok(200)["entries"], json!([])),
            // The ids of another project are nothing to this one: see below.
            ("POST", "/v1/threads" | "/agui/{agentId}" | "/ai/{agentId}" | "/langgraph/threads") if elsewhere => {}
            ("POST", "/v1/threads") => {
                if claims {
                    eve.post("/v1/threads", json!({ "threadId": "t" })).await.problem(409, "thread-exists");
                }
                eve.post("/v1/threads", json!({ "userId": "ann" })).await.problem(400, "invalid-request");
            }
            ("POST", "/v1/kv") => {
                let kept =
                    json!({ "ops": [{ "op": "put", "ns": ["n"], "key": "k", "value": "SECRET", "threadId": "t" }] });
                ann.post("/v1/kv", kept.clone()).await.ok(200);
                let all = json!({ "ops": [{ "op": "search" }, { "op": "namespaces" }, { "op": "get", "ns": ["n"], "key": "k" }] });
                let answer = eve.post("/v1/kv", all).await;
                let results = &answer.ok(200)["results"];
                assert_eq!((&results[0]["items"], &results[1]["namespaces"]), (&json!([]), &json!([])), "{what}");
                assert_eq!(results[2], json!({ "item": null }), "{what}");
                eve.post("/v1/kv", kept).await.problem(404, "thread-not-found");
            }
            ("GET", "/v1/checkpoints/list") => {
                let kept =
                    json!({ "type": "t", "data": "", "metadata": { "x": "SECRET" }, "runId": "r", "channels": [] });
                ann.put("/v1/threads/t/checkpoints?id=c", kept).await.ok(200);
                assert_eq!(eve.get("/v1/checkpoints/list").await.ok(200)["checkpoints"], json!([]), "{what}");
            }
            ("DELETE", "/v1/checkpoints") => {
                let kept = json!({ "type": "t", "data": "", "runId": "r", "channels": [] });
                ann.put("/v1/threads/t/checkpoints?id=c", kept).await.ok(200);
                assert_eq!(ask(eve, route, "t", "r").await.ok(200)["deleted"], 0, "{what}");
                ann.get("/v1/threads/t/checkpoints?id=c").await.ok(200);
            }
            (_, path) if path.contains("{responseId}") || path.contains("{conversationId}") => {
                let (foreign, unknown) = (ask(eve, route, "t", "r").await, ask(eve, route, "none", "r").await);
                let plain = |answer: &Answer, thread: &str| {
                    let ids = [response_id(thread, "r"), format!("conv_{thread}")];
                    ids.iter().fold(answer.text().to_owned(), |text, id| text.replace(id, "ID"))
                };
                assert_eq!(foreign.status, 404, "{what}");
                assert_eq!(
                    (plain(&foreign, "t"), foreign.headers.len()),
                    (plain(&unknown, "none"), unknown.headers.len()),
                    "{what}"
                );
            }
            ("POST", "/openai/v1/responses") => {
                for (member, id) in
                    [("conversation", "conv_t".to_owned()), ("previous_response_id", response_id("t", "r"))]
                {
                    let mut body = json!({ "model": "demo", "input": "x" });
                    body[member] = json!(id);
                    assert_eq!(eve.post("/openai/v1/responses", body).await.status, 404, "{what}");
                }
            }
            // Their ids are those of the server.
            (
                "POST",
                "/openai/v1/conversations" | "/openai/v1/responses/input_tokens" | "/openai/v1/responses/compact",
            ) => {}
            ("GET", "/openai/v1/models" | "/openai/v1/models/{model}") => {
                let models = eve.get("/openai/v1/models").await;
                assert_eq!(models.ok(200).to_string().contains("private-agent"), !elsewhere);
                assert!(!models.text().contains("private-url"), "{}", models.text());
            }
            ("GET", "/v1/socket" | "/ai/{agentId}") => {}
            // A path belongs to a user, so another one has a stream of their own there.
            ("PUT", "/streams/v1/stream/{*path}") => {
                assert_eq!(ann.put("/streams/v1/stream/t", json!({ "x": "SECRET" })).await.status, 201);
                assert!(matches!(ask(eve, route, "t", "r").await.status, 201 | 403), "{what}");
                eve.delete("/streams/v1/stream/t").await;
                assert!(ann.get("/streams/v1/stream/t").await.text().contains("SECRET"), "{what}");
                assert_eq!(ann.delete("/streams/v1/stream/t").await.status, 204);
            }
            (_, "/streams/v1/stream/{*path}") => {
                assert_eq!(ann.put("/streams/v1/stream/t", json!({ "x": "SECRET" })).await.status, 201);
                let (foreign, unknown) = (ask(eve, route, "t", "r").await, ask(eve, route, "none", "r").await);
                assert!(matches!(foreign.status, 403 | 404), "{what}");
                assert_eq!(foreign.text().replace("\\\"t\\\"", "\\\"none\\\""), unknown.text(), "{what}");
                assert!(ann.get("/streams/v1/stream/t").await.text().contains("SECRET"), "{what}");
                assert_eq!(ann.delete("/streams/v1/stream/t").await.status, 204);
            }
            ("GET" | "DELETE", "/v1/conversations/{name}") => {
                let (foreign, unknown) = (ask(eve, route, "t", "r").await, ask(eve, route, "none", "r").await);
                foreign.problem(404, "thread-not-found");
                assert_eq!((foreign.body, foreign.headers.len()), (unknown.body, unknown.headers.len()), "{what}");
            }
            // The names of another project are nothing to this one.
            ("PUT", "/v1/conversations/{name}") if elsewhere => {}
            ("PUT", "/v1/conversations/{name}") => {
                if claims {
                    ask(eve, route, "t", "r").await.problem(409, "thread-exists");
                }
                let named = |thread: &str| {
                    let request = eve.request(reqwest::Method::PUT, &route.at(thread, "r")).header("if-match", "*");
                    send(request.json(&json!({ "messages": [] })))
                };
                let (foreign, unknown) = (named("t").await, named("none").await);
                foreign.problem(412, "conversation-changed");
                assert_eq!(foreign.body, unknown.body);
            }
            ("POST", "/copilotkit/agent/{agentId}/connect") => {
                let answer = eve.post("/copilotkit/agent/demo/connect", json!({ "threadId": "t" })).await;
                assert_eq!((answer.status, answer.body.len()), (200, 0), "as of a thread that there is not");
            }
            ("POST", "/copilotkit/agent/{agentId}/run") if claims && !elsewhere => {
                let input = json!({ "threadId": "t", "messages": [{ "role": "user", "content": "x" }] });
                eve.post("/copilotkit/agent/demo/run", input.clone()).await.problem(409, "thread-exists");
                let call = json!({ "method": "agent/run", "params": { "agentId": "demo" }, "body": input });
                eve.post("/copilotkit", call).await.problem(409, "thread-exists");
            }
            // Nothing of any thread is in it.
            ("POST", "/copilotkit/agent/{agentId}/suggest" | "/copilotkit/agent/{agentId}/run") => {}
            ("GET", "/copilotkit/threads") => {
                assert_eq!(eve.get("/copilotkit/threads").await.ok(200)["threads"], json!([]));
            }
            ("POST", "/copilotkit/threads/subscribe") => {
                let (hers, others) = (ask(ann, route, "t", "r").await.ok(200), ask(eve, route, "t", "r").await.ok(200));
                assert_ne!(hers["joinToken"], others["joinToken"]);
            }
            ("POST", "/copilotkit") => {
                for (method, path) in [
                    ("GET", "/threads/t/messages"),
                    ("GET", "/threads/t/events"),
                    ("GET", "/threads/t/state"),
                    ("PATCH", "/threads/t"),
                    ("POST", "/threads/t/archive"),
                    ("DELETE", "/threads/t"),
                ] {
                    let params = json!({ "path": path, "httpMethod": method });
                    let call = json!({ "method": "resource/request", "params": params, "body": {} });
                    eve.post("/copilotkit", call).await.problem(404, "thread-not-found");
                }
                for (method, body) in [("agent/stop", json!({})), ("agent/connect", json!({ "threadId": "t" }))] {
                    let params = json!({ "agentId": "demo", "threadId": "t" });
                    let call = json!({ "method": method, "params": params, "body": body });
                    let answer = eve.post("/copilotkit", call).await;
                    assert!(answer.status == 404 || answer.body.is_empty(), "{}", answer.text());
                }
            }
            ("GET", "/copilotkit/info") => {
                let answer = eve.get("/copilotkit/info").await;
                assert_eq!(answer.ok(200)["agents"]["private-agent"].is_null(), elsewhere);
                assert!(!answer.text().contains("private-url"), "{}", answer.text());
            }
            // Every user may know what there is to run, but not where it is.
            ("GET", "/v1/agents" | "/v1/agents/{agentId}") => {
                let answer = eve.get(&route.at("t", "r")).await.ok(200).to_string();
                assert!(!answer.contains("private-url") && !answer.contains("\"url\""), "{answer}");
                let named = eve.get("/v1/agents/private-agent").await;
                assert_eq!(named.status, if elsewhere { 404 } else { 200 });
                assert!(!named.text().contains("private-url"), "{}", named.text());
            }
            ("PUT" | "DELETE", "/v1/agents/{agentId}") => {
                ask(eve, route, "t", "r").await.problem(403, "forbidden");
            }
            ("POST", "/agui/{agentId}") => {
                let input = json!({ "threadId": "t", "messages": [{ "role": "user", "content": "x" }] });
                if claims {
                    eve.post("/agui/demo", input.clone()).await.problem(409, "thread-exists");
                }
                let start = json!({ "agentId": "demo", "input": input });
                eve.post("/v1/threads/t/runs", start).await.problem(404, "thread-not-found");
            }
            ("POST", "/ai/{agentId}") => {
                if claims {
                    eve.post("/ai/demo", chat("t")).await.problem(409, "thread-exists");
                }
            }
            ("POST", "/langgraph/threads") => {
                if claims {
                    let named = json!({ "thread_id": "t", "if_exists": "do_nothing" });
                    eve.post("/langgraph/threads", named).await.problem(404, "thread-not-found");
                    eve.post("/langgraph/threads", json!({ "thread_id": "t" })).await.problem(409, "thread-exists");
                    let params = json!({ "assistant_id": "demo", "input": { "messages": "x" } });
                    let start = json!({ "id": 1, "method": "run.start", "params": params });
                    let refused = eve.post("/langgraph/threads/t/commands", start).await.ok(200);
                    assert_eq!((&refused["type"], &refused["error"]), (&json!("error"), &json!("invalid_argument")));
                }
            }
            ("POST", "/langgraph/threads/search") => {
                assert_eq!(eve.post("/langgraph/threads/search", json!({})).await.ok(200), json!([]));
                assert_eq!(eve.post("/langgraph/threads/search", json!({ "ids": ["t"] })).await.ok(200), json!([]));
            }
            ("POST", "/langgraph/threads/count") => {
                assert_eq!(eve.post("/langgraph/threads/count", json!({})).await.ok(200), json!(0));
            }
            // Every user may know what there is to run, but not where it is.
            ("POST", "/langgraph/assistants/search" | "/langgraph/assistants/count")
            | ("GET", "/langgraph/assistants/{agentId}") => {
                let answer = ask(eve, route, "t", "r").await;
                answer.ok(200);
                assert!(!answer.text().contains("private-url"), "{}", answer.text());
            }
            ("PUT", "/connector/annotate/{clientEventId}") => {
                let noted = async |user: &str| {
                    eve.put(&route.at("t", "r"), json!({ "type": "x", "userId": user, "threadId": "t" })).await
                };
                // A key that is used for one user speaks for that one only.
                for user in ["eve", "ann"].into_iter().filter(|user| !elsewhere || *user == "ann") {
                    noted(user).await.problem(404, "thread-not-found");
                }
                assert_eq!(ann.get("/v1/threads/t/annotations").await.ok(200)["annotations"], json!([]));
            }
            // Metrics of the whole node contain no user's data. Tokens cannot read them.
            ("GET", "/metrics") if outsider != Outsider::Token => {
                let answer = ask(eve, route, "t", "r").await;
                assert_eq!(answer.status, 200);
                assert!(!answer.text().contains("private") && !answer.text().contains("ann"), "{}", answer.text());
            }
            ("POST", "/v1/socket-tickets") => {}
            ("POST", "/v1/tokens") => {
                let answer = eve.post("/v1/tokens", json!({ "userId": "ann" })).await;
                // Of its own project a key may speak for every user, but not where it speaks for one already.
                if elsewhere { drop(answer.ok(201)) } else { drop(answer.problem(403, "forbidden")) }
            }
            ("GET", "/api/threads") => {
                let own = if elsewhere { "ann" } else { "eve" };
                assert_eq!(eve.get(&format!("/api/threads?userId={own}")).await.ok(200)["threads"], json!([]));
                if !elsewhere {
                    eve.get("/api/threads?userId=ann").await.problem(403, "foreign-thread");
                }
            }
            ("POST", "/api/threads" | "/api/threads/subscribe") if elsewhere => {}
            ("POST", "/api/threads") => {
                let mut body = json!({ "threadId": "t", "userId": "eve" });
                if claims {
                    eve.post("/api/threads", body.clone()).await.problem(409, "thread-exists");
                }
                body["userId"] = json!("ann");
                eve.post("/api/threads", body).await.problem(403, "foreign-thread");
            }
            ("POST", "/api/threads/subscribe") => {
                let body = json!({ "userId": "ann" });
                eve.post("/api/threads/subscribe", body).await.problem(403, "foreign-thread");
            }
            // Their topics belong to a user: see `copilotkit`.
            ("GET", "/runner/websocket" | "/runner/longpoll") => {}
            _ if matches!(route.access, Access::Public | Access::SignedUrl) => {}
            // The key itself is trusted with its project, whichever user it names.
            _ if outsider == Outsider::OtherUser => assert_ne!(route.access, Access::READ, "{what}"),
            _ if outsider == Outsider::Token || route.access == Access::Operator => {
                ask(eve, route, "t", "r").await.problem(403, "forbidden");
            }
            ("GET", "/v1/keys" | "/v1/audit") => {
                let answer = ask(eve, route, "t", "r").await;
                answer.ok(200);
                assert!(!answer.text().contains("private"), "{}", answer.text());
            }
            ("POST", "/v1/keys") => assert_eq!(ask(eve, route, "t", "r").await.ok(201)["projectId"], "q"),
            ("DELETE", "/v1/keys/{keyId}") => {
                eve.delete("/v1/keys/private-key").await.problem(404, "key-not-found");
            }
            ("POST", "/v1/keys/{keyId}/sign-out") => {
                eve.post("/v1/keys/private-key/sign-out", json!({})).await.problem(404, "key-not-found");
            }
            // A user of this name in the project of the key.
            ("POST", "/v1/users/{userId}/sign-out") => drop(ask(eve, route, "t", "r").await.ok(200)),
            (
                "GET" | "POST",
                "/v1/projects/{projectId}"
                | "/v1/projects/{projectId}/sign-out"
                | "/v1/projects/{projectId}/token-secret"
                | "/v1/projects/{projectId}/retention/approve",
            ) => {
                let foreign = ask(eve, route, "t", "r").await;
                foreign.problem(404, "project-not-found");
            }
            ("GET", "/v1/trash") => assert_eq!(ask(eve, route, "t", "r").await.ok(200)["threads"], json!([])),
            ("DELETE", "/v1/users/{userId}") => {
                let receipt = eve.delete("/v1/users/ann").await.ok(200);
                assert_eq!(receipt["erased"]["threads"], 0, "{receipt}");
            }
            _ => panic!("add what another client may do with {what}"),
        }
    }
    let mut socket = Socket::open(eve).await;
    for entry in router::entries() {
        // A page's pushes belong to its topics: see `copilotkit`.
        let Some(name) = entry.frame.filter(|_| entry.path == "/v1/socket") else { continue };
        let body = |thread: &str| match name {
            "subscribe" | "unsubscribe" => json!({ "threadId": thread }),
            "append" => json!({ "threadId": thread, "runId": "r", "events": [{ "type": "X" }] }),
            "heartbeat" | "stop" => json!({ "threadId": thread, "runId": "r" }),
            "subscribeFeed" => json!({ "userId": "ann" }),
            "unsubscribeFeed" | "ping" => json!({}),
            other => panic!("add what another client may do with {other}"),
        };
        let mut answers = Vec::new();
        for thread in ["t", "none"] {
            socket.send(json!({ "id": "x", name: body(thread) })).await;
            // The followed stream continues beside the answers.
            let text = loop {
                let text = socket.text().await;
                if text.contains("\"id\":\"x\"") {
                    break text;
                }
            };
            assert!(!text.contains("SECRET") && !text.contains("private"), "{name}: {text}");
            answers.push(text.replace("\"none\"", "\"t\""));
        }
        assert_eq!(answers[0], answers[1], "{name}");
        let own_feed = name == "subscribeFeed" && elsewhere;
        let refused = !own_feed && !matches!(name, "unsubscribe" | "unsubscribeFeed" | "ping");
        assert_eq!(answers[0].contains("\"error\""), refused, "{name}: {}", answers[0]);
    }
    assert_eq!(Some(state(ann).await), before);
    if elsewhere {
        // That an id is taken there is not to be learned here.
        eve.post("/v1/threads", json!({ "threadId": "t" })).await.ok(201);
        eve.post("/agui/demo", json!({ "threadId": "t", "messages": [{ "role": "user", "content": "x" }] })).await;
        assert_eq!(Some(state(ann).await), before);
    }
}

/// A message that `useChat` sends in a chat of this id.
fn chat(id: &str) -> Value {
    json!({ "id": id, "messages": [{ "id": "m", "role": "user", "parts": [{ "type": "text", "text": "x" }] }] })
}

/// Requests that create a thread of this id: method, path and body. What else they name does not say which thread it is.
fn creations(id: &str) -> Vec<(&'static str, String, Value)> {
    let input = json!({ "threadId": id, "messages": [{ "role": "user", "content": "x" }] });
    let call = json!({ "method": "agent/run", "params": { "agentId": "demo" }, "body": input });
    vec![
        ("POST", "/v1/threads".to_owned(), json!({ "threadId": id })),
        ("POST", "/v1/threads".to_owned(), json!({ "threadId": id, "name": "mine", "metadata": { "a": 1 } })),
        ("PUT", format!("/v1/conversations/{id}"), json!({ "messages": [] })),
        ("POST", "/agui/demo".to_owned(), input.clone()),
        ("POST", "/ai/demo".to_owned(), chat(id)),
        ("POST", "/copilotkit/agent/demo/run".to_owned(), input),
        ("POST", "/copilotkit".to_owned(), call),
        ("POST", "/api/threads".to_owned(), json!({ "threadId": id, "userId": "eve" })),
    ]
}

/// The text without what is new in every answer: each word with a digit, such as an id, an epoch or a time.
fn lasting(text: &str) -> String {
    let is_word = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_');
    let mut lasting = String::new();
    for piece in text.split_inclusive(|letter: char| !is_word(letter)) {
        let word = piece.trim_end_matches(|letter: char| !is_word(letter));
        lasting.push_str(if word.contains(|letter: char| letter.is_ascii_digit()) { "#" } else { word });
        lasting.push_str(&piece[word.len()..]);
    }
    lasting
}

/// A stream of Server-Sent Events with deltas in a row as one: how many there are depends on how busy the machine is.
fn whole_deltas(text: &str) -> String {
    const DELTA: &str = r#""delta":""#;
    let mut frames: Vec<(&str, String, &str)> = Vec::new();
    for frame in text.split("\n\n") {
        let delta = frame.split_once(DELTA).and_then(|(before, rest)| Some((before, rest.split_once('"')?)));
        match (delta, frames.last_mut()) {
            (Some((before, (delta, after))), Some(last)) if (last.0, last.2) == (before, after) => {
                last.1.push_str(delta)
            }
            (Some((before, (delta, after))), _) => frames.push((before, delta.to_owned(), after)),
            (None, _) => frames.push((frame, String::new(), "")),
        }
    }
    frames.into_iter().map(|(before, delta, after)| format!("{before}{delta}{after}")).collect::<Vec<_>>().join("\n\n")
}

everywhere! {
    async fn an_api_that_creates_answers_a_foreign_id_like_an_absent_one(server: |options| options.with_key("secret")) {
        let (ann, eve) = (token(server, "ann").await, token(server, "eve").await);
        // Ids of one length, of Ann's threads and of none: one that she chose, and one that her backend has claimed.
        let claimed = server.user("ann");
        for (owner, id) in [(&ann, "chosen"), (&claimed, "backed")] {
            owner.post("/v1/threads", json!({ "threadId": id, "name": "private" })).await.ok(201);
            owner.run(id, "r").await;
            owner.append(id, "r", 1, json!([{ "type": "SECRET" }])).await.ok(200);
        }
        let shown = async |id: &str| {
            let path = format!("/v1/threads/{id}");
            (ann.get(&path).await.ok(200), ann.get(&format!("{path}/events")).await.ok(200))
        };
        let before = (shown("chosen").await, shown("backed").await);
        let made = async |id: &str, (method, path, body): (&str, String, Value)| {
            let answer = send(eve.request(method.parse().expect("a method"), &path).json(&body)).await;
            assert!(matches!(answer.status, 200 | 201), "{method} {path}: {}", answer.text());
            let mut headers: Vec<_> = answer
                .headers
                .iter()
                .filter(|(name, _)| *name != "date")
                .map(|(name, value)| format!("{name}: {}", lasting(&String::from_utf8_lossy(value.as_bytes()))))
                .collect();
            headers.sort();
            let own = eve.get(&format!("/v1/threads/{id}")).await.ok(200);
            assert_eq!(own["userId"], "eve", "{method} {path}");
            assert_eq!(eve.delete(&format!("/v1/threads/{id}")).await.status, 204);
            (answer.status, headers.join("\n").replace(id, "ID"), whole_deltas(&lasting(&answer.text().replace(id, "ID"))))
        };
        for creation in 0..creations("absent").len() {
            let absent = made("absent", creations("absent").swap_remove(creation)).await;
            for id in ["chosen", "backed"] {
                let foreign = made(id, creations(id).swap_remove(creation)).await;
                assert_eq!(foreign, absent, "{:?}", creations(id)[creation]);
            }
        }
        assert_eq!((shown("chosen").await, shown("backed").await), before);
    }
}

everywhere! {
    async fn no_client_reads_or_changes_data_of_another_user(server: |options| options.with_key("secret")) {
        nothing_is_theirs(server, &server.user("ann"), &server.user("eve"), Outsider::OtherUser).await;
    }
}

everywhere! {
    async fn no_token_reads_or_changes_data_of_another_user(server: |options| options.with_key("secret")) {
        let (ann, eve) = (token(server, "ann").await, token(server, "eve").await);
        nothing_is_theirs(server, &ann, &eve, Outsider::Token).await;
    }
}

everywhere! {
    async fn no_key_reads_or_changes_data_of_another_project(server: |options| options.with_key("secret")) {
        server.project().put("/v1/projects/q", json!({})).await.ok(201);
        let as_ann = |client: Client| Client { user: Some("ann".into()), ..client };
        let (ann, eve) = (key(server, "default", Scope::ALL).await, key(server, "q", Scope::ALL).await);
        nothing_is_theirs(server, &as_ann(ann), &as_ann(eve), Outsider::OtherProject).await;
    }
}

/// Id of the key that was made last.
async fn newest_key(server: &Server) -> String {
    let keys = server.project().get("/v1/keys").await.ok(200);
    let keys = keys["keys"].as_array().expect("keys").iter();
    let newest = keys.max_by_key(|key| text(key, "createdAt").to_owned()).expect("a key");
    text(newest, "keyId").to_owned()
}

#[tokio::test]
async fn invalid_credentials_are_refused_everywhere() {
    run(Options::memory().with_key("secret").with_manual_clock(), async |server: &Server| {
        let expiring = token(server, "ann").await;
        expiring.thread("t").await;
        let revoked = key(server, "default", Scope::ALL).await;
        let id = server.project().get("/v1/keys").await.ok(200)["keys"][0]["keyId"].as_str().expect("an id").to_owned();
        server.project().delete(&format!("/v1/keys/{id}")).await.ok(200);
        server.pass(2 * 3_600);
        let anonymous = Client { key: None, user: None, ..server.project() };
        let minting = key(server, "default", &[Scope::Tokens, Scope::Read]).await;
        let made = minting.post("/v1/tokens", json!({ "userId": "ann" })).await.ok(201);
        let of_a_revoked_key = bearer(server, text(&made, "token"));
        server.project().delete(&format!("/v1/keys/{}", newest_key(server).await)).await.ok(200);
        let signed_out = token(server, "ann").await;
        server.project().post("/v1/users/ann/sign-out", json!({})).await.ok(200);
        let garbage = ["tl_", "tl_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "tlt_x", "a.b.c", "secre"];
        let garbage = garbage.map(|text| bearer(server, text));
        let refused = || [&expiring, &revoked, &anonymous, &of_a_revoked_key, &signed_out].into_iter();
        let asked = |route: &Route| {
            !matches!(route.access, Access::Public | Access::SignedUrl) && !route.path.ends_with("/longpoll")
        };
        for route in routes().iter().filter(|route| asked(route)) {
            let bodies: Vec<_> = {
                let mut bodies = Vec::new();
                for client in refused().chain(&garbage) {
                    let answer = ask(client, route, "t", "r").await;
                    answer.problem(401, "unauthorized");
                    bodies.push((ask(client, route, "none", "r").await.body, answer.body));
                }
                bodies
            };
            // Whether there is such a thread is not to be learned.
            assert!(bodies.iter().all(|(unknown, known)| unknown == known), "{} {}", route.method, route.path);
        }
        for client in refused().chain(&garbage) {
            match Socket::connect(handshake(client)).await {
                Err(tungstenite::Error::Http(response)) => assert_eq!(response.status(), 401),
                other => panic!("{:?}", other.map(|_| "a socket")),
            }
        }
    })
    .await;
}
