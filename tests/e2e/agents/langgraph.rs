//! The API of LangGraph's agent server. Its packages themselves are in `tests/real/node/langgraph.test.mjs`.

use threadline_core::Scope;
use threadline_http::egress::Network;

use super::{continuing::carried_out, recovery::restarted, *};
use crate::{
    harness::{everywhere, http::send, sse::Events},
    identity::key,
};

const STREAM: &str = "/langgraph/threads/t/stream/events";
/// Channels of the stream that a page reads.
pub(super) const ROOT: [&str; 6] = ["values", "checkpoints", "lifecycle", "input", "messages", "tools"];

pub(super) async fn command(client: &Client, method: &str, params: Value) -> Value {
    let command = json!({ "id": 7, "method": method, "params": params });
    let answer = client.post("/langgraph/threads/t/commands", command).await.ok(200);
    assert_eq!(answer["id"], 7);
    answer
}

/// Parameters of a start with this message.
pub(super) fn says(id: &str, text: &str) -> Value {
    let messages = json!([{ "type": "human", "id": id, "content": text }]);
    json!({ "assistant_id": "a", "input": { "messages": messages }, "config": { "configurable": { "thread_id": "t" } } })
}

/// Starts a run; returns its id, and the number through which the log was applied.
pub(super) async fn begin(client: &Client, id: &str, text: &str) -> (String, u64) {
    let started = command(client, "run.start", says(id, text)).await;
    assert_eq!(started["type"], "success", "{started}");
    let through = started["meta"]["applied_through_seq"].as_u64().expect("a number");
    (started["result"]["run_id"].as_str().expect("an id").to_owned(), through)
}

/// Stream of events to a page.
pub(super) struct Page(Events);

impl Page {
    pub(super) async fn open(client: &Client, channels: &[&str]) -> Self {
        Self::with(client, json!({ "channels": channels, "namespaces": [[]], "depth": 1 })).await
    }

    async fn with(client: &Client, body: Value) -> Self {
        Self(Events::open(client.request(Method::POST, STREAM).json(&body)).await)
    }

    /// The next event.
    async fn next(&mut self) -> Value {
        loop {
            let event = self.0.next().await.expect("the stream stays open");
            if event.comment.is_none() {
                let data = event.json();
                assert_eq!(
                    (event.event.as_deref(), event.id),
                    (data["method"].as_str(), Some(data["seq"].to_string()))
                );
                assert_eq!((&data["type"], &data["params"]["namespace"]), (&json!("event"), &json!([])));
                return data;
            }
        }
    }

    /// Events up to the first one of which this is true.
    async fn until(&mut self, is_last: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            events.push(self.next().await);
            if is_last(&events[events.len() - 1]) {
                return events;
            }
        }
    }

    /// Events up to the end of a run.
    pub(super) async fn run(&mut self) -> Vec<Value> {
        self.until(|event| {
            let name = event["params"]["data"]["event"].as_str().unwrap_or_default();
            event["method"] == "lifecycle" && name != "running"
        })
        .await
    }
}

/// Name of an event: its own, or its method.
pub(super) fn name(event: &Value) -> &str {
    event["params"]["data"]["event"].as_str().unwrap_or_else(|| text(event, "method"))
}

pub(super) fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(name).collect()
}

/// Events without those of values and checkpoints, of which a replay leaves out some.
pub(super) fn lasting(events: &[Value]) -> Vec<&Value> {
    events.iter().filter(|event| !matches!(text(event, "method"), "values" | "checkpoints")).collect()
}

pub(super) fn last_values(events: &[Value]) -> &Value {
    let values = events.iter().rfind(|event| event["method"] == "values").expect("values");
    &values["params"]["data"]
}

pub(super) fn texts(values: &Value) -> Vec<&str> {
    values["messages"].as_array().expect("messages").iter().map(|message| text(message, "content")).collect()
}

