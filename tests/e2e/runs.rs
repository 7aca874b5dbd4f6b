//! Runs, driven step by step.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{after, eventually, everywhere, number, text};

const EVENTS: &str = "/v1/threads/t/runs/r/events";

everywhere! {
    async fn a_start_is_idempotent_and_a_second_run_gets_the_facts(server) {
        let dev = server.client();
        dev.thread("t").await;
        let start = json!({ "runId": "r", "agentId": "a", "leaseSeconds": 60 });
        let started = dev.post("/v1/threads/t/runs", start.clone()).await.ok(201);
        assert_eq!((&started["run"]["status"], &started["cursor"]), (&json!("running"), &json!(0)));
        assert_eq!(dev.post("/v1/threads/t/runs", start.clone()).await.ok(200), started);
        dev.append("t", "r", 1, json!([{ "type": "A" }, { "type": "B" }])).await.ok(200);
        let refused = dev.post("/v1/threads/t/runs", json!({ "runId": "s" })).await;
        let facts = refused.problem(409, "run-active");
        assert!(refused.headers.contains_key("retry-after"));
        assert_eq!(facts["retryable"], true);
        assert_eq!((&facts["run"]["runId"], &facts["run"]["agentId"]), (&json!("r"), &json!("a")));
        assert!(facts["run"]["startedAt"].is_string() && facts["run"]["leaseUntil"].is_string());
        assert_eq!((number(&facts, "cursor"), number(&facts, "tail")), (0, 2));
        // The cursor and the epoch of the refusal are enough to follow the run.
        let follow = format!("/v1/threads/t/events?after=0&epoch={}", facts["epoch"].as_str().expect("epoch"));
        assert_eq!(dev.get(&follow).await.ok(200)["events"].as_array().map(Vec::len), Some(2));
        let thread = dev.get("/v1/threads/t").await.ok(200);
        assert_eq!(thread["activeRun"]["runId"], "r");
        dev.act("t", "r", "finish").await.ok(200);
        // The same start, long after: the same run, no second one.
        assert_eq!(dev.post("/v1/threads/t/runs", start).await.ok(200)["run"]["status"], "finished");
        dev.run("t", "s").await;
        let runs = dev.get("/v1/threads/t/runs?limit=1").await.ok(200);
        assert_eq!((&runs["runs"][0]["runId"], runs["runs"].as_array().map(Vec::len)), (&json!("s"), Some(1)));
        let next = format!("/v1/threads/t/runs?limit=1&cursor={}", text(&runs, "nextCursor"));
        let more = dev.get(&next).await.ok(200);
        assert_eq!((&more["runs"][0]["runId"], &more["nextCursor"]), (&json!("r"), &Value::Null));
        dev.get("/v1/threads/t/runs?cursor=7").await.problem(400, "invalid-cursor");
        // A thread that was created again has other runs.
        assert_eq!(dev.delete("/v1/threads/t").await.status, 204);
        dev.thread("t").await;
        dev.run("t", "other").await;
        dev.get(&next).await.problem(410, "log-replaced");
    }
}

everywhere! {
    async fn appends_are_numbered_and_retries_harmless(server) {
        let dev = server.client();
        dev.thread("t").await;
        dev.run("t", "r").await;
        let first = dev.append("t", "r", 1, json!([{ "type": "A" }, { "type": "B" }])).await.ok(200);
        assert_eq!((number(&first, "firstSeq"), number(&first, "lastSeq"), number(&first, "producerSeq")), (1, 2, 2));
        assert!(first["leaseUntil"].is_string());
        let lines = "{\"type\":\"C\"}\n\n{\"type\":\"D\"}\r\n";
        let second = dev.ndjson(Method::POST, &format!("{EVENTS}?producerSeq=3"), lines).await.ok(200);
        assert_eq!((number(&second, "firstSeq"), number(&second, "lastSeq")), (3, 4));
        // Retried as a whole, in part, and overlapping with what is new.
        let same = dev.append("t", "r", 1, json!([{ "type": "A" }, { "type": "B" }])).await.ok(200);
        assert_eq!((number(&same, "firstSeq"), number(&same, "lastSeq"), number(&same, "producerSeq")), (1, 2, 2));
        let over = dev.append("t", "r", 4, json!([{ "type": "D" }, { "type": "E" }])).await.ok(200);
        assert_eq!((number(&over, "firstSeq"), number(&over, "lastSeq"), number(&over, "producerSeq")), (4, 5, 5));
        assert_eq!(dev.types("t").await, ["A", "B", "C", "D", "E"]);
        let gap = dev.append("t", "r", 9, json!([{ "type": "X" }])).await.problem(409, "producer-seq-gap");
        assert_eq!(number(&gap, "expected"), 6);
        let conflict = dev.append("t", "r", 4, json!([{ "type": "D" }, { "type": "X" }])).await;
        assert_eq!(number(&conflict.problem(422, "producer-seq-conflict"), "producerSeq"), 5);
        let free = dev.post(EVENTS, json!([{ "type": "F" }])).await.ok(200);
        assert_eq!((number(&free, "firstSeq"), number(&free, "producerSeq")), (6, 6));
        // The end of the run is an append like any other, and nothing follows it.
        dev.append("t", "r", 7, json!([{ "type": "RUN_FINISHED" }])).await.ok(200);
        let again = dev.append("t", "r", 7, json!([{ "type": "RUN_FINISHED" }])).await.ok(200);
        assert_eq!((number(&again, "firstSeq"), &again["leaseUntil"]), (7, &Value::Null));
        dev.append("t", "r", 8, json!([{ "type": "X" }])).await.problem(409, "run-fenced");
        assert_eq!(dev.append("t", "r", 1, json!([{ "type": "A" }])).await.ok(200)["firstSeq"], 1);
        assert_eq!(dev.types("t").await.len(), 7);
    }
}

