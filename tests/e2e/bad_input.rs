//! Bad input gets a clear error on every route, and changes nothing.

use serde_json::{Value, json};

use crate::{
    harness::{Answer, Options, Server, everywhere, raw, run},
    table::{Body, Route, and_query, fill, needed, routes},
};

const JSON: (&str, &str) = ("Content-Type", "application/json");

fn assert_problem(answer: &Answer, statuses: &[u16], what: &str) {
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(statuses.contains(&answer.status), "{what}: {} {text}", answer.status);
    if answer.behind_openai_error().is_some() {
        return;
    }
    assert_eq!(answer.header("content-type"), "application/problem+json", "{what}: {text}");
    let document: Value = serde_json::from_slice(&answer.body).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(document["status"], answer.status, "{what}");
    assert!(document["type"].as_str().is_some_and(|kind| kind.starts_with("/problems/")), "{what}: {text}");
}

/// Everything that bad input could have changed.
async fn state(server: &Server) -> Value {
    let dev = server.client();
    let mut found = Vec::new();
    for path in ["/v1/threads?includeArchived=true", "/v1/threads/t/runs", "/v1/threads/t/events"] {
        found.push(dev.get(path).await.ok(200));
    }
    // The feed is written a moment after the change.
    if let Some(list) = found[0].as_object_mut() {
        list.remove("feedCursor");
        list.remove("feedEpoch");
    }
    json!(found)
}

async fn prepare(server: &Server) -> Value {
    let dev = server.client();
    dev.thread("t").await;
    dev.run("t", "r").await;
    dev.append("t", "r", 1, json!([{ "type": "A" }])).await.ok(200);
    state(server).await
}

/// Bad bodies with the statuses that are right for them.
fn bad_bodies(route: &Route) -> Vec<(&'static str, Vec<u8>, &'static [u8])> {
    const INVALID: &[u8] = b"invalid";
    const UNSTORABLE: &[u8] = b"unstorable";
    const LARGE: &[u8] = b"large";
    let deep = |inner: &str| format!("{inner}{}{}", "[".repeat(400), "]".repeat(400)).into_bytes();
    let too_large = if route.takes_events() { 16 * 1024 * 1024 + 1 } else { 257 * 1024 };
    let bodies = match route.body() {
        Body::None => vec![],
        Body::Object | Body::ObjectOrEvents => vec![
            ("broken", b"{".to_vec(), INVALID),
            ("junk", b"nonsense".to_vec(), INVALID),
            ("trailing", b"{} {}".to_vec(), INVALID),
            ("null", b"null".to_vec(), INVALID),
            ("number", b"7".to_vec(), INVALID),
            ("text", b"\"x\"".to_vec(), INVALID),
            ("array", b"[{}]".to_vec(), INVALID),
            ("unknown member", b"{\"noSuchMember\":1}".to_vec(), INVALID),
            ("deep", [deep("{\"noSuchMember\":"), b"}".to_vec()].concat(), INVALID),
            ("not UTF-8", b"{\"\xff\":1}".to_vec(), INVALID),
            ("NUL", b"\0".to_vec(), INVALID),
            ("large", vec![b' '; too_large], LARGE),
        ],
        Body::Events => vec![
            ("empty", b"".to_vec(), UNSTORABLE),
            ("broken", b"[{\"type\":\"A\"}".to_vec(), UNSTORABLE),
            ("junk", b"nonsense".to_vec(), UNSTORABLE),
            ("object", b"{\"type\":\"A\"}".to_vec(), UNSTORABLE),
            ("no events", b"[]".to_vec(), UNSTORABLE),
            ("numbers", b"[7]".to_vec(), UNSTORABLE),
            ("no type", b"[{}]".to_vec(), UNSTORABLE),
            ("empty type", b"[{\"type\":\"\"}]".to_vec(), UNSTORABLE),
            ("one of two", b"[{\"type\":\"A\"},{\"type\":7}]".to_vec(), UNSTORABLE),
            ("after the end", b"[{\"type\":\"RUN_FINISHED\"},{\"type\":\"A\"}]".to_vec(), UNSTORABLE),
            ("deep", [deep("[{\"type\":\"A\",\"a\":"), b"}]".to_vec()].concat(), UNSTORABLE),
            ("deep and broken", vec![b'['; 1_000_000], UNSTORABLE),
            ("not UTF-8", b"[{\"type\":\"\xff\"}]".to_vec(), UNSTORABLE),
            ("control character", b"[{\"type\":\"\x01\"}]".to_vec(), UNSTORABLE),
            ("large", vec![b' '; too_large], LARGE),
        ],
    };
    bodies.into_iter().filter(|(what, ..)| !(route.is_open() && *what == "unknown member")).collect()
}

