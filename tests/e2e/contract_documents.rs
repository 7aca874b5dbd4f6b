//! The committed contract is what the code does.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::{Value, json};
use threadline::api::{front, native::socket::CLIENT_FRAMES};

use crate::{
    harness::{Options, Server, number, raw, run},
    table::routes,
};

fn file(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(file(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_committed_description_is_the_one_of_the_code() {
    let text = front::openapi().to_pretty_json().expect("a document") + "\n";
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        fs::write(file("proto/openapi.json"), &text).expect("written");
    }
    let committed = fs::read_to_string(file("proto/openapi.json")).unwrap_or_default();
    assert!(
        committed == text,
        "proto/openapi.json is not what the code describes. If the change is wanted:\n\
         UPDATE_OPENAPI=1 cargo test --test e2e contract_documents"
    );
}

#[test]
fn every_route_is_described_and_nothing_else_is() {
    let document: Value = serde_json::from_str(&read("proto/openapi.json")).expect("JSON");
    let mut described = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            described.insert((method.to_uppercase(), path.clone()));
            assert!(operation["summary"].is_string(), "{method} {path} does not say what it does");
            for (status, answer) in operation["responses"].as_object().expect("responses") {
                if status.as_str() >= "400" {
                    let content = answer["content"].as_object().expect("a problem has a content");
                    assert!(content.contains_key("application/problem+json"), "{method} {path} {status}: {content:?}");
                }
            }
        }
    }
    let registered = routes().iter().map(|route| (route.method.to_owned(), route.path.clone())).collect();
    assert_eq!(described, registered);
}

#[tokio::test]
async fn documented_statuses_can_be_reached() {
    run(Options::memory(), async |server: &Server| {
        let dev = server.client();
        dev.thread("t").await;
        let mut seen = BTreeSet::new();
        let mut note = |method: &'static str, path: &'static str, status: u16| seen.insert((method, path, status));
        let threads = "/v1/threads";
        note("POST", threads, dev.post(threads, json!({ "threadId": "u" })).await.status);
        note("POST", threads, dev.post(threads, json!({ "threadId": "u" })).await.status);
        note("POST", threads, dev.post(threads, json!({ "threadId": "u", "name": "N" })).await.status);
        note("POST", threads, dev.post(threads, json!({ "threadId": "" })).await.status);
        let line = format!("POST {threads}");
        note("POST", threads, raw::exchange(server.addr, &line, &[], &vec![b' '; 300_000]).await.status);

        let append = "/v1/threads/{threadId}/runs/{runId}/events";
        dev.run("t", "r").await;
        note("POST", append, dev.append("t", "r", 1, json!([{ "type": "A" }])).await.status);
        note("POST", append, dev.append("t", "r", 9, json!([{ "type": "A" }])).await.status);
        note("POST", append, dev.append("t", "r", 1, json!([{ "type": "B" }])).await.status);
        note("POST", append, dev.append("t", "r", 0, json!([{ "type": "B" }])).await.status);
        note("POST", append, dev.append("t", "none", 1, json!([{ "type": "B" }])).await.status);
        let line = "POST /v1/threads/t/runs/r/events";
        let image = [("Content-Type", "image/png")];
        note("POST", append, raw::exchange(server.addr, line, &image, b"x").await.status);
        let large = vec![b' '; 16 * 1024 * 1024 + 1];
        note("POST", append, raw::exchange(server.addr, line, &[], &large).await.status);

        let start = "/v1/threads/{threadId}/runs";
        let runs = "/v1/threads/u/runs";
        note("POST", start, dev.post(runs, json!({ "runId": "r" })).await.status);
        note("POST", start, dev.post(runs, json!({ "runId": "r" })).await.status);
        note("POST", start, dev.post(runs, json!({ "runId": "s" })).await.status);
        note("POST", start, dev.post(runs, json!({ "runId": "" })).await.status);
        note("POST", start, dev.post("/v1/threads/none/runs", json!({})).await.status);
        let post = reqwest::Method::POST;
        note("POST", start, dev.ndjson(post, &format!("{runs}?runId=r"), "junk").await.status);
        note("POST", start, raw::exchange(server.addr, &format!("POST {runs}"), &image, b"x").await.status);
        note("POST", start, raw::exchange(server.addr, &format!("POST {runs}"), &[], &large).await.status);
        note(
            "POST",
            start,
            raw::exchange(server.addr, &format!("POST {runs}"), &[("Accept", "image/png")], b"{}").await.status,
        );

        let events = "/v1/threads/{threadId}/events";
        for (query, accept) in [
            ("/v1/threads/t/events", "*/*"),
            ("/v1/threads/t/events?after=x", "*/*"),
            ("/v1/threads/none/events", "*/*"),
            ("/v1/threads/t/events", "image/png"),
            ("/v1/threads/t/events?epoch=x", "*/*"),
            ("/v1/threads/t/events?after=99", "*/*"),
        ] {
            note("GET", events, dev.get_as(query, accept).await.status);
        }
        for (method, path) in [("POST", threads), ("POST", append), ("POST", start), ("GET", events)] {
            let route =
                routes().into_iter().find(|route| route.method == method && route.path == path).expect("a route");
            let documented: BTreeSet<u16> = route.description["responses"]
                .as_object()
                .expect("responses")
                .keys()
                .map(|status| status.parse().expect("a status"))
                // Those have tests of their own: without a key or scope, silent, too much at once, shutting down.
                .filter(|status| ![401, 403, 408, 429, 503].contains(status))
                .collect();
            let reached: BTreeSet<u16> =
                seen.iter().filter(|it| it.0 == method && it.1 == path).map(|it| it.2).collect();
            assert_eq!(reached, documented, "{method} {path}");
        }
    })
    .await;
}

