//! The table of permissions: `grants.txt` says by hand what each route, frame and kind of content requires, and every
//! line is tried.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use threadline::api::router;
use threadline_core::{Scope, Scopes};

use super::{bearer, key};
use crate::{
    harness::{Client, Server, Socket, everywhere, http::send, socket::handshake, text},
    table::{Route, routes},
};

/// Permission that a line states.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Grant {
    Public,
    Signed,
    Operator,
    /// One of these sets, for a caller of this kind.
    Scopes(Vec<Scopes>, Kind),
}

/// Kind of caller that a line requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Any,
    /// A key that acts for no user.
    Project,
    /// A key.
    Backend,
}

#[derive(Debug)]
struct Line {
    method: String,
    path: String,
    form: Option<String>,
    grant: Grant,
}

fn lines() -> Vec<Line> {
    let text = include_str!("grants.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    text.map(|line| {
        let (name, grant) = line.split_once(": ").expect("a grant");
        let mut words = name.split(' ').map(str::to_owned);
        let (method, path, form) = (words.next().expect("a method"), words.next().expect("a path"), words.next());
        let grant = match grant {
            "public" => Grant::Public,
            "signed" => Grant::Signed,
            "operator" => Grant::Operator,
            sets => {
                let kinds = [("project ", Kind::Project), ("backend ", Kind::Backend)];
                let kind = kinds.iter().find_map(|(name, kind)| Some((*kind, sets.strip_prefix(name)?)));
                let (kind, sets) = kind.unwrap_or((Kind::Any, sets));
                let sets = sets.split(" | ").map(|set| Scopes::parse(set).expect(line));
                Grant::Scopes(sets.collect(), kind)
            }
        };
        Line { method, path, form, grant }
    })
    .collect()
}

#[test]
fn every_route_and_frame_has_a_line_and_no_line_is_without_one() {
    let stated: BTreeSet<_> = lines()
        .into_iter()
        .map(|line| match line.method.as_str() {
            "FRAME" => format!("FRAME {} {}", line.path, line.form.expect("a frame")),
            _ => format!("{} {}", line.method, line.path),
        })
        .collect();
    let registered: BTreeSet<_> = router::entries()
        .into_iter()
        .filter_map(|entry| match (entry.method, entry.frame) {
            (Some(method), _) => Some(format!("{method} {}", entry.path)),
            (None, Some(frame)) => Some(format!("FRAME {} {frame}", entry.path)),
            // A page for people.
            (None, None) => None,
        })
        .collect();
    assert_eq!(stated, registered);
}

