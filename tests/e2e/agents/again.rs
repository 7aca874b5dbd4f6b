//! The same request again, and another one while a run is active.

use reqwest::Method;
use serde_json::{Value, json};

use super::{agent, agui, ask, ended, events_of, finished, said, types_of, user};
use crate::harness::{
    Answer, eventually, everywhere,
    http::{open, send},
    number, soon,
};

everywhere! {
    async fn a_second_run_is_refused_through_both_apis(server) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        let started = dev.post("/v1/threads/t/runs", ask("r1", json!([user("u1", "hi")]))).await.ok(201);
        let mut call = agent.call().await;
        let native = dev.post("/v1/threads/t/runs", ask("r2", json!([user("u2", "no")]))).await;
        let of_agui = send(agui(&dev, "r2", json!([user("u2", "no")]))).await;
        let bare = dev.post("/v1/threads/t/runs", json!({ "runId": "r2" })).await;
        for refused in [native, of_agui, bare] {
            let problem = refused.problem(409, "run-active");
            let run = &problem["run"];
            assert_eq!((&run["runId"], &run["agentId"], &problem["cursor"]), (&json!("r1"), &json!("a"), &json!(0)));
            assert_eq!(run["startedAt"], started["run"]["startedAt"]);
            assert_eq!((&run["leaseUntil"], &run["driven"]), (&Value::Null, &json!(true)), "{problem}");
        }
        call.say(&said("m", "x")).await;
        call.finish(&[finished("r1")]).await;
        ended(&dev, "r1").await;
        assert_eq!((dev.types("t").await.len(), agent.requests()), (5, 1), "nothing of the refused ones");
        dev.post("/v1/threads/t/runs", ask("r2", json!([user("u2", "now")]))).await.ok(201);
        agent.call().await.finish(&[finished("r2")]).await;
    }
}

everywhere! {
    async fn the_same_run_again_is_the_same_run(server) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        let body = ask("r", json!([user("u1", "hi")]));
        let first = dev.post("/v1/threads/t/runs", body.clone()).await.ok(201);
        let mut call = agent.call().await;
        let same = |answer: Answer| {
            let answer = answer.ok(200);
            for member in ["cursor", "epoch"] {
                assert_eq!(answer[member], first[member]);
            }
            let run = &answer["run"];
            assert_eq!((&run["runId"], &run["startedAt"]), (&json!("r"), &first["run"]["startedAt"]));
            answer
        };
        same(dev.post("/v1/threads/t/runs", body.clone()).await);
        call.say(&said("m", "x")).await;
        call.finish(&[finished("r")]).await;
        ended(&dev, "r").await;
        let after = same(dev.post("/v1/threads/t/runs", body.clone()).await);
        assert_eq!(after["run"]["status"], "finished");
        // Not even with later runs.
        dev.put("/v1/threads/t/runs/w", json!([{ "type": "A" }])).await.ok(201);
        same(dev.post("/v1/threads/t/runs", body).await);
        assert_eq!((types_of(&dev, "r").await.len(), agent.requests()), (5, 1));
    }
}

everywhere! {
    async fn a_run_does_not_feed_itself(server) {
        let dev = server.client();
        let url = format!("http://{}/agui/loop", server.addr);
        dev.put("/v1/agents/loop", json!({ "url": url })).await.ok(200);
        let body = json!({ "threadId": "t", "runId": "r", "state": { "a": 1 }, "messages": [user("u", "hi")] });
        let text = soon(send(dev.request(Method::POST, "/agui/loop").json(&body))).await.text().to_owned();
        assert!(text.contains("agent-unreachable"), "{text}");
        assert_eq!(types_of(&dev, "r").await, ["RUN_STARTED", "STATE_SNAPSHOT", "RUN_ERROR"]);
    }
}

/// The seqs of an event stream, whose ids are all of one log.
fn seqs(text: &str) -> Vec<u64> {
    let ids: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    let parts: Vec<_> = ids.iter().map(|id| id.split_once(':').expect("<epoch>:<seq>")).collect();
    assert!(parts.iter().all(|(epoch, _)| epoch.len() == 16 && *epoch == parts[0].0), "{ids:?}");
    parts.iter().map(|(_, seq)| seq.parse().expect("a seq")).collect()
}