everywhere! {
    /// Numbers that no run can reach are refused like any other gap, without side effects.
    async fn absurd_producer_seqs_are_refused(server) {
        let dev = server.client();
        dev.thread("t").await;
        dev.run("t", "r").await;
        dev.append("t", "r", 1, json!([{ "type": "A" }])).await.ok(200);
        for seq in ["9223372036854775806", "9223372036854775807", "9223372036854775808", "18446744073709551615"] {
            let path = format!("{EVENTS}?producerSeq={seq}");
            let answers = futures_util::future::join_all((0..8).map(|_| dev.post(&path, json!([{ "type": "X" }])))).await;
            for answer in answers {
                assert!(matches!(answer.status, 400 | 409), "{seq}: {} {}", answer.status, answer.text());
            }
            let stream = format!("/v1/threads/t/runs?runId=r&producerSeq={seq}");
            let answer = dev.ndjson(Method::POST, &stream, "{\"type\":\"X\"}\n{\"type\":\"Y\"}\n").await;
            assert!(matches!(answer.status, 400 | 409), "{seq}: {} {}", answer.status, answer.text());
        }
        for seq in ["0", "-1", "x", "18446744073709551616"] {
            dev.post(&format!("{EVENTS}?producerSeq={seq}"), json!([{ "type": "X" }])).await.problem(400, "invalid-request");
        }
        assert_eq!(dev.append("t", "r", 2, json!([{ "type": "B" }])).await.ok(200)["lastSeq"], 2);
        assert_eq!(dev.types("t").await, ["A", "B"]);
    }
}

everywhere! {
    async fn a_run_ends_well_or_badly_and_what_is_open_is_closed(server) {
        let dev = server.client();
        dev.thread("t").await;
        dev.run("t", "r").await;
        let open = json!([
            { "type": "RUN_STARTED", "threadId": "T", "runId": "R" },
            { "type": "TEXT_MESSAGE_START", "messageId": "m" },
            { "type": "TOOL_CALL_START", "toolCallId": "c" },
        ]);
        dev.append("t", "r", 1, open).await.ok(200);
        let ended = dev.act("t", "r", "finish").await.ok(200);
        assert_eq!((&ended["status"], &ended["leaseUntil"]), (&json!("finished"), &Value::Null));
        assert_eq!(dev.act("t", "r", "finish").await.ok(200), ended);
        assert_eq!(dev.act("t", "r", "fail").await.ok(200), ended, "an ended run stays as it ended");
        let closers = ["TOOL_CALL_END", "TEXT_MESSAGE_END", "RUN_FINISHED"];
        assert_eq!(dev.types("t").await[3..], closers);
        dev.run("t", "s").await;
        let failed = dev.post("/v1/threads/t/runs/s/fail", json!({ "code": "oops", "message": "no" })).await.ok(200);
        let facts = (&failed["status"], &failed["errorCode"], &failed["errorMessage"]);
        assert_eq!(facts, (&json!("error"), &json!("oops"), &json!("no")));
        assert_eq!(dev.types("t").await[6..], ["RUN_STARTED", "RUN_ERROR"]);
        dev.act("t", "s", "heartbeat").await.problem(409, "run-fenced");
        dev.act("t", "none", "finish").await.problem(404, "run-not-found");
    }
}