everywhere! {
    async fn a_run_is_the_same_live_and_replayed_and_the_stream_stays_open_for_the_next(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let (run, through) = begin(&dev, "u", "add").await;
        let mut live = Page::open(&dev, &ROOT).await;
        let mut watcher = Page::open(&dev, &["lifecycle", "input"]).await;
        let mut call = agent.call().await;
        assert_eq!(call.input()["messages"], json!([user("u", "add")]));
        // The start of the run is read by itself, since only the last of several checkpoints in one delivery is told.
        let mut told = live.until(|event| event["method"] == "values").await;
        assert_eq!(names(&told), ["running", "checkpoints", "values"]);
        call.say(&said("m", "hello")).await;
        call.say(&carried_out("c")).await;
        call.finish(&[&said("n", "done")[..], &[finished(&run)]].concat()).await;
        told.extend(live.run().await);
        assert_eq!(names(&told)[told.len() - 3..], ["checkpoints", "values", "completed"], "{told:?}");
        assert!(told.windows(2).all(|pair| pair[0]["seq"].as_u64() < pair[1]["seq"].as_u64()));
        assert!(through < told[0]["seq"].as_u64().expect("a number"));
        assert_eq!(texts(last_values(&told)), ["add", "hello", "", "paid", "done"]);
        for part in ["message-start", "content-block-start", "content-block-delta", "content-block-finish", "message-finish", "tool-started", "tool-finished"] {
            assert!(names(&told).contains(&part), "{part}");
        }
        // The page has two streams, and tells events by their ids.
        let watched = watcher.run().await;
        assert_eq!(names(&watched), ["running", "completed"]);
        assert!(watched.iter().all(|event| told.contains(event)));
        assert_eq!(watched[0]["event_id"].as_str().and_then(|id| id.split(':').nth(1)), Some(run.as_str()));
        // A run that is over is replayed, and the stream stays open.
        let mut replay = Page::open(&dev, &ROOT).await;
        let replayed = replay.run().await;
        assert_eq!((lasting(&replayed), last_values(&replayed)), (lasting(&told), last_values(&told)));
        let half = told[told.len() / 2]["seq"].as_u64().expect("a number");
        let mut rest = Page::with(&dev, json!({ "channels": ROOT, "since": half })).await;
        let rest = rest.run().await;
        let after: Vec<_> = lasting(&told).into_iter().filter(|event| event["seq"].as_u64() > Some(half)).collect();
        assert_eq!(lasting(&rest), after);
        let (next, _) = begin(&dev, "v", "more").await;
        agent.call().await.finish(&whole(&next, "o", "yes")).await;
        for page in [&mut live, &mut replay] {
            let told = page.run().await;
            assert_eq!(told[0]["event_id"].as_str().and_then(|id| id.split(':').nth(1)), Some(next.as_str()));
            assert_eq!(texts(last_values(&told)).last(), Some(&"yes"));
        }
        // Without `since`, a new reader gets the newest run only.
        let newest = Page::open(&dev, &ROOT).await.run().await;
        assert_eq!(newest[0]["event_id"].as_str().and_then(|id| id.split(':').nth(1)), Some(next.as_str()));
        let all = Page::with(&dev, json!({ "channels": ROOT, "since": 0 })).await.run().await;
        assert_eq!(lasting(&all), lasting(&told));
        let readers = dev.get("/v1/threads/t/subscriptions").await.ok(200);
        assert_eq!(readers["subscriptions"][0]["transport"], "langgraph");
    }
}