/// A body of this form: its content type, and its text.
fn body(route: &Route, form: Option<&str>) -> (&'static str, String) {
    let run = json!({ "threadId": "t", "messages": [{ "id": "m", "role": "user", "content": "Hi" }] });
    let resume = json!([{ "interruptId": "i", "status": "resolved", "payload": 1 }]);
    let with = |mut value: Value, name: &str, part: Value| {
        value[name] = part;
        value
    };
    let chat =
        json!({ "id": "t", "messages": [{ "id": "m", "role": "user", "parts": [{ "type": "text", "text": "Hi" }] }] });
    let command = json!({ "command": { "resume": "yes" } });
    let started = |input: Value| json!([{ "type": "RUN_STARTED", "input": input }]);
    let single = |method: &str, body: Value| {
        let params = json!({ "agentId": "demo", "threadId": "t" });
        json!({ "method": method, "params": params, "body": body })
    };
    let agent = |input: Value| json!({ "agentId": "demo", "input": input });
    let message = |role: &str| json!({ "messages": [{ "id": "n", "role": role, "content": "Hi" }] });
    let value = match (route.path.as_str(), form) {
        (_, None) => return ("application/json", route.valid_body().to_owned()),
        ("/copilotkit", Some("info")) => json!({ "method": "info" }),
        ("/copilotkit", Some("agent/run-resume")) => single("agent/run", with(run, "resume", resume)),
        ("/copilotkit", Some("rename")) => json!({
            "method": "resource/request", "params": { "path": "/threads/none", "httpMethod": "PATCH" }, "body": {}
        }),
        ("/copilotkit", Some(method)) => single(method, run),
        (_, Some("run.start")) => {
            let messages = json!([{ "type": "human", "content": "Hi" }]);
            let params = json!({ "assistant_id": "demo", "input": { "messages": messages } });
            json!({ "id": 1, "method": "run.start", "params": params })
        }
        (_, Some("input.respond")) => return ("application/json", route.valid_body().to_owned()),
        ("/openai/v1/responses", Some("approve")) => json!({ "model": "demo", "input": [
            { "type": "mcp_approval_response", "approval_request_id": "mcpr_i", "approve": true }
        ] }),
        (path, Some("speaks")) if path.starts_with("/openai/") => {
            json!({ "items": [{ "role": "assistant", "content": "Hi" }] })
        }
        (_, Some("ndjson")) => return ("application/x-ndjson", "{\"type\":\"X\"}\n".to_owned()),
        (_, Some("bare")) => json!({}),
        (_, Some("agent" | "agent-followed")) => agent(json!({ "messages": [] })),
        (_, Some("agent-resume")) => agent(json!({ "resume": resume })),
        (_, Some("agent-command")) => agent(json!({ "forwardedProps": command })),
        (_, Some("agent-fork")) => with(agent(json!({})), "fork", json!({ "regenerate": "none" })),
        ("/v1/conversations/{name}", Some("says")) => message("user"),
        ("/v1/conversations/{name}", Some(_)) => message("assistant"),
        ("/v1/threads/{threadId}/runs", Some("resume")) => json!({ "events": started(json!({ "resume": resume })) }),
        (path, Some("resume")) if path.starts_with("/v1/") => started(json!({ "resume": resume })),
        (_, Some("says")) => started(message("user")),
        (_, Some("speaks-as-assistant")) => started(message("assistant")),
        (_, Some("chat")) => chat,
        (_, Some("chat-resume")) => with(chat, "resume", resume),
        (_, Some("plain")) => run,
        (_, Some("resume")) => with(run, "resume", resume),
        (_, Some("command")) => with(run, "forwardedProps", command),
        (path, Some(form)) => panic!("say here what {form} of {path} is"),
    };
    ("application/json", value.to_string())
}

/// Status of the answer, and the scope that its problem names. The rest of a stream is not read.
async fn ask(client: &Client, route: &Route, form: Option<&str>) -> (u16, String) {
    let (content, body) = body(route, form);
    let request = client.request(route.method.parse().expect("a method"), &route.at("t", "r"));
    let accept = if form == Some("agent-followed") { "text/event-stream" } else { "*/*" };
    let answer =
        request.header("content-type", content).header("accept", accept).body(body).send().await.expect("an answer");
    let status = answer.status().as_u16();
    let scope = if status == 403 {
        let problem: Value = answer.json().await.expect("a problem");
        let named = problem["scope"].as_str().or(problem["error"]["scope"].as_str());
        named.unwrap_or_default().to_owned()
    } else {
        String::new()
    };
    (status, scope)
}

/// A frame that is understood, about a thread that there is not.
fn frame(name: &str) -> Value {
    let body = match name {
        "subscribe" | "unsubscribe" => json!({ "threadId": "none" }),
        "append" => json!({ "threadId": "none", "runId": "r", "events": [{ "type": "X" }] }),
        "heartbeat" | "stop" => json!({ "threadId": "none", "runId": "r" }),
        "subscribeFeed" | "unsubscribeFeed" | "ping" => json!({}),
        other => panic!("say here what the frame {other} needs"),
    };
    json!({ "id": "x", name: body })
}

/// Keys by their scopes, each made once.
struct Keys<'a> {
    server: &'a Server,
    made: BTreeMap<String, Client>,
}

