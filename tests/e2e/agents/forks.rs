//! Forks: a conversation goes on from an earlier point, and lists show one of its branches.

use super::*;
use crate::harness::{Backend, Options, everywhere, http::send, number, run as serve};

fn ids(page: &Value, list: &str) -> Vec<String> {
    page[list].as_array().expect("a list").iter().map(|thread| text(thread, "threadId").to_owned()).collect()
}

async fn listed(client: &Client) -> Vec<String> {
    ids(&client.get("/v1/threads").await.ok(200), "threads")
}

/// Branches of a thread, with whether they are listed.
async fn branches(client: &Client, thread: &str) -> Vec<(String, bool)> {
    let page = client.get(&format!("/v1/threads/{thread}/branches")).await.ok(200);
    let listed = page["branches"].as_array().expect("a list").iter().map(|branch| branch["listed"] == true);
    ids(&page, "branches").into_iter().zip(listed).collect()
}

/// Seq and event of each event of a log.
async fn log(client: &Client, thread: &str) -> Vec<(u64, Value)> {
    let page = client.get(&format!("/v1/threads/{thread}/events")).await.ok(200);
    let events = page["events"].as_array().expect("events").iter();
    events.map(|event| (number(event, "seq"), event["event"].clone())).collect()
}

async fn said_in(client: &Client, thread: &str) -> Vec<String> {
    let page = client.get(&format!("/v1/threads/{thread}/messages")).await.ok(200);
    page["messages"].as_array().expect("messages").iter().map(|said| text(said, "content").to_owned()).collect()
}

fn contents(input: &Value) -> Vec<String> {
    input["messages"].as_array().expect("a list").iter().map(|message| text(message, "content").to_owned()).collect()
}

/// A thread in which an agent has answered two messages.
async fn answered(client: &Client) -> FakeAgent {
    client.thread("t").await;
    let agent = agent(client).await;
    for (run, asked, said) in [("one", "hi", "hello"), ("two", "how?", "well")] {
        client.post("/v1/threads/t/runs", ask(run, json!([user(&format!("{run}-u"), asked)]))).await.ok(201);
        agent.call().await.finish(&whole(run, &format!("{run}-m"), said)).await;
        eventually("the run ends", async || {
            let run = client.get(&format!("/v1/threads/t/runs/{run}")).await.ok(200);
            (run["status"] == "finished").then_some(())
        })
        .await;
    }
    agent
}

/// The body of a start in a fork.
fn forking(run: &str, messages: Value, fork: Value) -> Value {
    let mut body = ask(run, messages);
    body["fork"] = fork;
    body
}

