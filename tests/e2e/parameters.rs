//! Query parameters that a route does not have, and values that are out of their bounds.

use serde_json::{Value, json};

use crate::{
    harness::{Options, Server, everywhere, raw, run},
    table::{and_query, routes},
};

const JSON: (&str, &str) = ("Content-Type", "application/json");

everywhere! {
    async fn every_route_refuses_a_parameter_that_it_does_not_have(server) {
        let dev = server.client();
        dev.thread("t").await;
        dev.run("t", "r").await;
        for route in routes().iter().filter(|route| !route.takes_any_query()) {
            let line = format!("{} {}", route.method, and_query(&route.at("t", "r"), "zzz=1"));
            let answer = raw::exchange(server.addr, &line, &[JSON], route.valid_body().as_bytes()).await;
            let problem = answer.problem(400, "unknown-parameter");
            assert_eq!((&problem["title"], &problem["parameter"]), (&json!("Unknown parameter"), &json!("zzz")), "{line}");
            assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("\"zzz\"")), "{line}: {problem}");
            // Beside those that it has, in whatever form; the first that is unknown is named.
            for query in ["%7A%7Azz&y=1", "=", "Zzz", "zzz=1&zzz=2"] {
                let line = format!("{} {}", route.method, and_query(&route.at("t", "r"), query));
                let answer = raw::exchange(server.addr, &line, &[JSON], route.valid_body().as_bytes()).await;
                answer.problem(400, "unknown-parameter");
            }
        }
        // The parameters of another method of the same path are no parameters of this one.
        dev.delete("/v1/threads/t?after=1").await.problem(400, "unknown-parameter");
        dev.post("/v1/threads?limit=1", json!({})).await.problem(400, "unknown-parameter");
        assert_eq!(dev.get("/v1/threads").await.ok(200)["threads"].as_array().map(Vec::len), Some(1));
        // Which one there is stands in the answer.
        let problem = dev.get("/v1/threads/t/runs?limt=1").await.problem(400, "unknown-parameter");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("limit, cursor, at")), "{problem}");
    }
}

#[tokio::test]
async fn parameters_of_other_clients_are_accepted() {
    run(Options::memory(), async |server: &Server| {
        let dev = server.client();
        // Phoenix's client ends the query of a long-poll with `&` where it has no parameters of its own.
        let opened = dev.get("/runner/longpoll?vsn=2.0.0&").await.ok(200);
        assert_eq!(opened["status"], 410, "{opened}");
        // It repeats what it opened the session with.
        for query in ["vsn=2.0.0&join_token=x&token=y", "vsn=2.0.0&token=y"] {
            let answer = dev.post(&format!("/client/longpoll?{query}"), json!({})).await;
            assert_eq!((answer.status, answer.json()["status"].clone()), (200, json!(410)), "{query}");
        }
        dev.get("/v1/threads?").await.ok(200);
        // A link to the console may carry anything.
        for page in ["/?utm_source=mail", "/app.js?v=1"] {
            assert_eq!(dev.get(page).await.status, 200, "{page}");
        }
        // What stands in the body of CopilotKit's single route is a request like any other.
        let ask = |path: &str| json!({ "method": "resource/request", "params": { "path": path } });
        dev.post("/copilotkit", ask("/threads?agentId=demo&includeArchived=true&limit=5")).await.ok(200);
        for path in ["/threads?agentId=demo&zzz=1", "/threads/t/messages?zzz=1"] {
            let problem = dev.post("/copilotkit", ask(path)).await.problem(400, "unknown-parameter");
            assert_eq!(problem["parameter"], "zzz");
        }
    })
    .await;
}

everywhere! {
    async fn a_lease_is_one_second_to_an_hour_wherever_it_is_asked_for(server) {
        let dev = server.client();
        dev.thread("t").await;
        dev.run("t", "held").await;
        let runs = "/v1/threads/t/runs";
        for lease in [0, 3_601, u64::from(u32::MAX)] {
            let refused = [
                dev.post(runs, json!({ "runId": "r", "leaseSeconds": lease })).await,
                dev.post(&format!("{runs}?leaseSeconds={lease}"), json!({ "runId": "r" })).await,
                dev.ndjson(reqwest::Method::POST, &format!("{runs}?runId=r&leaseSeconds={lease}"), "{\"type\":\"A\"}\n").await,
                dev.post("/v1/threads/t/runs/held/heartbeat", json!({ "leaseSeconds": lease })).await,
            ];
            for answer in refused {
                let problem = answer.problem(400, "invalid-request");
                let detail = problem["detail"].as_str().expect("a detail");
                assert!(detail.contains(&format!("leaseSeconds is {lease}")) && detail.contains("1 to 3600"), "{detail}");
            }
            let lock = json!({ "runId": "r", "userId": "dev", "agentId": "a", "ttlSeconds": lease });
            for answer in [
                dev.post("/api/threads/t/lock", lock.clone()).await,
                dev.patch("/api/threads/t/lock", lock).await,
            ] {
                let detail = answer.problem(400, "invalid-request")["detail"].clone();
                assert!(detail.as_str().is_some_and(|detail| detail.contains(&format!("ttlSeconds is {lease}"))), "{detail}");
            }
        }
        let all = dev.get(runs).await.ok(200);
        assert_eq!(all["runs"].as_array().map(Vec::len), Some(1), "{all}");
        let longest: Value = dev.post("/v1/threads/t/runs/held/heartbeat", json!({ "leaseSeconds": 3_600 })).await.ok(200);
        assert_eq!(longest["status"], "running");
    }
}