impl Keys<'_> {
    /// A key with exactly these scopes.
    async fn exactly(&mut self, scopes: Scopes) -> Client {
        let name = scopes.to_string();
        if !self.made.contains_key(&name) {
            let client = key(self.server, "default", &scopes.iter().collect::<Vec<_>>()).await;
            self.made.insert(name.clone(), client);
        }
        self.made[&name].clone()
    }
}

/// Sets with one scope of this one missing, and that scope. A key has at least one scope, so another takes the place of
/// the only one.
fn lacking(set: Scopes) -> impl Iterator<Item = (Scope, Scopes)> {
    set.iter().map(move |scope| match set.without(Scopes::of(&[scope])) {
        none if none.is_empty() && scope == Scope::Metrics => (scope, Scopes::of(&[Scope::Agents])),
        none if none.is_empty() => (scope, Scopes::of(&[Scope::Metrics])),
        rest => (scope, rest),
    })
}

fn sets(grant: &Grant) -> &[Scopes] {
    if let Grant::Scopes(sets, _) = grant { sets } else { &[] }
}

/// Data of the project that a refused request must leave as they are.
async fn data(server: &Server) -> [String; 4] {
    let operator = server.project();
    let paths = ["/v1/threads/t/events", "/v1/threads/t/runs", "/v1/agents", "/v1/audit?limit=1"];
    let mut found = Vec::new();
    for path in paths {
        found.push(operator.get(path).await.text().to_owned());
    }
    found.try_into().expect("four")
}

everywhere! {
    async fn every_route_requires_the_scopes_of_its_line(server: |options| options.with_key("secret")) {
        server.user("ann").thread("t").await;
        let mut keys = Keys { server, made: BTreeMap::new() };
        let lines = lines();
        let routed = || lines.iter().filter(|line| line.method != "FRAME").map(|line| {
            let is_its = |route: &&Route| route.method == line.method && route.path == line.path;
            (line, routes().iter().find(is_its).expect("a route"))
        });
        // All keys are made first: making one is noted in the audit.
        for (line, _) in routed() {
            for set in sets(&line.grant) {
                keys.exactly(*set).await;
                for (_, rest) in lacking(*set) {
                    keys.exactly(rest).await;
                }
            }
        }
        let all_but_operator = keys.exactly(Scopes::ALL).await;
        let before = data(server).await;
        for (line, route) in routed() {
            let form = line.form.as_deref();
            if !matches!(line.grant, Grant::Public | Grant::Signed) {
                assert!(route.documents(403) && route.documents(401), "{line:?}");
                assert_eq!(ask(&Client { key: None, ..server.project() }, route, form).await.0, 401, "{line:?}");
            }
            if line.grant == Grant::Operator {
                assert_eq!(ask(&all_but_operator, route, form).await.0, 403, "{line:?}");
            }
            for set in sets(&line.grant) {
                for (scope, rest) in lacking(*set) {
                    let (status, named) = ask(&keys.exactly(rest).await, route, form).await;
                    assert_eq!(status, 403, "{line:?} without {scope}");
                    // The refusal may name a scope of another set, if one of several sets is enough.
                    let others = sets(&line.grant).iter().flat_map(|set| set.iter()).filter(|_| sets(&line.grant).len() > 1);
                    let right: Vec<_> = others.chain([scope]).map(Scope::as_str).collect();
                    assert!(named.split(' ').any(|name| right.contains(&name)), "{line:?}: {named:?} is named");
                }
            }
        }
        assert_eq!(data(server).await, before, "a refused request has changed something");
        for (line, route) in routed() {
            for set in sets(&line.grant) {
                let (status, named) = ask(&keys.exactly(*set).await, route, line.form.as_deref()).await;
                assert!(status != 401 && status != 403, "{line:?} with {set}: {status} {named}");
            }
        }
    }
}

