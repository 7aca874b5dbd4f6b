//! Key mode: nobody without the key, and nobody sees what is not theirs.

use serde_json::{Value, json};
use threadline::api::{doors::Access, front};
use tokio_tungstenite::tungstenite;

use crate::{
    harness::{Answer, Client, Options, Server, Socket, everywhere, http::send, run, socket::handshake},
    table::{Route, routes},
};

async fn ask(client: &Client, route: &Route, thread: &str, run: &str) -> Answer {
    let request = client.request(route.method.parse().expect("a method"), &route.at(thread, run));
    send(request.header("content-type", "application/json").body(route.valid_body())).await
}

#[tokio::test]
async fn every_route_but_the_public_ones_wants_the_key() {
    run(Options::memory().with_key("secret"), async |server: &Server| {
        server.client().thread("t").await;
        let with = |key: Option<&str>| Client { key: key.map(str::to_owned), ..server.client() };
        let mut public = 0;
        for route in routes() {
            for key in [None, Some("wrong"), Some(""), Some("Secret"), Some("secret2")] {
                let answer = ask(&with(key), &route, "t", "r").await;
                if route.access == Access::Public {
                    answer.ok(200);
                    public += 1;
                    continue;
                }
                answer.problem(401, "unauthorized");
                assert_eq!(answer.header("www-authenticate"), "Bearer", "{}", route.path);
            }
            let request = with(None).request(route.method.parse().expect("a method"), &route.at("t", "r"));
            if route.access == Access::Principal {
                send(request.header("authorization", "Basic c2VjcmV0")).await.problem(401, "unauthorized");
                assert!(route.documents(401), "{} {} does not say so", route.method, route.path);
            }
        }
        assert_eq!(public, 4 * 5, "a new public route is to be counted here");
        for key in [None, Some("wrong")] {
            match Socket::connect(handshake(&with(key))).await {
                Err(tungstenite::Error::Http(response)) => assert_eq!(response.status(), 401),
                other => panic!("{:?}", other.map(|_| "a socket")),
            }
        }
        let scheme = server.project().request(reqwest::Method::GET, "/v1/threads/t");
        assert_eq!(send(scheme.header("authorization", "bearer secret")).await.status, 200);
        server.client().get("/v1/threads/t").await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn the_whole_project_may_touch_every_thread_and_names_the_user_where_one_is_needed() {
    run(Options::memory().with_key("secret"), async |server: &Server| {
        let (project, ann) = (server.project(), server.user("ann"));
        ann.thread("t").await;
        project.post("/v1/threads", json!({ "threadId": "u" })).await.problem(400, "invalid-request");
        let made = project.post("/v1/threads", json!({ "threadId": "u", "userId": "bob" })).await.ok(201);
        assert_eq!(made["userId"], "bob");
        project.run("t", "r").await;
        project.append("t", "r", 1, json!([{ "type": "A" }])).await.ok(200);
        project.patch("/v1/threads/u", json!({ "name": "N" })).await.ok(200);
        for path in ["/v1/threads", "/v1/feed"] {
            project.get(path).await.problem(400, "invalid-request");
            project.get(&format!("{path}?userId=ann")).await.ok(200);
            ann.get(&format!("{path}?userId=ann")).await.ok(200);
            ann.get(&format!("{path}?userId=bob")).await.problem(400, "invalid-request");
        }
        let list = project.get("/v1/threads?userId=bob").await.ok(200);
        assert_eq!(list["threads"].as_array().map(Vec::len), Some(1));
        let mut socket = Socket::open(&project).await;
        socket.send(json!({ "id": "1", "subscribeFeed": {} })).await;
        socket.problem("1", 400, "invalid-request").await;
        socket.send(json!({ "id": "2", "subscribeFeed": { "userId": "ann" } })).await;
        socket.frame("feedHello").await;
        assert_eq!(ann.types("t").await, ["A"]);
    })
    .await;
}

/// Everything that a stranger could have changed.
async fn state(ann: &Client) -> Value {
    let mut found = Vec::new();
    for path in ["/v1/threads/t", "/v1/threads/t/runs", "/v1/threads/t/events"] {
        found.push(ann.get(path).await.ok(200));
    }
    json!(found)
}

everywhere! {
    async fn nobody_touches_the_thread_of_another_user(server: |options| options.with_key("secret")) {
        let (ann, eve) = (server.user("ann"), server.user("eve"));
        ann.post("/v1/threads", json!({ "threadId": "t", "name": "private" })).await.ok(201);
        ann.run("t", "r").await;
        ann.append("t", "r", 1, json!([{ "type": "SECRET" }])).await.ok(200);
        // What she asked for herself must not open the door for another.
        let before = state(&ann).await;
        for route in routes() {
            let what = format!("{} {}", route.method, route.path);
            if route.path.contains("{threadId}") {
                let foreign = ask(&eve, &route, "t", "r").await;
                let unknown = ask(&eve, &route, "none", "r").await;
                foreign.problem(404, "thread-not-found");
                assert_eq!((foreign.body, foreign.headers.len()), (unknown.body, unknown.headers.len()), "{what}");
                for form in ["text/event-stream", "application/x-ndjson"] {
                    let request = eve.request(route.method.parse().expect("a method"), &route.at("t", "r"));
                    let request = request.header("accept", form).header("content-type", "application/x-ndjson");
                    let answer = send(request.body("{\"type\":\"X\"}\n")).await;
                    assert!(matches!(answer.status, 400 | 404), "{what}: {}", answer.text());
                    assert!(!answer.text().contains("SECRET") && !answer.text().contains("ann"));
                }
                continue;
            }
            match (route.method, route.path.as_str()) {
                ("GET", "/v1/threads") => {
                    assert_eq!(eve.get("/v1/threads").await.ok(200)["threads"], json!([]));
                }
                ("GET", "/v1/feed") => assert_eq!(eve.get("/v1/feed").await.ok(200)["entries"], json!([])),
                ("POST", "/v1/threads") => {
                    eve.post("/v1/threads", json!({ "threadId": "t" })).await.problem(409, "thread-exists");
                    eve.post("/v1/threads", json!({ "userId": "ann" })).await.problem(400, "invalid-request");
                }
                ("GET", "/v1/socket") => {}
                // Numbers of the whole node: nothing of them is anybody's.
                ("GET", "/metrics") => {
                    let answer = send(eve.request(reqwest::Method::GET, "/metrics")).await;
                    assert_eq!(answer.status, 200);
                    assert!(!answer.text().contains("ann") && !answer.text().contains("SECRET"), "{}", answer.text());
                }
                // Every user may know what there is to run, but not where it is.
                ("GET", "/v1/agents" | "/v1/agents/{agentId}") => {
                    let answer = eve.get(&route.at("t", "r")).await.ok(200).to_string();
                    assert!(!answer.contains("url") && !answer.contains("model"), "{answer}");
                }
                ("PUT" | "DELETE", "/v1/agents/{agentId}") => {
                    ask(&eve, &route, "t", "r").await.problem(403, "forbidden");
                }
                ("POST", "/agui/{agentId}") => {
                    let input = json!({ "threadId": "t", "messages": [{ "role": "user", "content": "x" }] });
                    eve.post("/agui/demo", input.clone()).await.problem(409, "thread-exists");
                    let start = json!({ "agentId": "demo", "input": input });
                    eve.post("/v1/threads/t/runs", start).await.problem(404, "thread-not-found");
                }
                _ => assert_eq!(route.access, Access::Public, "say here what a stranger may do with {what}"),
            }
        }
        let mut socket = server.socket("eve").await;
        for entry in front::entries() {
            let Some(name) = entry.frame else { continue };
            let body = |thread: &str| match name {
                "subscribe" | "unsubscribe" => json!({ "threadId": thread }),
                "append" => json!({ "threadId": thread, "runId": "r", "events": [{ "type": "X" }] }),
                "heartbeat" | "stop" => json!({ "threadId": thread, "runId": "r" }),
                "subscribeFeed" => json!({ "userId": "ann" }),
                "unsubscribeFeed" | "ping" => json!({}),
                other => panic!("say here what a stranger may do with {other}"),
            };
            let mut answers = Vec::new();
            for thread in ["t", "none"] {
                socket.send(json!({ "id": "x", name: body(thread) })).await;
                let text = socket.text().await;
                assert!(!text.contains("SECRET") && !text.contains("ann"), "{name}: {text}");
                answers.push(text.replace("\"none\"", "\"t\""));
            }
            assert_eq!(answers[0], answers[1], "{name}");
            let refused = !matches!(name, "unsubscribe" | "unsubscribeFeed" | "ping");
            assert_eq!(answers[0].contains("\"error\""), refused, "{name}: {}", answers[0]);
        }
        assert_eq!(state(&ann).await, before);
    }
}

#[tokio::test]
async fn an_id_that_changed_hands_belongs_to_its_new_owner_on_every_node() {
    let store = std::sync::Arc::new(threadline::store::memory::MemoryStore::new(Options::memory().clock));
    let one = Server::over(store.clone(), Options::memory()).await;
    let two = Server::over(store, Options::memory()).await;
    one.user("ann").thread("t").await;
    two.user("ann").get("/v1/threads/t/events").await.ok(200);
    one.user("ann").delete("/v1/threads/t").await;
    one.user("bob").thread("t").await;
    assert_eq!(two.user("bob").get("/v1/threads/t/events").await.ok(200)["tail"], 0);
    two.user("ann").get("/v1/threads/t/events").await.problem(404, "thread-not-found");
    one.stop().await;
    two.stop().await;
}
