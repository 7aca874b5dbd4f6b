//! The first tier: a name from the user's first words, at once and without any model.

use super::*;
use crate::harness::{after, everywhere};

everywhere! {
    async fn a_thread_is_named_in_its_users_own_words(server) {
        let dev = server.client();
        for (thread, said, name) in [
            ("en", "Hi! Can you help me plan a **trip to Ghent** next week?", "Plan a trip to Ghent next week"),
            ("question", "How do I reset my password?", "How do I reset my password?"),
            ("de", "Kannst du mir bitte eine Reise nach Gent planen?", "Eine Reise nach Gent planen"),
            ("ja", "来週の京都旅行の計画を立てるのを手伝ってください", "来週の京都旅行の計画を立てるのを手伝ってください"),
            ("zh", "请帮我写一首关于秋天的诗。谢谢！", "写一首关于秋天的诗"),
        ] {
            assert_eq!(dev.thread(thread).await["name"], Value::Null);
            converse(&dev, thread, "r", said.into()).await;
            named(&dev, thread, name, "auto").await;
        }
        let parts = json!([
            { "type": "image", "source": { "type": "url", "value": "https://h/i.png" } },
            { "type": "text", "text": "What breed is this dog?" },
        ]);
        dev.thread("parts").await;
        converse(&dev, "parts", "r", parts).await;
        named(&dev, "parts", "What breed is this dog?", "auto").await;
        outcome(server, "auto", 6.0).await;
    }
}

everywhere! {
    async fn lists_and_feeds_show_it(server) {
        let dev = server.client();
        dev.thread("t").await;
        let mut place = after(&dev.get("/v1/threads").await.ok(200));
        converse(&dev, "t", "r", "Plan a trip to Ghent".into()).await;
        let entry = eventually("the feed has it", async || {
            let feed = dev.get(&format!("/v1/feed?{place}&wait=10")).await.ok(200);
            place = after(&feed);
            let entries = feed["entries"].as_array().expect("entries").clone();
            entries.into_iter().find(|entry| !entry["thread"]["name"].is_null())
        });
        let entry = entry.await;
        assert_eq!((&entry["thread"]["name"], &entry["thread"]["nameSource"]), (&json!("Plan a trip to Ghent"), &json!("auto")));
        let list = dev.get("/v1/threads").await.ok(200);
        assert_eq!(list["threads"][0]["name"], "Plan a trip to Ghent");
    }
}

everywhere! {
    async fn a_later_run_changes_no_name_and_names_unnamed_threads(server) {
        let dev = server.client();
        dev.thread("t").await;
        // First a message without words, then only a greeting.
        converse(&dev, "t", "wordless", "😀 !!!".into()).await;
        converse(&dev, "t", "greeting", "こんにちは！".into()).await;
        named(&dev, "t", "こんにちは", "auto").await;
        converse(&dev, "t", "first", "Plan a trip to Ghent".into()).await;
        named(&dev, "t", "Plan a trip to Ghent", "auto").await;
        converse(&dev, "t", "second", "Now something else please".into()).await;
        // Named in the meantime, so the earlier run was checked.
        dev.thread("u").await;
        converse(&dev, "u", "r", "Another thread".into()).await;
        named(&dev, "u", "Another thread", "auto").await;
        assert_eq!(look(&dev, "t").await["name"], "Plan a trip to Ghent");
        outcome(server, "auto", 3.0).await;
    }
}

everywhere! {
    async fn however_a_run_ends_its_thread_is_named(server) {
        let dev = server.client();
        let started = |thread: &str, said: &str| json!([{ "type": "RUN_STARTED", "threadId": thread, "runId": "r", "input": {
            "threadId": thread, "runId": "r", "messages": [{ "id": "u", "role": "user", "content": said }]
        } }]);
        for (thread, verb) in [("finished", "finish"), ("failed", "fail")] {
            dev.thread(thread).await;
            dev.run(thread, "r").await;
            dev.append(thread, "r", 1, started(thread, &format!("This run {thread}"))).await.ok(200);
            assert_eq!(dev.act(thread, "r", verb).await.status, 200);
            named(&dev, thread, &format!("This run {thread}"), "auto").await;
        }
        // Over the demo agent, which is asked for no name.
        dev.thread("agent").await;
        let input = json!({ "messages": [{ "role": "user", "content": "Show me something" }] });
        dev.post("/v1/threads/agent/runs", json!({ "agentId": "demo", "input": input })).await.ok(201);
        named(&dev, "agent", "Show me something", "auto").await;
        // As a document.
        let list = json!({ "messages": [{ "id": "m", "role": "user", "content": "Kept as a document" }] });
        dev.put("/v1/conversations/document", list).await;
        named(&dev, "document", "Kept as a document", "auto").await;
    }
}