everywhere! {
    async fn a_token_that_names_no_scope_reads_chats_and_approves(server: |options| options.with_key("secret")) {
        server.user("ann").thread("t").await;
        let made = server.project().post("/v1/tokens", json!({ "userId": "ann" })).await.ok(201);
        let ann = bearer(server, text(&made, "token"));
        for line in lines().iter().filter(|line| line.method != "FRAME") {
            let Grant::Scopes(sets, kind) = &line.grant else { continue };
            let route = routes().iter().find(|route| route.method == line.method && route.path == line.path);
            let (status, named) = ask(&ann, route.expect("a route"), line.form.as_deref()).await;
            let may = *kind == Kind::Any && sets.iter().any(|set| Scopes::USER.contains_all(*set));
            assert_eq!(status != 403, may, "{line:?}: {status} {named}");
            assert_ne!(status, 401, "{line:?}");
        }
    }
}

everywhere! {
    async fn every_frame_requires_the_scopes_of_its_line(server: |options| options.with_key("secret")) {
        let user = |client: Client| Client { user: Some("ann".into()), ..client };
        for scope in [Scope::Read, Scope::Chat, Scope::Produce] {
            let mut socket = Socket::open(&user(key(server, "default", &[scope]).await)).await;
            for line in lines().iter().filter(|line| line.method == "FRAME" && line.path == "/v1/socket") {
                socket.send(frame(line.form.as_deref().expect("a frame"))).await;
                // The followed stream continues beside the answers.
                let answer = loop {
                    let said = socket.any().await;
                    if said["id"] == "x" {
                        break said;
                    }
                };
                let refused = answer["error"]["type"] == "/problems/forbidden";
                let granted = sets(&line.grant).contains(&Scopes::of(&[scope]));
                assert_eq!(refused, !granted, "{line:?} with {scope}: {answer}");
            }
        }
        let approver = user(key(server, "default", &[Scope::Approve, Scope::Agents]).await);
        match Socket::connect(handshake(&approver)).await {
            Err(tokio_tungstenite::tungstenite::Error::Http(response)) => assert_eq!(response.status(), 403),
            other => panic!("{:?}", other.map(|_| "a socket")),
        }
    }
}

everywhere! {
    async fn a_token_names_scopes_or_is_refused(server: |options| options.with_key("secret")) {
        let project = json!({ "tokenScopes": ["read"] });
        server.project().put("/v1/projects/default", project).await.ok(201);
        let made = server.project().post("/v1/tokens", json!({ "userId": "ann" })).await.ok(201);
        let refused = bearer(server, text(&made, "token")).post("/v1/threads", json!({})).await.problem(403, "forbidden");
        assert_eq!(refused["scope"], "chat");
        for wrong in [json!([]), json!(["write"]), json!(["admin"])] {
            let settings = json!({ "tokenScopes": wrong });
            server.project().put("/v1/projects/default", settings).await.problem(400, "invalid-request");
        }
        let body = json!({ "userId": "ann", "scopes": ["produce"] });
        let made = server.project().post("/v1/tokens", body).await.ok(201);
        let request = bearer(server, text(&made, "token")).request(reqwest::Method::GET, "/v1/threads");
        send(request).await.problem(403, "forbidden");
    }
}

everywhere! {
    async fn a_token_that_cannot_read_is_shown_no_last_run(server: |options| options.with_key("secret")) {
        let body = json!({ "userId": "ann", "scopes": ["chat"] });
        let made = server.project().post("/v1/tokens", body).await.ok(201);
        let ann = server.user("ann");
        ann.thread("t").await;
        ann.put("/v1/threads/t/runs/r", json!([{ "type": "RUN_ERROR", "message": "no" }])).await.ok(201);
        let named = bearer(server, text(&made, "token")).patch("/v1/threads/t", json!({ "name": "N" })).await.ok(200);
        assert_eq!((&named["threadId"], &named["tail"], &named["lastRun"]), (&json!("t"), &json!(1), &Value::Null));
        assert_eq!(ann.get("/v1/threads/t").await.ok(200)["lastRun"]["status"], "error");
    }
}
