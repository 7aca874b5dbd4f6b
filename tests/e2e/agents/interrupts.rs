//! A run that waits for an answer, and a client that gives it later.

use std::time::Duration;

use clap::Parser;
use reqwest::Method;
use serde_json::{Value, json};
use threadline::cli::{Cli, Command, interrupts};
use threadline_client::{ClientConfig, ThreadQuery, ThreadStatus};
use threadline_core::{NewEvents, ProjectId, RunId, ThreadId};
use threadline_http::egress::Network;
use threadline_store::{StartOutcome, StartRun};

use super::{agent, agui, ask, ended, events_of, finished, messages, said, user};
use crate::{
    harness::{
        Client,
        agent::FakeAgent,
        eventually, everywhere,
        http::{open, send},
        socket::Socket,
        soon, text,
    },
    identity::bearer,
};

/// The end of a run that waits for answers to these.
fn waiting(run: &str, ids: &[&str]) -> Value {
    let interrupts: Vec<_> =
        ids.iter().map(|id| json!({ "id": id, "reason": "confirmation", "message": "?" })).collect();
    let mut event = finished(run);
    event["outcome"] = json!({ "type": "interrupt", "interrupts": interrupts });
    event
}

fn yes(id: &str) -> Value {
    json!({ "interruptId": id, "status": "resolved", "payload": { "approved": true } })
}

fn no(id: &str) -> Value {
    json!({ "interruptId": id, "status": "cancelled" })
}

/// A run that only answers.
fn answer(client: &Client, run: &str, resume: Value) -> reqwest::RequestBuilder {
    client
        .request(Method::POST, "/agui/a")
        .json(&json!({ "threadId": "t", "runId": run, "messages": [], "resume": resume }))
}

/// The open interrupts, as a client that loads the thread now sees them. The thread's row and the inbox say the same.
async fn open_now(client: &Client) -> Vec<String> {
    let interrupts = messages(client).await["interrupts"].clone();
    let id = |one: &Value| one["id"].as_str().expect("an id").to_owned();
    let open: Vec<_> = interrupts.as_array().expect("a list").iter().map(id).collect();
    let thread = client.get("/v1/threads/t").await.ok(200);
    assert_eq!(thread["openInterrupts"], json!(open.len()));
    if thread["activeRun"].is_null() {
        let listed = inbox(client, "").await;
        assert_eq!(listed.iter().map(|one| id(&one["interrupt"])).collect::<Vec<_>>(), open);
        assert_eq!(
            listed.iter().map(|one| one["interrupt"].clone()).collect::<Vec<_>>(),
            *interrupts.as_array().expect("a list")
        );
    }
    open
}

/// All pages of the inbox.
async fn inbox(client: &Client, query: &str) -> Vec<Value> {
    let (mut found, mut path) = (Vec::new(), format!("/v1/interrupts?limit=2{query}"));
    loop {
        let page = client.get(&path).await.ok(200);
        found.extend(page["interrupts"].as_array().expect("a list").iter().cloned());
        let Some(next) = page["nextCursor"].as_str() else { return found };
        path = format!("/v1/interrupts?limit=2{query}&cursor={next}");
    }
}

