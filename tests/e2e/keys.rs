//! Key mode: every request needs the key, and no user sees the data of another.

use serde_json::json;
use threadline_http::routes::Access;
use tokio_tungstenite::tungstenite;

use crate::{
    harness::{Answer, Client, Options, Server, Socket, http::send, run, socket::handshake},
    table::{Route, routes},
};

async fn ask(client: &Client, route: &Route, thread: &str, run: &str) -> Answer {
    let request = client.request(route.method.parse().expect("a method"), &route.at(thread, run));
    send(request.header("content-type", "application/json").body(route.valid_body())).await
}

#[tokio::test]
async fn every_route_but_the_public_ones_requires_the_key() {
    run(Options::memory().with_key("secret"), async |server: &Server| {
        server.client().thread("t").await;
        let with = |key: Option<&str>| Client { key: key.map(str::to_owned), ..server.client() };
        let mut public = 0;
        // What is given out for a route is asked for by no key, and long-polls have an answer of their own: see `copilotkit`.
        let asked = |route: &Route| route.access != Access::SignedUrl && !route.path.ends_with("/longpoll");
        for route in routes().iter().filter(|route| asked(route)) {
            for key in [None, Some("wrong"), Some(""), Some("Secret"), Some("secret2")] {
                let answer = ask(&with(key), route, "t", "r").await;
                if route.access == Access::Public {
                    answer.ok(200);
                    public += 1;
                    continue;
                }
                answer.problem(401, "unauthorized");
                assert_eq!(answer.header("www-authenticate"), "Bearer", "{}", route.path);
            }
            let request = with(None).request(route.method.parse().expect("a method"), &route.at("t", "r"));
            if route.access != Access::Public {
                send(request.header("authorization", "Basic c2VjcmV0")).await.problem(401, "unauthorized");
                assert!(route.documents(401), "{} {} does not say so", route.method, route.path);
            }
        }
        assert_eq!(public, 6 * 5, "a new public route is to be counted here");
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

#[tokio::test]
async fn an_id_that_changed_hands_belongs_to_its_new_owner_on_every_node() {
    let store = std::sync::Arc::new(threadline_store::memory::MemoryStore::new(Options::memory().clock));
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
