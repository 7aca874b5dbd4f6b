//! Malicious inputs.

use reqwest::Method;
use serde_json::{Value, json};
use threadline_core::limits::{MAX_BATCH_BYTES, MAX_INPUT_ITEMS, MAX_JSON_DEPTH};

use super::{agent, ended, events_of, finished, messages, user};
use crate::harness::{Client, everywhere, http::send};

/// A body as it stands, for agent `a`.
fn raw(client: &Client, body: impl Into<reqwest::Body>) -> reqwest::RequestBuilder {
    client.request(Method::POST, "/agui/a").header("content-type", "application/json").body(body)
}

everywhere! {
    async fn an_invalid_input_is_refused_and_stores_nothing(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let whole = json!({ "threadId": "t", "runId": "r", "messages": [user("u", "hi")] });
        let tool = json!({ "id": "m", "role": "tool", "content": "x", "toolCallId": "c" });
        for (member, bad) in [
            ("threadId", json!(7)),
            ("threadId", json!("")),
            ("threadId", json!("x".repeat(257))),
            ("threadId", json!("a\nb")),
            ("runId", json!({})),
            ("runId", json!("x".repeat(257))),
            ("parentRunId", json!([])),
            ("messages", json!(null)),
            ("messages", json!("hi")),
            ("messages", json!({ "0": user("u", "hi") })),
            ("messages", json!(["hi"])),
            ("messages", json!([null])),
            ("messages", json!([[]])),
            ("messages", json!([{ "id": null, "role": "user", "content": "x" }])),
            ("messages", json!([{ "id": "m", "role": ["user"], "content": "x" }])),
            ("messages", json!([{ "id": "m", "role": "USER", "content": "x" }])),
            ("messages", json!([{ "id": "m", "role": "user", "content": 1 }])),
            ("messages", json!([{ "id": "m", "role": "assistant", "toolCalls": "x" }])),
            ("messages", json!([tool, tool])),
            ("tools", json!({ "name": "x" })),
            ("context", json!("x")),
            ("resume", json!({ "interruptId": "i", "status": "resolved" })),
            ("resume", json!([[]])),
        ] {
            let mut body = whole.clone();
            body[member] = bad;
            let problem = dev.post("/agui/a", body.clone()).await.problem(400, "invalid-request");
            assert!(problem["detail"].as_str().is_some_and(|detail| detail.len() < 500), "{body} → {problem}");
        }
        let deep = |levels: usize| format!(r#"{{"threadId":"t","messages":[],"x":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
        let forwarded = |levels: usize| deep(levels).replace("\"x\"", "\"forwardedProps\"");
        for body in [
            b"\xff{}".to_vec(),
            b"{\"threadId\":\"t\"".to_vec(),
            b"{\"threadId\":\"t\"}{}".to_vec(),
            b"[\"t\",\"r\"]".to_vec(),
            b"null".to_vec(),
            b"{\"threadId\":\"\\ud800\"}".to_vec(),
            deep(MAX_JSON_DEPTH).into_bytes(),
            forwarded(1_000_000).into_bytes(),
        ] {
            send(raw(&dev, body)).await.problem(400, "invalid-request");
        }
        send(raw(&dev, vec![b' '; MAX_BATCH_BYTES + 1])).await.problem(413, "too-large");
        let large = json!({ "threadId": "t", "messages": [user("u", &"x".repeat(8 * 1_024 * 1_024))] });
        dev.post("/agui/a", large).await.problem(413, "too-large");
        let xml = dev.request(Method::POST, "/agui/a").header("content-type", "text/xml").body("<x/>");
        send(xml).await.problem(415, "unsupported-media-type");
        send(dev.request(Method::GET, "/agui/a")).await.problem(405, "method-not-allowed");
        dev.get("/v1/threads/t").await.problem(404, "thread-not-found");
        assert_eq!(agent.requests(), 0);

        // As deep as can be is none too deep for the agent, and what is not stored need not fit into an event.
        let asked = tokio::spawn(send(raw(&dev, forwarded(MAX_JSON_DEPTH - 1))));
        let call = agent.call().await;
        assert!(call.body.contains(&"[".repeat(MAX_JSON_DEPTH - 1)));
        call.finish(&[json!({ "type": "RUN_FINISHED" })]).await;
        assert_eq!(asked.await.expect("answered").status, 200);
        let inside = MAX_JSON_DEPTH - 4;
        for (levels, status) in [(inside, 200), (inside + 1, 400)] {
            let content = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            let message = format!(r#"{{"id":"d{levels}","role":"user","content":"x","more":{content}}}"#);
            let asked = tokio::spawn(send(raw(&dev, format!(r#"{{"threadId":"d","messages":[{message}]}}"#))));
            if status == 200 {
                agent.call().await.finish(&[json!({ "type": "RUN_FINISHED" })]).await;
            }
            assert_eq!(asked.await.expect("answered").status, status, "{levels} levels");
        }
    }
}

everywhere! {
    async fn unknown_members_reach_the_agent_unchanged_and_are_not_stored(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let unknown = r#""protocolVersion":"9.9","big":123456789012345678901234567890,"far":1e999,"half":"\ud800","twice":{"a":1,"a":2}"#;
        let message = r#"{ "id": "u", "role": "user", "content": "h\ud83di", "later": 1e999, "metadata": {"k": null} }"#;
        // Written over several lines, as people do.
        let body = format!("{{\n \"threadId\": \"t\",\r\n \"runId\": \"r\", \"twice\": 0, {unknown},\n \"messages\": [\n{message}\n]\n}}");
        let asked = tokio::spawn(send(raw(&dev, body)));
        let call = agent.call().await;
        assert!(call.body.ends_with(&format!(",{unknown}}}")), "{}", call.body);
        assert!(call.body.contains(&format!("\"messages\":[{message}]")), "{}", call.body);
        call.finish(&[finished("r")]).await;
        let text = asked.await.expect("answered").text().to_owned();
        assert_eq!(text.lines().filter(|line| !line.is_empty()).count(), 4, "two events, each on a line: {text}");
        ended(&dev, "r").await;
        let log = dev.get_as("/v1/threads/t/events", "application/x-ndjson").await;
        assert!(log.text().contains(&format!("\"messages\":[{message}]")), "{}", log.text());
        for name in ["protocolVersion", "123456789012345678901234567890", "twice"] {
            assert!(!log.text().contains(name), "{name} in {}", log.text());
        }
    }
}

everywhere! {
    async fn very_many_members_and_messages_are_taken_at_the_pace_of_their_bytes(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let body = |answers: usize, members: usize| {
            let answer = |at: usize| json!({ "interruptId": at.to_string(), "status": "cancelled" });
            let resume: Vec<_> = (0..answers).map(answer).collect();
            let members: String = (0..members).map(|at| format!(",\"m{}\":0", at / 2)).collect();
            format!(r#"{{"threadId":"t","runId":"r","messages":[],"resume":{}{members}}}"#, json!(resume))
        };
        for (answers, members) in [(15_000, 0), (0, 80_000)] {
            assert_eq!(send(raw(&dev, body(answers, members))).await.status, 400, "{answers} {members}");
        }
        let asked = tokio::spawn(send(raw(&dev, body(MAX_INPUT_ITEMS, MAX_INPUT_ITEMS))));
        let call = agent.call().await;
        assert_eq!(call.body.matches("\"m").count(), MAX_INPUT_ITEMS / 2 + 1, "the last of each, and the messages");
        call.finish(&[finished("r")]).await;
        assert_eq!(asked.await.expect("answered").status, 200);
        let many: Vec<Value> = (0..6_000).map(|at| user(&format!("u{at}"), "x")).collect();
        let asked = tokio::spawn(send(raw(&dev, json!({ "threadId": "t", "runId": "r2", "messages": many }).to_string())));
        let call = agent.call().await;
        assert_eq!(call.message_ids().len(), 6_000);
        call.finish(&[finished("r2")]).await;
        assert_eq!(asked.await.expect("answered").status, 200);
        assert_eq!(messages(&dev).await["messages"].as_array().map(Vec::len), Some(6_000));
        assert_eq!(events_of(&dev, "r2").await.len(), 2);
    }
}