everywhere! {
    async fn interrupts_wait_for_a_later_client_and_are_answered_once(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let first = open(agui(&dev, "r1", json!([user("u1", "send both")]))).await;
        let mut call = agent.call().await;
        call.say(&said("a1", "May I?")).await;
        call.finish(&[waiting("r1", &["i1", "i2"])]).await;
        let text = soon(first.text()).await.expect("whole");
        assert!(text.ends_with(&format!("data: {}\n\n", waiting("r1", &["i1", "i2"]))), "{text}");

        // A client that loads the thread sees the interrupts in its messages and in its events.
        assert_eq!(messages(&dev).await["interrupts"], waiting("r1", &[ "i1", "i2"])["outcome"]["interrupts"]);
        assert_eq!(events_of(&dev, "r1").await.last(), Some(&waiting("r1", &["i1", "i2"])));

        // A run must answer all of them, through whichever API it comes.
        let news = json!([user("u2", "never mind")]);
        let mut partly = json!({ "threadId": "t", "runId": "r2", "messages": news });
        for (resume, left) in [(json!([]), vec!["i1", "i2"]), (json!([no("i1"), yes("i3")]), vec!["i2"])] {
            partly["resume"] = resume;
            let native = json!({ "agentId": "a", "input": partly });
            for refused in [
                dev.post("/agui/a", partly.clone()).await,
                dev.post("/agui/demo", partly.clone()).await,
                dev.post("/v1/threads/t/runs", native).await,
            ] {
                let problem = refused.problem(409, "interrupts-open");
                assert_eq!((&problem["interruptIds"], &problem["retryable"]), (&json!(left), &json!(false)));
                assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("i2")), "{problem}");
            }
        }
        send(agui(&dev, "r2", news)).await.problem(409, "interrupts-open");
        for bad in [json!([yes("i1"), { "interruptId": "i2" }]), json!([yes("i1"), no("i2"), no("i2")]), json!(["i1"])] {
            send(answer(&dev, "r2", bad)).await.problem(400, "invalid-request");
        }
        dev.get("/v1/threads/t/runs/r2").await.problem(404, "run-not-found");
        assert_eq!((dev.types("t").await.len(), agent.requests()), (5, 1), "nothing of what was refused");
        // The run that asks may be asked for again: it is the same.
        assert_eq!(send(agui(&dev, "r1", json!([user("u1", "send both")]))).await.text(), text);

        // Another client, which has nothing but the thread's id and what it was shown.
        let answered = open(answer(&dev, "r2", json!([yes("i1"), no("i2")]))).await;
        let mut call = agent.call().await;
        assert_eq!((call.message_ids(), &call.input()["resume"]), (vec!["u1".into(), "a1".into()], &json!([yes("i1"), no("i2")])));
        assert_eq!(events_of(&dev, "r2").await[0]["input"]["resume"], json!([yes("i1"), no("i2")]), "for the record");
        // They wait until the agent has dealt with them.
        assert_eq!(open_now(&dev).await, ["i1", "i2"]);
        send(answer(&dev, "r3", json!([yes("i1"), yes("i2")]))).await.problem(409, "run-active");
        call.say(&said("a2", "Sent one.")).await;
        call.finish(&[finished("r2")]).await;
        let text = soon(answered.text()).await.expect("whole");
        assert_eq!(open_now(&dev).await, [""; 0]);

        // A lost answer is fetched by the same run; another run would be another deed.
        assert_eq!(send(answer(&dev, "r2", json!([yes("i1"), no("i2")]))).await.text(), text);
        let refused = send(answer(&dev, "r4", json!([yes("i2"), yes("i1")]))).await.problem(409, "interrupt-settled");
        assert_eq!(refused["interruptIds"], json!(["i1", "i2"]));
        assert_eq!(agent.requests(), 2);

        // The chat continues.
        let next = open(agui(&dev, "r5", json!([user("u2", "thanks")]))).await;
        agent.call().await.finish(&[finished("r5")]).await;
        assert!(soon(next.text()).await.expect("whole").contains("RUN_FINISHED"));
    }
}

