//! Authors of runs, and the words that an end user may write into a thread.

use futures_util::StreamExt;
use serde_json::{Value, json};

use super::{bearer, token};
use crate::harness::{Client, Server, everywhere, text};

/// A user with a token of the default scopes.
async fn chatter(server: &Server, user: &str) -> Client {
    let made = server.project().post("/v1/tokens", json!({ "userId": user })).await.ok(201);
    bearer(server, text(&made, "token"))
}

fn said(id: &str) -> Value {
    json!([{ "type": "RUN_STARTED", "input": { "messages": [{ "id": id, "role": "user", "content": "Hi" }] } }])
}

everywhere! {
    async fn a_run_shows_who_wrote_it_and_who_asked(server: |options| options.with_key("secret")) {
        let made = server.project().post("/v1/keys", json!({ "keyId": "backend" })).await.ok(201);
        let backend = Client { user: Some("ann".into()), ..bearer(server, text(&made, "key")) };
        let (ann, page) = (token(server, "ann").await, chatter(server, "ann").await);
        ann.thread("t").await;
        let events = json!([{ "type": "X" }]);
        for (client, run, author) in [
            (&server.user("ann"), "by-operator", "operator"),
            (&backend, "by-key", "key:backend"),
            (&ann, "by-user", "user:ann"),
        ] {
            let made = client.put(&format!("/v1/threads/t/runs/{run}"), events.clone()).await.ok(201);
            assert_eq!((&made["run"]["author"], &made["run"]["askedBy"]), (&json!(author), &json!(author)));
            let found = backend.get(&format!("/v1/threads/t/runs/{run}")).await.ok(200);
            assert_eq!((&found["author"], &found["askedBy"]), (&json!(author), &json!(author)));
        }
        let body = json!({ "runId": "driven", "agentId": "demo", "input": { "messages": [] } });
        let made = page.post("/v1/threads/t/runs", body).await.ok(201);
        assert_eq!((&made["run"]["author"], &made["run"]["askedBy"]), (&json!("agent:demo"), &json!("user:ann")));
        // The name of an agent that a producer gives to its run is a label.
        let made = backend.put("/v1/threads/t/runs/labelled?agentId=demo", events).await.ok(201);
        assert_eq!((&made["run"]["agentId"], &made["run"]["author"]), (&json!("demo"), &json!("key:backend")));
    }
}

everywhere! {
    async fn a_token_writes_only_into_runs_of_its_user(server: |options| options.with_key("secret")) {
        let (ann, backend) = (token(server, "ann").await, server.user("ann"));
        ann.thread("t").await;
        backend.run("t", "theirs").await;
        for answer in [
            ann.append("t", "theirs", 1, json!([{ "type": "X" }])).await,
            ann.act("t", "theirs", "finish").await,
            ann.act("t", "theirs", "fail").await,
            ann.act("t", "theirs", "heartbeat").await,
            ann.act("t", "theirs", "release").await,
            ann.post("/v1/threads/t/runs", json!({ "runId": "theirs", "attemptId": "x", "onExisting": "continue" })).await,
        ] {
            answer.problem(403, "run-not-yours");
        }
        assert_eq!(backend.get("/v1/threads/t/runs/theirs").await.ok(200)["producerSeq"], 0);
        backend.act("t", "theirs", "finish").await.ok(200);
        ann.run("t", "own").await;
        ann.append("t", "own", 1, json!([{ "type": "X" }])).await.ok(200);
        // Keys change, so a key writes into every pushed run of its project.
        backend.append("t", "own", 2, json!([{ "type": "X" }])).await.ok(200);
        ann.act("t", "own", "finish").await.ok(200);
    }
}

everywhere! {
    async fn a_user_says_new_messages_and_changes_no_others(server: |options| options.with_key("secret")) {
        let (page, backend) = (chatter(server, "ann").await, server.user("ann"));
        page.thread("t").await;
        page.put("/v1/threads/t/runs/a", said("m")).await.ok(201);
        page.put("/v1/threads/t/runs/a", said("m")).await.ok(200);
        let refused = page.put("/v1/threads/t/runs/b", said("m")).await.problem(409, "message-exists");
        assert_eq!(refused["messageId"], "m");
        let answer = json!([
            { "type": "TEXT_MESSAGE_START", "messageId": "n", "role": "assistant" },
            { "type": "TEXT_MESSAGE_CONTENT", "messageId": "n", "delta": "No." },
            { "type": "TEXT_MESSAGE_END", "messageId": "n" },
        ]);
        backend.put("/v1/threads/t/runs/c", answer.clone()).await.ok(201);
        page.put("/v1/threads/t/runs/d", answer).await.problem(403, "forbidden");
        page.put("/v1/threads/t/runs/d", said("n")).await.problem(409, "message-exists");
        let grown = json!([{ "type": "TEXT_MESSAGE_CONTENT", "messageId": "n", "delta": " Yes!" }]);
        page.put("/v1/threads/t/runs/d", grown).await.problem(403, "forbidden");
        let tail = page.get("/v1/threads/t").await.ok(200)["tail"].clone();

        // The same as a document.
        let message = |id: &str, role: &str| json!({ "id": id, "role": role, "content": if id == "n" { "No." } else { "Hi" } });
        let mut list = vec![message("m", "user"), message("n", "assistant")];
        let forged = json!({ "messages": [list[0], list[1], message("o", "assistant")] });
        let refused = page.put("/v1/conversations/t", forged).await.problem(403, "forbidden");
        assert_eq!(refused["scope"], "produce");
        let etag = page.get("/v1/conversations/t").await.header("etag").to_owned();
        let shorter = page.request(reqwest::Method::PUT, "/v1/conversations/t").header("if-match", &etag);
        let shorter = shorter.json(&json!({ "messages": [message("m", "user")] }));
        crate::harness::http::send(shorter).await.problem(403, "forbidden");
        assert_eq!(page.get("/v1/threads/t").await.ok(200)["tail"], tail);
        list.push(message("o", "user"));
        page.put("/v1/conversations/t", json!({ "messages": list })).await.ok(200);
    }
}

