//! Chats of the AI SDK. Its packages themselves chat in `tests/real/node/ai-sdk.test.mjs`.

use std::collections::HashMap;

use threadline_core::Scope;
use threadline_http::egress::Network;
use tokio_tungstenite::tungstenite::{Error, handshake};

use super::{
    continuing::{carried_out, continues},
    recovery::{called, restarted},
    *,
};
use crate::{
    harness::{
        self, everywhere,
        http::{open, send},
        socket::{self, Socket},
        soon,
    },
    identity::key,
};

/// A request of `useChat` with these messages.
fn chat(messages: Value) -> Value {
    json!({ "id": "t", "trigger": "submit-message", "messages": messages })
}

fn asks(id: &str, text: &str) -> Value {
    json!({ "id": id, "role": "user", "parts": [{ "type": "text", "text": text }] })
}

fn send_to(client: &Client, body: &Value) -> RequestBuilder {
    client.request(Method::POST, "/ai/a").json(body)
}

/// Chunks of a stream that ended as it should.
fn chunks(stream: &str) -> Vec<Value> {
    let frames = stream.split("\n\n").filter(|frame| !frame.is_empty() && !frame.starts_with(':'));
    let mut data: Vec<&str> = frames.map(|frame| frame.strip_prefix("data: ").expect("data")).collect();
    assert_eq!(data.pop(), Some("[DONE]"), "{stream}");
    data.into_iter().map(|chunk| serde_json::from_str(chunk).expect("JSON")).collect()
}

fn kinds(chunks: &[Value]) -> Vec<&str> {
    chunks.iter().map(|chunk| text(chunk, "type")).collect()
}

async fn parts(client: &Client) -> Vec<Value> {
    let chat = client.get("/ai/a/t").await.ok(200);
    let messages = chat["messages"].as_array().expect("messages").clone();
    messages.last().expect("a message")["parts"].as_array().expect("parts").clone()
}

fn shown(parts: &[Value]) -> Vec<String> {
    let words = |part: &Value| part["text"].as_str().or(part["toolCallId"].as_str()).map(str::to_owned);
    parts.iter().filter_map(words).collect()
}

everywhere! {
    async fn a_replay_has_the_chunks_of_the_stream_and_the_chat_what_they_build(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let live = open(send_to(&dev, &chat(json!([asks("u", "hi")])))).await;
        assert_eq!(live.headers()["x-vercel-ai-ui-message-stream"], "v1");
        let mut call = agent.call().await;
        call.say(&said("m", "hel")).await;
        call.say(&called("c")).await;
        let replay = open(dev.request(Method::GET, "/ai/a/t/stream")).await;
        let chat_now = eventually("the call is in the log", async || {
            let chat = dev.get("/ai/a/t").await.ok(200);
            chat["messages"][1]["parts"].as_array().is_some_and(|parts| shown(parts) == ["hel", "c"]).then_some(chat)
        })
        .await;
        let run = text(&chat_now, "activeRunId").to_owned();
        assert_eq!((&chat_now["messages"][1]["id"], &chat_now["hasMore"]), (&json!(run), &json!(false)));
        call.finish(&[&carried_out("d")[..], &[finished(&run)]].concat()).await;
        let (live, replay) = (soon(live.text()).await.expect("whole"), soon(replay.text()).await.expect("whole"));
        assert_eq!(chunks(&live), chunks(&replay));
        assert_eq!(kinds(&chunks(&live))[..3], ["start", "start-step", "text-start"]);
        assert_eq!(chunks(&live).last(), Some(&json!({ "type": "finish", "finishReason": "tool-calls" })));
        let parts = parts(&dev).await;
        assert_eq!(shown(&parts), ["hel", "c", "d"]);
        assert_eq!((&parts[2]["state"], &parts[3]["state"]), (&json!("input-available"), &json!("output-available")));
        assert_eq!(send(dev.request(Method::GET, "/ai/a/t/stream")).await.status, 204);
        assert_eq!(dev.get("/ai/a/t").await.ok(200)["messages"][0], asks("u", "hi"));
    }
}