everywhere! {
    async fn an_interrupt_whose_answering_run_failed_can_be_answered_again(server) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        dev.post("/v1/threads/t/runs", ask("r1", json!([user("u1", "hi")]))).await.ok(201);
        agent.call().await.finish(&[waiting("r1", &["i"])]).await;
        ended(&dev, "r1").await;
        let resume = |run: &str| json!({ "agentId": "a", "runId": run, "input": { "resume": [yes("i")] } });
        dev.post("/v1/threads/t/runs", resume("r2")).await.ok(201);
        agent.call().await.end().await;
        assert_eq!(ended(&dev, "r2").await["errorCode"], "agent-incomplete");
        assert_eq!(open_now(&dev).await, ["i"], "it was not dealt with");
        dev.post("/v1/threads/t/runs", resume("r3")).await.ok(201);
        // It asks once more, under the same name.
        agent.call().await.finish(&[waiting("r3", &["i"])]).await;
        ended(&dev, "r3").await;
        assert_eq!(open_now(&dev).await, ["i"]);
        dev.post("/v1/threads/t/runs", resume("r4")).await.ok(201);
        // A stop: the run is finished, and its interrupts are closed.
        let mut call = agent.call().await;
        dev.post("/v1/threads/t/runs/r4/stop", json!({})).await;
        call.hung_up().await;
        assert_eq!(ended(&dev, "r4").await["status"], "stopped");
        assert_eq!(open_now(&dev).await, [""; 0]);
        // What the log has never had is the agent's to judge.
        let unknown = json!({ "agentId": "a", "runId": "r5", "input": { "resume": [yes("from before")] } });
        dev.post("/v1/threads/t/runs", unknown).await.ok(201);
        let call = agent.call().await;
        assert_eq!(call.input()["resume"], json!([yes("from before")]));
        call.finish(&[finished("r5")]).await;
        ended(&dev, "r5").await;
    }
}

/// The end of a run that waits for answers to these until then.
fn waiting_until(run: &str, until: &[(&str, &str)]) -> Value {
    let mut event = waiting(run, &until.iter().map(|(id, _)| *id).collect::<Vec<_>>());
    for (at, (_, until)) in until.iter().enumerate() {
        event["outcome"]["interrupts"][at]["expiresAt"] = json!(until);
    }
    event
}

everywhere! {
    async fn an_expired_interrupt_takes_no_answer_and_holds_up_no_thread(server) {
        let (past, future) = ("2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z");
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        dev.post("/v1/threads/t/runs", ask("r1", json!([user("u1", "hi")]))).await.ok(201);
        agent.call().await.finish(&[waiting_until("r1", &[("old", past), ("new", future)])]).await;
        ended(&dev, "r1").await;
        let ids = |open: Vec<Value>| open.iter().map(|one| text(&one["interrupt"], "id").to_owned()).collect::<Vec<_>>();
        assert_eq!(ids(inbox(&dev, "").await), ["new"]);

        // One that has not expired still has to be answered; one that has cannot be resolved.
        let refused = send(agui(&dev, "r2", json!([user("u2", "more")]))).await.problem(409, "interrupts-open");
        assert_eq!(refused["interruptIds"], json!(["new"]));
        let refused = send(answer(&dev, "r2", json!([yes("new"), yes("old")]))).await.problem(409, "interrupt-expired");
        assert_eq!((&refused["interruptIds"], &refused["retryable"]), (&json!(["old"]), &json!(false)));
        dev.get("/v1/threads/t/runs/r2").await.problem(404, "run-not-found");

        // The agent learns of both, and the log has it. The request can be repeated.
        let own = json!({ "interruptId": "old", "status": "cancelled", "metadata": { "threadline": { "expired": true } } });
        let resume = |run: &str| json!({ "agentId": "a", "runId": run, "input": { "resume": [yes("new")] } });
        dev.post("/v1/threads/t/runs", resume("r2")).await.ok(201);
        let call = agent.call().await;
        assert_eq!(call.input()["resume"], json!([yes("new"), own]));
        assert_eq!(events_of(&dev, "r2").await[0]["input"]["resume"], json!([yes("new"), own]));
        dev.post("/v1/threads/t/runs", resume("r2")).await.ok(200);
        call.finish(&[waiting_until("r2", &[("later", past)])]).await;
        ended(&dev, "r2").await;
        assert_eq!(ids(inbox(&dev, "").await), [""; 0]);

        // A message alone goes on.
        dev.post("/v1/threads/t/runs", ask("r3", json!([user("u3", "and now?")]))).await.ok(201);
        let call = agent.call().await;
        assert_eq!(call.input()["resume"][0]["interruptId"], "later");
        call.finish(&[finished("r3")]).await;
        ended(&dev, "r3").await;
        assert_eq!(open_now(&dev).await, [""; 0]);
    }
}