everywhere! {
    async fn bad_bodies_on_every_route(server) {
        let before = prepare(server).await;
        for route in routes() {
            assert!(route.body() == Body::None || (route.documents(400) || route.documents(422)) && route.documents(413));
            // A plain stream takes any content: see `plain_streams` for what it refuses.
            if route.takes_any_query() {
                continue;
            }
            for (what, bytes, kind) in bad_bodies(route) {
                let statuses: &[u16] = match kind {
                    b"large" => &[413],
                    b"unstorable" => &[422],
                    _ => &[400],
                };
                let line = format!("{} {}", route.method, route.at("t", "r"));
                let answer = raw::exchange(server.addr, &line, &[JSON], &bytes).await;
                assert_problem(&answer, statuses, &format!("{line}: {what}"));
            }
            if matches!(route.body(), Body::Events | Body::ObjectOrEvents) {
                let line = format!("{} {}", route.method, route.at("t", "r"));
                let answer = raw::exchange(server.addr, &line, &[("Content-Type", "image/png")], b"x").await;
                assert_problem(&answer, &[415], &line);
                assert!(route.documents(415), "{line} does not say so");
            }
        }
        let large = [b"[{\"type\":\"".as_slice(), &vec![b'x'; 8 * 1024 * 1024], b"\"}]"].concat();
        let line = "POST /v1/threads/t/runs/r/events";
        assert_problem(&raw::exchange(server.addr, line, &[JSON], &large).await, &[413], "one event");
        assert_eq!(state(server).await, before);
    }
}

/// Ids as they stand in a path, with what is right for them; `None`: such an id may be, there is just nothing of it.
fn bad_ids() -> Vec<(String, Option<u16>)> {
    vec![
        ("%FF".into(), Some(400)),
        ("%00".into(), Some(400)),
        ("a%0Ab".into(), Some(400)),
        ("%C2%85".into(), Some(400)),
        ("a".repeat(257), Some(400)),
        ("%C3%A9".repeat(129), Some(400)),
        ("a".repeat(256), None),
        ("%zz".into(), None),
        ("%".into(), None),
        ("..%2F..".into(), None),
        ("%2e%2e".into(), Some(400)),
        ("%2e%2e%2e".into(), None),
        ("a%20b%22'%3B--".into(), None),
        ("%F0%9F%A6%80".into(), None),
    ]
}

everywhere! {
    async fn bad_paths_on_every_route(server) {
        let before = prepare(server).await;
        for route in routes() {
            for (id, status) in bad_ids() {
                let paths = ["{threadId}", "{runId}", "{slug}"].into_iter().filter(|name| route.path.contains(name));
                for name in paths {
                    let path = route.path.replace(name, &id);
                    let path = fill(&path, "t", "r");
                    let body = route.valid_body().as_bytes();
                    let line = format!("{} {path}{}", route.method, needed(route.method, &route.path));
                    // A slug is no id: what is UTF-8 may be asked for.
                    let status = status.filter(|_| name != "{slug}" || id == "%FF");
                    if route.method == "PUT" && name == "{runId}" && status.is_none() {
                        // A run may be made under any id that can be one; this would wait for the active one to end.
                        continue;
                    }
                    let answer = raw::exchange(server.addr, &line, &[JSON], body).await;
                    if status.is_none() && name == "{runId}" && route.removes_turns() {
                        assert_eq!(answer.status, 204, "{line}: a turn that is not there is removed");
                        continue;
                    }
                    match status {
                        Some(status) => assert_problem(&answer, &[status], &line),
                        None if route.opens_thread_socket() => assert_problem(&answer, &[400], &line),
                        None if route.is_forgiving() => assert!(matches!(answer.status, 200 | 204), "{line}"),
                        None => assert_problem(&answer, &[404], &line),
                    }
                }
            }
            // Another method than those there are.
            for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "BREW"] {
                if !routes().iter().any(|other| other.path == route.path && other.method == method) {
                    let line = format!("{method} {}", fill(&route.path, "t", "r"));
                    let answer = raw::exchange(server.addr, &line, &[], b"").await;
                    assert_problem(&answer, &[405], &line);
                    assert!(answer.header("allow").contains(route.method), "{line}: {:?}", answer.headers);
                }
            }
        }
        for path in ["/nothing", "/v1", "/v1/", "/v1/nothing", "/v1/threads/", "/v1/threads/t/", "//", "/v2/threads"] {
            for method in ["GET", "POST", "DELETE"] {
                let line = format!("{method} {path}");
                assert_problem(&raw::exchange(server.addr, &line, &[], b"").await, &[404], &line);
            }
        }
        let empty = raw::exchange(server.addr, "GET /v1/threads//events", &[], b"").await;
        assert_problem(&empty, &[400], "an empty id");
        assert_eq!(state(server).await, before);
    }
}

