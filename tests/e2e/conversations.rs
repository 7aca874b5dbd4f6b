//! Conversations as documents: saved whole, diffed against the log, never silently shorter.

use std::{collections::HashSet, time::Duration};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::{Answer, Client, Options, everywhere, http::send, number, run, text};

const PATH: &str = "/v1/conversations/chat";

async fn save(client: &Client, path: &str, messages: Value) -> Answer {
    client.put(path, json!({ "messages": messages })).await
}

async fn save_if(client: &Client, condition: (&str, &str), messages: Value) -> Answer {
    let request = client.request(Method::PUT, PATH).header(condition.0, condition.1);
    send(request.json(&json!({ "messages": messages }))).await
}

async fn load(client: &Client, path: &str) -> (Value, String) {
    let answer = client.get(path).await;
    (answer.ok(200)["messages"].clone(), answer.header("etag").to_owned())
}

fn said(id: &str) -> Value {
    json!({ "id": id, "role": "user", "content": format!("says {id}") })
}

fn list(ids: &str) -> Value {
    ids.chars().map(|id| said(&id.to_string())).collect()
}

fn ids(messages: &Value) -> Vec<&str> {
    messages.as_array().expect("messages").iter().map(|message| text(message, "id")).collect()
}

everywhere! {
    async fn new_messages_are_appended_and_a_retry_adds_nothing(server) {
        let dev = server.client();
        dev.get(PATH).await.problem(404, "thread-not-found");
        let first = save(&dev, PATH, list("ab")).await;
        let view = first.ok(201);
        assert_eq!((&view["outcome"], &view["appended"], number(&view, "seq")), (&json!("appended"), &json!(2), 2));
        assert_eq!(first.header("etag"), format!("\"{}-2\"", text(&view, "epoch")));
        let (messages, etag) = load(&dev, PATH).await;
        assert_eq!((messages, etag.as_str()), (list("ab"), first.header("etag")));
        let more = save(&dev, PATH, list("abc")).await;
        assert_eq!((number(&more.ok(200), "appended"), number(&more.ok(200), "seq")), (1, 4));
        let again = save(&dev, PATH, list("abc")).await;
        assert_eq!((&again.ok(200)["outcome"], again.header("etag")), (&json!("unchanged"), more.header("etag")));
        assert_eq!(dev.types("chat").await.len(), 4);

        // The conversation has continued since: the retry of an earlier write receives its earlier answer.
        save(&dev, PATH, list("abcde")).await.ok(200);
        let late = save(&dev, PATH, list("abc")).await;
        assert_eq!((&late.ok(200)["outcome"], late.header("etag")), (&json!("repeated"), more.header("etag")));
        assert_eq!((load(&dev, PATH).await.0, dev.types("chat").await.len()), (list("abcde"), 6));

        // Nothing is appended for a list that says the same in other words.
        let body = r#" { "messages" : [ {"content":"says \u0061","role":"user","id":"a"} ,
            {"id":"b","role":"user","content":"says b"},{"id":"c","role":"user","content":"says c"},
            {"id":"d","role":"user","content":"says d"},{"id":"e","role":"user","content":"says e","name":"x"} ] } "#;
        let other = send(dev.request(Method::PUT, PATH).header("content-type", "application/json").body(body)).await;
        assert_eq!(number(&other.problem(409, "conversation-diverged"), "common"), 4);
        let same = body.replace(",\"name\":\"x\"", "");
        let same = send(dev.request(Method::PUT, PATH).header("content-type", "application/json").body(same)).await;
        assert_eq!(same.ok(200)["outcome"], "unchanged");
    }
}