everywhere! {
    async fn of_two_simultaneous_answers_the_agent_receives_one(server: |options| options.with_glass()) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        dev.put("/v1/threads/t/runs/r1", json!([waiting("r1", &["i"])])).await.ok(201);
        // This one has looked, and is on its way …
        server.intercept().start_gate.hold();
        let late = tokio::spawn(send(answer(&dev, "late", json!([yes("i")]))));
        server.intercept().start_gate.reached().await;
        // … while the other's answer is dealt with. (By the store itself: an API would refuse it.)
        let store = &server.intercept().inner;
        let (project, thread) = (ProjectId::new("default").expect("an id"), ThreadId::new("t").expect("an id"));
        let key = store.thread_named(&project, &thread).await.expect("a store").thread().expect("a thread").key;
        let started = json!({ "type": "RUN_STARTED", "input": { "resume": [yes("i")] } });
        let events = NewEvents::from_array(json!([started, finished("r2")]).to_string().as_bytes()).expect("events");
        let (run, lease) = (RunId::new("r2").expect("an id"), Duration::from_secs(20));
        let start = StartRun { key, run, agent: None, turn: None, attempt_id: None, author: None, asked_by: None, lease, closing: None, events: Some(events), at: None, epoch: None, past_queue: false };
        assert!(matches!(store.start(start).await, Ok(StartOutcome::Started(_))));
        server.intercept().start_gate.open();
        // A run starts only with what the log still holds.
        late.await.expect("answered").problem(409, "interrupt-settled");
        dev.get("/v1/threads/t/runs/late").await.problem(404, "run-not-found");
        assert_eq!(agent.requests(), 0);
    }
}

everywhere! {
    async fn a_run_that_answers_nothing_leaves_an_interrupt_open(server: |options| options.with_key("secret").with_agent_networks(vec![Network::Loopback])) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&server.project()).await;
        dev.post("/v1/threads/t/runs", ask("r1", json!([user("u1", "hi")]))).await.ok(201);
        agent.call().await.finish(&[waiting("r1", &["i", "k"])]).await;
        ended(&dev, "r1").await;
        // Empty runs, in every form in which one can be pushed; one that answers in LangGraph's words, and to another id.
        let command = json!({ "forwardedProps": { "command": { "resume": "yes" } } });
        let silent = [
            ("whole", json!([{ "type": "RUN_STARTED" }, finished("whole")])),
            ("bare", json!([finished("bare")])),
            ("success", json!([{ "type": "RUN_STARTED" },
                { "type": "RUN_FINISHED", "outcome": { "type": "success" } }])),
            ("command", json!([{ "type": "RUN_STARTED", "input": command }, finished("command")])),
            ("another", json!([{ "type": "RUN_STARTED", "input": { "resume": [yes("x")] } }, finished("another")])),
            ("halves", json!([{ "type": "RUN_STARTED", "input": { "resume": [{ "interruptId": "i" }, "k", 7] } },
                finished("halves")])),
        ];
        for (run, events) in silent {
            dev.put(&format!("/v1/threads/t/runs/{run}"), events).await.ok(201);
            assert_eq!(open_now(&dev).await, ["i", "k"], "{run}");
        }
        dev.run("t", "finished").await;
        dev.act("t", "finished", "finish").await.ok(200);
        let lock = json!({ "runId": "locked", "userId": "dev", "agentId": "agent", "ttlSeconds": 20 });
        crate::copilotkit::post(server, "/api/threads/t/lock", lock).await.ok(200);
        let mut runner = crate::copilotkit::Frames::producing(server, "t", "locked").await;
        runner.sends(&crate::copilotkit::said("t", "locked", "Hello world")).await;
        assert_eq!(open_now(&dev).await, ["i", "k"]);
        dev.post("/v1/threads/t/runs", ask("r2", json!([user("u2", "more")]))).await.problem(409, "interrupts-open");
        // A run that asks something else as well: all of it waits.
        dev.put("/v1/threads/t/runs/r3", json!([{ "type": "RUN_STARTED" }, waiting("r3", &["l"])])).await.ok(201);
        assert_eq!(open_now(&dev).await, ["i", "k", "l"]);
        // One that fails has not answered, one that names an interrupt has.
        let answering = |run: &str, ids: &[&str]| {
            let resume: Vec<_> = ids.iter().map(|id| yes(id)).collect();
            json!({ "type": "RUN_STARTED", "threadId": "t", "runId": run, "input": { "resume": resume } })
        };
        let failed = json!([answering("r4", &["i"]), { "type": "RUN_ERROR", "message": "no" }]);
        dev.put("/v1/threads/t/runs/r4", failed).await.ok(201);
        dev.put("/v1/threads/t/runs/r5", json!([finished("r5")])).await.ok(201);
        assert_eq!(open_now(&dev).await, ["i", "k", "l"]);
        dev.put("/v1/threads/t/runs/r6", json!([answering("r6", &["i", "l"]), finished("r6")])).await.ok(201);
        assert_eq!(open_now(&dev).await, ["k"]);
        let resume = json!({ "agentId": "a", "runId": "r7", "input": { "resume": [no("k")] } });
        dev.post("/v1/threads/t/runs", resume).await.ok(201);
        agent.call().await.finish(&[finished("r7")]).await;
        ended(&dev, "r7").await;
        assert_eq!(open_now(&dev).await, [""; 0]);
    }
}