everywhere! {
    async fn the_state_of_a_thread_with_an_active_run_is_older_than_all_that_its_stream_has(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        dev.get("/langgraph/threads/t/state").await.problem(404, "thread-not-found");
        let (run, _) = begin(&dev, "u", "hi").await;
        let mut call = agent.call().await;
        call.say(&said("m", "half")[..2]).await;
        let mut page = Page::open(&dev, &ROOT).await;
        let seen = page.until(|event| name(event) == "content-block-delta").await;
        let state = dev.get("/langgraph/threads/t/state").await.ok(200);
        assert_eq!((&state["next"], &state["tasks"][0]["interrupts"]), (&json!(["agent"]), &json!([])));
        assert_eq!(texts(&state["values"]), ["hi"]);
        let created = jiff(text(&state, "created_at"));
        assert!(seen.iter().all(|event| event["params"]["timestamp"].as_i64() >= Some(created)), "{created}: {seen:?}");
        assert_eq!(dev.get("/langgraph/threads/t").await.ok(200)["status"], "busy");
        call.finish(&[json!({ "type": "TEXT_MESSAGE_END", "messageId": "m" }), finished(&run)]).await;
        let told = page.run().await;
        let state = dev.get("/langgraph/threads/t/state").await.ok(200);
        assert_eq!((&state["next"], &state["tasks"]), (&json!([]), &json!([])));
        assert_eq!((&state["values"], texts(&state["values"])), (last_values(&told), vec!["hi", "half"]));
        assert_eq!(jiff(text(&state, "created_at")), told[told.len() - 1]["params"]["timestamp"].as_i64().expect("a time"));
        // The checkpoint of the last values is that of the state, and every checkpoint can be read.
        let points: Vec<_> = told.iter().filter(|event| event["method"] == "checkpoints").collect();
        let id = text(&state["checkpoint"], "checkpoint_id");
        assert_eq!(points[points.len() - 1]["params"]["data"]["id"], id);
        assert_eq!(points[points.len() - 1]["params"]["data"]["step"], state["metadata"]["step"]);
        assert_eq!(dev.get(&format!("/langgraph/threads/t/state/{id}")).await.ok(200)["values"], state["values"]);
        let named = json!({ "checkpoint": { "checkpoint_id": "0000000000000001" } });
        assert_eq!(texts(&dev.post("/langgraph/threads/t/state/checkpoint", named).await.ok(200)["values"]), ["hi"]);
        // A history has the state after each run.
        let (second, _) = begin(&dev, "v", "more").await;
        agent.call().await.finish(&whole(&second, "n", "yes")).await;
        ended(&dev, &second).await;
        let history = dev.post("/langgraph/threads/t/history", json!({ "limit": 5 })).await.ok(200);
        let history = history.as_array().expect("states");
        assert_eq!(history.iter().map(|state| texts(&state["values"]).len()).collect::<Vec<_>>(), [4, 2]);
        assert_eq!(history[0]["parent_checkpoint"]["checkpoint_id"], history[1]["checkpoint"]["checkpoint_id"]);
        assert_eq!(history[1]["parent_checkpoint"], Value::Null);
        let older = json!({ "before": { "configurable": history[0]["checkpoint"] } });
        assert_eq!(dev.post("/langgraph/threads/t/history", older).await.ok(200).as_array().map(Vec::len), Some(1));
        let of_subgraph = json!({ "checkpoint": { "checkpoint_ns": "tools" } });
        assert_eq!(dev.post("/langgraph/threads/t/history", of_subgraph).await.ok(200), json!([]));
    }
}

/// Milliseconds of a time in RFC 3339.
fn jiff(time: &str) -> i64 {
    threadline_core::Timestamp::from_rfc3339(time).expect("a time").0
}

everywhere! {
    async fn a_stopped_run_brings_the_half_answer_back_before_it_completes(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let (run, _) = begin(&dev, "u", "hi").await;
        let mut page = Page::open(&dev, &ROOT).await;
        let mut call = agent.call().await;
        call.say(&said("m", "half")[..2]).await;
        page.until(|event| name(event) == "content-block-delta").await;
        // Turns that wait begin behind a run that is cancelled.
        let waits = dev.post("/langgraph/threads/t/runs", says("v", "more")).await.ok(200);
        assert_eq!((&waits["status"], &waits["kwargs"]["input"]["messages"][0]["content"]), (&json!("pending"), &json!("more")));
        let gone = dev.post("/langgraph/threads/t/runs", says("w", "never")).await.ok(200);
        let pending = dev.get("/langgraph/threads/t/runs?status=pending&select=run_id&select=kwargs&limit=1000").await.ok(200);
        assert_eq!(pending.as_array().map(Vec::len), Some(2));
        let cancel = |run: &str, wait: u8| format!("/langgraph/threads/t/runs/{run}/cancel?wait={wait}&action=interrupt");
        assert_eq!(dev.post(&cancel(text(&gone, "run_id"), 0), json!({})).await.status, 204);
        assert_eq!(dev.post(&cancel(&run, 0), json!({})).await.status, 202);
        let told = page.run().await;
        assert_eq!(names(&told)[told.len() - 2..], ["values", "completed"]);
        assert_eq!(texts(last_values(&told)), ["hi", "half"]);
        let next = agent.call().await;
        assert_eq!(dev.get(&format!("/langgraph/threads/t/runs/{run}")).await.ok(200)["status"], "interrupted");
        let next_run = text(&waits, "run_id").to_owned();
        let joined = tokio::spawn({
            let (dev, path) = (dev.clone(), format!("/langgraph/threads/t/runs/{next_run}/join?cancel_on_disconnect=0"));
            async move { dev.get(&path).await.ok(200) }
        });
        next.finish(&whole(&next_run, "n", "yes")).await;
        assert_eq!(texts(&joined.await.expect("values")), ["hi", "half", "more", "yes"]);
        assert_eq!(dev.post(&cancel(&next_run, 1), json!({})).await.status, 204, "it has ended");
        dev.post(&cancel("none", 0), json!({})).await.problem(404, "run-not-found");
        let runs = dev.get("/langgraph/threads/t/runs").await.ok(200);
        let statuses: Vec<&str> = runs.as_array().expect("runs").iter().map(|run| text(run, "status")).collect();
        assert_eq!(statuses, ["success", "interrupted"]);
    }
}