everywhere! {
    async fn nothing_stored_is_lost_unless_its_version_is_named(server) {
        let dev = server.client();
        save(&dev, PATH, list("abcd")).await.ok(201);
        let (_, etag) = load(&dev, PATH).await;
        for (other, common) in [("abc", 3), ("", 0), ("abxd", 2), ("xabcd", 0), ("abcx", 3), ("abdce", 2)] {
            let facts = save(&dev, PATH, list(other)).await.problem(409, "conversation-diverged");
            assert_eq!((number(&facts, "stored"), number(&facts, "common")), (4, common), "{other}");
            assert_eq!(text(&facts, "etag"), etag);
            save_if(&dev, ("if-match", "*"), list(other)).await.problem(409, "conversation-diverged");
            let facts = save_if(&dev, ("if-match", "\"0000000000000000-6\""), list(other)).await;
            assert_eq!(text(&facts.problem(412, "conversation-changed"), "etag"), etag);
        }
        assert_eq!(load(&dev, PATH).await, (list("abcd"), etag.clone()));

        let mut before = etag.clone();
        for (n, other) in ["abc", "xabcd", "dcba", "", "ab", "ba", "abz"].into_iter().enumerate() {
            let replaced = save_if(&dev, ("if-match", &before), list(other)).await;
            let outcome = if n == 4 { "appended" } else { "replaced" };
            assert_eq!(replaced.ok(200)["outcome"], outcome, "{other}");
            assert_eq!(load(&dev, PATH).await, (list(other), replaced.header("etag").to_owned()));
            // Its answer was lost: the version that it names is not there any more, and yet it is carried out.
            let again = save_if(&dev, ("if-match", &before), list(other)).await;
            assert_eq!((again.ok(200)["outcome"].clone(), again.header("etag")), (json!("unchanged"), replaced.header("etag")));
            before = replaced.header("etag").to_owned();
        }
        // A list that was there before a replacement comes back, and may go again.
        save(&dev, PATH, list("abzc")).await.ok(200);
        let (_, now) = load(&dev, PATH).await;
        save_if(&dev, ("if-match", &now), list("abz")).await.ok(200);
        let back = save(&dev, PATH, list("abzc")).await;
        assert_eq!(back.ok(200)["outcome"], "appended");
        // What was there is there still.
        let seq = etag.trim_matches('"').split_once('-').expect("a tag").1.to_owned();
        assert_eq!(load(&dev, &format!("{PATH}?at={seq}")).await, (list("abcd"), etag));
        let runs = dev.get("/v1/threads/chat/runs").await.ok(200)["runs"].clone();
        assert!(runs.as_array().expect("runs").iter().all(|run| run["status"] == "finished"), "{runs}");
    }
}

everywhere! {
    async fn conditions_are_those_of_http(server) {
        let dev = server.client();
        assert_eq!(save_if(&dev, ("if-match", "\"x-1\""), list("a")).await.problem(412, "conversation-changed")["etag"], Value::Null);
        save_if(&dev, ("if-match", "*"), list("a")).await.problem(412, "conversation-changed");
        dev.get("/v1/threads/chat").await.problem(404, "thread-not-found");
        let made = save_if(&dev, ("if-none-match", "*"), list("a")).await;
        made.ok(201);
        save_if(&dev, ("if-none-match", "*"), list("ab")).await.problem(412, "conversation-changed");
        assert_eq!(save_if(&dev, ("if-none-match", "*"), list("a")).await.ok(200)["outcome"], "unchanged");
        let etag = made.header("etag");
        let more = save_if(&dev, ("if-match", &format!("\"other\", {etag}")), list("ab")).await;
        assert_eq!(more.ok(200)["outcome"], "appended");
        save_if(&dev, ("if-match", etag), list("abc")).await.problem(412, "conversation-changed");
        save_if(&dev, ("if-match", &format!("W/{}", more.header("etag"))), list("abc")).await.problem(412, "conversation-changed");
        // With the version that it was based on, and later versions: the same answer.
        let last = save_if(&dev, ("if-match", more.header("etag")), list("abc")).await;
        save(&dev, PATH, list("abcd")).await.ok(200);
        let late = save_if(&dev, ("if-match", more.header("etag")), list("abc")).await;
        assert_eq!((&late.ok(200)["outcome"], late.header("etag")), (&json!("repeated"), last.header("etag")));

        let (_, etag) = load(&dev, PATH).await;
        let known = async |tags: &str| send(dev.request(Method::GET, PATH).header("if-none-match", tags)).await;
        for tags in [etag.clone(), format!("\"a\", W/{etag}"), "*".to_owned()] {
            let answer = known(&tags).await;
            assert_eq!((answer.status, answer.body.len(), answer.header("etag")), (304, 0, etag.as_str()), "{tags}");
        }
        assert_eq!(known("\"a\"").await.status, 200);
        known("a").await.problem(400, "invalid-request");
        // An event of another API is another version.
        dev.put("/v1/threads/chat/runs/r", json!([{ "type": "CUSTOM", "name": "n", "value": 1 }])).await.ok(201);
        assert_eq!(known(&etag).await.status, 200);
        for condition in [("if-match", etag.as_str()), ("if-none-match", "*")] {
            let request = dev.request(Method::DELETE, PATH).header(condition.0, condition.1);
            send(request).await.problem(400, "invalid-request");
        }
    }
}

