//! Writes that name the epoch which the log of their thread must have.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    harness::{everywhere, http, raw, text},
    table::{Route, routes},
};

const WRONG: &str = "0000000000000abc";

/// Routes that accept a condition.
fn conditional() -> Vec<&'static Route> {
    let accepts = |route: &&Route| {
        let parameters = route.description["parameters"].as_array();
        parameters.is_some_and(|parameters| parameters.iter().any(|parameter| parameter["name"] == "If-Match"))
    };
    routes().iter().filter(accepts).collect()
}

#[test]
fn every_write_to_a_thread_accepts_a_condition() {
    let accepting: BTreeSet<_> = conditional().iter().map(|route| (route.method, route.path.as_str())).collect();
    // A claim of a tool call is a lease, and changes nothing of the thread. Agent data has conditions of its own.
    let writes = routes().iter().filter(|route| {
        let to_thread = route.method != "GET" && route.path.starts_with("/v1/threads/{threadId}");
        to_thread && !route.path.ends_with("/claim") && !route.is_agent_data()
    });
    let writes: BTreeSet<_> = writes.map(|route| (route.method, route.path.as_str())).collect();
    assert!(writes.len() >= 11 && writes.is_subset(&accepting), "{:?}", writes.difference(&accepting));
}

everywhere! {
    async fn a_write_that_names_another_epoch_changes_nothing_on_any_route(server) {
        let dev = server.client();
        for (n, route) in conditional().into_iter().enumerate() {
            let id = format!("t{n}");
            dev.thread(&id).await;
            dev.run(&id, "r").await;
            dev.append(&id, "r", 1, json!([{ "type": "A" }])).await.ok(200);
            let before = dev.get(&format!("/v1/threads/{id}")).await.ok(200);
            let (right, path) = (text(&before, "epoch"), route.at(&id, "r"));
            let quoted = |epoch: &str| format!("\"{epoch}\"");
            let send = async |query: &str, tag: Option<&str>| {
                let line = format!("{} {path}{query}", route.method);
                let mut headers = vec![("Content-Type", "application/json")];
                headers.extend(tag.map(|tag| ("If-Match", tag)));
                raw::exchange(server.addr, &line, &headers, route.valid_body().as_bytes()).await
            };
            let line = format!("{} {path}", route.method);
            for (query, tag) in [(format!("?epoch={WRONG}"), None), (String::new(), Some(quoted(WRONG)))] {
                let problem = send(&query, tag.as_deref()).await.problem(410, "log-replaced");
                assert_eq!((text(&problem, "epoch"), &problem["tail"]), (right, &json!(1)), "{line}");
            }
            for (query, tag) in [
                (format!("?epoch={right}"), Some(quoted(WRONG))),
                ("?epoch=abc".to_owned(), None),
                (String::new(), Some(right.to_owned())),
                (String::new(), Some("*".to_owned())),
            ] {
                send(&query, tag.as_deref()).await.problem(400, "invalid-request");
            }
            assert_eq!(dev.get(&format!("/v1/threads/{id}")).await.ok(200), before, "{line}");
            let answer = send(&format!("?epoch={right}"), Some(&quoted(right))).await;
            // The body of this route names another thread.
            if path.ends_with("/branches/listed") {
                answer.problem(404, "branch-not-found");
                continue;
            }
            assert!(![400, 404, 410].contains(&answer.status), "{line}: {} {}", answer.status, answer.text());
        }
    }
}

everywhere! {
    async fn a_late_write_does_not_reach_the_thread_that_was_created_since(server) {
        let dev = server.client();
        let first = dev.thread("t").await;
        let old = text(&first, "epoch");
        dev.run("t", "r").await;
        assert_eq!(dev.delete(&format!("/v1/threads/t?epoch={old}")).await.status, 204);
        // The thread is gone, and so is the one that is meant.
        assert_eq!(dev.delete(&format!("/v1/threads/t?epoch={old}")).await.status, 204);
        let second = dev.thread("t").await;
        dev.run("t", "r").await;
        let (at, input) = (format!("epoch={old}"), json!({ "messages": [{ "role": "user", "content": "Hello" }] }));
        let ndjson = "{\"type\":\"A\"}\n";
        let late: [http::Answer; 6] = [
            dev.delete(&format!("/v1/threads/t?{at}")).await,
            dev.patch(&format!("/v1/threads/t?{at}"), json!({ "name": "Late" })).await,
            dev.post(&format!("/v1/threads/t/runs/r/events?producerSeq=1&{at}"), json!([{ "type": "A" }])).await,
            dev.post(&format!("/v1/threads/t/runs?{at}"), json!({ "agentId": "demo", "input": input })).await,
            dev.ndjson(Method::POST, &format!("/v1/threads/t/runs?{at}"), ndjson).await,
            dev.post(&format!("/v1/threads/t/runs/none/stop?{at}"), json!({})).await,
        ];
        for answer in late {
            let problem = answer.problem(410, "log-replaced");
            assert_eq!((&problem["epoch"], &problem["commonUpTo"]), (&second["epoch"], &Value::Null), "{problem}");
        }
        let now = dev.get("/v1/threads/t").await.ok(200);
        assert_eq!((&now["epoch"], &now["tail"], &now["name"]), (&second["epoch"], &json!(0), &Value::Null));
    }
}