everywhere! {
    async fn interrupts_are_answered_by_a_command(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let (run, _) = begin(&dev, "u", "hi").await;
        let mut page = Page::open(&dev, &ROOT).await;
        let mut asks = finished(&run);
        let interrupt = json!({ "id": "i", "reason": "confirm", "message": "ok?" });
        asks["outcome"] = json!({ "type": "interrupt", "interrupts": [interrupt] });
        agent.call().await.finish(&[asks]).await;
        let told = page.run().await;
        assert_eq!(names(&told)[told.len() - 2..], ["input.requested", "interrupted"]);
        assert_eq!(told[told.len() - 2]["params"]["data"], json!({ "interrupt_id": "i", "payload": interrupt }));
        let state = dev.get("/langgraph/threads/t/state").await.ok(200);
        assert_eq!((&state["next"], &state["tasks"][0]["interrupts"]), (&json!(["agent"]), &json!([{ "id": "i", "value": interrupt }])));
        assert_eq!(dev.get("/langgraph/threads/t").await.ok(200)["status"], "interrupted");
        let refused = command(&dev, "run.start", says("v", "no answer")).await;
        assert_eq!((&refused["type"], &refused["error"]), (&json!("error"), &json!("invalid_argument")));
        let unknown = command(&dev, "input.respond", json!({ "interrupt_id": "other", "response": 1 })).await;
        assert_eq!(unknown["type"], "error");
        let configurable = json!({ "thread_id": "t", "checkpoint_id": "0", "checkpoint_ns": "", "tone": "kind" });
        let config = json!({ "configurable": configurable });
        let answer = json!({ "namespace": [], "interrupt_id": "i", "response": { "ok": true }, "config": config });
        let answered = command(&dev, "input.respond", answer.clone()).await;
        assert_eq!(answered["type"], "success", "{answered}");
        // An answer whose response was lost is sent again.
        assert_eq!(command(&dev, "input.respond", answer.clone()).await["result"], answered["result"]);
        let call = agent.call().await;
        assert_eq!(call.input()["forwardedProps"], json!({ "configurable": { "tone": "kind" } }));
        let resume = &call.input()["resume"][0];
        assert_eq!((&resume["interruptId"], &resume["payload"]), (&json!("i"), &json!({ "ok": true })));
        let next = text(&answered["result"], "run_id").to_owned();
        assert_eq!(dev.get("/langgraph/threads/t/state").await.ok(200)["tasks"][0]["interrupts"], json!([]));
        call.finish(&whole(&next, "n", "thanks")).await;
        let told = page.run().await;
        assert_eq!(names(&told)[..2], ["running", "input.answered"]);
        assert_eq!(told[1]["params"]["data"], json!({ "interrupt_ids": ["i"] }));
        let settled = command(&dev, "input.respond", json!({ "interrupt_id": "i", "response": "late" })).await;
        assert_eq!(settled["type"], "error");
        assert_eq!(agent.requests(), 2);
    }
}