everywhere! {
    async fn an_agui_client_continues_where_it_was(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let first = open(agui(&dev, "r", json!([user("u1", "hi")]))).await;
        let epoch = first.headers()["threadline-epoch"].to_str().expect("an epoch").to_owned();
        let again = |seen: Option<u64>| {
            let request = agui(&dev, "r", json!([user("u1", "hi")]));
            match seen {
                Some(seq) => request.header("last-event-id", format!("{epoch}:{seq}")),
                None => request,
            }
        };
        drop(first);
        let mut call = agent.call().await;
        call.say(&said("m", "x")).await;
        eventually("it is in the log", async || (types_of(&dev, "r").await.len() == 4).then_some(())).await;
        // While it runs: from where it was to the end.
        let live = open(again(Some(2))).await;
        let whole = open(again(None)).await;
        assert_eq!(live.headers()["threadline-run-id"], "r");
        call.finish(&[finished("r")]).await;
        assert_eq!(seqs(&soon(live.text()).await.expect("whole")), [3, 4, 5]);
        let whole = soon(whole.text()).await.expect("whole");
        assert_eq!(seqs(&whole), [1, 2, 3, 4, 5]);
        // After it has ended, and with a later run.
        ended(&dev, "r").await;
        dev.put("/v1/threads/t/runs/w", json!([{ "type": "A" }])).await.ok(201);
        assert_eq!(send(again(None)).await.text(), whole, "byte for byte");
        assert_eq!(seqs(send(again(Some(4))).await.text()), [5]);
        assert_eq!(seqs(send(again(Some(5))).await.text()), [0; 0]);
        assert_eq!(seqs(send(again(Some(7))).await.text()), [0; 0]);
        send(again(Some(99))).await.problem(416, "cursor-ahead");
        assert_eq!(agent.requests(), 1);
        for bad in ["x", "4"] {
            let sent = again(None).header("accept", "text/event-stream").header("last-event-id", bad);
            send(sent).await.problem(400, "invalid-cursor");
        }
        // The log was replaced: the run is neither shown from its middle nor done once more.
        let wanted = || again(Some(4));
        assert_eq!(dev.delete("/v1/threads/t").await.status, 204);
        send(wanted()).await.problem(404, "thread-not-found");
        let fresh = dev.thread("t").await;
        assert_eq!(send(wanted()).await.problem(410, "log-replaced")["epoch"], fresh["epoch"]);
        assert_eq!((dev.types("t").await.len(), agent.requests()), (0, 1));
    }
}

everywhere! {
    async fn a_new_run_is_not_half_started_by_a_cursor_that_makes_no_sense(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let thread = dev.thread("t").await;
        let seen = format!("{}:99", thread["epoch"].as_str().expect("an epoch"));
        let asked = tokio::spawn(send(agui(&dev, "r", json!([user("u1", "hi")])).header("last-event-id", seen)));
        agent.call().await.finish(&[finished("r")]).await;
        // Nothing of a run that has just begun was seen before.
        let answer = asked.await.expect("answered");
        assert_eq!((answer.status, seqs(answer.text())), (200, vec![1, 2]), "{}", answer.text());
    }
}

everywhere! {
    async fn a_client_that_sends_only_new_messages_may_repeat_them_in_another_run(server) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        dev.post("/v1/threads/t/runs", ask("r1", json!([user("u1", "hi")]))).await.ok(201);
        let mut call = agent.call().await;
        call.say(&said("a1", "hello")).await;
        call.finish(&[finished("r1")]).await;
        ended(&dev, "r1").await;
        // The run fails, and the same question is asked again: it is known by now.
        for run in ["r2", "r3"] {
            dev.post("/v1/threads/t/runs", ask(run, json!([user("u2", "more")]))).await.ok(201);
            let mut call = agent.call().await;
            assert_eq!(call.message_ids(), ["u1", "a1", "u2"], "{run}");
            call.end().await;
            assert_eq!(ended(&dev, run).await["errorCode"], "agent-incomplete");
        }
        assert_eq!(events_of(&dev, "r3").await[0]["input"]["messages"], json!([]));
        // A client may send earlier messages: all of them or, to ask the first question again, their beginning.
        for (run, given) in [("r4", vec!["u1", "a1", "u2"]), ("r5", vec!["u1"]), ("r6", vec!["a1", "u2"])] {
            let messages = given.iter().map(|id| match *id {
                "a1" => json!({ "id": "a1", "role": "assistant", "content": "hello" }),
                "u1" => user("u1", "hi"),
                id => user(id, "more"),
            });
            let messages = messages.collect::<Vec<_>>();
            dev.post("/v1/threads/t/runs", ask(run, json!(messages))).await.ok(201);
            let call = agent.call().await;
            assert_eq!(call.input()["messages"], json!(messages));
            call.finish(&[finished(run)]).await;
            assert_eq!(number(&ended(&dev, run).await, "producerSeq"), 2);
        }
    }
}

