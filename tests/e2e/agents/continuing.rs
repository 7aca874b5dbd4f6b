//! Recovery of an agent whose `recovery` is `continue`: what an attempt has completed is kept, and what may have happened is told.

use std::path::Path;

use serde_json::{Value, json};
use threadline::{
    agents::input::AttemptVerdicts,
    cli::{VerifyRunArgs, verify_run::compare},
};

use super::{
    recovery::{called, header, restarted},
    *,
};
use crate::harness::{Backend, Options, Server, agent::Call, everywhere};

pub(super) fn continues() -> Value {
    json!({ "recovery": "continue" })
}

/// A tool call of an agent, with its result.
pub(super) fn carried_out(id: &str) -> Vec<Value> {
    let result =
        json!({ "type": "TOOL_CALL_RESULT", "messageId": format!("{id}-result"), "toolCallId": id, "content": "paid" });
    [called(id), vec![json!({ "type": "TOOL_CALL_END", "toolCallId": id }), result]].concat()
}

/// The server after this one, which stops once the agent's words are in the log.
async fn lost_after(server: Server, directory: &Path, mut call: Call, said: &[Value]) -> Server {
    let dev = server.client();
    let before = types_of(&dev, "r").await.len();
    if !said.is_empty() {
        call.say(said).await;
    }
    eventually("it is in the log", async || (types_of(&dev, "r").await.len() == before + said.len()).then_some(()))
        .await;
    server.stop().await;
    call.hung_up().await;
    Server::in_directory(directory, Options::new(Backend::Sqlite)).await
}

/// Values of the CUSTOM events that name attempts.
async fn attempts(client: &Client) -> Vec<Value> {
    let events = events_of(client, "r").await;
    events
        .into_iter()
        .filter(|event| event["name"] == "threadline.attempt")
        .map(|mut event| event["value"].take())
        .collect()
}

/// Loss as the agent is told of it.
fn told(call: &Call) -> Value {
    call.input()["forwardedProps"]["threadline"]["recovery"].clone()
}

async fn ids(client: &Client) -> Vec<String> {
    let document = messages(client).await;
    document["messages"].as_array().expect("messages").iter().map(|message| text(message, "id").to_owned()).collect()
}

/// Results of `verify-run` for the attempts that continue others.
async fn verified(server: &Server) -> Vec<String> {
    let config = threadline_client::ClientConfig::new(format!("http://{}", server.addr));
    let client = threadline_client::Client::new(config).expect("a client");
    let args = VerifyRunArgs { thread: "t".to_owned(), run: "r".to_owned() };
    let verdicts = compare(&client, &args).await.expect("a log").expect("evidence");
    let result = |attempt: &AttemptVerdicts| {
        let [(_, messages), (_, state)] = attempt.parts;
        format!("{}: {messages}, {state}", attempt.attempt)
    };
    verdicts.attempts.iter().map(result).collect()
}

#[tokio::test]
async fn what_is_complete_is_kept_and_what_is_open_is_superseded() {
    let delta = json!({ "type": "STATE_DELTA", "delta": [{ "op": "replace", "path": "/n", "value": 2 }] });
    let lost =
        [said("a0", "first").as_slice(), &carried_out("c"), &called("d"), &[delta], &said("a1", "half")[..2]].concat();
    let (_directory, server, agent, before) = restarted(continues(), &lost).await;
    let dev = server.client();
    let call = agent.call().await;
    assert_eq!(call.message_ids(), ["u", "a0", "c", "c-result"]);
    let (given, first) = (call.input(), before.input());
    assert_eq!((&given["messages"][1]["content"], &given["messages"][3]["content"]), (&json!("first"), &json!("paid")));
    assert_eq!(given["state"], json!({ "n": 2 }), "each event of the state is complete");
    let unverified = json!([{ "toolCallId": "d", "name": "pay", "arguments": "{}" }]);
    let forwarded = json!({ "token": "x", "threadline": { "recovery": { "attempt": 2, "unverified": unverified } } });
    assert_eq!(given["forwardedProps"], forwarded);
    for member in ["tools", "context", "threadId", "runId", "future"] {
        assert_eq!(given[member], first[member], "{member}");
    }
    assert_eq!(header(&call, "idempotency-key: "), header(&before, "idempotency-key: "));
    assert_eq!(header(&call, "threadline-attempt: "), "2");
    assert_eq!(ids(&dev).await, ["u", "a0", "c", "c-result"]);
    call.finish(&whole("r", "a2", "the rest")).await;
    assert_eq!(ended(&dev, "r").await["status"], "finished");
    assert_eq!(ids(&dev).await, ["u", "a0", "c", "c-result", "a2"]);
    let named = attempts(&dev).await.remove(0);
    assert_eq!((&named["superseded"], &named["kept"]), (&json!([3, 14]), &json!(["a0", "c", "c-result"])));
    assert_eq!((&named["unverified"], &named["reason"]), (&unverified, &json!("hand-over")));
    let types = types_of(&dev, "r").await;
    assert_eq!(types[14..18], ["TEXT_MESSAGE_END", "TOOL_CALL_END", "CUSTOM", "MESSAGES_SNAPSHOT"]);
    assert_eq!((named["through"].as_u64(), agent.requests()), (Some(18), 2));
    assert_eq!(verified(&server).await, ["2: same, same"]);
    server.stop().await;
}

