//! Runs that begin at an older checkpoint of LangGraph's API.

use threadline::cli::{VerifyRunArgs, verify_run::compare};
use threadline_http::egress::Network;

use super::{
    continuing::continues,
    langgraph::{Page, ROOT, begin, command, last_values, names, says, texts},
    *,
};
use crate::{
    harness::{Backend, Options, everywhere},
    identity::bearer,
};

fn snapshot(n: u64) -> Value {
    json!({ "type": "STATE_SNAPSHOT", "snapshot": { "n": n } })
}

/// A thread in which an agent has answered two messages, and the checkpoints after its runs, the newest first.
async fn answered(client: &Client, agent: &FakeAgent) -> Vec<String> {
    for (message, asked, answer, n) in [("u", "hi", "hello", 1), ("v", "how?", "well", 2)] {
        let (run, _) = begin(client, message, asked).await;
        let events = [&[snapshot(n)], &whole(&run, &format!("{message}-m"), answer)[..]].concat();
        agent.call().await.finish(&events).await;
        ended(client, &run).await;
    }
    checkpoints(client).await
}

async fn history(client: &Client) -> Vec<Value> {
    let states = client.post("/langgraph/threads/t/history", json!({ "limit": 10 })).await.ok(200);
    states.as_array().expect("states").clone()
}

async fn checkpoints(client: &Client) -> Vec<String> {
    history(client).await.iter().map(|state| text(&state["checkpoint"], "checkpoint_id").to_owned()).collect()
}

/// Parameters of a start at a checkpoint.
fn at(checkpoint: &str, id: &str, said: &str) -> Value {
    let mut params = says(id, said);
    params["config"]["configurable"]["checkpoint_id"] = json!(checkpoint);
    params
}

async fn start_at(client: &Client, params: Value) -> String {
    let started = command(client, "run.start", params).await;
    assert_eq!(started["type"], "success", "{started}");
    text(&started["result"], "run_id").to_owned()
}

/// Results of `verify-run`.
async fn verified(server: &Server, run: &str) -> Vec<String> {
    let args = VerifyRunArgs { thread: "t".to_owned(), run: run.to_owned() };
    let found = compare(&threads_of(server), &args).await.expect("a log").expect("evidence");
    let of_attempts = found.attempts.iter().flat_map(|attempt| attempt.parts);
    found.parts.into_iter().take(2).chain(of_attempts).map(|(part, verdict)| format!("{part} {verdict}")).collect()
}

fn contents(messages: &Value) -> Vec<&str> {
    messages.as_array().expect("messages").iter().map(|message| text(message, "content")).collect()
}