everywhere! {
    async fn of_concurrent_saves_one_wins_and_none_is_lost(server) {
        let dev = server.client();
        save(&dev, PATH, list("a")).await.ok(201);
        let mut stored = 1;
        for round in 0..8 {
            let (base, etag) = load(&dev, PATH).await;
            let mut savers = JoinSet::new();
            for saver in 0..4 {
                let (dev, etag, mut messages) = (dev.clone(), etag.clone(), base.clone());
                // Some name the version, some extend by more, some would replace.
                savers.spawn(async move {
                    let all = messages.as_array_mut().expect("messages");
                    if saver == 3 && round % 2 == 1 {
                        all.pop();
                    }
                    all.extend((0..=saver).map(|n| said(&format!("{round}-{saver}-{n}"))));
                    let request = dev.request(Method::PUT, PATH);
                    let request = if saver % 2 == 1 { request.header("if-match", &etag) } else { request };
                    (send(request.json(&json!({ "messages": messages }))).await, messages)
                });
            }
            let mut won = Vec::new();
            while let Some(done) = savers.join_next().await {
                let (answer, messages) = done.expect("no panic");
                match answer.status {
                    200 => won.push((messages, answer.header("etag").to_owned())),
                    409 => drop(answer.problem(409, "conversation-diverged")),
                    _ => drop(answer.problem(412, "conversation-changed")),
                }
            }
            assert_eq!(won.len(), 1, "round {round}");
            assert_eq!(load(&dev, PATH).await, won.remove(0), "round {round}");
            let now = load(&dev, PATH).await.0.as_array().map_or(0, Vec::len);
            assert!(now >= stored);
            stored = now;
        }
        // Of the same save at once all succeed, and it is there once.
        let (mut messages, _) = load(&dev, PATH).await;
        messages.as_array_mut().expect("messages").push(said("same"));
        let mut savers = JoinSet::new();
        for _ in 0..6 {
            let (dev, messages) = (dev.clone(), messages.clone());
            savers.spawn(async move { save(&dev, PATH, messages).await.ok(200)["seq"].clone() });
        }
        let seqs: HashSet<String> = savers.join_all().await.iter().map(Value::to_string).collect();
        assert_eq!((load(&dev, PATH).await.0, seqs.len()), (messages, 1));
        // Of a new name as well.
        let mut savers = JoinSet::new();
        for _ in 0..6 {
            let dev = dev.clone();
            savers.spawn(async move { save(&dev, "/v1/conversations/new", list("xy")).await.status });
        }
        let statuses = savers.join_all().await;
        assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
        assert_eq!(dev.types("new").await.len(), 2);
    }
}