everywhere! {
    async fn a_run_that_brings_results_continues_the_message(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let mut body = chat(json!([asks("u", "hi")]));
        body["tools"] = json!([{ "name": "pay", "description": "Pays", "parameters": {} }]);
        let first = open(send_to(&dev, &body)).await;
        let mut call = agent.call().await;
        call.say(&called("c")).await;
        let run = call.input()["runId"].as_str().expect("an id").to_owned();
        call.finish(&[finished(&run)]).await;
        let told = chunks(&soon(first.text()).await.expect("whole"));
        assert_eq!(told[2]["providerExecuted"], json!(false), "the page has supplied the tool");
        let part = json!({ "type": "dynamic-tool", "toolName": "pay", "toolCallId": "c", "state": "output-available", "output": { "ok": true } });
        let body = chat(json!([asks("u", "hi"), { "id": run, "role": "assistant", "parts": [part] }]));
        let second = open(send_to(&dev, &body)).await;
        let mut call = agent.call().await;
        assert_eq!(call.input()["messages"].as_array().and_then(|all| all.last()), Some(&json!({ "id": "c:result", "role": "tool", "toolCallId": "c", "content": "{\"ok\":true}" })));
        call.say(&said("m", "Paid.")).await;
        let replay = open(dev.request(Method::GET, "/ai/a/t/stream")).await;
        let next = call.input()["runId"].as_str().expect("an id").to_owned();
        call.finish(&[finished(&next)]).await;
        let second = chunks(&soon(second.text()).await.expect("whole"));
        assert_eq!(second[0], json!({ "type": "start", "messageId": run, "messageMetadata": { "runId": next } }));
        assert_eq!(kinds(&second), ["start", "tool-output-available", "start-step", "text-start", "text-delta", "text-end", "finish-step", "finish"]);
        // A replay has the message from its beginning, in one stream.
        let replay = chunks(&soon(replay.text()).await.expect("whole"));
        assert_eq!(replay[0]["messageId"], json!(run));
        assert_eq!(kinds(&replay).iter().filter(|kind| matches!(**kind, "start" | "finish")).count(), 2);
        assert!(kinds(&replay).contains(&"tool-input-available") && kinds(&replay).ends_with(&kinds(&second)[1..]));
        assert_eq!(shown(&parts(&dev).await), ["c", "Paid."]);
        // A call of the agent's own takes no result of a page, and nothing new is nothing to send.
        send(send_to(&dev, &body)).await.problem(400, "invalid-request");
        assert_eq!(agent.requests(), 2);
    }
}

everywhere! {
    async fn a_request_to_answer_again_is_one_branch_however_often_it_comes(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let first = open(send_to(&dev, &chat(json!([asks("u", "hi")])))).await;
        let call = agent.call().await;
        let run = call.input()["runId"].as_str().expect("an id").to_owned();
        call.finish(&whole(&run, "m", "one")).await;
        soon(first.text()).await.expect("whole");
        let again = json!({ "id": "t", "trigger": "regenerate-message", "messageId": run, "messages": [asks("u", "hi")] });
        let streams = [open(send_to(&dev, &again)).await, open(send_to(&dev, &again)).await];
        let call = agent.call().await;
        let second = call.input()["runId"].as_str().expect("an id").to_owned();
        call.finish(&whole(&second, "n", "two")).await;
        for stream in streams {
            assert_eq!(chunks(&soon(stream.text()).await.expect("whole"))[0]["messageId"], json!(second));
        }
        assert_eq!(shown(&parts(&dev).await), ["two"]);
        let branches = dev.get("/v1/threads/t/branches").await.ok(200);
        assert_eq!((branches["branches"].as_array().map(Vec::len), agent.requests()), (Some(2), 2));
        // The new answer may be made again, too.
        let third = json!({ "id": "t", "trigger": "regenerate-message", "messageId": second, "messages": [asks("u", "hi")] });
        let stream = open(send_to(&dev, &third)).await;
        let call = agent.call().await;
        let run = call.input()["runId"].as_str().expect("an id").to_owned();
        call.finish(&whole(&run, "o", "three")).await;
        soon(stream.text()).await.expect("whole");
        assert_eq!(shown(&parts(&dev).await), ["three"]);
        // From the branch of the first answer, the same request is for another answer than the one that it has begun.
        dev.put("/v1/threads/t/branches/listed", json!({ "threadId": "t" })).await.ok(200);
        let stream = open(send_to(&dev, &again)).await;
        let call = agent.call().await;
        let run = call.input()["runId"].as_str().expect("an id").to_owned();
        call.finish(&whole(&run, "q", "five")).await;
        soon(stream.text()).await.expect("whole");
        assert_eq!(shown(&parts(&dev).await), ["five"]);
        // An edit begins before the message, with its id.
        let edit = json!({ "id": "t", "trigger": "submit-message", "messageId": "u", "messages": [asks("u", "bye")] });
        let stream = open(send_to(&dev, &edit)).await;
        let call = agent.call().await;
        assert_eq!(call.input()["messages"], json!([user("u", "bye")]));
        let run = call.input()["runId"].as_str().expect("an id").to_owned();
        call.finish(&whole(&run, "p", "four")).await;
        soon(stream.text()).await.expect("whole");
        assert_eq!(dev.get("/ai/a/t").await.ok(200)["messages"][0], asks("u", "bye"));
    }
}

