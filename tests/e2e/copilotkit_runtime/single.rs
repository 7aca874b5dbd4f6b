//! The same with one address for everything.

use serde_json::{Value, json};
use threadline_core::Scope;

use super::{agent, asks, connect, finished, input, kinds, rest, said, until, user};
use crate::{
    harness::{Answer, Client, Options, Server, everywhere, sse::Events, text},
    identity::key,
};

async fn call(client: &Client, method: &str, params: Value, body: Value) -> Answer {
    client.post("/copilotkit", json!({ "method": method, "params": params, "body": body })).await
}

async fn resource(client: &Client, method: &str, path: &str, body: Value) -> Answer {
    call(client, "resource/request", json!({ "path": path, "httpMethod": method }), body).await
}

everywhere! {
    async fn runs_go_through_one_address(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let info = call(&dev, "info", json!({}), Value::Null).await.ok(200);
        assert_eq!(info["singleRoute"], json!({ "resourceOperations": true, "threadEndpoints": info["threadEndpoints"] }));
        let params = json!({ "agentId": "a" });
        let envelope = |method: &str| json!({ "method": method, "params": params, "body": input("r", json!([user("u", "hi")])) });
        let mut stream = Events::open(asks(&dev, "", &envelope("agent/run"))).await;
        let mut run = agent.call().await;
        run.say(&said("m", "Hello")[..2]).await;
        until(&mut stream, "TEXT_MESSAGE_CONTENT").await;
        let mut page = Events::open(asks(&dev, "", &envelope("agent/connect"))).await;
        until(&mut page, "TEXT_MESSAGE_CONTENT").await;
        call(&dev, "agent/run", params.clone(), input("r2", json!([]))).await.problem(409, "run-active");
        let stop = json!({ "agentId": "a", "threadId": "t" });
        assert_eq!(call(&dev, "agent/stop", stop.clone(), json!({ "runId": "x" })).await.ok(200)["stopped"], false);
        assert_eq!(call(&dev, "agent/stop", stop, Value::Null).await.ok(200)["stopped"], true);
        assert_eq!(kinds(&rest(&mut stream).await), ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
        assert_eq!(kinds(&rest(&mut page).await), ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
        let received = rest(&mut Events::open(asks(&dev, "", &envelope("agent/connect"))).await).await;
        assert_eq!(received, rest(&mut connect(&dev, json!([])).await).await);
    }
}

everywhere! {
    async fn threads_go_through_one_address(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let (id, path) = ("t/1 é", "/threads/t%2F1%20%C3%A9");
        let mut body = input("r", json!([user("u", "hi")]));
        body["threadId"] = json!(id);
        let mut stream = Events::open(asks(&dev, "/agent/a/run", &body)).await;
        agent.call().await.finish(&[finished("r")]).await;
        rest(&mut stream).await;
        let list = async |query: &str| resource(&dev, "GET", &format!("/threads?{query}"), Value::Null).await.ok(200);
        assert_eq!(list("agentId=a&limit=5").await["threads"][0]["id"], id);
        assert_eq!(list("agentId=other").await["threads"], json!([]));
        assert!(resource(&dev, "POST", "/threads/subscribe", json!({})).await.ok(200)["joinToken"].is_string());
        for part in ["messages", "events", "state"] {
            let own = dev.get(&format!("/copilotkit{path}/{part}")).await.ok(200);
            assert_eq!(resource(&dev, "get", &format!("{path}/{part}"), Value::Null).await.ok(200), own);
        }
        let named = resource(&dev, "PATCH", path, json!({ "agentId": "a", "name": "N" })).await.ok(200);
        assert_eq!(text(&named, "name"), "N");
        assert_eq!(resource(&dev, "POST", &format!("{path}/archive"), json!({ "agentId": "a" })).await.ok(200)["archived"], true);
        assert_eq!(resource(&dev, "DELETE", path, json!({ "agentId": "a" })).await.ok(200)["deleted"], true);
        resource(&dev, "GET", &format!("{path}/messages"), Value::Null).await.problem(404, "thread-not-found");
    }
}

everywhere! {
    async fn invalid_calls_are_refused(server) {
        let dev = server.client();
        for (method, params) in [
            ("", json!({})),
            ("agent/dance", json!({ "agentId": "demo" })),
            ("agent/run", json!({})),
            ("agent/stop", json!({ "agentId": "demo" })),
            ("agent/run", json!({ "agentId": "" })),
            ("resource/request", json!({ "httpMethod": "GET" })),
            ("resource/request", json!({ "path": "https://elsewhere.example/threads" })),
            ("resource/request", json!({ "path": "//elsewhere.example/threads" })),
            ("resource/request", json!({ "path": "threads" })),
            ("resource/request", json!({ "path": "/threads/%FF/messages" })),
            ("resource/request", json!({ "path": "/threads/%00/messages" })),
            ("resource/request", json!({ "path": "/threads?limit=x" })),
        ] {
            call(&dev, method, params, Value::Null).await.problem(400, "invalid-request");
        }
        for (method, path) in
            [("GET", "/memories"), ("GET", "/threads/t/secrets"), ("POST", "/threads"), ("PUT", "/threads/t"), ("GET", "/info")]
        {
            resource(&dev, method, path, json!({})).await.problem(404, "not-found");
        }
        for method in ["transcribe", "inspector/metadata", "inspector/learning"] {
            call(&dev, method, json!({}), json!({})).await.problem(404, "not-found");
        }
        call(&dev, "agent/run", json!({ "agentId": "demo" }), json!("x")).await.problem(400, "invalid-request");
        let deep = format!("{{\"method\":\"agent/run\",\"body\":{}{}}}", "[".repeat(200), "]".repeat(200));
        let sent = dev.request(reqwest::Method::POST, "/copilotkit").header("content-type", "application/json").body(deep);
        crate::harness::http::send(sent).await.problem(400, "invalid-request");
    }
}

#[tokio::test]
async fn a_client_with_read_access_changes_nothing_through_the_single_endpoint() {
    crate::harness::run(Options::memory().with_key("secret"), async |server: &Server| {
        server.user("ann").thread("t").await;
        let reader = Client { user: Some("ann".into()), ..key(server, "default", &[Scope::Read]).await };
        let both = json!({ "agentId": "demo", "threadId": "t" });
        for method in ["agent/run", "agent/suggest", "agent/stop"] {
            call(&reader, method, both.clone(), json!({})).await.problem(403, "forbidden");
        }
        for (method, path) in [("PATCH", "/threads/t"), ("DELETE", "/threads/t"), ("POST", "/threads/t/archive")] {
            resource(&reader, method, path, json!({ "name": "N" })).await.problem(403, "forbidden");
        }
        assert_eq!(resource(&reader, "GET", "/threads", Value::Null).await.ok(200)["threads"][0]["name"], Value::Null);
        call(&reader, "info", json!({}), Value::Null).await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn a_call_is_answered_as_its_route_is_to_every_credential() {
    let calls = [
        ("info", json!({}), "GET", "/info"),
        ("agent/run", json!({ "agentId": "x" }), "POST", "/agent/x/run"),
        ("agent/suggest", json!({ "agentId": "x" }), "POST", "/agent/x/suggest"),
        ("agent/connect", json!({ "agentId": "x" }), "POST", "/agent/x/connect"),
        ("agent/stop", json!({ "agentId": "x", "threadId": "none" }), "POST", "/agent/x/stop/none"),
        ("resource/request", json!({ "path": "/threads?limit=x" }), "GET", "/threads?limit=x"),
        (
            "resource/request",
            json!({ "path": "/threads/subscribe", "httpMethod": "POST" }),
            "POST",
            "/threads/subscribe",
        ),
        ("resource/request", json!({ "path": "/threads/none", "httpMethod": "PATCH" }), "PATCH", "/threads/none"),
        ("resource/request", json!({ "path": "/threads/none", "httpMethod": "DELETE" }), "DELETE", "/threads/none"),
        (
            "resource/request",
            json!({ "path": "/threads/none/archive", "httpMethod": "POST" }),
            "POST",
            "/threads/none/archive",
        ),
        ("resource/request", json!({ "path": "/threads/none/messages" }), "GET", "/threads/none/messages"),
        ("resource/request", json!({ "path": "/threads/none/events" }), "GET", "/threads/none/events"),
        ("resource/request", json!({ "path": "/threads/none/state" }), "GET", "/threads/none/state"),
    ];
    crate::harness::run(Options::memory().with_key("secret"), async |server: &Server| {
        let ann = |client: Client| Client { user: Some("ann".into()), ..client };
        let unknown = |key: Option<&str>| Client { key: key.map(str::to_owned), ..server.client() };
        let mut clients = vec![unknown(None), unknown(Some("wrong"))];
        for scopes in [&[Scope::Read][..], &[Scope::Chat], &[Scope::Admin], &[Scope::Read, Scope::Chat]] {
            clients.push(ann(key(server, "default", scopes).await));
        }
        let received = |answer: &Answer| {
            let slug = serde_json::from_slice::<Value>(&answer.body).ok().map(|body| body["type"].clone());
            (answer.status, slug.filter(|_| answer.status >= 400))
        };
        let mut seen = std::collections::BTreeSet::new();
        for (client, (method, params, verb, path)) in
            clients.iter().flat_map(|client| calls.iter().map(move |call| (client, call)))
        {
            let request = client.request(verb.parse().expect("a method"), &format!("/copilotkit{path}"));
            let request =
                request.header("content-type", "application/json").body(if *verb == "GET" { "" } else { "{}" });
            let own = crate::harness::http::send(request).await;
            let inner = call(client, method, params.clone(), json!({})).await;
            assert_eq!(
                received(&inner),
                received(&own),
                "{verb} {path} as {:?}: {} and {}",
                client.key,
                inner.text(),
                own.text()
            );
            seen.insert(own.status);
        }
        assert_eq!(Vec::from_iter(seen), [200, 400, 401, 403, 404]);
    })
    .await;
}