everywhere! {
    async fn messages_without_ids_get_ones_that_stay(server) {
        let dev = server.client();
        let bare = json!([{ "role": "system", "content": "be kind" }, { "role": "user", "content": "hi" }]);
        save(&dev, PATH, bare.clone()).await.ok(201);
        let (shown, _) = load(&dev, PATH).await;
        assert_eq!(ids(&shown).iter().collect::<HashSet<_>>().len(), 2);
        assert_eq!(save(&dev, PATH, bare.clone()).await.ok(200)["outcome"], "unchanged");
        assert_eq!(save(&dev, PATH, shown.clone()).await.ok(200)["outcome"], "unchanged");
        let mut more = bare;
        more.as_array_mut().expect("messages").push(json!({ "role": "assistant", "content": "hello" }));
        save(&dev, PATH, more.clone()).await.ok(200);
        let (longer, _) = load(&dev, PATH).await;
        assert_eq!(longer.as_array().map(|all| all[..2].to_vec()), shown.as_array().cloned());
        // Ids of another API are as good.
        let turn = json!([{ "type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant" },
            { "type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "and?" },
            { "type": "TEXT_MESSAGE_END", "messageId": "m" }]);
        dev.put("/v1/threads/chat/runs/turn", turn).await.ok(201);
        more.as_array_mut().expect("messages").push(json!({ "role": "assistant", "content": "and?" }));
        assert_eq!(save(&dev, PATH, more).await.ok(200)["outcome"], "unchanged");
    }
}

everywhere! {
    async fn every_member_of_a_message_is_kept(server) {
        let dev = server.client();
        let body = r#"{"messages":[
            {"id":"1","role":"developer","content":"\ud83d \u0000 é 😀","z":{"b":1,"a":[1.5e-7,18446744073709551615,-0.0]}},
            {"id":"2","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"x\":1}","strict":true},"extra":[1]}],"metadata":{"k":null}},
            {"id":"3","role":"tool","toolCallId":"c","content":"r","isError":false,"big":123456789012345678901234567890},
            {"id":"4","role":"user","content":[{"type":"text","text":"t"},{"type":"binary","mimeType":"image/png","data":"AA=="}]},
            {"id":"5","role":"reasoning","content":"hm","encryptedValue":"e"},
            {"id":"6","role":"activity","activityType":"PLAN","content":{"steps":[]}},
            {"id":"7","role":"banana"}]}"#;
        let put = || dev.request(Method::PUT, PATH).header("content-type", "application/json");
        send(put().body(body)).await.ok(201);
        let answer = dev.get(PATH).await;
        let shown = answer.text();
        for part in [
            r#""content":"\ud83d \u0000 é 😀""#,
            "[1.5e-7,18446744073709551615,-0.0]",
            "\"big\":123456789012345678901234567890",
            r#""strict":true"#,
            r#""extra":[1]"#,
            r#""metadata":{"k":null}"#,
            r#"{"id":"7","role":"banana"}"#,
        ] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        // What was read can be sent back, and what differs in the last digit is seen.
        let messages = &shown[shown.find("\"messages\"").expect("messages")..];
        let back = format!("{{{messages}");
        assert_eq!(send(put().body(back.clone())).await.ok(200)["outcome"], "unchanged");
        send(put().body(back.replace("567890}", "567891}"))).await.problem(409, "conversation-diverged");
        for bad in [
            json!([{ "content": "x" }]),
            json!([7]),
            json!([{ "id": "a", "role": "user" }, { "id": "a", "role": "user" }]),
            json!([{ "role": "assistant", "toolCalls": [{ "id": "c" }] }]),
        ] {
            let facts = save(&dev, "/v1/conversations/bad", bad).await.problem(422, "invalid-message");
            assert!(!text(&facts, "reason").is_empty());
        }
        dev.get("/v1/conversations/bad").await.problem(404, "thread-not-found");
        for bad in [json!({}), json!({ "messages": null }), json!({ "messages": [], "other": 1 })] {
            dev.put(PATH, bad).await.problem(400, "invalid-request");
        }
        save(&dev, PATH, json!({})).await.problem(422, "invalid-message");
    }
}