everywhere! {
    async fn a_chat_refuses_what_it_cannot_answer(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        for bad in [
            json!({}),
            json!({ "id": "t" }),
            json!({ "id": "t", "messages": [] }),
            json!({ "id": "t", "messages": 7 }),
            json!({ "id": "", "messages": [asks("u", "hi")] }),
            json!({ "id": "t", "trigger": "resume-stream", "messages": [asks("u", "hi")] }),
            chat(json!([{ "id": "u", "role": "user", "parts": [] }])),
            chat(json!([{ "id": "s", "role": "system", "parts": [{ "type": "text", "text": "x" }] }])),
            chat(json!([{ "id": "a", "role": "assistant", "parts": [{ "type": "text", "text": "x" }] }])),
            json!({ "id": "t", "trigger": "regenerate-message", "messages": [] }),
        ] {
            send(send_to(&dev, &bad)).await.problem(400, "invalid-request");
        }
        dev.get("/ai/a/t").await.problem(404, "thread-not-found");
        dev.get("/ai/nobody/t/stream").await.problem(404, "agent-not-found");
        dev.post("/ai/a/t/stop", json!({})).await.problem(404, "thread-not-found");
        assert_eq!(agent.requests(), 0);
        // A request that waits gets its message once the run has begun.
        let first = open(send_to(&dev, &chat(json!([asks("u", "hi")])))).await;
        let call = agent.call().await;
        send(send_to(&dev, &chat(json!([asks("v", "more")])))).await.problem(409, "run-active");
        let waits = open(send_to(&dev, &chat(json!([asks("v", "more")]))).header("threadline-busy", "enqueue")).await;
        let readers = dev.get("/v1/threads/t/subscriptions").await.ok(200);
        let readers = readers["subscriptions"].as_array().expect("a list");
        let transports: Vec<&str> = readers.iter().map(|reader| text(reader, "transport")).collect();
        assert_eq!(transports, ["ai-sdk", "ai-sdk"], "the message, and the one that waits");
        let run = call.input()["runId"].as_str().expect("an id").to_owned();
        call.finish(&whole(&run, "m", "one")).await;
        let call = agent.call().await;
        let run = call.input()["runId"].as_str().expect("an id").to_owned();
        call.finish(&whole(&run, "n", "two")).await;
        soon(first.text()).await.expect("whole");
        assert_eq!(chunks(&soon(waits.text()).await.expect("whole"))[0]["messageId"], json!(run));
        assert_eq!(dev.post("/ai/a/t/stop", json!({})).await.ok(200), json!({ "success": true }));
    }
}