everywhere! {
    async fn the_inbox_lists_what_waits_over_all_threads_of_a_user(server: |options| options.with_key("secret").with_agent_networks(vec![Network::Loopback])) {
        let ann = server.user("ann");
        let agent = agent(&server.project()).await;
        for id in ["t0", "t1", "t2", "t3"] {
            ann.post("/v1/threads", json!({ "threadId": id, "name": id })).await.ok(201);
            let ask = json!({ "agentId": "a", "runId": "r", "input": { "messages": [user("u", "hi")] } });
            ann.post(&format!("/v1/threads/{id}/runs"), ask).await.ok(201);
            let end = if id == "t2" { finished("r") } else { waiting("r", &["i", "k"]) };
            agent.call().await.finish(&[end]).await;
            eventually("the run has ended", async || ann.get(&format!("/v1/threads/{id}")).await.ok(200)["activeRun"].is_null().then_some(())).await;
        }
        ann.put("/v1/threads/t4/runs/r", json!([waiting("r", &["own"])])).await.problem(404, "thread-not-found");
        ann.post("/v1/threads", json!({ "threadId": "t4", "agentId": "b" })).await.ok(201);
        ann.put("/v1/threads/t4/runs/r", json!([{ "type": "RUN_STARTED" }, waiting("r", &["own"])])).await.ok(201);
        let bob = server.user("bob");
        bob.post("/v1/threads", json!({ "threadId": "bobs" })).await.ok(201);
        bob.put("/v1/threads/bobs/runs/r", json!([waiting("r", &["i"])])).await.ok(201);

        let all = inbox(&ann, "").await;
        let place = |one: &Value| format!("{} {}", one["threadId"].as_str().expect("an id"), one["interrupt"]["id"].as_str().expect("an id"));
        assert_eq!(all.iter().map(place).collect::<Vec<_>>(), ["t4 own", "t3 i", "t3 k", "t1 i", "t1 k", "t0 i", "t0 k"]);
        let (own, asked) = (&all[0], &all[1]);
        assert_eq!((&own["agentId"], &own["author"]), (&json!("b"), &json!("operator")));
        let thread = ann.get("/v1/threads/t3").await.ok(200);
        let mut expected = json!({
            "threadId": "t3", "threadName": "t3", "userId": "ann", "agentId": "a", "runId": "r", "author": "agent:a",
            "seq": thread["tail"], "epoch": thread["epoch"], "interrupt": waiting("r", &["i"])["outcome"]["interrupts"][0],
        });
        expected["openedAt"] = asked["openedAt"].clone();
        assert_eq!(*asked, expected);
        assert_eq!(asked["openedAt"], thread["lastRunAt"]);
        assert_eq!(inbox(&ann, "&agentId=b").await.iter().map(place).collect::<Vec<_>>(), ["t4 own"]);
        assert_eq!(inbox(&server.project(), "&userId=bob").await.iter().map(place).collect::<Vec<_>>(), ["bobs i"]);
        server.project().get("/v1/interrupts").await.problem(400, "invalid-request");
        ann.get("/v1/interrupts?cursor=x").await.problem(400, "invalid-cursor");

        // The list and the feed count them.
        let listed = ann.get("/v1/threads?status=waiting").await.ok(200);
        let counts: Vec<_> = listed["threads"].as_array().expect("a list").iter().map(|thread| thread["openInterrupts"].clone()).collect();
        assert_eq!(counts, [1, 2, 2, 2].map(|count| json!(count)));
        let page = ann.get("/v1/interrupts").await.ok(200);
        let since = format!("after={}&epoch={}", page["feedCursor"], text(&page, "feedEpoch"));
        let resume = json!({ "agentId": "a", "runId": "r2", "input": { "resume": [yes("i"), no("k")] } });
        ann.post("/v1/threads/t3/runs", resume).await.ok(201);
        agent.call().await.finish(&[finished("r2")]).await;
        eventually("the feed has the change", async || {
            let feed = ann.get(&format!("/v1/feed?{since}")).await.ok(200);
            let entries = feed["entries"].as_array().expect("a list").clone();
            entries.iter().any(|entry| entry["thread"]["threadId"] == "t3" && entry["thread"]["openInterrupts"] == 0).then_some(())
        })
        .await;
        // A thread that is archived or deleted waits for nobody.
        ann.patch("/v1/threads/t1", json!({ "archived": true })).await.ok(200);
        assert_eq!(ann.delete("/v1/threads/t4").await.status, 204);
        assert_eq!(inbox(&ann, "").await.iter().map(place).collect::<Vec<_>>(), ["t0 i", "t0 k"]);
    }
}