everywhere! {
    async fn a_stop_is_learned_and_ends_in_a_terminal_event(server: |options| options.with_manual_clock()) {
        let dev = server.client();
        dev.thread("t").await;
        dev.run("t", "r").await;
        // Before the first event.
        let asked = dev.act("t", "r", "stop").await.ok(202);
        assert_eq!((&asked["stopRequested"], &asked["status"]), (&json!(true), &json!("running")));
        let learned = dev.append("t", "r", 1, json!([{ "type": "A" }])).await.ok(200);
        assert_eq!(learned["stopRequested"], true);
        assert_eq!(dev.act("t", "r", "heartbeat").await.ok(200)["stopRequested"], true);
        assert_eq!(dev.act("t", "r", "finish").await.ok(200)["status"], "stopped");
        assert_eq!(dev.act("t", "r", "stop").await.ok(200)["status"], "stopped");
        // A producer that does not listen: the server ends its run.
        dev.run("t", "s").await;
        dev.act("t", "s", "stop").await.ok(202);
        server.pass(11);
        eventually("the server stops the run", async || {
            let run = dev.get("/v1/threads/t/runs/s").await.ok(200);
            (run["status"] == "stopped").then_some(())
        })
        .await;
        dev.append("t", "s", 1, json!([{ "type": "LATE" }])).await.problem(409, "run-fenced");
        assert_eq!(dev.types("t").await, ["A", "RUN_FINISHED", "RUN_STARTED", "RUN_FINISHED"]);
    }
}