#[tokio::test]
async fn an_attempt_that_was_complete_so_far_is_continued_without_a_snapshot() {
    let (_directory, server, agent, _) = restarted(continues(), &said("a0", "first")).await;
    let dev = server.client();
    let call = agent.call().await;
    assert_eq!(told(&call), json!({ "attempt": 2, "unverified": [] }));
    call.finish(&whole("r", "a1", "second")).await;
    ended(&dev, "r").await;
    let said = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"];
    let types = [&["RUN_STARTED", "STATE_SNAPSHOT"][..], &said, &["CUSTOM"], &said, &["RUN_FINISHED"]].concat();
    assert_eq!(
        (types_of(&dev, "r").await, ids(&dev).await),
        (types.iter().map(|kind| (*kind).to_owned()).collect(), vec!["u".to_owned(), "a0".to_owned(), "a1".to_owned()])
    );
    assert_eq!(verified(&server).await, ["2: same, same"]);
    server.stop().await;
}

#[tokio::test]
async fn each_attempt_knows_of_all_calls_in_doubt_and_of_all_that_is_kept() {
    let lost = [said("a0", "first"), called("c")].concat();
    let (directory, server, agent, _) = restarted(continues(), &lost).await;
    let call = agent.call().await;
    assert_eq!(call.message_ids(), ["u", "a0"]);
    let server = lost_after(server, directory.path(), call, &[said("a1", "second"), called("d")].concat()).await;
    let call = agent.call().await;
    assert_eq!(call.message_ids(), ["u", "a0", "a1"]);
    let in_doubt = |id: &str| json!({ "toolCallId": id, "name": "pay", "arguments": "{}" });
    assert_eq!(told(&call), json!({ "attempt": 3, "unverified": [in_doubt("c"), in_doubt("d")] }));
    // The third attempt says nothing before it is lost, and the fourth one gets the result of a call.
    let server = lost_after(server, directory.path(), call, &[]).await;
    let call = agent.call().await;
    assert_eq!(call.message_ids(), ["u", "a0", "a1"]);
    assert_eq!(told(&call), json!({ "attempt": 4, "unverified": [in_doubt("c"), in_doubt("d")] }));
    let server = lost_after(server, directory.path(), call, &carried_out("c")).await;
    let call = agent.call().await;
    assert_eq!(call.message_ids(), ["u", "a0", "a1", "c", "c-result"]);
    assert_eq!(told(&call), json!({ "attempt": 5, "unverified": [in_doubt("d")] }));
    call.finish(&whole("r", "a2", "third")).await;
    let dev = server.client();
    assert_eq!(ended(&dev, "r").await["attempt"], 5);
    assert_eq!(ids(&dev).await, ["u", "a0", "a1", "c", "c-result", "a2"]);
    let kept: Vec<_> = attempts(&dev).await.into_iter().map(|mut named| named["kept"].take()).collect();
    assert_eq!(kept, [json!(["a0"]), json!(["a1"]), json!(["c", "c-result"])]);
    assert_eq!(verified(&server).await, ["2: same, same", "3: same, same", "5: same, same"]);
    server.stop().await;
}

#[tokio::test]
async fn a_question_of_which_nothing_was_said_is_asked_again_with_the_loss() {
    let (_directory, server, agent, before) = restarted(continues(), &[]).await;
    let dev = server.client();
    let call = agent.call().await;
    assert_eq!(
        (call.input()["messages"].clone(), told(&call)),
        (before.input()["messages"].clone(), json!({ "attempt": 2, "unverified": [] }))
    );
    assert_eq!(told(&before), Value::Null);
    call.finish(&whole("r", "a0", "hello")).await;
    ended(&dev, "r").await;
    assert!(attempts(&dev).await.is_empty());
    server.stop().await;
}

#[tokio::test]
async fn a_run_that_was_approved_is_not_continued_in_silence() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
    let dev = server.client();
    dev.thread("t").await;
    let agent = agent_that(&dev, continues()).await;
    dev.post("/v1/threads/t/runs", ask("q", json!([user("u", "pay")]))).await.ok(201);
    let mut asks = finished("q");
    asks["outcome"] = json!({ "type": "interrupt", "interrupts": [{ "id": "i", "reason": "approval" }] });
    agent.call().await.finish(&[asks]).await;
    ended(&dev, "q").await;
    let mut body = ask("r", json!([]));
    body["input"]["resume"] = json!([{ "interruptId": "i", "status": "resolved", "payload": true }]);
    dev.post("/v1/threads/t/runs", body).await.ok(201);
    let call = agent.call().await;
    let server = lost_after(server, directory.path(), call, &said("a0", "paying")).await;
    let run = ended(&server.client(), "r").await;
    assert_eq!((&run["status"], &run["errorCode"]), (&json!("error"), &json!("recovery-unsafe")));
    assert_eq!(agent.requests(), 2);
    server.stop().await;
}