everywhere! {
    async fn a_token_settles_no_interrupt_of_an_agent_by_a_run_of_its_own(server: |options| options.with_key("secret").with_agent_networks(vec![Network::Loopback])) {
        let agent = FakeAgent::start().await;
        server.project().put("/v1/agents/a", json!({ "url": agent.url, "approvals": "backend" })).await.ok(200);
        let scopes = json!({ "userId": "dev", "scopes": ["read", "chat", "produce", "approve"] });
        let made = server.project().post("/v1/tokens", scopes).await.ok(201);
        let page = bearer(server, text(&made, "token"));
        page.thread("t").await;
        page.post("/v1/threads/t/runs", ask("r1", json!([user("u1", "hi")]))).await.ok(201);
        agent.call().await.finish(&[waiting("r1", &["i"])]).await;
        ended(&page, "r1").await;
        let answers = |ids: &[&str]| {
            let resume: Vec<_> = ids.iter().map(|id| yes(id)).collect();
            json!({ "type": "RUN_STARTED", "input": { "resume": resume } })
        };
        // In each form in which a run can be pushed.
        let whole = json!([answers(&["i"]), finished("whole")]);
        page.put("/v1/threads/t/runs/whole", whole.clone()).await.problem(403, "interrupt-not-yours");
        page.get("/v1/threads/t/runs/whole").await.problem(404, "run-not-found");
        page.post("/v1/threads/t/runs", json!({ "runId": "pushed" })).await.ok(201);
        page.post("/v1/threads/t/runs/pushed/events", json!([answers(&["i"])])).await.problem(403, "interrupt-not-yours");
        let mut socket = Socket::open(&page).await;
        let append = json!({ "threadId": "t", "runId": "pushed", "producerSeq": 1, "events": [answers(&["unknown"])] });
        socket.send(json!({ "id": "1", "append": append })).await;
        socket.problem("1", 403, "interrupt-not-yours").await;
        page.act("t", "pushed", "finish").await.ok(200);
        assert_eq!(open_now(&page).await, ["i"]);

        // An interrupt of its own is its own to answer, and a repeated request changes nothing.
        page.put("/v1/threads/t/runs/asks", json!([waiting("asks", &["own"])])).await.ok(201);
        let own = json!([answers(&["own"]), finished("own")]);
        page.put("/v1/threads/t/runs/own", own.clone()).await.ok(201);
        page.put("/v1/threads/t/runs/own", own).await.ok(200);
        assert_eq!(open_now(&page).await, ["i"]);
        // The backend answers as it likes.
        let backend = server.user("dev");
        backend.put("/v1/threads/t/runs/whole", whole.clone()).await.ok(201);
        assert_eq!(open_now(&page).await, [""; 0]);
    }
}