everywhere! {
    async fn a_start_while_a_run_is_active_waits_interrupts_or_is_refused(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let (run, _) = begin(&dev, "u", "hi").await;
        // A command whose response was lost is sent again.
        assert_eq!(begin(&dev, "u", "hi").await.0, run);
        let call = agent.call().await;
        let with = |id: &str, strategy: &str| {
            let mut params = says(id, "more");
            params["multitaskStrategy"] = json!(strategy);
            // Newer clients send both names.
            params["multitask_strategy"] = json!(strategy);
            params
        };
        let refused = command(&dev, "run.start", with("v", "reject")).await;
        assert_eq!((&refused["type"], &refused["error"]), (&json!("error"), &json!("invalid_argument")));
        let rollback = command(&dev, "run.start", with("v", "rollback")).await;
        assert_eq!(rollback["error"], "not_supported");
        let (waits, _) = begin(&dev, "v", "more").await;
        assert_eq!(begin(&dev, "v", "more").await.0, waits, "the turn that waits");
        let interrupts = command(&dev, "run.start", with("w", "interrupt")).await;
        let interrupts = text(&interrupts["result"], "run_id").to_owned();
        let next = agent.call().await;
        assert_eq!(next.input()["runId"], json!(interrupts));
        drop(call);
        next.finish(&whole(&interrupts, "m", "one")).await;
        let last = agent.call().await;
        assert_eq!(last.input()["runId"], json!(waits));
        last.finish(&whole(&waits, "n", "two")).await;
        ended(&dev, &waits).await;
        assert_eq!(dev.get(&format!("/v1/threads/t/runs/{run}")).await.ok(200)["status"], "stopped");
    }
}

#[tokio::test]
async fn a_takeover_takes_back_what_values_have_shown() {
    let (_directory, server, agent, before) = restarted(json!({}), &said("lost", "half")[..2]).await;
    let dev = server.client();
    let call = agent.call().await;
    let mut page = Page::open(&dev, &ROOT).await;
    call.finish(&whole("r", "kept", "whole")).await;
    let told = page.run().await;
    let values = told.iter().filter(|event| event["method"] == "values");
    let shown: Vec<_> = values.map(|event| texts(&event["params"]["data"])).collect();
    assert_eq!(shown.last(), Some(&vec!["hi", "whole"]));
    assert_eq!(names(&told).iter().filter(|name| **name == "message-start").count(), 2);
    assert!(shown.contains(&vec!["hi", "half"]), "clients remove only messages that values have shown: {shown:?}");
    drop(before);
}