everywhere! {
    async fn of_many_requests_at_once_there_is_one_run(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        // The same request: every client receives the same run, from its beginning to its end.
        let same: Vec<_> = (0..12).map(|_| tokio::spawn(send(agui(&dev, "r", json!([user("u", "hi")]))))).collect();
        let mut call = agent.call().await;
        call.say(&said("m", "x")).await;
        call.finish(&[finished("r")]).await;
        let mut texts = Vec::new();
        for asked in same {
            let answer = asked.await.expect("answered");
            assert_eq!(answer.status, 200, "{}", answer.text());
            texts.push(answer.text().to_owned());
        }
        assert_eq!(seqs(&texts[0]), [1, 2, 3, 4, 5]);
        assert!(texts.iter().all(|text| *text == texts[0]));
        // Different requests: one is accepted, the others receive the id of its run.
        let asked = |at: usize| send(agui(&dev, &format!("r{at}"), json!([user(&format!("u{at}"), "hi")])));
        let others: Vec<_> = (0..12).map(|at| tokio::spawn(asked(at))).collect();
        let call = agent.call().await;
        let run = call.input()["runId"].as_str().expect("an id").to_owned();
        let refused = async || (others.iter().filter(|asked| asked.is_finished()).count() == 11).then_some(());
        eventually("the others have their answers", refused).await;
        call.finish(&[finished(&run)]).await;
        let mut let_in = 0;
        for asked in others {
            let answer = asked.await.expect("answered");
            if answer.status == 200 {
                let_in += 1;
            } else {
                assert_eq!(answer.problem(409, "run-active")["run"]["runId"], json!(run));
            }
        }
        assert_eq!((let_in, agent.requests()), (1, 2));
    }
}

everywhere! {
    async fn another_request_under_a_used_id_is_refused(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let (u1, u2) = (user("u1", "hi"), user("u2", "more"));
        let asked = tokio::spawn(send(agui(&dev, "r", json!([u1]))));
        let mut call = agent.call().await;
        // While the run is active, and once it has ended: messages that no agent would read are refused.
        send(agui(&dev, "r", json!([u1, u2]))).await.problem(409, "run-exists");
        let interrupt = json!([{ "id": "i", "reason": "confirmation" }]);
        let mut last = finished("r");
        last["outcome"] = json!({ "type": "interrupt", "interrupts": interrupt });
        call.say(&said("m", "x")).await;
        call.finish(&[last]).await;
        let text = asked.await.expect("answered").text().to_owned();
        let resume = json!([{ "interruptId": "i", "status": "resolved", "payload": 1 }]);
        let answer = |run: &str, resume: &Value| {
            let body = json!({ "threadId": "t", "runId": run, "messages": [], "resume": resume });
            send(dev.request(Method::POST, "/agui/a").json(&body))
        };
        send(agui(&dev, "r", json!([u2]))).await.problem(409, "run-exists");
        let problem = answer("r", &resume).await.problem(409, "run-exists");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("other messages or answers")), "{problem}");
        for other in [user("u1", "something else"), json!({ "role": "user", "content": "something else" })] {
            send(agui(&dev, "r", json!([other]))).await.problem(409, "run-exists");
        }
        // The same request, or a part of it, is the same run; so is one whose message has no id.
        for messages in [json!([u1]), json!([]), json!([{ "role": "user", "content": "hi" }])] {
            assert_eq!(send(agui(&dev, "r", messages)).await.text(), text);
        }
        let asked = tokio::spawn(answer("r2", &resume));
        agent.call().await.finish(&[finished("r2")]).await;
        let text = asked.await.expect("answered").text().to_owned();
        assert_eq!(answer("r2", &resume).await.text(), text);
        let other = json!([{ "interruptId": "i", "status": "cancelled" }]);
        answer("r2", &other).await.problem(409, "run-exists");
        assert_eq!(agent.requests(), 2);
        assert_eq!(dev.get("/v1/threads/t/messages").await.ok(200)["messages"].as_array().map(Vec::len), Some(2));
    }
}