/// The parsed command line.
fn command(line: &str) -> Command {
    Cli::try_parse_from(format!("threadline {line}").split(' ')).expect("a command line").command
}

everywhere! {
    async fn the_command_line_lists_what_waits_and_answers_it(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let client = threadline_client::Client::new(ClientConfig::new(format!("http://{}", server.addr))).expect("a client");
        let listed = async |line: &str| {
            let Command::Interrupts(args) = command(line) else { panic!("not interrupts") };
            let mut out = Vec::new();
            interrupts::list(&client, &args, &mut out).await.expect("listed");
            String::from_utf8(out).expect("text")
        };
        assert_eq!(listed("interrupts").await, "");
        dev.thread("t").await;
        dev.post("/v1/threads/t/runs", ask("r1", json!([user("u1", "hi")]))).await.ok(201);
        let mut end = waiting("r1", &["i", "k"]);
        end["outcome"]["interrupts"][0]["message"] = json!("Send\u{1b}[2J it?");
        agent.call().await.finish(&[end]).await;
        ended(&dev, "r1").await;
        let lines = listed("interrupts").await;
        assert!(lines.lines().next().is_some_and(|line| line.starts_with("t  a  ") && line.ends_with("  Send\\u{1b}[2J it?")), "{lines}");
        assert_eq!(lines.lines().count(), 2);
        let page = client.list_threads(&ThreadQuery { status: Some(ThreadStatus::Waiting), ..ThreadQuery::default() }).await.expect("a page");
        assert_eq!(page.threads[0].open_interrupts, 2);
        let one: Value = serde_json::from_str(listed("interrupts --json --agent a --limit 1").await.lines().last().expect("lines")).expect("JSON");
        assert_eq!((text(&one, "threadId"), &one["interrupt"]["id"]), ("t", &json!("k")));

        let Command::Answer(args) = command(r#"answer t --payload {"approved":true}"#) else { panic!("not answer") };
        let mut out = Vec::new();
        let (answered, ()) = tokio::join!(interrupts::settle(&client, &args, &mut out, std::future::pending()), async {
            let mut call = agent.call().await;
            assert_eq!(call.input()["resume"], json!([yes("i"), yes("k")]));
            call.say(&said("a1", "Sent.")).await;
            call.finish(&[finished("r2")]).await;
        });
        answered.expect("answered");
        assert_eq!(String::from_utf8(out).expect("text"), "Sent.\n");
        assert_eq!(listed("interrupts").await, "");
        let refused = interrupts::settle(&client, &args, &mut Vec::new(), std::future::pending()).await;
        assert_eq!(refused.expect_err("nothing waits").to_string(), "thread t has no open interrupt of an agent (list the threads that wait with `threadline interrupts`)");
        assert!(Cli::try_parse_from(["threadline", "answer", "t", "--payload", "{"]).is_err());
        assert!(Cli::try_parse_from(["threadline", "answer", "t", "--payload", "{}", "--cancel"]).is_err());
    }
}