everywhere! {
    async fn a_run_that_begins_at_an_older_checkpoint_takes_back_what_came_after_it(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let before = answered(&dev, &agent).await;
        let mut page = Page::open(&dev, &ROOT).await;
        page.run().await;
        let run = start_at(&dev, at(&before[1], "w", "why?")).await;
        let call = agent.call().await;
        let input = call.input();
        assert_eq!((contents(&input["messages"]), &input["state"]), (vec!["hi", "hello", "why?"], &json!({ "n": 1 })));
        assert_eq!(types_of(&dev, &run).await, ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT"]);
        call.finish(&whole(&run, "o", "because")).await;
        let told = page.run().await;
        assert_eq!(names(&told)[0], "running");
        assert_eq!((texts(last_values(&told)), &last_values(&told)["n"]), (vec!["hi", "hello", "why?", "because"], &json!(1)));
        assert_eq!(contents(&messages(&dev).await["messages"]), ["hi", "hello", "why?", "because"]);
        // The history has all states, and tells which one the run went on from.
        let states = history(&dev).await;
        assert_eq!(checkpoints(&dev).await[1..], before);
        assert_eq!(states[0]["parent_checkpoint"]["checkpoint_id"], json!(before[1]));
        assert_eq!(texts(&states[1]["values"]), ["hi", "hello", "how?", "well"]);
        let first = events_of(&dev, &run).await.remove(0);
        assert_eq!(first["parentRunId"], states[2]["metadata"]["run_id"]);
        assert_eq!(verified(server, &run).await, ["messages same", "state same"]);
        // A command whose response was lost is sent again.
        assert_eq!(start_at(&dev, at(&before[1], "w", "why?")).await, run);
        assert_eq!(agent.requests(), 3);
    }
}

everywhere! {
    async fn a_message_is_edited_and_an_answer_made_again_at_its_checkpoint(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let before = answered(&dev, &agent).await;
        // The client sends the edited message under the same id, at the checkpoint before it.
        let mut edited = at(&before[1], "v", "how are you?");
        edited["input"]["n"] = json!(7);
        let run = start_at(&dev, edited).await;
        let call = agent.call().await;
        assert_eq!(contents(&call.input()["messages"]), ["hi", "hello", "how are you?"]);
        assert_eq!(call.input()["state"], json!({ "n": 7 }));
        call.finish(&whole(&run, "p", "fine")).await;
        ended(&dev, &run).await;
        assert_eq!(contents(&messages(&dev).await["messages"]), ["hi", "hello", "how are you?", "fine"]);
        assert_eq!(verified(server, &run).await, ["messages same", "state same"]);
        // The answer is made again: a start without a message, at the checkpoint of the question.
        let question = dev.get(&format!("/v1/threads/t/runs/{run}")).await.ok(200)["firstSeq"].as_u64().expect("a seq") + 2;
        let mut again = at(&format!("{question:016}"), "", "");
        again["input"] = Value::Null;
        for answer in ["great", "so so"] {
            let run = start_at(&dev, again.clone()).await;
            let call = agent.call().await;
            assert_eq!(contents(&call.input()["messages"]), ["hi", "hello", "how are you?"]);
            call.finish(&whole(&run, answer, answer)).await;
            ended(&dev, &run).await;
            assert_eq!(contents(&messages(&dev).await["messages"]), ["hi", "hello", "how are you?", answer]);
            assert_eq!(verified(server, &run).await, ["messages same", "state same"]);
        }
        // Before the first event, there is nothing.
        let run = start_at(&dev, at("0000000000000000", "x", "anew")).await;
        let call = agent.call().await;
        assert_eq!((contents(&call.input()["messages"]), &call.input()["state"]), (vec!["anew"], &json!({})));
        call.finish(&whole(&run, "q", "yes")).await;
        ended(&dev, &run).await;
        assert_eq!(contents(&messages(&dev).await["messages"]), ["anew", "yes"]);
        assert_eq!(history(&dev).await[0]["parent_checkpoint"], Value::Null);
    }
}

everywhere! {
    async fn a_start_at_an_older_checkpoint_neither_waits_nor_overtakes(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let before = answered(&dev, &agent).await;
        let beyond = command(&dev, "run.start", at("0000000000009999", "w", "why?")).await;
        assert_eq!(beyond["error"], "invalid_argument");
        assert!(text(&beyond, "message").contains("0000000000009999"), "{beyond}");
        let (run, _) = begin(&dev, "x", "go on").await;
        let mut asks = finished(&run);
        asks["outcome"] = json!({ "type": "interrupt", "interrupts": [{ "id": "i", "reason": "confirm" }] });
        let call = agent.call().await;
        let active = dev.get("/langgraph/threads/t/state").await.ok(200);
        for checkpoint in [&*before[1], text(&active["checkpoint"], "checkpoint_id")] {
            let refused = command(&dev, "run.start", at(checkpoint, "w", "why?")).await;
            assert_eq!(refused["error"], "invalid_argument", "{refused}");
        }
        assert_eq!(dev.get("/langgraph/threads/t/runs?status=pending").await.ok(200), json!([]));
        call.finish(&[asks]).await;
        ended(&dev, &run).await;
        // An open interrupt is answered first.
        let refused = command(&dev, "run.start", at(&before[1], "w", "why?")).await;
        assert!(text(&refused, "message").contains('i'), "{refused}");
        assert_eq!(contents(&messages(&dev).await["messages"]), ["hi", "hello", "how?", "well", "go on"]);
        let answered = command(&dev, "input.respond", json!({ "interrupt_id": "i", "response": true })).await;
        let next = text(&answered["result"], "run_id").to_owned();
        agent.call().await.finish(&whole(&next, "r", "done")).await;
        ended(&dev, &next).await;
        // At the checkpoint of the question, the interrupt was open. It is answered since.
        let asked = history(&dev).await[1]["checkpoint"].clone();
        let run = start_at(&dev, at(text(&asked, "checkpoint_id"), "w", "why?")).await;
        let call = agent.call().await;
        assert_eq!(contents(&call.input()["messages"]), ["hi", "hello", "how?", "well", "go on", "why?"]);
        call.finish(&whole(&run, "s", "so")).await;
        ended(&dev, &run).await;
        assert_eq!(dev.get("/langgraph/threads/t").await.ok(200)["status"], "idle");
    }
}

everywhere! {
    async fn a_user_may_go_back_with_the_scopes_of_a_chat(server: |options| options.with_key("secret").with_agent_networks(vec![Network::Loopback])) {
        let agent = FakeAgent::start().await;
        server.project().put("/v1/agents/a", json!({ "url": agent.url })).await.ok(200);
        let made = server.project().post("/v1/tokens", json!({ "userId": "ann", "scopes": ["read", "chat"] })).await.ok(201);
        let ann = bearer(server, text(&made, "token"));
        let before = answered(&ann, &agent).await;
        let run = start_at(&ann, at(&before[1], "w", "why?")).await;
        let call = agent.call().await;
        assert_eq!(contents(&call.input()["messages"]), ["hi", "hello", "why?"]);
        assert_eq!(call.input()["state"], json!({ "n": 1 }), "the agent leaves the state to its clients");
        call.finish(&whole(&run, "o", "because")).await;
        ended(&ann, &run).await;
        assert_eq!(contents(&messages(&ann).await["messages"]), ["hi", "hello", "why?", "because"]);
        // A state that the user must not set is not set by going back, either.
        let ask_of = async |run: &str, message: Value| {
            let project = server.project();
            project.post("/v1/threads/t/runs", ask(run, json!([message]))).await.ok(201);
            let call = agent.call().await;
            call.finish(&[&[snapshot(3)], &whole(run, &format!("{run}-m"), "yes")[..]].concat()).await;
            ended(&project, run).await;
        };
        ask_of("s", user("s-u", "on")).await;
        let definition = json!({ "url": agent.url, "clientMay": { "state": false } });
        server.project().put("/v1/agents/a", definition).await.ok(200);
        let run = start_at(&ann, at(&before[1], "x", "what?")).await;
        let call = agent.call().await;
        assert_eq!((contents(&call.input()["messages"]), &call.input()["state"]), (vec!["hi", "hello", "what?"], &json!({ "n": 3 })));
        call.finish(&whole(&run, "p", "that")).await;
        ended(&ann, &run).await;
        // Nor does a user take back an instruction; a backend does.
        ask_of("i", json!({ "id": "i-s", "role": "system", "content": "Be kind." })).await;
        let refused = command(&ann, "run.start", at(&before[1], "y", "no?")).await;
        assert_eq!(refused["error"], "invalid_argument");
        assert!(text(&refused, "message").contains("instructions"), "{refused}");
        let run = start_at(&server.project(), at(&before[1], "z", "and now?")).await;
        let call = agent.call().await;
        assert_eq!(contents(&call.input()["messages"]), ["hi", "hello", "and now?"]);
        call.finish(&whole(&run, "q", "so")).await;
        ended(&ann, &run).await;
        let made = server.project().post("/v1/tokens", json!({ "userId": "ann", "scopes": ["read"] })).await.ok(201);
        let reader = bearer(server, text(&made, "token"));
        reader.post("/langgraph/threads/t/commands", json!({ "method": "run.start", "params": at(&before[1], "y", "no") })).await.problem(403, "forbidden");
    }
}

#[tokio::test]
async fn a_takeover_begins_again_where_the_run_went_back_to() {
    for definition in [json!({}), continues()] {
        let directory = tempfile::tempdir().expect("a directory");
        let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
        let dev = server.client();
        let agent = agent_that(&dev, definition.clone()).await;
        let before = answered(&dev, &agent).await;
        let run = start_at(&dev, at(&before[1], "w", "why?")).await;
        let mut call = agent.call().await;
        let first = call.input();
        let lost = [said("lost", "whole"), said("half", "half")[..2].to_vec()].concat();
        call.say(&lost).await;
        eventually("it is in the log", async || (types_of(&dev, &run).await.len() == 8).then_some(())).await;
        server.stop().await;
        call.hung_up().await;
        let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
        let dev = server.client();
        let call = agent.call().await;
        let kept: &[&str] = if definition == json!({}) { &[] } else { &["whole"] };
        assert_eq!(contents(&call.input()["messages"]), [&["hi", "hello", "why?"], kept].concat());
        assert_eq!(call.input()["state"], first["state"]);
        call.finish(&whole(&run, "o", "because")).await;
        ended(&dev, &run).await;
        assert_eq!(
            contents(&messages(&dev).await["messages"]),
            [&["hi", "hello", "why?"], kept, &["because"]].concat()
        );
        assert!(verified(&server, &run).await.iter().all(|part| part.ends_with("same")));
        server.stop().await;
    }
}