everywhere! {
    async fn a_silent_run_is_ended_and_its_producer_fenced(server: |options| options.with_manual_clock()) {
        let dev = server.client();
        dev.thread("t").await;
        dev.post("/v1/threads/t/runs", json!({ "runId": "r", "leaseSeconds": 5 })).await.ok(201);
        dev.append("t", "r", 1, json!([{ "type": "TEXT_MESSAGE_START", "messageId": "m" }])).await.ok(200);
        server.pass(4);
        dev.act("t", "r", "heartbeat").await.ok(200);
        server.pass(4);
        let longer = dev.post("/v1/threads/t/runs/r/heartbeat", json!({ "leaseSeconds": 100 })).await.ok(200);
        assert_eq!(longer["status"], "running");
        server.pass(101);
        let ended = eventually("the reaper ends the run", async || {
            let run = dev.get("/v1/threads/t/runs/r").await.ok(200);
            (run["status"] == "error").then_some(run)
        })
        .await;
        assert_eq!(ended["errorCode"], "lease-expired");
        // An earlier append still gets its old answer; a new one is refused, with the reason.
        dev.append("t", "r", 1, json!([{ "type": "TEXT_MESSAGE_START", "messageId": "m" }])).await.ok(200);
        dev.append("t", "r", 2, json!([{ "type": "TEXT_MESSAGE_CONTENT" }])).await.problem(409, "run-fenced");
        assert_eq!(dev.types("t").await, ["TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "RUN_ERROR"]);
        // A run that never sent an event leaves nothing in the log.
        dev.post("/v1/threads/t/runs", json!({ "runId": "s", "leaseSeconds": 5 })).await.ok(201);
        server.pass(6);
        eventually("the silent run is over", async || {
            let run = dev.get("/v1/threads/t/runs/s").await.ok(200);
            (run["status"] == "abandoned").then_some(())
        })
        .await;
        assert_eq!(dev.types("t").await.len(), 3);
    }
}

everywhere! {
    async fn a_released_run_may_end_itself_or_is_closed_by_the_next_start(server) {
        let dev = server.client();
        dev.thread("t").await;
        dev.run("t", "r").await;
        dev.append("t", "r", 1, json!([{ "type": "A" }])).await.ok(200);
        assert_eq!(dev.act("t", "r", "release").await.ok(200)["status"], "finishing");
        dev.append("t", "r", 2, json!([{ "type": "RUN_FINISHED" }])).await.ok(200);
        assert_eq!(dev.get("/v1/threads/t/runs/r").await.ok(200)["status"], "finished");
        dev.run("t", "s").await;
        dev.append("t", "s", 1, json!([{ "type": "STEP_STARTED", "stepName": "x" }])).await.ok(200);
        dev.act("t", "s", "release").await.ok(200);
        let next = dev.run("t", "u").await;
        assert_eq!(number(&next, "cursor"), 5);
        assert_eq!(dev.types("t").await[2..], ["STEP_STARTED", "STEP_FINISHED", "RUN_ERROR"]);
        let closed = dev.get("/v1/threads/t/runs/s").await.ok(200);
        assert_eq!((&closed["status"], &closed["errorCode"]), (&json!("error"), &json!("lock-released")));
        dev.append("t", "s", 2, json!([{ "type": "LATE" }])).await.problem(409, "run-fenced");
    }
}

everywhere! {
    async fn a_whole_run_is_atomic_idempotent_and_waits_its_turn(server) {
        let dev = server.client();
        dev.thread("t").await;
        let path = "/v1/threads/t/runs/w?agentId=a";
        let events = json!([{ "type": "RUN_STARTED" }, { "type": "TEXT_MESSAGE_START", "messageId": "m" }]);
        let made = dev.put(path, events.clone()).await.ok(201);
        assert_eq!((&made["run"]["status"], number(&made["run"], "lastSeq")), (&json!("finished"), 4));
        assert_eq!(dev.put(path, events.clone()).await.ok(200), made);
        let lines = "{\"type\":\"RUN_STARTED\"}\n{\"messageId\":\"m\",\"type\":\"TEXT_MESSAGE_START\"}";
        let by_lines = dev.ndjson(Method::PUT, path, lines).await;
        assert_eq!(by_lines.status, 422, "other bytes: the members were written in another order");
        dev.put(path, json!([{ "type": "X" }])).await.problem(422, "producer-seq-conflict");
        let bad = dev.put("/v1/threads/t/runs/bad", json!([{ "type": "A" }, { "no": "type" }])).await;
        assert_eq!(number(&bad.problem(422, "invalid-event"), "index"), 1);
        dev.get("/v1/threads/t/runs/bad").await.problem(404, "run-not-found");
        assert_eq!(dev.types("t").await.len(), 4);
        // While another run is active it waits; two at once both get in, one after the other.
        dev.run("t", "r").await;
        let put = |id: &'static str| {
            let dev = dev.clone();
            let events: Vec<_> = (0..50).map(|_| json!({ "type": id })).collect();
            tokio::spawn(async move { dev.put(&format!("/v1/threads/t/runs/{id}"), json!(events)).await })
        };
        let (one, two) = (put("one"), put("two"));
        dev.append("t", "r", 1, json!([{ "type": "A" }])).await.ok(200);
        assert!(!one.is_finished() && !two.is_finished());
        dev.act("t", "r", "finish").await.ok(200);
        one.await.expect("answered").ok(201);
        two.await.expect("answered").ok(201);
        let types = dev.types("t").await;
        assert_eq!(types.len(), 4 + 2 + 2 * 51);
        let mut kinds = types[6..].to_vec();
        kinds.dedup();
        assert_eq!(kinds.len(), 4, "never mixed: {kinds:?}");
    }
}

everywhere! {
    async fn the_feed_shows_that_a_stop_was_asked_and_a_lock_released(server) {
        let dev = server.client();
        dev.thread("t").await;
        dev.run("t", "r").await;
        let mut place = "after=0".to_owned();
        for (verb, shows) in [
            ("stop", ("stopRequested", json!(true))),
            ("release", ("status", json!("finishing"))),
        ] {
            let answer = dev.act("t", "r", verb).await;
            assert!([200, 202].contains(&answer.status), "{verb}: {}", answer.text());
            loop {
                let feed = dev.get(&format!("/v1/feed?{place}&wait=10")).await.ok(200);
                place = after(&feed);
                let entries = feed["entries"].as_array().expect("entries");
                assert!(!entries.is_empty(), "{verb} never came");
                if entries.iter().any(|entry| entry["thread"]["activeRun"][shows.0] == shows.1) {
                    break;
                }
            }
        }
    }
}

everywhere! {
    async fn runs_are_shown_as_they_were(server) {
        let dev = server.client();
        dev.thread("t").await;
        for run in ["r1", "r2", "r3"] {
            dev.run("t", run).await;
            let last = json!([{ "type": "A" }, { "type": "RUN_FINISHED", "usage": [{ "model": "m", "outputTokens": 3 }] }]);
            dev.append("t", run, 1, last).await.ok(200);
        }
        let seen = async |query: &str| {
            let page = dev.get(&format!("/v1/threads/t/runs?{query}")).await.ok(200);
            let runs = page["runs"].as_array().expect("runs").iter();
            let runs = runs.map(|run| format!("{} {} {} {}", run["runId"], run["status"], run["lastSeq"], run["usage"]));
            runs.collect::<Vec<_>>().join("; ").replace('"', "")
        };
        let used = "[{model:m,outputTokens:3}]";
        assert_eq!(seen("at=0").await, "");
        assert_eq!(seen("at=1").await, "r1 running 1 null");
        assert_eq!(seen("at=2").await, format!("r1 finished 2 {used}"));
        assert_eq!(seen("at=3").await, format!("r2 running 3 null; r1 finished 2 {used}"));
        assert_eq!(seen("at=3&limit=1").await, "r2 running 3 null");
        assert_eq!(seen("at=6").await, seen("").await);
        dev.get("/v1/threads/none/runs?at=1").await.problem(404, "thread-not-found");
    }
}