everywhere! {
    async fn bad_queries_on_every_route(server) {
        let before = prepare(server).await;
        for route in routes().iter().filter(|route| !route.is_channel()) {
            let query = route.query();
            let line = |query: &str| format!("{} {}", route.method, and_query(&route.at("t", "r"), query));
            let mut bad = Vec::new();
            for (name, kind) in &query {
                // A list of names has any text, and clients repeat the parameter.
                if kind == "array" {
                    continue;
                }
                bad.push(format!("{name}=1&{name}=1"));
                match kind.as_str() {
                    "integer" => bad.extend(["x", "", "-1.5", "1e3", "99999999999999999999"].map(|it| format!("{name}={it}"))),
                    "number" => bad.extend(["x", "", "-1"].map(|it| format!("{name}={it}"))),
                    "boolean" => bad.extend(["x", "", "1"].map(|it| format!("{name}={it}"))),
                    _ if name.ends_with("Id") => {
                        bad.extend(["", "a%00", &"a".repeat(257), "%FF"].map(|it| format!("{name}={it}")));
                    }
                    // Names of checkpoints are any text without control characters.
                    "string" if matches!(name.as_str(), "ns" | "id" | "channel" | "version" | "before") => {
                        bad.extend(["a%00", &"a".repeat(1_025), "%FF"].map(|it| format!("{name}={it}")));
                    }
                    // An epoch is any text, and so are the words of a search and the reason of a stop.
                    "string" if matches!(name.as_str(), "epoch" | "search" | "reason") => {}
                    _ => bad.extend(["nonsense%00", "%FF%FF"].map(|it| format!("{name}={it}"))),
                }
            }
            // An invalid ticket admits no client.
            bad.retain(|query| !query.starts_with("ticket="));
            if !route.takes_any_query() {
                bad.push("noSuchParameter=1".into());
            }
            for query in bad {
                let answer = raw::exchange(server.addr, &line(&query), &[JSON], route.valid_body().as_bytes()).await;
                // `%FF` in a query is read as U+FFFD, which may be in an id.
                let statuses: &[u16] = if query.ends_with("=%FF") { &[400, 403, 404, 409, 422, 200, 204] } else { &[400] };
                if answer.status >= 400 {
                    assert_problem(&answer, statuses, &line(&query));
                }
                assert!(statuses.contains(&answer.status), "{}: {}", line(&query), answer.status);
            }
            if route.documents(406) {
                let answer = raw::exchange(server.addr, &line(""), &[("Accept", "image/png")], b"").await;
                assert_problem(&answer, &[406], &line(""));
            }
        }
        assert_eq!(state(server).await, before);
    }
}

#[tokio::test]
async fn bad_values_of_known_members() {
    run(Options::memory(), async |server: &Server| {
        let before = prepare(server).await;
        let dev = server.client();
        let long = "x".repeat(257);
        for body in [
            json!({ "threadId": "" }),
            json!({ "threadId": long }),
            json!({ "threadId": "a\u{0}" }),
            json!({ "threadId": 7 }),
            json!({ "agentId": "" }),
            json!({ "name": "" }),
            json!({ "name": ["x"] }),
            json!({ "metadata": [] }),
            json!({ "metadata": "x" }),
            json!({ "metadata": { "a": "x".repeat(70_000) } }),
            json!({ "userId": "eve" }),
            json!({ "userId": "\u{1b}" }),
        ] {
            dev.post("/v1/threads", body).await.problem(400, "invalid-request");
        }
        for body in [json!({ "runId": "" }), json!({ "leaseSeconds": -1 }), json!({ "leaseSeconds": "x" })] {
            dev.post("/v1/threads/t/runs", body).await.problem(400, "invalid-request");
        }
        for body in [json!({ "archived": "yes" }), json!({ "metadata": 7 }), json!({ "threadId": "u" })] {
            dev.patch("/v1/threads/t", body).await.problem(400, "invalid-request");
        }
        for user in ["", " ", &long] {
            let answer = server.user(user).get("/v1/threads").await;
            // Blanks around a header's value are no part of it.
            answer.problem(400, "invalid-request");
        }
        assert_eq!(state(server).await, before);
    })
    .await;
}
