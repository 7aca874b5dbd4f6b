//! Runs that a page asks for, and what else a page asks first.

use reqwest::Method;
use serde_json::{Value, json};
use threadline_http::egress::Network;

use super::{agent, asks, finished, input, kinds, rest, run, said, until, user};
use crate::{
    harness::{
        Options, Server, eventually, everywhere,
        http::{open, send},
        text,
    },
    identity::{bearer, token},
};

everywhere! {
    async fn a_run_creates_its_thread_and_streams_the_agents_events(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let mut stream = run(&dev, "r", json!([user("u", "hi")])).await;
        let call = agent.call().await;
        assert_eq!((text(&call.input(), "threadId"), call.message_ids()), ("t", vec!["u".to_owned()]));
        call.finish(&[&said("m", "Hello")[..], &[json!({ "type": "OURS" }), finished("r")]].concat()).await;
        let received = rest(&mut stream).await;
        assert_eq!(
            kinds(&received),
            ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"],
        );
        assert_eq!((&received[0]["input"]["messages"][0]["id"], text(&received[0], "runId")), (&json!("u"), "r"));
        assert_eq!(dev.get("/v1/threads/t").await.ok(200)["agentId"], "a");
        // The next one may begin as soon as a page has seen the end.
        run(&dev, "r2", json!([user("u2", "more")])).await;
    }
}

everywhere! {
    async fn inputs_that_cannot_run_are_refused(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        dev.post("/copilotkit/agent/none/run", input("r", json!([]))).await.problem(404, "agent-not-found");
        dev.post("/copilotkit/agent/a/run", input("r", json!([{ "id": "x", "role": "king" }]))).await.problem(400, "invalid-request");
        let _busy = run(&dev, "r", json!([user("u", "hi")])).await;
        let problem = dev.post("/copilotkit/agent/a/run", input("r2", json!([user("v", "me too")]))).await.problem(409, "run-active");
        assert_eq!(problem["run"]["runId"], "r");
        let _call = agent.call().await;
        assert_eq!(agent.requests(), 1);
    }
}

everywhere! {
    async fn a_closed_page_stops_nothing_unless_the_agent_says_so(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let stream = run(&dev, "r", json!([user("u", "hi")])).await;
        let mut call = agent.call().await;
        drop(stream);
        call.say(&said("m", "Hello")).await;
        call.finish(&[finished("r")]).await;
        let status = async |run: &str| dev.get(&format!("/v1/threads/t/runs/{run}")).await.ok(200)["status"].take();
        eventually("the run ends", async || (status("r").await == "finished").then_some(())).await;

        dev.put("/v1/agents/a", json!({ "url": agent.url, "onDisconnect": "stop" })).await.ok(200);
        let stream = run(&dev, "r2", json!([user("u2", "more")])).await;
        let mut call = agent.call().await;
        drop(stream);
        call.hung_up().await;
        eventually("the run is stopped", async || (status("r2").await == "stopped").then_some(())).await;
    }
}