everywhere! {
    async fn threads_are_made_found_changed_and_deleted(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let made = dev.post("/langgraph/threads", json!({ "metadata": { "graph_id": "a", "team": "x" }, "thread_id": "t" })).await.ok(200);
        assert_eq!((&made["thread_id"], &made["status"], &made["values"]), (&json!("t"), &json!("idle"), &Value::Null));
        assert_eq!(made["metadata"], json!({ "graph_id": "a", "team": "x", "assistant_id": "a" }));
        dev.post("/langgraph/threads", json!({ "thread_id": "t" })).await.problem(409, "thread-exists");
        let again = dev.post("/langgraph/threads", json!({ "thread_id": "t", "if_exists": "do_nothing" })).await.ok(200);
        assert_eq!(again["created_at"], made["created_at"]);
        dev.post("/langgraph/threads", json!({ "metadata": { "graph_id": null } })).await.ok(200);
        dev.post("/langgraph/threads", json!({ "supersteps": [{ "updates": [] }] })).await.problem(400, "invalid-request");
        let (run, _) = begin(&dev, "u", "first words").await;
        agent.call().await.finish(&whole(&run, "m", "yes")).await;
        ended(&dev, &run).await;
        let search = async |body: Value| dev.post("/langgraph/threads/search", body).await;
        let found = search(json!({ "metadata": { "graph_id": "a" }, "limit": 100 })).await;
        assert_eq!(found.header("x-pagination-next"), "");
        let found = found.ok(200);
        assert_eq!((found.as_array().map(Vec::len), texts(&found[0]["values"])), (Some(1), vec!["first words", "yes"]));
        let first = search(json!({ "limit": 1 })).await;
        assert_eq!((first.header("x-pagination-next"), &first.ok(200)[0]["thread_id"]), ("1", &json!("t")));
        let second = search(json!({ "limit": 1, "offset": 1, "select": ["thread_id"] })).await;
        assert_eq!((second.header("x-pagination-next"), second.ok(200).as_array().map(Vec::len)), ("", Some(1)));
        let oldest = search(json!({ "sort_by": "created_at", "sort_order": "asc", "select": ["thread_id"] })).await.ok(200);
        assert_eq!((&oldest[0]["thread_id"], &oldest[0]["values"]), (&json!("t"), &Value::Null));
        for (filter, count) in [
            (json!({}), 2),
            (json!({ "status": "idle" }), 2),
            (json!({ "status": "busy" }), 0),
            (json!({ "metadata": { "team": "x" } }), 1),
            (json!({ "metadata": { "team": "y" } }), 0),
            (json!({ "ids": ["t", "none"] }), 1),
        ] {
            assert_eq!(dev.post("/langgraph/threads/count", filter.clone()).await.ok(200), json!(count), "{filter}");
        }
        let changed = dev.patch("/langgraph/threads/t", json!({ "metadata": { "team": null, "n": 1 } })).await.ok(200);
        assert_eq!(changed["metadata"], json!({ "graph_id": "a", "assistant_id": "a", "n": 1 }));
        assert_eq!(dev.delete("/langgraph/threads/t").await.status, 204);
        dev.get("/langgraph/threads/t").await.problem(404, "thread-not-found");
        dev.post(STREAM, json!({ "channels": [] })).await.problem(404, "thread-not-found");
        let assistants = dev.post("/langgraph/assistants/search", json!({ "limit": 1 })).await;
        assert_eq!((assistants.header("x-pagination-next"), &assistants.ok(200)[0]["assistant_id"]), ("1", &json!("a")));
        assert_eq!(dev.get("/langgraph/assistants/demo").await.ok(200)["graph_id"], "demo");
        dev.get("/langgraph/assistants/none").await.problem(404, "agent-not-found");
        assert_eq!(dev.post("/langgraph/assistants/count", json!({ "graph_id": "a" })).await.ok(200), json!(1));
        assert_eq!(dev.get("/langgraph/ok").await.ok(200), json!({ "ok": true }));
        assert_eq!(dev.get("/langgraph/info").await.ok(200)["flags"]["assistants"], true);
    }
}

