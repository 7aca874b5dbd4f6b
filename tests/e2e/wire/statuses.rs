//! Every status that the OpenAPI document names for a route can be had, and no other is seen.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::{Value, json};
use threadline_core::{Epoch, Scope, Scopes, limits::MAX_STREAM_APPEND_BYTES};
use threadline_http::{
    cursor::{Cursor, CursorKind},
    routes::Access,
};

use crate::{
    harness::{Answer, Client, Options, Server, http::send, raw, run},
    identity::{key, token},
    table::{Body, Route, and_query, needed, routes},
};

const KEY: &str = "secret";
const BEARER: (&str, &str) = ("Authorization", "Bearer secret");
const ANN: (&str, &str) = ("Threadline-User", "ann");
/// Id that two users have given to their threads.
const AMBIGUOUS: &str = "ambiguous";
const IMAGE: (&str, &str) = ("Content-Type", "image/png");

/// What takes a server of its own to be had: the tests that have it.
const ELSEWHERE: &[(&str, &str, u16, &str, &str)] = &[
    (
        "DELETE",
        "/api/threads/{threadId}/lock",
        409,
        "tests/e2e/agents/driven.rs",
        "a_driven_run_accepts_events_only_from_its_driver",
    ),
    (
        "POST",
        "/v1/threads/{threadId}/tool-calls/{toolCallId}/claim",
        200,
        "tests/e2e/agents/claims.rs",
        "one_of_two_clients_gets_a_call_and_brings_its_result",
    ),
    (
        "DELETE",
        "/v1/threads/{threadId}/tool-calls/{toolCallId}/claim",
        204,
        "tests/e2e/agents/claims.rs",
        "a_call_is_free_again_after_its_lease_and_when_it_is_given_up",
    ),
    (
        "DELETE",
        "/v1/threads/{threadId}/tool-calls/{toolCallId}/claim",
        404,
        "tests/e2e/agents/claims.rs",
        "invalid_claims_are_refused",
    ),
    (
        "POST",
        "/streams/v1/stream/{*path}",
        507,
        "tests/e2e/plain_streams.rs",
        "a_full_storage_takes_no_content_but_an_end",
    ),
    (
        "GET",
        "/streams/v1/stream/threads/{threadId}",
        204,
        "tests/e2e/streams.rs",
        "a_long_poll_without_a_message_ends_at_its_offset",
    ),
    ("GET", "/v1/threads/{threadId}/events", 500, "tests/e2e/damaged.rs", "damaged_events_are_told_and_never_shown"),
    (
        "POST",
        "/v1/threads/{threadId}/runs/{runId}/fail",
        409,
        "tests/e2e/agents/driven.rs",
        "a_driven_run_accepts_events_only_from_its_driver",
    ),
    (
        "POST",
        "/v1/threads/{threadId}/runs/{runId}/finish",
        409,
        "tests/e2e/agents/driven.rs",
        "a_driven_run_accepts_events_only_from_its_driver",
    ),
    (
        "POST",
        "/v1/threads/{threadId}/runs/{runId}/release",
        409,
        "tests/e2e/agents/driven.rs",
        "a_driven_run_accepts_events_only_from_its_driver",
    ),
    (
        "POST",
        "/v1/trash/{threadId}/restore",
        200,
        "tests/e2e/identity/trash.rs",
        "a_thread_in_the_trash_is_gone_for_its_user_and_comes_back",
    ),
    (
        "POST",
        "/v1/trash/{threadId}/restore",
        409,
        "tests/e2e/identity/trash.rs",
        "the_trash_is_emptied_when_its_time_has_come",
    ),
    (
        "POST",
        "/v1/projects/{projectId}/retention/approve",
        200,
        "tests/e2e/identity/trash.rs",
        "retention_that_would_take_a_large_part_of_a_project_waits_for_an_approval",
    ),
    ("GET", "/livez", 503, "tests/e2e/admin.rs", "a_blocked_runtime_is_reported_by_the_admin_listener"),
    ("GET", "/readyz", 503, "tests/e2e/draining.rs", "a_partial_request_gets_an_error"),
    ("GET", "/v1/socket", 101, "tests/e2e/socket_limits.rs", "subprotocols_are_negotiated_and_the_key_is_never_echoed"),
    (
        "GET",
        "/v1/threads/{threadId}/events",
        503,
        "crates/http/src/response.rs",
        "responses_that_no_client_reads_delay_their_reader_alone",
    ),
    (
        "GET",
        "/v1/threads/{threadId}/annotations",
        503,
        "crates/http/src/response.rs",
        "responses_that_no_client_reads_delay_their_reader_alone",
    ),
    (
        "GET",
        "/v1/threads/{threadId}/messages",
        503,
        "crates/http/src/response.rs",
        "responses_that_no_client_reads_delay_their_reader_alone",
    ),
    (
        "GET",
        "/v1/threads/{threadId}/state",
        503,
        "crates/http/src/response.rs",
        "responses_that_no_client_reads_delay_their_reader_alone",
    ),
    (
        "GET",
        "/v1/conversations/{name}",
        422,
        "tests/e2e/reading.rs",
        "a_conversation_that_no_model_could_read_is_refused_and_its_events_are_not",
    ),
    (
        "GET",
        "/v1/conversations/{name}",
        503,
        "crates/http/src/response.rs",
        "responses_that_no_client_reads_delay_their_reader_alone",
    ),
    (
        "GET",
        "/langgraph/threads/{threadId}",
        422,
        "tests/e2e/reading.rs",
        "a_conversation_that_no_model_could_read_is_refused_and_its_events_are_not",
    ),
    (
        "GET",
        "/langgraph/threads/{threadId}/state",
        422,
        "tests/e2e/reading.rs",
        "a_conversation_that_no_model_could_read_is_refused_and_its_events_are_not",
    ),
    (
        "GET",
        "/langgraph/threads/{threadId}/state/{checkpointId}",
        422,
        "tests/e2e/reading.rs",
        "a_conversation_that_no_model_could_read_is_refused_and_its_events_are_not",
    ),
    (
        "POST",
        "/langgraph/threads/{threadId}/state/checkpoint",
        422,
        "tests/e2e/reading.rs",
        "a_conversation_that_no_model_could_read_is_refused_and_its_events_are_not",
    ),
    (
        "POST",
        "/langgraph/threads/{threadId}/history",
        422,
        "tests/e2e/reading.rs",
        "a_conversation_that_no_model_could_read_is_refused_and_its_events_are_not",
    ),
    (
        "POST",
        "/langgraph/threads/{threadId}/runs",
        422,
        "tests/e2e/reading.rs",
        "a_conversation_that_no_model_could_read_is_refused_and_its_events_are_not",
    ),
    (
        "GET",
        "/langgraph/threads/{threadId}/runs/{runId}/join",
        422,
        "tests/e2e/reading.rs",
        "a_conversation_that_no_model_could_read_is_refused_and_its_events_are_not",
    ),
    (
        "GET",
        "/langgraph/threads/{threadId}",
        503,
        "crates/http/src/response.rs",
        "responses_that_no_client_reads_delay_their_reader_alone",
    ),
    (
        "GET",
        "/langgraph/threads/{threadId}/state",
        503,
        "crates/http/src/response.rs",
        "responses_that_no_client_reads_delay_their_reader_alone",
    ),
    (
        "GET",
        "/langgraph/threads/{threadId}/state/{checkpointId}",
        503,
        "crates/http/src/response.rs",
        "responses_that_no_client_reads_delay_their_reader_alone",
    ),
    (
        "GET",
        "/langgraph/threads/{threadId}/runs/{runId}/join",
        503,
        "crates/http/src/response.rs",
        "responses_that_no_client_reads_delay_their_reader_alone",
    ),
    (
        "POST",
        "/langgraph/threads/{threadId}/commands",
        429,
        "tests/e2e/agents/busy.rs",
        "one_run_too_many_gets_retry_after",
    ),
    (
        "POST",
        "/langgraph/threads/{threadId}/runs",
        429,
        "tests/e2e/agents/busy.rs",
        "one_run_too_many_gets_retry_after",
    ),
    ("GET", "/ai/{agentId}", 101, "tests/e2e/agents/chats.rs", "a_socket_answers_each_frame_within_its_scopes"),
    ("GET", "/ai/{agentId}", 404, "tests/e2e/agents/chats.rs", "a_socket_answers_each_frame_within_its_scopes"),
    ("GET", "/ai/{agentId}", 503, "tests/e2e/draining.rs", "a_partial_request_gets_an_error"),
    (
        "GET",
        "/langgraph/threads/{threadId}/stream/events",
        101,
        "tests/e2e/agents/langgraph_socket.rs",
        "the_events_of_a_socket_are_those_of_the_stream",
    ),
    (
        "GET",
        "/langgraph/threads/{threadId}/stream/events",
        409,
        "tests/e2e/agents/langgraph_socket.rs",
        "a_socket_of_langgraph_does_what_its_credential_may",
    ),
    (
        "GET",
        "/langgraph/threads/{threadId}/stream/events",
        503,
        "tests/e2e/draining.rs",
        "a_partial_request_gets_an_error",
    ),
    ("GET", "/v1/socket", 503, "tests/e2e/draining.rs", "a_partial_request_gets_an_error"),
    (
        "GET",
        "/v1/threads/{threadId}/messages",
        422,
        "tests/e2e/reading.rs",
        "a_conversation_that_no_model_could_read_is_refused_and_its_events_are_not",
    ),
    (
        "GET",
        "/v1/threads/{threadId}/state",
        422,
        "tests/e2e/reading.rs",
        "a_conversation_that_no_model_could_read_is_refused_and_its_events_are_not",
    ),
    (
        "POST",
        "/agui/{agentId}",
        422,
        "tests/e2e/reading.rs",
        "a_conversation_that_no_model_could_read_is_refused_and_its_events_are_not",
    ),
    (
        "POST",
        "/ai/{agentId}",
        422,
        "tests/e2e/reading.rs",
        "a_conversation_that_no_model_could_read_is_refused_and_its_events_are_not",
    ),
    (
        "POST",
        "/copilotkit",
        422,
        "tests/e2e/reading.rs",
        "a_conversation_that_no_model_could_read_is_refused_and_its_events_are_not",
    ),
    (
        "POST",
        "/copilotkit/agent/{agentId}/run",
        422,
        "tests/e2e/reading.rs",
        "a_conversation_that_no_model_could_read_is_refused_and_its_events_are_not",
    ),
    (
        "POST",
        "/copilotkit/agent/{agentId}/connect",
        422,
        "tests/e2e/reading.rs",
        "a_conversation_that_no_model_could_read_is_refused_and_its_events_are_not",
    ),
    (
        "GET",
        "/copilotkit/threads/{threadId}/messages",
        422,
        "tests/e2e/reading.rs",
        "a_conversation_that_no_model_could_read_is_refused_and_its_events_are_not",
    ),
    (
        "GET",
        "/copilotkit/threads/{threadId}/messages",
        503,
        "crates/http/src/response.rs",
        "responses_that_no_client_reads_delay_their_reader_alone",
    ),
    (
        "GET",
        "/copilotkit/threads/{threadId}/events",
        503,
        "crates/http/src/response.rs",
        "responses_that_no_client_reads_delay_their_reader_alone",
    ),
    (
        "GET",
        "/copilotkit/threads/{threadId}/state",
        503,
        "crates/http/src/response.rs",
        "responses_that_no_client_reads_delay_their_reader_alone",
    ),
    (
        "GET",
        "/openai/v1/conversations/{conversationId}/items",
        422,
        "tests/e2e/reading.rs",
        "a_conversation_that_no_model_could_read_is_refused_and_its_events_are_not",
    ),
    (
        "GET",
        "/openai/v1/conversations/{conversationId}/items/{itemId}",
        422,
        "tests/e2e/reading.rs",
        "a_conversation_that_no_model_could_read_is_refused_and_its_events_are_not",
    ),
    (
        "DELETE",
        "/openai/v1/conversations/{conversationId}/items/{itemId}",
        422,
        "tests/e2e/reading.rs",
        "a_conversation_that_no_model_could_read_is_refused_and_its_events_are_not",
    ),
    (
        "POST",
        "/openai/v1/responses",
        422,
        "tests/e2e/reading.rs",
        "a_conversation_that_no_model_could_read_is_refused_and_its_events_are_not",
    ),
    ("POST", "/ai/{agentId}", 429, "tests/e2e/agents/busy.rs", "one_run_too_many_gets_retry_after"),
    ("POST", "/agui/{agentId}", 429, "tests/e2e/agents/busy.rs", "one_run_too_many_gets_retry_after"),
    ("POST", "/v1/threads/{threadId}/runs", 429, "tests/e2e/agents/busy.rs", "one_run_too_many_gets_retry_after"),
    (
        "GET",
        "/api/_inspect/threads/{threadId}/events",
        503,
        "crates/http/src/response.rs",
        "responses_that_no_client_reads_delay_their_reader_alone",
    ),
    (
        "GET",
        "/api/_inspect/threads/{threadId}/state",
        503,
        "crates/http/src/response.rs",
        "responses_that_no_client_reads_delay_their_reader_alone",
    ),
    (
        "GET",
        "/api/threads/{threadId}/messages",
        503,
        "crates/http/src/response.rs",
        "responses_that_no_client_reads_delay_their_reader_alone",
    ),
    (
        "GET",
        "/api/threads/{threadId}/messages",
        422,
        "tests/e2e/reading.rs",
        "a_conversation_that_no_model_could_read_is_refused_and_its_events_are_not",
    ),
];