/// A browser may cut a text within a character.
#[tokio::test]
async fn a_text_that_was_cut_within_a_character_is_named() {
    harness::run(harness::Options::memory(), async |server| {
        let dev = server.client();
        let agent = agent(&dev).await;
        let said = r#"{"id":"u","role":"user","parts":[{"type":"text","text":"x\ud83d"}]}"#;
        for (members, named) in [
            (format!(r#""messages":[{{"id":"v","role":"user"}},{said}]"#), "messages/1/parts/0/text"),
            (format!(r#""message":{said}"#), "message/parts/0/text"),
        ] {
            let body = format!(r#"{{"id":"t",{members}}}"#);
            let request = dev.request(Method::POST, "/ai/a").header("content-type", "application/json").body(body);
            let refused = send(request).await.problem(400, "invalid-request");
            let detail = text(&refused, "detail");
            assert!(detail.starts_with(&format!("{named} has half of a surrogate pair")), "{detail}");
        }
        assert_eq!(agent.requests(), 0);
    })
    .await;
}

/// A handshake at the socket of an agent's chats.
fn at_chats(client: &Client, agent: &str) -> handshake::client::Request {
    let mut request = socket::handshake(client);
    *request.uri_mut() = format!("ws://{}/ai/{agent}", client.addr).parse().expect("a URL");
    request.headers_mut().remove("sec-websocket-protocol");
    request
}

everywhere! {
    async fn a_socket_answers_each_frame_within_its_scopes(server: |options| options.with_key("secret").with_agent_networks(vec![Network::Loopback])) {
        let agent = agent(&server.project()).await;
        let ann = |client: Client| Client { user: Some("ann".into()), ..client };
        let open = async |client: &Client| Socket::connect(at_chats(client, "a")).await.expect("a socket").0;
        let send = |id: &str| json!({ "type": "send", "requestId": id, "id": "t", "trigger": "submit-message", "messages": [asks("u", "hi")], "headers": {}, "body": { "plan": "gold" } });
        let resume = |id: &str| json!({ "type": "resume", "requestId": id, "id": "t", "headers": {} });
        let reader = ann(key(server, "default", &[Scope::Read]).await);
        let mut socket = open(&reader).await;
        socket.send(send("1")).await;
        assert_eq!(socket.any().await["type"], "error");
        socket.send(resume("2")).await;
        assert_eq!(socket.any().await, json!({ "type": "no-active", "requestId": "2" }));

        let mut chatting = open(&ann(key(server, "default", &[Scope::Read, Scope::Chat]).await)).await;
        chatting.send(send("1")).await;
        let mut call = agent.call().await;
        assert_eq!((&call.input()["forwardedProps"]["plan"], call.input()["messages"].as_array().map(Vec::len)), (&json!("gold"), Some(1)));
        assert_eq!(chatting.any().await, json!({ "type": "start", "requestId": "1" }));
        call.say(&said("m", "hel")).await;
        // The id of a request is taken until it is answered, and frames of other requests come between.
        chatting.send(send("1")).await;
        chatting.send(resume("2")).await;
        chatting.send(json!({ "type": "nonsense", "requestId": "3" })).await;
        let run = call.input()["runId"].as_str().expect("an id").to_owned();
        let (mut seen, mut ended) = (HashMap::<String, Vec<Value>>::new(), 0);
        let mut call = Some(call);
        while ended < 2 {
            let frame = chatting.any().await;
            ended += usize::from(frame["type"] == "end");
            let of = seen.entry(text(&frame, "requestId").to_owned()).or_default();
            of.push(frame);
            let words = |id: &str| seen.get(id).is_some_and(|all| all.iter().any(|frame| frame["chunk"]["delta"] == "hel"));
            if words("1") && words("2") && seen.contains_key("3")
                && let Some(call) = call.take()
            {
                call.finish(&[finished(&run)]).await;
            }
        }
        assert_eq!(seen["3"][0]["type"], "error");
        let refused = seen.get_mut("1").expect("frames");
        let at = refused.iter().position(|frame| frame["type"] == "error").expect("the id is taken");
        refused.remove(at);
        let chunks = |id: &str| seen[id].iter().filter(|frame| frame["type"] == "chunk").map(|frame| frame["chunk"].clone()).collect::<Vec<_>>();
        assert_eq!(chunks("1"), chunks("2"));
        for id in ["1", "2"] {
            let numbers = seen[id].iter().filter_map(|frame| frame["sequence"].as_u64());
            assert!(numbers.eq(0..chunks(id).len() as u64), "{id}");
        }
        // A frame that is none ends the socket, and a handshake needs an agent and a scope.
        chatting.send_text("[1]").await;
        assert_eq!(chatting.closed().await.1, 4500);
        for (client, agent, status) in [
            (ann(key(server, "default", &[Scope::Approve]).await), "a", 403),
            (reader, "nobody", 404),
        ] {
            match Socket::connect(at_chats(&client, agent)).await {
                Err(Error::Http(response)) => assert_eq!(response.status(), status),
                other => panic!("{:?}", other.map(|_| "a socket")),
            }
        }
    }
}

everywhere! {
    async fn a_producer_supersedes_nothing(server) {
        let dev = server.client();
        agent(&dev).await;
        dev.thread("t").await;
        dev.run("t", "r").await;
        let forged = json!({ "type": "CUSTOM", "name": "threadline.attempt", "value": { "attempt": 2, "superseded": [1, 1] } });
        dev.append("t", "r", 1, json!([&said("m", "kept")[..], &[forged]].concat())).await.ok(200);
        let replay = open(dev.request(Method::GET, "/ai/a/t/stream")).await;
        dev.act("t", "r", "finish").await.ok(200);
        let replay = chunks(&soon(replay.text()).await.expect("whole"));
        assert!(replay.iter().any(|chunk| chunk["delta"] == "kept"));
        assert_eq!(shown(&parts(&dev).await), ["kept"]);
    }
}

#[tokio::test]
async fn what_another_attempt_has_superseded_is_in_no_replay() {
    let lost = [said("a0", "first").as_slice(), &carried_out("c"), &called("d"), &said("a1", "half")[..2]].concat();
    let (_directory, server, agent, _) = restarted(continues(), &lost).await;
    let dev = server.client();
    let mut call = agent.call().await;
    call.say(&said("a2", "the rest")).await;
    let replay = open(dev.request(Method::GET, "/ai/a/t/stream")).await;
    call.finish(&[finished("r")]).await;
    let replay = chunks(&soon(replay.text()).await.expect("whole"));
    ended(&dev, "r").await;
    let texts: Vec<_> = replay.iter().filter_map(|chunk| chunk["delta"].as_str()).collect();
    assert_eq!(texts, ["first", "the rest"]);
    let calls: Vec<_> = replay.iter().filter(|chunk| chunk["type"] == "tool-input-start").collect();
    assert_eq!((calls.len(), &calls[0]["toolCallId"]), (1, &json!("c")));
    assert_eq!(shown(&parts(&dev).await), ["first", "c", "the rest"]);
    server.stop().await;
}