everywhere! {
    async fn a_fork_has_the_events_up_to_its_seq(server) {
        let dev = server.client();
        dev.post("/v1/threads", json!({ "threadId": "t", "name": "N", "agentId": "a", "metadata": { "k": 1 } })).await.ok(201);
        let one = json!([{ "type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant" }, { "type": "B" },
            { "type": "TEXT_MESSAGE_END", "messageId": "m" }]);
        dev.put("/v1/threads/t/runs/one", one).await.ok(201);
        dev.run("t", "two").await;
        dev.append("t", "two", 1, json!([{ "type": "D" }, { "type": "E" }])).await.ok(200);
        let (all, epoch) = (log(&dev, "t").await, dev.epoch("t").await);

        // Between two runs the fork has nothing more.
        let end = all.iter().position(|(_, event)| event["type"] == "D").expect("is there");
        let fork = dev.post("/v1/threads/t/forks", json!({ "threadId": "f", "at": end })).await.ok(201);
        assert_eq!(log(&dev, "f").await, all[..end]);
        assert_eq!((&fork["name"], &fork["agentId"], &fork["metadata"]), (&json!("N"), &json!("a"), &json!({ "k": 1 })));
        assert_eq!(fork["forkedFrom"], json!({ "threadId": "t", "epoch": epoch, "seq": end }));
        assert_eq!((&fork["listed"], &fork["branched"], &fork["activeRun"]), (&json!(true), &json!(true), &json!(null)));
        assert_ne!(fork["epoch"], json!(epoch));
        assert_eq!(dev.post("/v1/threads/t/forks", json!({ "threadId": "f", "at": end })).await.ok(200), fork, "repeated");
        dev.post("/v1/threads/t/forks", json!({ "threadId": "f", "at": 1 })).await.problem(409, "thread-exists");

        // Within a run the fork ends it, and what is open.
        let cut = dev.post("/v1/threads/t/forks", json!({ "threadId": "cut", "at": 1 })).await.ok(201);
        let events = log(&dev, "cut").await;
        assert_eq!(events[0], all[0]);
        let kinds: Vec<_> = events.iter().map(|(_, event)| text(event, "type")).collect();
        assert_eq!(kinds, ["TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "RUN_FINISHED"]);
        assert_eq!((number(&cut, "tail"), &cut["lastRun"]["status"]), (3, &json!("stopped")));
        let of_parent = dev.get("/v1/threads/t/runs/one").await.ok(200);
        assert_eq!((&of_parent["status"], number(&of_parent, "producerSeq") > 3), (&json!("finished"), true));

        // An active run goes on in its thread.
        let whole = dev.post("/v1/threads/t/forks", json!({ "threadId": "whole" })).await.ok(201);
        assert_eq!((&whole["lastRun"]["runId"], &whole["lastRun"]["status"]), (&json!("two"), &json!("stopped")));
        assert_eq!(log(&dev, "whole").await[..all.len()], all);
        dev.append("t", "two", 3, json!([{ "type": "F" }])).await.ok(200);
        dev.run("whole", "own").await;
        assert_eq!(listed(&dev).await, ["whole"]);
        let empty = dev.post("/v1/threads/t/forks", json!({ "threadId": "empty", "at": 0 })).await.ok(201);
        assert_eq!((number(&empty, "tail"), &empty["lastRun"]), (0, &json!(null)));

        dev.post("/v1/threads/t/forks", json!({ "at": 99 })).await.problem(416, "cursor-ahead");
        dev.post("/v1/threads/t/forks?epoch=0123456789abcdef", json!({})).await.problem(410, "log-replaced");
        dev.post("/v1/threads/none/forks", json!({})).await.problem(404, "thread-not-found");
        dev.post("/v1/threads/t/forks", json!({ "at": -1 })).await.problem(400, "invalid-request");
    }
}

everywhere! {
    async fn no_branch_outlives_the_deletion_of_all(server) {
        let dev = server.client();
        for round in 0..12 {
            let (thread, branch) = (format!("t{round}"), format!("b{round}"));
            dev.thread(&thread).await;
            dev.put(&format!("/v1/threads/{thread}/runs/one"), json!([{ "type": "A" }])).await.ok(201);
            dev.post(&format!("/v1/threads/{thread}/forks"), json!({ "threadId": branch })).await.ok(201);
            let fork = async |of: &str, id: String| dev.post(&format!("/v1/threads/{of}/forks"), json!({ "threadId": id })).await.status;
            let deleted = async || dev.delete(&format!("/v1/threads/{thread}?branches=true")).await.status;
            let (deleted, one, two, three) = tokio::join!(
                deleted(),
                fork(&thread, format!("{branch}x")),
                fork(&branch, format!("{branch}y")),
                fork(&branch, format!("{branch}z"))
            );
            assert_eq!(deleted, 204);
            assert!([one, two, three].iter().all(|status| matches!(status, 201 | 404 | 409 | 410)), "{one} {two} {three}");
            for id in [thread, branch.clone(), format!("{branch}x"), format!("{branch}y"), format!("{branch}z")] {
                dev.get(&format!("/v1/threads/{id}")).await.problem(404, "thread-not-found");
            }
        }
    }
}

everywhere! {
    async fn forks_that_are_deleted_meanwhile_are_no_failure_of_the_store(server) {
        let dev = server.client();
        dev.thread("t").await;
        dev.put("/v1/threads/t/runs/one", json!([{ "type": "A" }])).await.ok(201);
        for _ in 0..12 {
            let fork = async || dev.post("/v1/threads/t/forks", json!({ "threadId": "f" })).await.status;
            let delete = async || dev.delete("/v1/threads/f").await.status;
            let (a, b, c, _, _) = tokio::join!(fork(), fork(), fork(), delete(), delete());
            assert!([a, b, c].iter().all(|status| *status < 500), "{a} {b} {c}");
        }
    }
}

everywhere! {
    async fn a_cut_run_ends_when_its_last_event_was_written(server) {
        let dev = server.client();
        dev.thread("t").await;
        dev.run("t", "r").await;
        dev.append("t", "r", 1, json!([{ "type": "TEXT_MESSAGE_START", "messageId": "m" }, { "type": "A" }])).await.ok(200);
        dev.post("/v1/threads/t/forks", json!({ "threadId": "f" })).await.ok(201);
        let page = dev.get("/v1/threads/f/events").await.ok(200);
        let times: Vec<_> = page["events"].as_array().expect("events").iter().map(|event| text(event, "at").to_owned()).collect();
        assert!(times.len() > 3 && times.iter().all(|at| *at == times[0]), "{times:?}");
    }
}

everywhere! {
    async fn lists_show_the_branch_that_was_chosen(server) {
        let dev = server.client();
        dev.thread("t").await;
        dev.put("/v1/threads/t/runs/one", json!([{ "type": "A" }])).await.ok(201);
        for id in ["one", "two"] {
            dev.post("/v1/threads/t/forks", json!({ "threadId": id })).await.ok(201);
        }
        let copy = dev.post("/v1/threads/two/forks", json!({ "threadId": "copy", "separate": true })).await.ok(201);
        assert_eq!((&copy["branched"], &copy["listed"], &copy["forkedFrom"]["threadId"]), (&json!(false), &json!(true), &json!("t")));
        let named = |listed: &str| ["t", "one", "two"].map(|id| (id.to_owned(), id == listed));
        assert_eq!(branches(&dev, "one").await, named("two"));
        let mut shown = listed(&dev).await;
        shown.sort();
        assert_eq!(shown, ["copy", "two"]);
        assert_eq!(branches(&dev, "copy").await, [("copy".to_owned(), true)]);

        let choose = async |thread: &str| dev.put("/v1/threads/t/branches/listed", json!({ "threadId": thread })).await;
        assert_eq!(choose("t").await.ok(200)["listed"], true);
        assert_eq!(branches(&dev, "one").await, named("t"));
        choose("copy").await.problem(404, "branch-not-found");
        choose("none").await.problem(404, "branch-not-found");
        dev.put("/v1/threads/t/branches/listed", json!({})).await.problem(400, "invalid-request");
        // The feed says so to every tab.
        eventually("the feed shows it", async || {
            let feed = dev.get("/v1/feed").await.ok(200);
            let entries = feed["entries"].as_array().expect("entries").clone();
            let kind = |id: &str| entries.iter().find(|entry| entry["threadId"] == id).map(|entry| entry["type"].clone());
            let seen = ["t", "one", "two", "copy"].map(|id| kind(id).unwrap_or_default());
            (seen == ["upsert", "delete", "delete", "upsert"].map(|kind| json!(kind))).then_some(())
        })
        .await;

        // A deletion that is refused does not list another branch.
        dev.delete("/v1/threads/t?epoch=0123456789abcdef").await.problem(410, "log-replaced");
        assert_eq!(branches(&dev, "one").await, named("t"));
        // The conversation stays in the list when its listed branch is deleted.
        assert_eq!(dev.delete("/v1/threads/t").await.status, 204);
        assert_eq!(branches(&dev, "one").await.into_iter().filter(|branch| branch.1).count(), 1);
        assert_eq!(dev.get("/v1/threads/one").await.ok(200)["forkedFrom"]["threadId"], "t");
        assert_eq!(dev.delete("/v1/threads/one?branches=true").await.status, 204);
        assert_eq!(listed(&dev).await, ["copy"]);
        dev.get("/v1/threads/two").await.problem(404, "thread-not-found");
    }
}

everywhere! {
    async fn a_message_is_edited_in_a_new_branch(server) {
        let dev = server.client();
        let agent = answered(&dev).await;
        let before = log(&dev, "t").await;
        let body = forking("again", json!([user("edited", "why?")]), json!({ "before": "two-u" }));
        let started = dev.post("/v1/threads/t/runs", body.clone()).await.ok(201);
        let fork = text(&started, "threadId").to_owned();
        let call = agent.call().await;
        assert_eq!(contents(&call.input()), ["hi", "hello", "why?"]);
        assert_eq!(call.input()["threadId"], json!(fork));
        assert_eq!(dev.post("/v1/threads/t/runs", body).await.ok(200)["threadId"], json!(fork), "repeated");
        let mut end = said("again-m", "because");
        end.push(json!({ "type": "RUN_FINISHED", "threadId": fork, "runId": "again" }));
        call.finish(&end).await;
        eventually("the run ends", async || {
            let run = dev.get(&format!("/v1/threads/{fork}/runs/again")).await.ok(200);
            (run["status"] == "finished").then_some(())
        })
        .await;
        assert_eq!(said_in(&dev, &fork).await, ["hi", "hello", "why?", "because"]);
        assert_eq!((said_in(&dev, "t").await, log(&dev, "t").await), (vec!["hi".into(), "hello".into(), "how?".into(), "well".into()], before));
        assert_eq!((listed(&dev).await, agent.requests()), (vec![fork.clone()], 3));
        assert_eq!(branches(&dev, "t").await, [("t".to_owned(), false), (fork, true)]);
    }
}

everywhere! {
    async fn an_answer_is_made_again_in_a_new_branch(server) {
        let dev = server.client();
        let agent = answered(&dev).await;
        let again = async |thread: &str, run: &str, message: &str| {
            let body = forking(run, json!([]), json!({ "regenerate": message }));
            text(&dev.post(&format!("/v1/threads/{thread}/runs"), body).await.ok(201), "threadId").to_owned()
        };
        let first = again("t", "r1", "two-m").await;
        let call = agent.call().await;
        assert_eq!(contents(&call.input()), ["hi", "hello", "how?"]);
        let mut end = said("r1-m", "fine");
        end.push(json!({ "type": "RUN_FINISHED", "threadId": first, "runId": "r1" }));
        call.finish(&end).await;
        eventually("it is said", async || (said_in(&dev, &first).await.len() == 4).then_some(())).await;
        // Branches of one place name the same origin, also if a branch of a branch was made there.
        let second = again(&first, "r2", "r1-m").await;
        agent.call().await;
        let origin = dev.get(&format!("/v1/threads/{first}")).await.ok(200)["forkedFrom"].clone();
        assert_eq!((&origin["threadId"], &dev.get(&format!("/v1/threads/{second}")).await.ok(200)["forkedFrom"]), (&json!("t"), &origin));
        // The first answer of the conversation, from a branch.
        let third = again(&second, "r3", "one-m").await;
        assert_eq!(contents(&agent.call().await.input()), ["hi"]);
        assert_eq!(dev.get(&format!("/v1/threads/{third}")).await.ok(200)["forkedFrom"]["seq"], 0);
        assert_eq!(branches(&dev, "t").await.len(), 4);
    }
}

everywhere! {
    async fn a_question_that_a_run_has_as_events_is_answered_again(server) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        let asked = json!([
            { "type": "TEXT_MESSAGE_START", "messageId": "u", "role": "user" },
            { "type": "TEXT_MESSAGE_CONTENT", "messageId": "u", "delta": "hi" },
            { "type": "TEXT_MESSAGE_END", "messageId": "u" },
            { "type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant" },
            { "type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "hello" },
            { "type": "TEXT_MESSAGE_END", "messageId": "m" },
        ]);
        dev.put("/v1/threads/t/runs/one", asked).await.ok(201);
        let chunk = json!([{ "type": "TEXT_MESSAGE_CHUNK", "messageId": "c", "role": "user", "delta": "more" }]);
        dev.put("/v1/threads/t/runs/two", chunk).await.ok(201);
        for (message, before) in [("u", vec![]), ("c", vec!["hi", "hello"])] {
            let body = forking(message, json!([user("edited", "other")]), json!({ "before": message }));
            dev.post("/v1/threads/t/runs", body).await.ok(201);
            assert_eq!(contents(&agent.call().await.input()), [before, vec!["other"]].concat());
        }
        let started = dev.post("/v1/threads/t/runs", forking("again", json!([]), json!({ "regenerate": "m" }))).await.ok(201);
        assert_eq!(contents(&agent.call().await.input()), ["hi"]);
        let fork = text(&started, "threadId");
        assert_eq!(dev.get(&format!("/v1/threads/{fork}/runs/one")).await.ok(200)["status"], "stopped");
    }
}

everywhere! {
    async fn a_refused_run_leaves_no_fork(server) {
        let dev = server.client();
        let agent = answered(&dev).await;
        let start = async |body: Value| dev.post("/v1/threads/t/runs", body).await;
        let bad = json!([{ "role": "banana", "content": "x" }]);
        start(forking("r", bad, json!({ "before": "two-u" }))).await.problem(400, "invalid-request");
        start(forking("r", json!([]), json!({ "regenerate": "none" }))).await.problem(404, "message-not-found");
        start(forking("r", json!([]), json!({ "at": 99 }))).await.problem(416, "cursor-ahead");
        start(forking("r", json!([]), json!({}))).await.problem(400, "invalid-request");
        start(forking("r", json!([]), json!({ "at": 1, "before": "two-u" }))).await.problem(400, "invalid-request");
        dev.post("/v1/threads/t/runs", json!({ "fork": { "at": 1 } })).await.problem(400, "invalid-request");
        assert_eq!((branches(&dev, "t").await.len(), agent.requests()), (1, 2));
        assert_eq!(listed(&dev).await, ["t"]);
    }
}

everywhere! {
    async fn a_fork_may_stop_the_run_that_it_replaces(server) {
        let dev = server.client();
        let agent = answered(&dev).await;
        dev.post("/v1/threads/t/runs", ask("slow", json!([user("slow-u", "wait")]))).await.ok(201);
        let slow = agent.call().await;
        let body = forking("quick", json!([user("quick-u", "go")]), json!({ "before": "slow-u", "stop": true }));
        let fork = dev.post("/v1/threads/t/runs", body).await.ok(201);
        assert_eq!(contents(&agent.call().await.input()), ["hi", "hello", "how?", "well", "go"]);
        eventually("the run is stopped", async || {
            let run = dev.get("/v1/threads/t/runs/slow").await.ok(200);
            (run["status"] == "stopped").then_some(())
        })
        .await;
        drop(slow);
        assert_eq!(listed(&dev).await, [text(&fork, "threadId")]);
    }
}

everywhere! {
    async fn a_fork_has_the_interrupts_that_were_open_at_its_seq(server) {
        let dev = server.client();
        dev.thread("t").await;
        let asks = json!({ "type": "RUN_FINISHED",
            "outcome": { "type": "interrupt", "interrupts": [{ "id": "i", "reason": "tool_call" }] } });
        dev.put("/v1/threads/t/runs/asks", json!([{ "type": "A" }, asks])).await.ok(201);
        let asked = number(&dev.get("/v1/threads/t").await.ok(200), "tail");
        let answer = json!([{ "type": "RUN_STARTED", "input": { "resume": [{ "interruptId": "i", "status": "resolved" }] } },
            { "type": "RUN_FINISHED" }]);
        dev.put("/v1/threads/t/runs/answers", answer.clone()).await.ok(201);
        for (at, open) in [(asked - 1, 0), (asked, 1), (asked + 1, 1), (asked + 2, 0)] {
            let fork = dev.post("/v1/threads/t/forks", json!({ "at": at })).await.ok(201);
            assert_eq!(number(&fork, "openInterrupts"), open, "{at}");
        }
        // An answer that was cut off is no answer, neither to the thread's row nor to its messages.
        let cut = dev.post("/v1/threads/t/forks", json!({ "threadId": "cut", "at": asked + 1 })).await.ok(201);
        assert_eq!((&cut["lastRun"]["status"], &cut["lastRun"]["errorCode"]), (&json!("error"), &json!("forked")));
        let said = dev.get("/v1/threads/cut/messages").await.ok(200);
        assert_eq!(said["interrupts"].as_array().expect("a list").len(), 1);
        // An answer in the fork is one for the fork alone.
        dev.post("/v1/threads/t/forks", json!({ "threadId": "f", "at": asked })).await.ok(201);
        dev.post("/v1/threads/t/forks", json!({ "threadId": "g", "at": asked })).await.ok(201);
        dev.put("/v1/threads/f/runs/answers", answer).await.ok(201);
        let open = async |thread: &str| number(&dev.get(&format!("/v1/threads/{thread}")).await.ok(200), "openInterrupts");
        assert_eq!((open("f").await, open("g").await), (0, 1));
        let inbox = dev.get("/v1/interrupts").await.ok(200);
        assert_eq!(inbox["interrupts"].as_array().expect("a list").iter().map(|one| text(one, "threadId")).collect::<Vec<_>>(), ["g"]);
    }
}

everywhere! {
    async fn a_user_with_branches_is_erased(server) {
        let dev = server.client();
        dev.thread("t").await;
        dev.put("/v1/threads/t/runs/one", json!([{ "type": "A" }])).await.ok(201);
        for id in ["one", "two"] {
            dev.post("/v1/threads/t/forks", json!({ "threadId": id })).await.ok(201);
        }
        server.project().delete("/v1/users/dev").await.ok(200);
        for id in ["t", "one", "two"] {
            dev.get(&format!("/v1/threads/{id}")).await.problem(404, "thread-not-found");
        }
    }
}

everywhere! {
    async fn a_fork_with_an_idempotency_key_is_made_once(server) {
        let dev = server.client();
        dev.thread("t").await;
        dev.put("/v1/threads/t/runs/one", json!([{ "type": "A" }])).await.ok(201);
        let fork = async || {
            let request = dev.request(Method::POST, "/v1/threads/t/forks").header("idempotency-key", "k").json(&json!({}));
            send(request).await
        };
        let made = fork().await.ok(201);
        assert_eq!(fork().await.ok(200)["threadId"], made["threadId"]);
        assert_eq!(dev.delete(&format!("/v1/threads/{}", text(&made, "threadId"))).await.status, 204);
        fork().await.problem(410, "thread-deleted");
        assert_eq!(listed(&dev).await, ["t"]);
    }
}

#[tokio::test]
async fn a_fork_counts_for_the_stored_bytes() {
    serve(Options::new(Backend::Sqlite).with_limits(|limits| limits.project.stored_bytes = 60_000), async |server| {
        let dev = server.user("ann");
        dev.thread("t").await;
        dev.put("/v1/threads/t/runs/one", json!([{ "type": "A", "words": "x".repeat(40_000) }])).await.ok(201);
        dev.post("/v1/threads/t/forks", json!({ "threadId": "f" })).await.problem(507, "storage-full");
        dev.get("/v1/threads/f").await.problem(404, "thread-not-found");
        // The refused copy is removed in the background.
        eventually("there is room", async || {
            let fork = dev.post("/v1/threads/t/forks", json!({ "threadId": "f", "at": 0 })).await;
            (fork.status == 201).then_some(())
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn forks_of_a_long_thread_are_copied_in_parts() {
    serve(Options::memory(), async |server| {
        let dev = server.client();
        dev.thread("t").await;
        dev.run("t", "r").await;
        let words = "x".repeat(4_000);
        for batch in 0..40u64 {
            let events: Vec<_> = (0..80).map(|n| json!({ "type": "X", "n": batch * 80 + n, "words": words })).collect();
            dev.append("t", "r", batch * 80 + 1, json!(events)).await.ok(200);
        }
        let fork = dev.post("/v1/threads/t/forks", json!({ "threadId": "f", "at": 3_000 })).await.ok(201);
        assert_eq!(number(&fork, "tail"), 3_001);
        let lines = |text: String, most: usize| text.lines().take(most).map(str::to_owned).collect::<Vec<_>>();
        let of = async |thread: &str| {
            let path = format!("/v1/threads/{thread}/events");
            lines(dev.get_as(&path, "application/x-ndjson").await.text().to_owned(), 3_000)
        };
        let without = |line: &String| line.replace("\"threadId\":\"f\"", "\"threadId\":\"t\"");
        assert_eq!(of("f").await.iter().map(without).collect::<Vec<_>>(), of("t").await);
    })
    .await;
}