everywhere! {
    async fn other_apis_see_it_and_are_seen(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        let body = json!({ "messages": list("a"), "metadata": { "title": "T" }, "agentId": "demo" });
        ann.put(PATH, body).await.ok(201);
        let thread = ann.get("/v1/threads/chat").await.ok(200);
        assert_eq!((&thread["metadata"], &thread["agentId"]), (&json!({ "title": "T" }), &json!("demo")));
        ann.put(PATH, json!({ "messages": list("a"), "metadata": { "title": null, "more": 1 } })).await.ok(200);
        assert_eq!(ann.get("/v1/threads/chat").await.ok(200)["metadata"], json!({ "more": 1 }));
        assert_eq!(ann.get("/v1/threads/chat/messages").await.ok(200)["messages"], list("a"));
        assert_eq!(ann.types("chat").await, ["RUN_STARTED", "RUN_FINISHED"]);
        // An agent's turn is part of the list; an open interrupt stays open.
        let waits = json!([{ "type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "role": "assistant", "delta": "well" },
            { "type": "RUN_FINISHED", "threadId": "chat", "runId": "r",
              "outcome": { "type": "interrupt", "interrupts": [{ "id": "i", "reason": "ask" }] } }]);
        ann.put("/v1/threads/chat/runs/r", waits).await.ok(201);
        let (mut messages, _) = load(&ann, PATH).await;
        assert_eq!(ids(&messages), ["a", "m"]);
        messages.as_array_mut().expect("messages").push(said("b"));
        save(&ann, PATH, messages).await.ok(200);
        let read = ann.get("/v1/threads/chat/messages").await.ok(200);
        assert_eq!((read["interrupts"][0]["id"].as_str(), ids(&read["messages"])), (Some("i"), vec!["a", "m", "b"]));
        // Activities and reasoning go as well if the list that replaces it has none.
        let more = json!([{ "type": "ACTIVITY_SNAPSHOT", "messageId": "act", "activityType": "P", "content": {} },
            { "type": "REASONING_MESSAGE_START", "messageId": "why", "role": "reasoning" },
            { "type": "REASONING_MESSAGE_CONTENT", "messageId": "why", "delta": "x" },
            { "type": "REASONING_MESSAGE_END", "messageId": "why" }]);
        ann.put("/v1/threads/chat/runs/s", more).await.ok(201);
        for wanted in ["ba", "", "ab"] {
            let (_, etag) = load(&ann, PATH).await;
            save_if(&ann, ("if-match", &etag), list(wanted)).await.ok(200);
            assert_eq!(load(&ann, PATH).await.0, list(wanted));
        }
        // Whose it is not.
        let bob = server.user("bob");
        bob.get(PATH).await.problem(404, "thread-not-found");
        bob.delete(PATH).await.problem(404, "thread-not-found");
        save(&bob, PATH, list("x")).await.problem(409, "thread-exists");
        save_if(&bob, ("if-match", "*"), list("x")).await.problem(412, "conversation-changed");
        assert_eq!(load(&ann, PATH).await.0, list("ab"));
        assert_eq!(ann.delete(PATH).await.status, 204);
        assert_eq!(ann.delete(PATH).await.status, 204, "again");
        ann.get(PATH).await.problem(404, "thread-not-found");
        ann.get("/v1/threads/chat").await.problem(404, "thread-not-found");
        let anew = save(&ann, PATH, list("ab")).await;
        assert_eq!(number(&anew.ok(201), "seq"), 2);
    }
}

everywhere! {
    async fn a_save_waits_for_the_active_run(server) {
        let dev = server.client();
        save(&dev, PATH, list("a")).await.ok(201);
        dev.run("chat", "r").await;
        dev.append("chat", "r", 1, json!([{ "type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "role": "assistant", "delta": "b" }]))
            .await
            .ok(200);
        // What is stored already needs no wait.
        assert_eq!(save(&dev, PATH, list("a")).await.ok(200)["outcome"], "repeated");
        let wanted = json!([said("a"), { "id": "m", "role": "assistant", "content": "bc" }, said("d")]);
        let waiting = tokio::spawn({
            let (dev, wanted) = (dev.clone(), wanted.clone());
            async move { save(&dev, PATH, wanted).await }
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!waiting.is_finished());
        dev.append("chat", "r", 2, json!([{ "type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "c" }])).await.ok(200);
        dev.act("chat", "r", "finish").await.ok(200);
        assert_eq!(waiting.await.expect("no panic").ok(200)["appended"], 1);
        assert_eq!(load(&dev, PATH).await.0, wanted);
        // A run whose lock was released is closed by the save, as by any start.
        dev.run("chat", "s").await;
        dev.append("chat", "s", 1, json!([{ "type": "STEP_STARTED", "stepName": "x" }])).await.ok(200);
        dev.act("chat", "s", "release").await.ok(200);
        let (mut messages, _) = load(&dev, PATH).await;
        messages.as_array_mut().expect("messages").push(said("e"));
        save(&dev, PATH, messages.clone()).await.ok(200);
        assert_eq!(load(&dev, PATH).await.0, messages);
        let read = dev.get("/v1/threads/chat/runs/s").await.ok(200);
        assert_eq!(read["status"], "error");
    }
}

#[tokio::test]
async fn a_save_that_timed_out_gets_retry_after() {
    run(Options::memory(), async |server| {
        let dev = server.client();
        save(&dev, PATH, list("a")).await.ok(201);
        dev.run("chat", "r").await;
        for messages in [list("ab"), list("x")] {
            let answer = save(&dev, PATH, messages).await;
            let facts = answer.problem(409, "run-active");
            assert_eq!((&facts["run"]["runId"], answer.header("retry-after")), (&json!("r"), "1"));
        }
        assert_eq!(load(&dev, PATH).await.0, list("a"));
    })
    .await;
}

everywhere! {
    async fn long_ones_and_large_ones(server) {
        let dev = server.client();
        let message = |n: usize| json!({ "id": format!("m{n}"), "role": if n.is_multiple_of(2) { "user" } else { "assistant" }, "content": format!("message {n} {}", "x".repeat(n % 100)) });
        let all: Value = (0..2_000).map(message).collect();
        save(&dev, PATH, all.clone()).await.ok(201);
        assert_eq!(load(&dev, PATH).await.0, all);
        let more: Value = (0..2_001).map(message).collect();
        assert_eq!(save(&dev, PATH, more.clone()).await.ok(200)["appended"], 1);
        assert_eq!(load(&dev, PATH).await.0, more);
        // Beyond an event: several runs, one after the other.
        let large: Value = (0..4).map(|n| json!({ "id": format!("{n}"), "role": "user", "content": "y".repeat(3 << 20) })).collect();
        let big = "/v1/conversations/big";
        save(&dev, big, large.clone()).await.ok(201);
        assert_eq!(load(&dev, big).await.0, large);
        assert_eq!(dev.get("/v1/threads/big/runs").await.ok(200)["runs"].as_array().map(Vec::len), Some(2));
        assert_eq!(save(&dev, big, large).await.ok(200)["outcome"], "unchanged");
        let (_, etag) = load(&dev, big).await;
        let other: Value = (0..4).map(|n| json!({ "id": format!("z{n}"), "role": "user", "content": "y".repeat(3 << 20) })).collect();
        let request = dev.request(Method::PUT, big).header("if-match", &etag).json(&json!({ "messages": other }));
        send(request).await.problem(413, "too-large");
        let huge = json!([{ "role": "user", "content": "z".repeat(8 << 20) }]);
        assert_eq!(number(&save(&dev, "/v1/conversations/huge", huge).await.problem(413, "too-large"), "index"), 0);
        dev.get("/v1/conversations/huge").await.problem(404, "thread-not-found");
    }
}

everywhere! {
    async fn any_id_is_a_name(server) {
        let dev = server.client();
        let longest = "n".repeat(256);
        let names = ["support/search-1", "😀 é", "100%", "a+b c", "?#&", "..a", "%2F", longest.as_str()];
        for name in names {
            let path: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let path = format!("/v1/conversations/{path}");
            assert_eq!(save(&dev, &path, list("ab")).await.ok(201)["name"], name);
            assert_eq!(dev.get(&path).await.ok(200)["name"], name);
            assert_eq!(save(&dev, &path, list("ab")).await.ok(200)["outcome"], "unchanged", "{name}");
        }
        let threads = dev.get("/v1/threads").await.ok(200)["threads"].as_array().map_or(0, Vec::len);
        assert_eq!(threads, names.len());
        for name in ["%00", "%FF", &"n".repeat(257)] {
            save(&dev, &format!("/v1/conversations/{name}"), list("a")).await.problem(400, "invalid-request");
        }
    }
}

#[tokio::test]
async fn the_rust_client_saves_and_loads() {
    use threadline_client::{ClientConfig, SaveIf};
    run(Options::memory(), async |server| {
        let client =
            threadline_client::Client::new(ClientConfig::new(format!("http://{}", server.addr))).expect("client");
        let name = "a/b c";
        assert!(client.conversation(name).await.expect_err("none").problem("thread-not-found").is_some());
        let one = [said("a")];
        let made = client.save_conversation(name, &one, &SaveIf::Absent).await.expect("saved");
        assert_eq!((made.outcome.as_str(), made.appended), ("appended", 1));
        let loaded = client.conversation(name).await.expect("there");
        assert_eq!((loaded.seq, &loaded.etag, loaded.messages.len()), (2, &made.etag, 1));
        // The loaded messages are saved unchanged, with more after them.
        let more = serde_json::value::to_raw_value(&said("b")).expect("JSON");
        let all: Vec<_> = loaded.messages.into_iter().chain([more]).collect();
        let saved = client.save_conversation(name, &all, &SaveIf::NothingIsLost).await.expect("saved");
        let other = [said("x")];
        let refused = client.save_conversation(name, &other, &SaveIf::Is(made.etag)).await.expect_err("an old version");
        assert!(refused.problem("conversation-changed").is_some(), "{refused}");
        let replaced = client.save_conversation(name, &other, &SaveIf::Is(saved.etag)).await.expect("saved");
        assert_eq!(replaced.outcome, "replaced");
        client.delete_conversation(name).await.expect("deleted");
        assert!(client.conversation(name).await.is_err());
    })
    .await;
}