// A list shows what a conversation is about as soon as it has begun, not once its first run is over.
everywhere! {
    async fn a_thread_is_named_while_its_first_run_is_active(server) {
        let dev = server.client();
        let agent = FakeAgent::start().await;
        dev.put("/v1/agents/a", json!({ "url": agent.url })).await.ok(200);
        let message = |content: &str| json!([{ "id": "u", "role": "user", "content": content }]);
        let asked = json!({ "runId": "r", "agentId": "a", "input": { "messages": message("How do I reset my password?") } });
        dev.thread("driven").await;
        dev.post("/v1/threads/driven/runs", asked).await.ok(201);
        let mut call = agent.call().await;
        assert_eq!(named(&dev, "driven", "How do I reset my password?", "auto").await["activeRun"]["runId"], "r");
        // Pushed, with the user's message among the run's first events.
        dev.thread("pushed").await;
        dev.run("pushed", "r").await;
        let input = json!({ "threadId": "pushed", "runId": "r", "messages": message("Plan a trip to Ghent") });
        let started = json!([{ "type": "RUN_STARTED", "threadId": "pushed", "runId": "r", "input": input }]);
        dev.append("pushed", "r", 1, started).await.ok(200);
        assert_eq!(named(&dev, "pushed", "Plan a trip to Ghent", "auto").await["activeRun"]["runId"], "r");
        // Said later in the run, it is looked for at the end.
        dev.thread("later").await;
        dev.run("later", "r").await;
        dev.append("later", "r", 1, json!([{ "type": "STEP_STARTED", "stepName": "s" }])).await.ok(200);
        let said = json!([{ "type": "MESSAGES_SNAPSHOT", "messages": message("Compare Rust and Go") }]);
        dev.append("later", "r", 2, said).await.ok(200);
        dev.act("later", "r", "finish").await.ok(200);
        named(&dev, "later", "Compare Rust and Go", "auto").await;
        call.say(&[json!({ "type": "RUN_FINISHED", "threadId": "driven", "runId": "r" })]).await;
        call.end().await;
        dev.act("pushed", "r", "finish").await.ok(200);
        outcome(server, "auto", 3.0).await;
        outcome(server, "overtaken", 0.0).await;
    }
}

// A name that a person set stays, and causes no read of the log.
everywhere! {
    async fn a_named_thread_keeps_its_name_when_a_run_begins(server) {
        let dev = server.client();
        dev.post("/v1/threads", json!({ "threadId": "mine", "name": "Mine" })).await.ok(201);
        dev.thread("other").await;
        for thread in ["mine", "other"] {
            dev.run(thread, "r").await;
            let message = json!([{ "id": "u", "role": "user", "content": "Plan a trip to Ghent" }]);
            let started = json!([{ "type": "RUN_STARTED", "input": { "messages": message } }]);
            dev.append(thread, "r", 1, started).await.ok(200);
        }
        named(&dev, "other", "Plan a trip to Ghent", "auto").await;
        assert_eq!(look(&dev, "mine").await["name"], "Mine");
        outcome(server, "auto", 1.0).await;
    }
}

#[tokio::test]
async fn projects_with_naming_switched_off_have_no_names() {
    let server = Server::start(Options::memory().without_naming()).await;
    let (dev, store) = (server.client(), server.store.clone());
    dev.thread("t").await;
    converse(&dev, "t", "r", "Plan a trip to Ghent".into()).await;
    server.stop().await;
    assert_eq!(names(&store).await, Vec::<String>::new());

    let model = FakeAgent::start().await;
    let server = Server::start(Options::memory().with_naming(endpoint(&model))).await;
    let store = server.store.clone();
    let off = json!({ "generateThreadNames": false });
    let made = server.client().put("/v1/projects/default", off).await;
    assert_eq!(made.json()["settings"]["generateThreadNames"], false, "{}", made.text());
    let shown = server.client().get("/v1/projects/default").await.ok(200);
    assert_eq!(shown["settings"]["generateThreadNames"], false);
    let dev = server.client();
    dev.thread("t").await;
    converse(&dev, "t", "r", "Plan a trip to Ghent".into()).await;
    server.stop().await;
    assert_eq!((names(&store).await, model.requests()), (vec![], 0));
}

#[tokio::test]
async fn runs_that_have_just_ended_are_named_before_the_node_ends() {
    let model = FakeAgent::start().await;
    let server = Server::start(Options::memory().with_naming(endpoint(&model))).await;
    let (dev, store) = (server.client(), server.store.clone());
    for n in 0..20 {
        let thread = format!("t{n:02}");
        dev.thread(&thread).await;
        converse(&dev, &thread, "r", format!("Thread number {n:02}").into()).await;
    }
    // No request waits for the model, which never answers.
    server.stop().await;
    let expected: Vec<_> = (0..20).map(|n| format!("Thread number {n:02}")).collect();
    let mut found = names(&store).await;
    found.sort();
    assert_eq!(found, expected);
}

/// The names of all threads of the development user.
async fn names(store: &threadline_store::DynStore) -> Vec<String> {
    let list = threadline_store::ListThreads {
        project: threadline_core::ProjectId::new("default").expect("an id"),
        user: threadline_core::UserId::new("dev").expect("an id"),
        include_archived: true,
        agent: None,
        status: None,
        order: Default::default(),
        after: None,
        limit: 100,
    };
    let page = store.list_threads(list).await.expect("a page");
    page.threads.into_iter().filter_map(|thread| thread.name).collect()
}