everywhere! {
    async fn what_cannot_be_done_is_refused_with_its_reason(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        for (method, params, code, named) in [
            ("nope", json!({}), "unknown_command", "nope"),
            ("run.start", json!({}), "invalid_argument", "assistant_id"),
            ("run.start", json!({ "assistant_id": "nobody" }), "invalid_argument", "nobody"),
            ("run.start", json!({ "assistant_id": "a", "input": 7 }), "invalid_argument", "input"),
            ("run.start", json!({ "assistant_id": "a", "input": { "messages": [{ "type": "remove" }] } }), "invalid_argument", "input.messages/0"),
            ("run.start", json!({ "assistant_id": "a", "multitaskStrategy": "x" }), "invalid_argument", "multitask_strategy"),
            ("run.start", json!({ "assistant_id": "a", "command": { "goto": "x" } }), "not_supported", "input.respond"),
            ("run.start", json!({ "assistant_id": "a", "config": { "configurable": { "checkpoint_id": "0000000000000001" } } }), "invalid_argument", "checkpoint"),
            ("input.respond", json!({}), "invalid_argument", "interrupt"),
            ("input.respond", json!({ "interrupt_id": "i", "response": 1 }), "no_such_interrupt", "thread"),
        ] {
            let refused = command(&dev, method, params).await;
            assert_eq!((&refused["type"], &refused["error"]), (&json!("error"), &json!(code)), "{refused}");
            assert!(refused["message"].as_str().is_some_and(|message| message.contains(named)), "{refused}");
        }
        dev.get("/v1/threads/t").await.problem(404, "thread-not-found");
        let (run, _) = begin(&dev, "u", "hi").await;
        agent.call().await.finish(&whole(&run, "m", "yes")).await;
        ended(&dev, &run).await;
        // A run goes on from the newest checkpoint if the start names it.
        let newest = dev.get("/langgraph/threads/t/state").await.ok(200);
        let at = |checkpoint: &Value| {
            let mut params = says("v", "more");
            params["config"]["configurable"]["checkpoint_id"] = checkpoint.clone();
            params
        };
        let goes_on = command(&dev, "run.start", at(&newest["checkpoint"]["checkpoint_id"])).await;
        let next = text(&goes_on["result"], "run_id").to_owned();
        agent.call().await.finish(&whole(&next, "n", "yes")).await;
        ended(&dev, &next).await;
        // An answer to an interrupt that is not open begins no run.
        let runs = dev.get("/v1/threads/t/runs").await.ok(200);
        for (params, code) in [
            (json!({ "interrupt_id": "" }), "invalid_argument"),
            (json!({ "responses": [{ "response": 1 }] }), "invalid_argument"),
            (json!({ "interrupt_id": "i" }), "no_such_interrupt"),
        ] {
            let refused = command(&dev, "input.respond", params).await;
            assert_eq!((&refused["type"], &refused["error"]), (&json!("error"), &json!(code)), "{refused}");
        }
        assert_eq!(dev.get("/v1/threads/t/runs").await.ok(200), runs);
        for (body, status, slug) in [
            (json!({ "channels": ["nope"] }), 400, "invalid-request"),
            (json!({ "channels": "values" }), 400, "invalid-request"),
            (json!({ "channels": ["values"], "since": 1_u64 << 52 }), 416, "cursor-ahead"),
        ] {
            dev.post(STREAM, body).await.problem(status, slug);
        }
        dev.get("/langgraph/threads/t/state/nope").await.problem(404, "checkpoint-not-found");
        dev.post(&format!("/langgraph/threads/t/runs/{run}/cancel?action=rollback"), json!({})).await.problem(400, "invalid-request");
        dev.get("/langgraph/threads/t/runs?status=nope").await.problem(400, "invalid-request");
        dev.post("/langgraph/threads/none/runs", says("x", "hi")).await.problem(404, "thread-not-found");
        // A stream of another namespace has no events, and no other reader is in its way.
        let mut idle = Page::with(&dev, json!({ "channels": ROOT, "namespaces": [["tools"]] })).await;
        let waited = tokio::time::timeout(std::time::Duration::from_millis(200), idle.next()).await;
        assert!(waited.is_err(), "{waited:?}");
    }
}

everywhere! {
    async fn a_key_of_langgraph_counts_on_its_paths_alone(server: |options| options.with_key("secret").with_agent_networks(vec![Network::Loopback])) {
        agent(&server.project()).await;
        let ann = Client { user: Some("ann".into()), ..key(server, "default", &[Scope::Read, Scope::Chat]).await };
        let none = Client { key: None, ..ann.clone() };
        let secret = ann.key.expect("a key");
        let asked = |path: &str, name: &str, value: &str| none.request(Method::GET, path).header(name, value);
        send(asked("/langgraph/threads/t", "x-api-key", &secret)).await.problem(404, "thread-not-found");
        send(asked("/langgraph/threads/t", "x-api-key", "wrong")).await.problem(401, "unauthorized");
        for path in ["/v1/threads", "/ai/a/t", "/copilotkit/info"] {
            send(asked(path, "x-api-key", &secret)).await.problem(401, "unauthorized");
        }
        // A credential in `Authorization` is the one that counts.
        let both = |bearer: &str, key: &str| asked("/langgraph/threads/t", "x-api-key", key).bearer_auth(bearer.to_owned());
        send(both("wrong", &secret)).await.problem(401, "unauthorized");
        send(both(&secret, "wrong")).await.problem(404, "thread-not-found");
        // Neither a cookie nor the query brings one.
        send(asked("/langgraph/threads/t", "cookie", &format!("x-api-key={secret}"))).await.problem(401, "unauthorized");
        send(none.request(Method::GET, &format!("/langgraph/threads/t?x-api-key={secret}"))).await.problem(400, "unknown-parameter");
    }
}