everywhere! {
    async fn interrupts_of_a_backends_agent_are_answered_with_a_key(server: |options| options.with_key("secret")) {
        server.project().put("/v1/agents/careful", json!({ "kind": "demo", "approvals": "backend" })).await.ok(200);
        let page = chatter(server, "ann").await;
        page.thread("t").await;
        let resume = json!([{ "interruptId": "i", "status": "resolved", "payload": "yes" }]);
        for input in [json!({ "resume": resume }), json!({ "forwardedProps": { "command": { "resume": "yes" } } })] {
            let body = json!({ "runId": "r", "agentId": "careful", "input": input });
            page.post("/v1/threads/t/runs", body.clone()).await.problem(403, "forbidden");
            let mut run = input;
            run["threadId"] = json!("t");
            page.post("/agui/careful", run.clone()).await.problem(403, "forbidden");
            page.post("/copilotkit/agent/careful/run", run).await.problem(403, "forbidden");
            assert_eq!(page.get("/v1/threads/t").await.ok(200)["tail"], 0);
        }
        // Nor through another agent, once this one has written in the thread.
        let asked = json!({ "runId": "asked", "agentId": "careful", "input": { "messages": [] } });
        page.post("/v1/threads/t/runs", asked).await.ok(201);
        let body = json!({ "runId": "s", "agentId": "demo", "input": { "resume": resume } });
        page.post("/v1/threads/t/runs", body).await.problem(403, "forbidden");
        crate::harness::eventually("the run ends", async || {
            let found = page.get("/v1/threads/t/runs/asked").await.ok(200);
            (!found["endedAt"].is_null()).then_some(())
        })
        .await;
        // Nor once many runs lie between.
        let backend = server.user("ann");
        let pushed = (0..=threadline_core::limits::MAX_PAGE).map(|number| {
            let (backend, run) = (&backend, format!("/v1/threads/t/runs/pushed{number}"));
            async move { backend.put(&run, json!([{ "type": "RUN_FINISHED" }])).await.ok(201) }
        });
        // A few at a time: all at once they wait for each other longer than a busy store answers.
        futures_util::stream::iter(pushed).buffer_unordered(8).collect::<Vec<_>>().await;
        let body = json!({ "runId": "s", "agentId": "demo", "input": { "resume": resume } });
        page.post("/v1/threads/t/runs", body).await.problem(403, "forbidden");
        let body = json!({ "runId": "r", "agentId": "careful", "input": { "resume": resume } });
        backend.post("/v1/threads/t/runs", body).await.ok(201);
    }
}

everywhere! {
    async fn an_answer_shows_no_more_than_reading_would(server: |options| options.with_key("secret")) {
        let scopes = json!({ "userId": "ann", "scopes": ["chat", "produce"] });
        let made = server.project().post("/v1/tokens", scopes).await.ok(201);
        let writer = bearer(server, text(&made, "token"));
        let named = json!({ "threadId": "t", "name": "Secret", "metadata": { "a": 1 }, "agentId": "demo" });
        server.user("ann").post("/v1/threads", named).await.ok(201);
        let edited = writer.patch("/v1/threads/t", json!({ "archived": true })).await.ok(200);
        assert_eq!((&edited["threadId"], &edited["name"], &edited["metadata"]), (&json!("t"), &json!(null), &json!({})));
        assert!(edited["epoch"].is_string() && edited["agentId"].is_null() && edited["archived"] == false);
        let run = writer.put("/v1/threads/t/runs/r?agentId=demo", json!([{ "type": "X" }])).await.ok(201);
        assert_eq!((&run["run"]["runId"], &run["run"]["agentId"]), (&json!("r"), &json!(null)));
        assert_eq!((&run["run"]["lastSeq"], &run["run"]["author"]), (&json!(2), &json!(null)));
    }
}