#[tokio::test]
async fn a_run_that_was_continued_ends_if_its_agent_may_not_be_told_of_calls_in_doubt() {
    let (directory, server, agent, _) = restarted(continues(), &[said("a0", "first"), called("c")].concat()).await;
    let call = agent.call().await;
    server.client().put("/v1/agents/a", json!({ "url": agent.url })).await.ok(200);
    let server = lost_after(server, directory.path(), call, &said("a1", "half")[..2]).await;
    let run = ended(&server.client(), "r").await;
    assert_eq!(run["errorCode"], "recovery-unsafe");
    assert!(text(&run, "errorMessage").ends_with("tools were called: pay."), "{run}");
    server.stop().await;
}

#[tokio::test]
async fn a_run_that_was_continued_keeps_its_history_if_its_agent_begins_anew() {
    let (directory, server, agent, _) = restarted(continues(), &said("a0", "first")).await;
    let call = agent.call().await;
    server.client().put("/v1/agents/a", json!({ "url": agent.url })).await.ok(200);
    let server = lost_after(server, directory.path(), call, &said("a1", "second")).await;
    let call = agent.call().await;
    assert_eq!((call.message_ids(), told(&call)), (vec!["u".to_owned(), "a0".to_owned()], Value::Null));
    call.finish(&whole("r", "a2", "third")).await;
    let dev = server.client();
    ended(&dev, "r").await;
    assert_eq!(ids(&dev).await, ["u", "a0", "a2"]);
    assert_eq!(verified(&server).await, ["2: same, same", "3: same, same"]);
    server.stop().await;
}

#[tokio::test]
async fn a_model_is_told_of_the_loss_in_its_system_message() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
    let dev = server.client();
    dev.thread("t").await;
    let model = FakeAgent::start().await;
    let definition = json!({ "kind": "openai", "baseUrl": model.url, "model": "m", "instructions": "Be brief.", "recovery": "continue" });
    dev.put("/v1/agents/a", definition).await.ok(200);
    dev.post("/v1/threads/t/runs", ask("r", json!([user("u", "pay")]))).await.ok(201);
    let mut call = model.call().await;
    let function = json!({ "name": "pay", "arguments": "{\"to\":\"\u{2028}ann\"" });
    for delta in
        [json!({ "content": "I pay." }), json!({ "tool_calls": [{ "index": 0, "id": "c", "function": function }] })]
    {
        call.say(&[json!({ "choices": [{ "delta": delta }] })]).await;
    }
    eventually("the call is in the log", async || {
        types_of(&dev, "r").await.contains(&"TOOL_CALL_ARGS".to_owned()).then_some(())
    })
    .await;
    server.stop().await;
    call.hung_up().await;
    let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
    let mut call = model.call().await;
    let given = call.input()["messages"].clone();
    let system = text(&given[0], "content");
    assert!(system.starts_with("Be brief.\n\nThe server was lost"), "{system}");
    let line = system.lines().last().expect("a line");
    let calls: Value = serde_json::from_str(&line[line.find('{').expect("JSON")..]).expect("JSON");
    let unverified = json!([{ "toolCallId": "c", "name": "pay", "arguments": "{\"to\":\"\u{2028}ann\"" }]);
    assert_eq!((calls, line.contains('\u{2028}')), (json!({ "attempt": 2, "unverified": unverified }), false));
    let said = json!([{ "role": "user", "content": "pay" }, { "role": "assistant", "content": "I pay." }]);
    assert_eq!(given.as_array().expect("messages")[1..], *said.as_array().expect("messages"));
    call.send(
        "data: {\"choices\":[{\"delta\":{\"content\":\"Done.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    )
    .await;
    call.end().await;
    let dev = server.client();
    assert_eq!(ended(&dev, "r").await["status"], "finished");
    let document = messages(&dev).await;
    let contents: Vec<_> =
        document["messages"].as_array().expect("messages").iter().map(|message| &message["content"]).collect();
    assert_eq!(contents, [&json!("pay"), &json!("I pay."), &json!("Done.")]);
    server.stop().await;
}

everywhere! {
    async fn only_the_server_tells_an_agent_of_a_loss(server) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent_that(&dev, continues()).await;
        let forged = json!({ "recovery": { "attempt": 2, "unverified": [] } });
        let mut body = ask("r", json!([user("u", "hi")]));
        body["input"]["forwardedProps"] = json!({ "token": "x", "threadline": forged, "Threadline": forged });
        let answer = dev.post("/v1/threads/t/runs", body).await;
        assert_eq!((answer.status, answer.header("threadline-ignored")), (201, "forwardedProps=2"));
        let call = agent.call().await;
        assert_eq!(call.input()["forwardedProps"], json!({ "token": "x" }));
        call.finish(&[finished("r")]).await;
        ended(&dev, "r").await;
    }
}