everywhere! {
    async fn a_run_is_stopped_from_any_page(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let stop = async |body: Value| dev.post("/copilotkit/agent/a/stop/t", body).await;
        stop(json!({})).await.problem(404, "thread-not-found");
        for (id, body) in [("r1", json!({})), ("r2", json!({ "runId": "r2" }))] {
            let mut stream = run(&dev, id, json!([user(id, "hi")])).await;
            let mut call = agent.call().await;
            call.say(&said("m", "Hello")[..1]).await;
            until(&mut stream, "TEXT_MESSAGE_START").await;
            assert_eq!(stop(json!({ "runId": "other" })).await.ok(200)["stopped"], false);
            let answer = stop(body).await.ok(200);
            assert_eq!((&answer["stopped"], &answer["interrupt"]["code"]), (&json!(true), &json!("STOPPED")));
            call.hung_up().await;
            assert_eq!(kinds(&rest(&mut stream).await), ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
            assert_eq!(stop(json!({})).await.ok(200)["stopped"], false);
        }
        // Clients send along what they will.
        assert_eq!(stop(json!({ "force": true })).await.ok(200)["stopped"], false);
    }
}

everywhere! {
    async fn info_lists_agents_and_the_mode(server) {
        let dev = server.client();
        let _agent = agent(&dev).await;
        let answer = dev.get("/copilotkit/info").await;
        let info = answer.ok(200);
        assert_eq!(answer.header("cache-control"), "no-store");
        assert_eq!(info["mode"], "sse");
        for name in ["a", "demo"] {
            assert_eq!(info["agents"][name]["name"], name);
            assert!(info["agents"][name]["description"].is_string());
        }
        assert_eq!(info["intelligence"]["wsUrl"], format!("ws://{}/client", server.addr));
        for endpoint in ["list", "inspect", "mutations", "realtimeMetadata"] {
            assert_eq!(info["threadEndpoints"][endpoint], true, "{endpoint}");
        }
        assert!(info["licenseStatus"].is_null() && info["runtimeEntitlements"].is_null(), "no licence is claimed");
        let proxied = dev.request(Method::GET, "/copilotkit/info").header("x-forwarded-proto", "https");
        let proxied = send(proxied.header("x-forwarded-host", "chat.localhost").header("x-forwarded-prefix", "/tl")).await;
        assert_eq!(proxied.ok(200)["intelligence"]["wsUrl"], "wss://chat.localhost/tl/client");
    }
}

#[tokio::test]
async fn a_user_sees_only_their_own_threads() {
    let options = Options::memory().with_key("secret").with_agent_networks(vec![Network::Loopback]);
    crate::harness::run(options, async |server: &Server| {
        let project = server.project();
        let agent = agent(&project).await;
        let (ann, eve) = (token(server, "ann").await, token(server, "eve").await);
        let mut stream = run(&ann, "r", json!([user("u", "private")])).await;
        agent.call().await.finish(&said("m", "secret")).await;
        rest(&mut stream).await;
        assert_eq!(rest(&mut super::connect(&eve, json!([])).await).await, [] as [Value; 0]);
        eve.post("/copilotkit/agent/a/stop/t", json!({})).await.problem(404, "thread-not-found");
        // Her thread of the same id is another one.
        let mut hers = run(&eve, "r2", json!([user("x", "hi")])).await;
        agent.call().await.finish(&said("y", "hello")).await;
        assert!(!format!("{:?}", rest(&mut hers).await).contains("secret"));
        let read = rest(&mut super::connect(&ann, json!([])).await).await;
        assert!(format!("{read:?}").contains("secret") && !format!("{read:?}").contains("hello"), "{read:?}");
        let names = |client: Value| client["agents"].as_object().expect("agents").keys().cloned().collect::<Vec<_>>();
        let info = eve.get("/copilotkit/info").await;
        assert_eq!(names(info.ok(200)), ["a", "demo"]);
        assert!(!info.text().contains(&agent.url), "addresses are nothing for users");
        bearer(server, "wrong").get("/copilotkit/info").await.problem(401, "unauthorized");
        // A project has no list of its own, and a request without a user is refused.
        project.get("/copilotkit/threads?agentId=a").await.problem(400, "invalid-request");
    })
    .await;
}

#[tokio::test]
async fn a_run_that_a_backend_asked_for_goes_on_if_another_user_has_the_id_as_well() {
    let options = Options::memory().with_key("secret").with_agent_networks(vec![Network::Loopback]);
    crate::harness::run(options, async |server: &Server| {
        // The backend names no user: while one user alone has the ID, this user's thread is meant.
        let project = server.project();
        let agent = agent(&project).await;
        let (ann, eve) = (token(server, "ann").await, token(server, "eve").await);
        ann.thread("t").await;
        let mut stream = run(&project, "r", json!([user("u", "hi")])).await;
        let call = agent.call().await;
        eve.thread("t").await;
        project.get("/v1/threads/t").await.problem(409, "thread-ambiguous");
        call.finish(&[&said("m", "hello")[..], &[finished("r")]].concat()).await;
        assert!(format!("{:?}", rest(&mut stream).await).contains("hello"));
        eventually("the run ends", async || {
            let run = ann.get("/v1/threads/t/runs/r").await.ok(200);
            (run["status"] == "finished").then_some(())
        })
        .await;
        eve.get("/v1/threads/t/runs/r").await.problem(404, "run-not-found");
    })
    .await;
}

#[tokio::test]
async fn pages_may_send_headers_of_their_own() {
    crate::harness::run(
        Options::memory().with_key("secret").with_origins(&["https://app.example"]),
        async |server: &Server| {
            let asked = |origin: &str| {
                let request =
                    server.project().request(Method::OPTIONS, "/copilotkit/agent/a/run").header("origin", origin);
                request.header("access-control-request-method", "POST").header(
                    "access-control-request-headers",
                    "authorization,content-type,x-copilotcloud-public-api-key,x-tenant",
                )
            };
            let answer = open(asked("https://app.example")).await;
            assert_eq!(answer.headers()["access-control-allow-origin"], "https://app.example");
            let allowed = answer.headers()["access-control-allow-headers"].to_str().expect("text");
            for name in ["authorization", "content-type", "x-copilotcloud-public-api-key", "x-tenant"] {
                assert!(allowed.contains(name), "{allowed}");
            }
            assert!(!open(asked("https://evil.example")).await.headers().contains_key("access-control-allow-origin"));
        },
    )
    .await;
}

everywhere! {
    async fn a_run_that_is_sent_again_is_the_same_run(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let body = input("r", json!([user("u", "hi")]));
        let mut first = crate::harness::sse::Events::open(asks(&dev, "/agent/a/run", &body)).await;
        let mut call = agent.call().await;
        call.say(&said("m", "Hello")[..2]).await;
        let mut received = until(&mut first, "TEXT_MESSAGE_CONTENT").await;
        drop(first);
        let mut second = crate::harness::sse::Events::open(asks(&dev, "/agent/a/run", &body)).await;
        call.finish(&[said("m", "")[2].clone(), finished("r")]).await;
        let all = rest(&mut second).await;
        received.extend(all[received.len()..].to_vec());
        assert_eq!((received, agent.requests()), (all, 1));
    }
}