/// What one place answers for every route that reads a body: the tests that have it.
const BODIES: &[(u16, &str, &str)] = &[
    (408, "tests/e2e/connections.rs", "a_body_that_stops_coming_ends_the_request"),
    (503, "tests/e2e/limits.rs", "half_sent_bodies_wait_for_room_and_small_requests_do_not"),
];

/// Routes that store something, which a full storage refuses.
pub const STORING: &[(&str, &str)] = &[
    ("POST", "/v1/threads"),
    ("POST", "/v1/threads/{threadId}/runs"),
    ("POST", "/v1/threads/{threadId}/forks"),
    ("PUT", "/v1/threads/{threadId}/runs/{runId}"),
    ("POST", "/v1/threads/{threadId}/runs/{runId}/events"),
    ("PUT", "/v1/conversations/{name}"),
    ("POST", "/copilotkit"),
    ("POST", "/copilotkit/agent/{agentId}/run"),
    ("POST", "/api/threads/{threadId}/lock"),
    ("PUT", "/connector/annotate/{clientEventId}"),
    ("POST", "/api/threads"),
    ("POST", "/agui/{agentId}"),
    ("POST", "/ai/{agentId}"),
    ("POST", "/langgraph/threads"),
    ("POST", "/langgraph/threads/{threadId}/commands"),
    ("POST", "/langgraph/threads/{threadId}/runs"),
    ("POST", "/openai/v1/responses"),
    ("POST", "/openai/v1/conversations"),
    ("POST", "/openai/v1/conversations/{conversationId}"),
    ("POST", "/openai/v1/conversations/{conversationId}/items"),
    ("POST", "/v1/kv"),
    ("PUT", "/streams/v1/stream/{*path}"),
    ("POST", "/v1/threads/{threadId}/items/{list}"),
    ("PUT", "/v1/threads/{threadId}/items/{list}"),
    ("POST", "/v1/threads/{threadId}/items/{list}/copy"),
    ("PUT", "/v1/threads/{threadId}/checkpoints"),
    ("POST", "/v1/threads/{threadId}/checkpoints/blobs"),
    ("PUT", "/v1/threads/{threadId}/checkpoints/writes"),
    ("POST", "/v1/threads/{threadId}/checkpoints/copy"),
];