/// The names of a oneof, as proto3 JSON has them.
fn oneof(proto: &str, message: &str) -> BTreeSet<String> {
    let start = proto.find(&format!("message {message} {{")).expect("the message");
    let body = &proto[start..];
    let body = &body[body.find("oneof frame {").expect("the oneof")..];
    let body = &body[..body.find('}').expect("its end")];
    let fields = body.lines().filter(|line| line.contains(" = ") && !line.trim_start().starts_with("//"));
    fields
        .map(|line| camel(line.split('=').next().and_then(|left| left.split_whitespace().last()).expect("a name")))
        .collect()
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

/// The server frames that stand in the code of the socket.
fn sent() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(file("src/api/native/socket")).expect("the socket's files") {
        let code = fs::read_to_string(entry.expect("an entry").path()).expect("a source");
        let code = code.split("#[cfg(test)]").next().expect("a beginning");
        for call in ["push(", "frame("] {
            for (at, _) in code.match_indices(call) {
                let arguments = &code[at + call.len()..];
                let arguments = &arguments[..arguments.find(';').unwrap_or(arguments.len())];
                let literal = arguments.split('"').nth(1).filter(|it| it.chars().all(|c| c.is_ascii_alphabetic()));
                // The first two arguments only: an id, then the name.
                let near = arguments.find('"').is_some_and(|quote| arguments[..quote].matches(',').count() == 1);
                names.extend(literal.filter(|_| near).map(str::to_owned));
            }
        }
        // Those that are written by hand.
        for (at, _) in code.match_indices("\\\":{{") {
            names.extend(code[..at].rsplit('"').next().map(str::to_owned));
        }
    }
    names
}

#[test]
fn the_frames_of_the_proto_are_those_of_the_code() {
    let proto = read("proto/threadline/v1/socket.proto");
    let client: BTreeSet<String> = CLIENT_FRAMES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(oneof(&proto, "ClientFrame"), client);
    assert_eq!(oneof(&proto, "ServerFrame"), sent());
    let registered = front::entries().into_iter().filter_map(|entry| entry.frame).map(str::to_owned).collect();
    assert_eq!(client, registered);
}

#[tokio::test]
async fn every_problem_explains_itself_where_its_type_says() {
    run(Options::memory(), async |server: &Server| {
        let dev = server.client();
        for kind in threadline::api::problem::ProblemType::ALL {
            let path = format!("/problems/{}", kind.slug());
            let explained = dev.get(&path).await.ok(200);
            assert_eq!(
                (explained["type"].as_str(), number(&explained, "status")),
                (Some(path.as_str()), kind.status().as_u16().into())
            );
        }
        dev.get("/problems/none").await.problem(404, "not-found");
        let served = dev.get("/v1/openapi.json").await.ok(200);
        assert_eq!(served, serde_json::from_str::<Value>(&read("proto/openapi.json")).expect("JSON"));
    })
    .await;
}