/// The test of these refusals.
const FULL: (&str, &str) = ("tests/e2e/storage.rs", "every_route_that_stores_is_refused");

type Seen = BTreeSet<(&'static str, String, u16)>;

/// What belongs to a kind of route, whichever it is.
async fn any_route(server: &Server, route: &Route, seen: &mut Seen) {
    let mut note = |answer: Answer| seen.insert((route.method, route.path.clone(), answer.status));
    let line = |path: &str| format!("{} {path}", route.method);
    let (path, body) = (route.at("t", "r"), route.valid_body().as_bytes());
    let asked = async |path: &str, extra: &[(&str, &str)], body: &[u8]| {
        let headers = [&[BEARER, ANN], extra].concat();
        raw::exchange(server.addr, &line(path), &headers, body).await
    };
    note(asked(&and_query(&path, "noSuchParameter=1"), &[], body).await);
    if route.access != Access::Public {
        note(raw::exchange(server.addr, &line(&path), &[ANN], body).await);
        let needed = match route.access {
            Access::All(scopes) | Access::AnyOf(scopes) | Access::TicketOrKey(scopes) => scopes,
            Access::Project(scope) | Access::Backend(scope) => Scopes::of(&[scope]),
            // A valid body of the single endpoint asks for `info`, which needs `read`.
            Access::Delegated => Scopes::of(&[Scope::Read]),
            Access::Operator | Access::Public | Access::SignedUrl => Scopes::default(),
        };
        let others: Vec<_> = Scopes::ALL.without(needed).iter().collect();
        note(ask(&key(server, "default", &others).await, route).await);
    }
    if route.path.contains('{') {
        let names = [
            "{threadId}",
            "{name}",
            "{agentId}",
            "{slug}",
            "{runId}",
            "{keyId}",
            "{projectId}",
            "{userId}",
            "{clientEventId}",
            "{list}",
            "{checkpointId}",
            "{responseId}",
            "{conversationId}",
            "{itemId}",
            "{model}",
        ];
        let bad = names.iter().fold(route.path.clone(), |path, name| path.replace(name, "%FF"));
        note(asked(&bad, &[], body).await);
        note(
            asked(
                &(route
                    .path
                    .replace("{agentId}", "none")
                    .replace("{slug}", "none")
                    .replace("{threadId}", "none")
                    // A save makes it.
                    .replace("{name}", if route.method == "PUT" { "made" } else { "none" })
                    .replace("{runId}", "r")
                    .replace("{keyId}", "none")
                    .replace("{projectId}", "none")
                    .replace("{userId}", "none")
                    .replace("{clientEventId}", "none")
                    .replace("{list}", "list")
                    .replace("{checkpointId}", "none")
                    .replace("{responseId}", "resp_none")
                    .replace("{conversationId}", "conv_none")
                    .replace("{itemId}", "msg_none")
                    .replace("{model}", "none")
                    + needed(route.method, &route.path)),
                &[],
                body,
            )
            .await,
        );
    }
    let ambiguous = ["{threadId}", "{responseId}", "{conversationId}", "/conversations/{name}"];
    if ambiguous.iter().any(|name| route.path.contains(name)) {
        // A key that names no user may mean either of two. The valid body of some routes names one that has neither.
        let path = route.at(AMBIGUOUS, "r");
        for body in if route.body() == Body::None { vec![body] } else { vec![body, b"{}".as_slice()] } {
            note(raw::exchange(server.addr, &line(&path), &[BEARER], body).await);
        }
    }
    if route.path.contains("{runId}") && route.method != "PUT" {
        note(asked(&route.at("t", "none"), &[], br#"[{"type":"X"}]"#).await);
    }
    if route.body() != Body::None {
        let size = if route.takes_events() { 16 * 1024 * 1024 + 1 } else { 300_000 };
        // Where such a body is as good as any, it would do something.
        let path = if route.is_open() { route.at("none", "r") } else { path.clone() };
        note(asked(&path, &[], &vec![b' '; size]).await);
        // To one that passes over what it does not know it is as good as nothing, and the thread and its run are needed still.
        if !(route.is_open() && (route.method == "DELETE" || route.path.contains("/stop/"))) {
            note(asked(&path, &[], b"{\"noSuchMember\":1}").await);
        }
        note(asked(&path, &[], b"[7]").await);
    }
    if route.documents(415) {
        note(asked(&path, &[IMAGE], b"x").await);
    }
    if route.documents(406) {
        note(asked(&path, &[("Accept", "image/png")], body).await);
    }
    for (name, kind) in route.query() {
        let number = matches!(kind.as_str(), "integer" | "number");
        note(asked(&and_query(&path, &format!("{name}={}", if number { "x" } else { "%FF" })), &[], body).await);
        if matches!(name.as_str(), "after" | "at") {
            note(asked(&and_query(&path, &format!("{name}=99")), &[], body).await);
        }
        if name == "epoch" {
            for epoch in ["other", "0000000000000000"] {
                note(asked(&and_query(&path, &format!("epoch={epoch}")), &[], body).await);
            }
        }
    }
    // A wait for a run that is active has no end.
    if route.method == "GET" && !route.path.ends_with("/join") {
        note(asked(&path, &[], b"").await);
    }
}

async fn ask(client: &Client, route: &Route) -> Answer {
    let request = client.request(route.method.parse().expect("a method"), &route.at("t", "r"));
    send(request.header("content-type", "application/json").body(route.valid_body())).await
}

/// What every route answers to whom a limit is reached for.
async fn too_much(server: &Server, seen: &mut Seen) {
    let frugal = json!({ "limits": { "projectRequestsPerSecond": 1, "projectRequestBurst": 1 } });
    server.project().put("/v1/projects/frugal", frugal).await.ok(201);
    let spender = key(server, "frugal", Scope::ALL).await;
    for route in routes().iter().filter(|route| !route.is_channel()) {
        // What is the operator's is asked by the operator, in that project.
        let operator = server.project().request(route.method.parse().expect("a method"), &route.at("t", "r"));
        let operator = operator.header("threadline-project", "frugal").header("content-type", "application/json");
        for _ in 0..if route.access == Access::Public { 0 } else { 3 } {
            let answer = match route.access {
                Access::Operator => send(operator.try_clone().expect("a request").body(route.valid_body())).await,
                _ => ask(&spender, route).await,
            };
            if answer.status == 429 {
                seen.insert((route.method, route.path.clone(), 429));
            }
        }
    }
}

/// Keys, tokens, projects and users.
async fn identity(project: &Client, seen: &mut Seen) {
    let mut note = |method, route: &str, answer: Answer| seen.insert((method, route.to_owned(), answer.status));
    for body in [json!({ "keyId": "k" }), json!({ "keyId": "k" })] {
        note("POST", "/v1/keys", project.post("/v1/keys", body).await);
    }
    note("POST", "/v1/keys/{keyId}/sign-out", project.post("/v1/keys/k/sign-out", json!({})).await);
    note("POST", "/v1/users/{userId}/sign-out", project.post("/v1/users/nobody/sign-out", json!({})).await);
    note("DELETE", "/v1/keys/{keyId}", project.delete("/v1/keys/k").await);
    note("POST", "/v1/tokens", project.post("/v1/tokens", json!({ "userId": "ann" })).await);
    note("POST", "/v1/socket-tickets", project.post("/v1/socket-tickets", json!({})).await);
    for _ in 0..2 {
        note("PUT", "/v1/projects/{projectId}", project.put("/v1/projects/p", json!({})).await);
    }
    note("GET", "/v1/projects/{projectId}", project.get("/v1/projects/p").await);
    let body = json!({ "count": 1 });
    note("POST", "/v1/projects/{projectId}/sign-out", project.post("/v1/projects/p/sign-out", json!({})).await);
    let approve = "/v1/projects/{projectId}/retention/approve";
    note("POST", approve, project.post("/v1/projects/nowhere/retention/approve", body).await);
    let secret = "/v1/projects/{projectId}/token-secret";
    for id in ["p", "missing"] {
        note("POST", secret, project.post(&format!("/v1/projects/{id}/token-secret"), json!({})).await);
    }
    note("DELETE", "/v1/users/{userId}", project.delete("/v1/users/nobody").await);
}

/// What belongs to one route: method, route, path, body.
async fn one_by_one(project: &Client, ann: &Client, seen: &mut Seen) {
    let mut note = |method, route: &str, answer: Answer| seen.insert((method, route.to_owned(), answer.status));
    let (threads, thread) = ("/v1/threads", "/v1/threads/{threadId}");
    for body in [json!({ "threadId": "u" }), json!({ "threadId": "u" }), json!({ "threadId": "u", "name": "N" })] {
        note("POST", threads, ann.post(threads, body).await);
    }
    note("PATCH", thread, ann.patch("/v1/threads/u", json!({ "name": "N" })).await);

    let idempotent = async || {
        let made = ann.request(reqwest::Method::POST, threads).header("idempotency-key", "once").json(&json!({}));
        send(made).await
    };
    let made = idempotent().await.ok(201);
    let deleted = ann.delete(&format!("{threads}/{}", made["threadId"].as_str().expect("an id"))).await;
    assert_eq!(deleted.status, 204, "{}", deleted.text());
    note("POST", threads, idempotent().await);
    let feed = ann.get("/v1/feed").await.ok(200);
    let beyond = format!("/v1/feed?after=999999&epoch={}", feed["epoch"].as_str().expect("an epoch"));
    note("GET", "/v1/feed", ann.get(&beyond).await);
    let beyond = format!("/v1/threads/u/events?after=999999&epoch={}", ann.epoch("u").await);
    note("GET", "/v1/threads/{threadId}/events", ann.get(&beyond).await);
    for (list, kind) in [("annotations", CursorKind::Annotations), ("runs", CursorKind::Runs)] {
        let elsewhere = format!("/v1/threads/u/{list}?cursor={}", Cursor::new(kind, Epoch::NONE, 1));
        note("GET", &format!("{thread}/{list}"), ann.get(&elsewhere).await);
    }

    for seq in [0, 99] {
        note("PUT", &format!("{thread}/read"), ann.put("/v1/threads/u/read", json!({ "seq": seq })).await);
    }

    for (thread, user) in [("u", "ann"), ("u", "bob"), ("none", "ann")] {
        let noted = json!({ "type": "x", "userId": user, "threadId": thread });
        note("PUT", "/connector/annotate/{clientEventId}", project.put("/connector/annotate/a", noted).await);
    }

    let conversation = "/v1/conversations/{name}";
    let said = |id: &str| json!([{ "id": id, "role": "user", "content": "x" }]);
    for messages in [said("a"), said("a"), said("b"), json!([7])] {
        note("PUT", conversation, ann.put("/v1/conversations/c", json!({ "messages": messages })).await);
    }
    let other = |method: reqwest::Method, header: &str| ann.request(method, "/v1/conversations/c").header(header, "*");
    note("GET", conversation, send(other(reqwest::Method::GET, "if-none-match")).await);
    let absent = other(reqwest::Method::PUT, "if-none-match").json(&json!({ "messages": said("b") }));
    note("PUT", conversation, send(absent).await);
    note("DELETE", conversation, ann.delete("/v1/conversations/c").await);

    let agent = "/v1/agents/{agentId}";
    for (client, name, definition) in [
        (project, "a", json!({ "url": "https://agents.example/" })),
        (project, "demo", json!({ "kind": "demo" })),
        (project, "a", json!({})),
        (ann, "a", json!({ "kind": "demo" })),
    ] {
        note("PUT", agent, client.put(&format!("/v1/agents/{name}"), definition).await);
    }
    note("PUT", agent, project.put("/v1/agents/a", json!({ "noSuchMember": 1 })).await);
    note("PUT", agent, project.put("/v1/agents/a", json!({ "url": "x".repeat(300_000) })).await);
    note("DELETE", agent, ann.delete("/v1/agents/a").await);
    note("DELETE", agent, project.delete("/v1/agents/demo").await);
    note("DELETE", agent, project.delete("/v1/agents/a").await);

    let (runs, run) = ("/v1/threads/{threadId}/runs", "/v1/threads/{threadId}/runs/{runId}");
    for id in ["r", "r", "s"] {
        note("POST", runs, ann.post("/v1/threads/u/runs", json!({ "runId": id, "leaseSeconds": 600 })).await);
    }
    let append = "/v1/threads/{threadId}/runs/{runId}/events";
    for (first, event) in [(1, "A"), (9, "A"), (1, "B"), (0, "A")] {
        note("POST", append, ann.append("u", "r", first, json!([{ "type": event }])).await);
    }
    let of = |verb: &str| format!("{run}/{verb}");
    note("POST", &of("heartbeat"), ann.act("u", "r", "heartbeat").await);
    note("POST", &of("stop"), ann.act("u", "r", "stop").await);
    note("POST", &of("release"), ann.act("u", "r", "release").await);
    note("POST", &of("fail"), ann.act("u", "r", "fail").await);
    note("POST", &of("stop"), ann.act("u", "r", "stop").await);
    note("POST", &of("finish"), ann.act("u", "r", "finish").await);
    note("POST", &of("heartbeat"), ann.act("u", "r", "heartbeat").await);
    for events in [json!([{ "type": "A" }]), json!([{ "type": "A" }]), json!([{ "type": "B" }])] {
        note("PUT", run, ann.put("/v1/threads/u/runs/whole", events).await);
    }
    let epoch = ann.epoch("u").await;
    for bound in ["", "/runs/{runId}"] {
        let route = format!("/streams/v1/stream/threads/{{threadId}}{bound}");
        let path = route.replace("{threadId}", "u").replace("{runId}", "whole");
        let tag = ann.get(&path).await.header("etag").to_owned();
        note("GET", &route, send(ann.request(reqwest::Method::GET, &path).header("if-none-match", tag)).await);
        for offset in ["0000000000000001_0000000000000000".to_owned(), format!("0000000000999999_{epoch}")] {
            note("GET", &route, ann.get(&format!("{path}?offset={offset}")).await);
        }
    }
    let closed = "/streams/v1/stream/threads/u/runs/whole?offset=now&live=long-poll";
    note("GET", "/streams/v1/stream/threads/{threadId}/runs/{runId}", ann.get(closed).await);
    plain_streams(ann, &mut note).await;
    let junk = ann.ndjson(reqwest::Method::POST, "/v1/threads/u/runs?runId=j", "junk").await;
    note("POST", runs, junk);

    let agui = "/agui/{agentId}";
    let input = |run: &str, content: Value| json!({ "threadId": "v", "runId": run, "messages": [{ "id": "m", "role": "user", "content": content }] });
    note("POST", agui, ann.post("/agui/demo", input("a", json!("hi"))).await);
    let again = ann.request(reqwest::Method::POST, "/agui/demo").json(&input("a", json!("hi")));
    let shown = ann.get("/v1/threads/v").await.ok(200);
    let epoch = shown["epoch"].as_str().expect("an epoch");
    note("POST", agui, crate::harness::http::send(again.header("last-event-id", format!("{epoch}:999999"))).await);
    let foreign = ann.request(reqwest::Method::POST, "/agui/demo").json(&input("a", json!("hi")));
    let foreign = foreign.header("last-event-id", "0000000000000000:1");
    note("POST", agui, crate::harness::http::send(foreign).await);
    ann.thread("w").await;
    ann.run("w", "held").await;
    let held = json!({ "threadId": "w", "runId": "b", "messages": [] });
    note("POST", agui, ann.post("/agui/demo", held).await);
    let (ai, chat) = (
        "/ai/{agentId}",
        |id: &str| json!({ "id": id, "messages": [{ "id": "m", "role": "user", "parts": [{ "type": "text", "text": "x" }] }] }),
    );
    note("POST", ai, ann.post("/ai/demo", chat("x")).await);
    note("POST", ai, ann.post("/ai/demo", chat("w")).await);
    note("GET", "/ai/{agentId}/{threadId}/stream", ann.get("/ai/demo/x/stream").await);
    note("GET", "/ai/{agentId}/{threadId}", ann.get("/ai/demo/x").await);
    note("POST", "/ai/{agentId}/{threadId}/stop", ann.post("/ai/demo/x/stop", json!({})).await);
    langgraph(ann, &mut note).await;
    let forks = "/v1/threads/{threadId}/forks";
    for body in [json!({ "threadId": "f" }), json!({ "threadId": "f" }), json!({ "at": 99 })] {
        note("POST", forks, ann.post("/v1/threads/w/forks", body).await);
    }
    let (listed, body) = ("/v1/threads/{threadId}/branches/listed", json!({ "threadId": "w" }));
    note("PUT", listed, ann.put("/v1/threads/w/branches/listed", body).await);
    let waits = json!({ "runId": "waits", "agentId": "demo", "input": { "messages": [] }, "busy": "enqueue" });
    note("POST", runs, ann.post("/v1/threads/w/runs", waits).await);
    let (queue, turn) = ("/v1/threads/w/queue", "/v1/threads/{threadId}/queue/{runId}");
    for (id, body) in [("waits", json!({ "before": null })), ("waits", json!({ "version": 99 })), ("held", json!({}))] {
        note("PATCH", turn, ann.patch(&format!("{queue}/{id}"), body).await);
    }
    for id in ["held", "none"] {
        note("DELETE", turn, ann.delete(&format!("{queue}/{id}")).await);
    }
    for verb in ["hold", "release"] {
        let route = format!("/v1/threads/{{threadId}}/queue/{verb}");
        note("POST", &route, ann.post(&format!("{queue}/{verb}"), json!({})).await);
    }
    for id in ["waits", "held"] {
        note("POST", &format!("{turn}/start"), ann.post(&format!("{queue}/{id}/start"), json!({})).await);
    }
    note("DELETE", thread, ann.delete("/v1/threads/u").await);
}

/// Routes of plain streams.
async fn plain_streams(ann: &Client, note: &mut impl FnMut(&'static str, &str, Answer) -> bool) {
    use reqwest::Method;
    let (route, source, fork) = ("/streams/v1/stream/{*path}", "/streams/v1/stream/s", "/streams/v1/stream/f");
    for body in [json!(1), json!(1)] {
        note("PUT", route, ann.put(source, body).await);
    }
    note("PUT", route, send(ann.request(Method::PUT, source).header("content-type", "a/b")).await);
    note("PUT", route, send(ann.request(Method::PUT, source).header("stream-ttl", "x")).await);
    for from in ["/v1/stream/none", "/v1/stream/s"] {
        note("PUT", route, send(ann.request(Method::PUT, fork).header("stream-forked-from", from)).await);
    }
    note("POST", route, ann.post(source, json!(2)).await);
    note("POST", route, ann.post("/streams/v1/stream/none", json!(2)).await);
    note("POST", route, ann.post(source, json!([])).await);
    note("POST", route, send(ann.request(Method::POST, source).header("content-type", "a/b").body("x")).await);
    for epoch in ["1", "0"] {
        let producer = ann.request(Method::POST, source).header("producer-id", "p").header("producer-epoch", epoch);
        note("POST", route, send(producer.header("producer-seq", "0").json(&json!(3))).await);
    }
    let read = ann.get(source).await;
    let (tag, tail) = (read.header("etag").to_owned(), read.header("stream-next-offset").to_owned());
    note("GET", route, read);
    note("GET", route, send(ann.request(Method::GET, source).header("if-none-match", tag)).await);
    for query in ["offset=x".to_owned(), format!("offset={}", tail.replace("00003_", "99999_"))] {
        note("GET", route, ann.get(&format!("{source}?{query}")).await);
    }
    note("GET", route, ann.get("/streams/v1/stream/none").await);
    note("POST", route, send(ann.request(Method::POST, fork).header("stream-closed", "true")).await);
    note("GET", route, ann.get(&format!("{fork}?offset=now&live=long-poll")).await);
    for _ in 0..2 {
        note("DELETE", route, ann.delete(source).await);
    }
    note("GET", route, ann.get(source).await);
    note("POST", route, ann.post(source, json!(2)).await);
    for path in ["none", "a//b"] {
        note("DELETE", route, ann.delete(&format!("/streams/v1/stream/{path}")).await);
    }
    let large = "x".repeat(MAX_STREAM_APPEND_BYTES + 1);
    for method in ["PUT", "POST"] {
        let request = ann.request(method.parse().expect("a method"), source).header("content-type", "text/plain");
        note(method, route, send(request.body(large.clone())).await);
    }
}

/// Routes of LangGraph's API. The run `held` is active in the thread `w`.
async fn langgraph(ann: &Client, note: &mut impl FnMut(&'static str, &str, Answer) -> bool) {
    let threads = "/langgraph/threads";
    let of = |rest: &str| format!("{threads}/{{threadId}}{rest}");
    note("POST", threads, ann.post(threads, json!({ "thread_id": "lg" })).await);
    note("POST", threads, ann.post(threads, json!({ "thread_id": "lg", "metadata": { "a": 1 } })).await);
    let input = json!({ "messages": [{ "type": "human", "id": "m", "content": "x" }] });
    let run = ann.post("/langgraph/threads/lg/runs", json!({ "assistant_id": "demo", "input": input })).await;
    let id = run.ok(200)["run_id"].as_str().expect("an id").to_owned();
    note("POST", &of("/runs"), run);
    let changed =
        json!({ "assistant_id": "demo", "input": { "messages": [{ "type": "human", "id": "m", "content": "y" }] } });
    note("POST", &of("/runs"), ann.post("/langgraph/threads/lg/runs", changed).await);
    for rest in ["", "/state", "/runs"] {
        note("GET", &of(rest), ann.get(&format!("/langgraph/threads/lg{rest}")).await);
    }
    note("GET", &of("/runs/{runId}"), ann.get(&format!("/langgraph/threads/lg/runs/{id}")).await);
    note("GET", &of("/runs/{runId}/join"), ann.get(&format!("/langgraph/threads/lg/runs/{id}/join")).await);
    let refused = ann.get(&format!("/langgraph/threads/lg/runs/{id}/join?cancel_on_disconnect=1")).await;
    note("GET", &of("/runs/{runId}/join"), refused);
    for query in ["wait=0", "wait=1", "action=rollback"] {
        let path = format!("/langgraph/threads/lg/runs/{id}/cancel?{query}");
        note("POST", &of("/runs/{runId}/cancel"), ann.post(&path, json!({})).await);
    }
    for checkpoint in ["0000000000000001", "9999999999999999", "none"] {
        let named = of("/state/{checkpointId}");
        note("GET", &named, ann.get(&format!("/langgraph/threads/lg/state/{checkpoint}")).await);
        let body = json!({ "checkpoint": { "checkpoint_id": checkpoint } });
        note("POST", &of("/state/checkpoint"), ann.post("/langgraph/threads/lg/state/checkpoint", body).await);
    }
    for limit in [0, 1] {
        note("POST", &of("/history"), ann.post("/langgraph/threads/lg/history", json!({ "limit": limit })).await);
    }
    let stream =
        ann.request(reqwest::Method::POST, "/langgraph/threads/lg/stream/events").json(&json!({ "channels": [] }));
    let stream = crate::harness::http::open(stream).await;
    let (status, headers) = (stream.status().as_u16(), stream.headers().clone());
    note("POST", &of("/stream/events"), Answer { status, headers, body: Default::default() });
    for body in [json!({ "channels": ["nope"] }), json!({ "channels": ["values"], "since": 1_u64 << 50 })] {
        note("POST", &of("/stream/events"), ann.post("/langgraph/threads/lg/stream/events", body).await);
    }
    for status in ["pending", "nope"] {
        note("GET", &of("/runs"), ann.get(&format!("/langgraph/threads/lg/runs?status={status}")).await);
    }
    let patch = |minimal: bool| {
        let request =
            ann.request(reqwest::Method::PATCH, "/langgraph/threads/lg").json(&json!({ "metadata": { "b": 1 } }));
        if minimal { request.header("prefer", "return=minimal") } else { request }
    };
    for minimal in [false, true] {
        note("PATCH", &of(""), crate::harness::http::send(patch(minimal)).await);
    }
    for (path, body) in [
        ("/langgraph/threads/search", json!({ "limit": 0 })),
        ("/langgraph/threads/count", json!({ "values": { "a": 1 } })),
        ("/langgraph/assistants/search", json!({ "limit": 0 })),
    ] {
        note("POST", path, ann.post(path, body).await);
    }
    note("DELETE", &of(""), ann.delete("/langgraph/threads/lg").await);
}

/// Routes of agent data.
async fn agent_data(project: &Client, ann: &Client, seen: &mut Seen) {
    let mut note = |method, route: &str, answer: Answer| seen.insert((method, route.to_owned(), answer.status));
    let put = |more: Value| {
        let mut op = json!({ "op": "put", "ns": [], "key": "k", "value": 1 });
        more.as_object().expect("members").iter().for_each(|(name, value)| op[name] = value.clone());
        json!({ "ops": [op] })
    };
    for (client, more) in [
        (ann, json!({})),
        (ann, json!({ "ifTag": "wrong" })),
        (ann, json!({ "threadId": "none" })),
        (project, json!({ "threadId": AMBIGUOUS })),
    ] {
        note("POST", "/v1/kv", client.post("/v1/kv", put(more)).await);
    }
    let (path, route) = ("/v1/threads/t/items/l", "/v1/threads/{threadId}/items/{list}");
    for (key, wanted) in [("a", None), ("b", Some("wrong"))] {
        let of = |mut body: Value| {
            body["key"] = json!(key);
            wanted.iter().for_each(|tag| body["ifTag"] = json!(tag));
            body
        };
        for (items, key) in [(json!([1]), key), (json!([2]), key)] {
            let body = of(json!({ "items": items, "key": key }));
            note("POST", route, ann.post(path, body.clone()).await);
            note("PUT", route, ann.put(&format!("{path}2"), body).await);
        }
        for count in [1, 2] {
            let mut body = of(json!({ "count": count }));
            body["key"] = json!(format!("pop {key}"));
            note("POST", &format!("{route}/pop"), ann.post(&format!("{path}/pop"), body).await);
        }
        for upto in [1, 2] {
            let body = of(json!({ "fromThreadId": "t", "fromList": "l2", "uptoPos": upto }));
            note("POST", &format!("{route}/copy"), ann.post(&format!("{path}3/copy"), body).await);
        }
    }
    let (path, route) = ("/v1/threads/t/checkpoints", "/v1/threads/{threadId}/checkpoints");
    let blob = json!({ "channel": "c", "version": "1", "type": "t", "data": "" });
    let new = |version: &str| json!({ "type": "t", "data": "", "runId": "r", "channels": [["c", version]] });
    note("POST", &format!("{route}/blobs"), ann.post(&format!("{path}/blobs"), json!({ "blobs": [blob] })).await);
    for version in ["1", "2"] {
        note("PUT", route, ann.put(&format!("{path}?id=c"), new(version)).await);
    }
    let writes = json!({ "taskId": "k", "writes": [{ "idx": 0, "channel": "c", "type": "t", "data": "" }] });
    note("PUT", &format!("{route}/writes"), ann.put(&format!("{path}/writes?id=c"), writes).await);
    for (part, query) in
        [("", ""), ("/list", ""), ("/blobs", "?channel=c&version=1"), ("/writes", "?id=c&taskId=k&idx=0")]
    {
        note("GET", &format!("{route}{part}"), ann.get(&format!("{path}{part}{query}")).await);
    }
    note("POST", &format!("{route}/copy"), ann.post(&format!("{path}/copy"), json!({ "fromThreadId": "t" })).await);
    note("POST", &format!("{route}/delete"), ann.post(&format!("{path}/delete"), json!({})).await);
    note("GET", "/v1/checkpoints/list", ann.get("/v1/checkpoints/list").await);
    note("DELETE", "/v1/checkpoints", ann.delete("/v1/checkpoints?runId=r").await);
}

/// What CopilotKit's Node runtime asks.
async fn platform(project: &Client, seen: &mut Seen) {
    let mut note = |method, route: &str, answer: Answer| seen.insert((method, route.to_owned(), answer.status));
    let (threads, thread, locks) = ("/api/threads", "/api/threads/{threadId}", "/api/threads/{threadId}/lock");
    let made = json!({ "threadId": "k", "userId": "ann", "agentId": "a" });
    for _ in 0..2 {
        note("POST", threads, project.post(threads, made.clone()).await);
    }
    note("POST", "/api/threads/subscribe", project.post("/api/threads/subscribe", json!({ "userId": "ann" })).await);
    let annotate = "/connector/annotate/{clientEventId}";
    for thread in ["k", "none"] {
        let body = json!({ "type": "x", "threadId": thread, "userId": "ann" });
        note("PUT", annotate, project.put("/connector/annotate/e", body).await);
    }
    let lock = "/api/threads/k/lock";
    for run in ["k1", "k2"] {
        note("POST", locks, project.post(lock, json!({ "runId": run, "userId": "ann" })).await);
    }
    for run in ["k1", "none"] {
        note("PATCH", locks, project.patch(lock, json!({ "runId": run })).await);
    }
    let connected = project.post("/api/threads/k/connect", json!({ "userId": "ann" })).await;
    note("POST", "/api/threads/{threadId}/connect", connected);
    let release = project.request(reqwest::Method::DELETE, lock).json(&json!({ "runId": "k1" }));
    note("DELETE", locks, send(release).await);
    note("POST", locks, project.post(lock, json!({ "runId": "k3", "userId": "ann" })).await);
    note("PATCH", locks, project.patch(lock, json!({ "runId": "k1" })).await);
    note("PATCH", thread, project.patch("/api/threads/k", json!({ "userId": "ann", "name": "N" })).await);
    let delete = project.request(reqwest::Method::DELETE, "/api/threads/k").json(&json!({ "userId": "ann" }));
    note("DELETE", thread, send(delete).await);
}

/// The OpenAI API. Thread `w` has an active run.
async fn openai(ann: &Client, seen: &mut Seen) {
    let mut note = |method, route: &str, answer: Answer| seen.insert((method, route.to_owned(), answer.status));
    let (responses, conversations) = ("/openai/v1/responses", "/openai/v1/conversations");
    let (response, conversation) =
        (format!("{responses}/{{responseId}}"), format!("{conversations}/{{conversationId}}"));
    let item = |text: &str| json!([{ "type": "message", "id": "msg_same", "role": "user", "content": text }]);
    let twice = json!([item("x")[0], item("y")[0]]);
    let answer = ann.post(responses, json!({ "model": "demo", "input": "x" })).await;
    let id = answer.ok(200)["id"].as_str().expect("an id").to_owned();
    note("POST", responses, answer);
    note("POST", responses, ann.post(responses, json!({ "model": "none", "input": "x" })).await);
    note(
        "POST",
        responses,
        ann.post(responses, json!({ "model": "demo", "input": "x", "conversation": "conv_w" })).await,
    );
    note("GET", &response, ann.get(&format!("{responses}/{id}")).await);
    note("GET", &format!("{response}/input_items"), ann.get(&format!("{responses}/{id}/input_items")).await);
    note("POST", &format!("{response}/cancel"), ann.post(&format!("{responses}/{id}/cancel"), json!({})).await);
    note("DELETE", &response, ann.delete(&format!("{responses}/{id}")).await);
    for route in ["input_tokens", "compact"] {
        let path = format!("{responses}/{route}");
        note("POST", &path, ann.post(&path, json!({})).await);
    }
    note("POST", conversations, ann.post(conversations, json!({ "items": twice })).await);
    let keyed = async || {
        let request = ann.request(reqwest::Method::POST, responses).header("idempotency-key", "a-response");
        send(request.json(&json!({ "model": "demo", "input": "x" }))).await
    };
    let begun = keyed().await.ok(200)["conversation"]["id"].as_str().expect("an id").to_owned();
    ann.delete(&format!("{conversations}/{begun}")).await.ok(200);
    note("POST", responses, keyed().await);
    let made = async || {
        let request = ann.request(reqwest::Method::POST, conversations).header("idempotency-key", "once-more");
        send(request.json(&json!({ "items": item("x") }))).await
    };
    let answer = made().await;
    let path = format!("{conversations}/{}", answer.ok(200)["id"].as_str().expect("an id"));
    note("POST", conversations, answer);
    note("GET", &conversation, ann.get(&path).await);
    note("POST", &conversation, ann.post(&path, json!({ "metadata": {} })).await);
    let (items, of_items) = (format!("{path}/items"), format!("{conversation}/items"));
    note("POST", &of_items, ann.post(&items, json!({ "items": [{ "role": "user", "content": "z" }] })).await);
    note("POST", &of_items, ann.post(&items, json!({ "items": twice })).await);
    note("GET", &of_items, ann.get(&items).await);
    note("GET", &format!("{of_items}/{{itemId}}"), ann.get(&format!("{items}/msg_same")).await);
    note("DELETE", &format!("{of_items}/{{itemId}}"), ann.delete(&format!("{items}/msg_same")).await);
    let held = ann.delete(&format!("{conversations}/conv_w/items/msg_same")).await;
    note("DELETE", &format!("{of_items}/{{itemId}}"), held);
    note("DELETE", &conversation, ann.delete(&path).await);
    note("POST", conversations, made().await);
}

/// The API of CopilotKit's browser packages. Thread `w` has an active run, `v` none.
async fn copilotkit(ann: &Client, seen: &mut Seen) {
    let mut note = |method, route: &str, answer: Answer| seen.insert((method, route.to_owned(), answer.status));
    let call = |method: &str, agent: &str, body: &Value| json!({ "method": method, "params": { "agentId": agent }, "body": body });
    let (one, held) = ("/copilotkit", json!({ "threadId": "w", "runId": "b", "messages": [] }));
    let idle = json!({ "threadId": "v", "runId": "k", "messages": [] });
    for body in [call("info", "demo", &held), call("agent/run", "none", &held), call("agent/run", "demo", &held)] {
        note("POST", one, ann.post(one, body).await);
    }
    let agent = |verb: &str| format!("/copilotkit/agent/{{agentId}}/{verb}");
    note("POST", &agent("run"), ann.post("/copilotkit/agent/demo/run", held).await);
    for verb in ["run", "connect", "suggest"] {
        note("POST", &agent(verb), ann.post(&format!("/copilotkit/agent/demo/{verb}"), idle.clone()).await);
    }
    note("POST", &agent("stop/{threadId}"), ann.post("/copilotkit/agent/demo/stop/v", json!({})).await);
    let threads = "/copilotkit/threads/{threadId}";
    note("POST", "/copilotkit/threads/subscribe", ann.post("/copilotkit/threads/subscribe", json!({})).await);
    note("PATCH", threads, ann.patch("/copilotkit/threads/v", json!({ "name": "N" })).await);
    note("POST", &format!("{threads}/archive"), ann.post("/copilotkit/threads/v/archive", json!({})).await);
    note("DELETE", threads, ann.delete("/copilotkit/threads/v").await);
}

#[tokio::test]
async fn documented_statuses_occur_and_no_others() {
    run(Options::memory().with_key(KEY), async |server: &Server| {
        let (project, ann) = (server.project(), server.user("ann"));
        ann.thread("t").await;
        ann.run("t", "r").await;
        for user in ["bob", "cat"] {
            token(server, user).await.thread(AMBIGUOUS).await;
        }
        let mut seen = Seen::new();
        let routes = || routes().iter().filter(|route| !route.is_channel());
        for route in routes() {
            any_route(server, route, &mut seen).await;
        }
        platform(&project, &mut seen).await;
        agent_data(&project, &ann, &mut seen).await;
        let waits = ann.put("/v1/threads/t/runs/whole", json!([{ "type": "A" }]));
        let (whole, ()) = tokio::join!(waits, one_by_one(&project, &ann, &mut seen));
        seen.insert(("PUT", "/v1/threads/{threadId}/runs/{runId}".to_owned(), whole.status));
        openai(&ann, &mut seen).await;
        copilotkit(&ann, &mut seen).await;
        identity(&project, &mut seen).await;
        too_much(server, &mut seen).await;
        let mut documented = Seen::new();
        for route in routes() {
            let statuses = route.description["responses"].as_object().expect("responses").keys();
            documented
                .extend(statuses.map(|status| (route.method, route.path.clone(), status.parse().expect("a status"))));
        }
        for route in routes().filter(|route| route.body() != Body::None) {
            seen.extend(BODIES.iter().map(|(status, ..)| (route.method, route.path.clone(), *status)));
        }
        let elsewhere = ELSEWHERE.iter().map(|(method, path, status, ..)| (*method, (*path).to_owned(), *status));
        let full = STORING.iter().map(|(method, path)| (*method, (*path).to_owned(), 507));
        let reached: Seen = seen.iter().cloned().chain(elsewhere).chain(full).collect();
        let (missing, undocumented): (Vec<_>, Vec<_>) =
            (documented.difference(&reached).collect(), reached.difference(&documented).collect());
        assert!(missing.is_empty(), "documented, and not seen: {missing:#?}");
        assert!(undocumented.is_empty(), "seen, and not documented: {undocumented:#?}");
        println!("{} pairs of route and status, {} of them elsewhere", documented.len(), ELSEWHERE.len());
    })
    .await;
}

#[test]
fn statuses_tested_elsewhere_have_their_tests() {
    let elsewhere = ELSEWHERE.iter().map(|(.., file, test)| (file, test));
    for (file, test) in elsewhere.chain(BODIES.iter().map(|(_, file, test)| (file, test))).chain([(&FULL.0, &FULL.1)]) {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).expect(file);
        assert!(text.contains(&format!("async fn {test}(")), "{file} has no test {test}");
    }
}
