//! Runs that are ended from outside: stopped, deleted with their thread, or left by a server that goes.

use serde_json::json;

use super::{agent, agent_that, agui, ask, ended, finished, said, start, types_of, user, whole};
use crate::harness::{
    Backend, Options, Server, eventually, everywhere,
    http::{open, send},
    soon, text,
};

everywhere! {
    async fn a_stop_reaches_an_agent_that_has_said_nothing_yet(server) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        // The agent hangs: before the head of its response, after it, and in the middle of the body.
        for (run, said) in [("mute", None), ("head", Some(vec![])), ("middle", Some(said("m", "one")[..2].to_vec()))] {
            dev.post("/v1/threads/t/runs", ask(run, json!([]))).await.ok(201);
            let mut call = agent.call().await;
            let mut before = 1;
            if let Some(events) = said {
                before += events.len();
                call.begin().await;
                if !events.is_empty() {
                    call.say(&events).await;
                }
                let stored = async || (types_of(&dev, run).await.len() == before).then_some(());
                eventually("it is in the log", stored).await;
            }
            let begun = std::time::Instant::now();
            assert_eq!(dev.stop("t", run).await["stopRequested"], true);
            call.hung_up().await;
            assert_eq!(ended(&dev, run).await["status"], "stopped");
            assert!(begun.elapsed().as_secs() < 9, "at once, not when its time is over: {:?}", begun.elapsed());
            let types = types_of(&dev, run).await;
            assert_eq!(types.last().map(String::as_str), Some("RUN_FINISHED"));
            assert_eq!(types.contains(&"TEXT_MESSAGE_END".to_owned()), run == "middle", "{types:?}");
            // Again is no harm.
            assert_eq!(dev.act("t", run, "stop").await.ok(200)["status"], "stopped");
        }
        dev.post("/v1/threads/t/runs", ask("next", json!([]))).await.ok(201);
        agent.call().await.finish(&[finished("next")]).await;
    }
}

everywhere! {
    async fn only_users_with_access_to_the_thread_can_stop_its_run(server) {
        let (ann, bob) = (server.user("ann"), server.user("bob"));
        ann.thread("t").await;
        let agent = agent(&ann).await;
        ann.post("/v1/threads/t/runs", ask("r", json!([]))).await.ok(201);
        let mut call = agent.call().await;
        bob.act("t", "r", "stop").await.problem(404, "thread-not-found");
        bob.post("/v1/threads/t/runs", ask("r", json!([]))).await.problem(404, "thread-not-found");
        bob.post("/v1/threads/t/runs", ask("s", json!([]))).await.problem(404, "thread-not-found");
        send(agui(&bob, "r", json!([]))).await.problem(409, "thread-exists");
        for read in ["messages", "state", "runs/r", "events?runId=r"] {
            bob.get(&format!("/v1/threads/t/{read}")).await.problem(404, "thread-not-found");
        }
        ann.act("t", "s", "stop").await.problem(404, "run-not-found");
        call.say(&whole("r", "m", "done")).await;
        call.hung_up().await;
        assert_eq!(ended(&ann, "r").await["status"], "finished");
        assert_eq!(agent.requests(), 1);
    }
}

everywhere! {
    async fn a_thread_that_is_deleted_takes_its_run_with_it(server) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        let response = open(agui(&dev, "r", json!([user("u", "hi")]))).await;
        let mut call = agent.call().await;
        call.say(&said("m", "one")[..2]).await;
        assert_eq!(dev.delete("/v1/threads/t").await.status, 204);
        call.hung_up().await;
        // AG-UI clients take a stream that just ends for a success.
        let text = soon(response.text()).await.expect("the answer ends");
        let last = json!({ "type": "RUN_ERROR", "message": "The thread was deleted.", "code": "thread-deleted" });
        // Perhaps the only one: what is deleted is read no more.
        assert_eq!(text.trim_end().lines().next_back(), Some(format!("data: {last}").as_str()), "{text}");
        eventually("no followers", async || (server.followers() == 0).then_some(())).await;
        for path in ["runs/r", "events", "messages"] {
            dev.get(&format!("/v1/threads/t/{path}")).await.problem(404, "thread-not-found");
        }
        // Another thread under the same id knows nothing of it.
        dev.thread("t").await;
        dev.post("/v1/threads/t/runs", ask("r", json!([]))).await.ok(201);
        let call = agent.call().await;
        assert_eq!(call.input()["messages"], json!([]));
        call.finish(&[finished("r")]).await;
        assert_eq!(ended(&dev, "r").await["firstSeq"], 1);
        assert_eq!(types_of(&dev, "r").await, ["RUN_STARTED", "RUN_FINISHED"]);
    }
}

#[tokio::test]
async fn a_stopping_server_ends_the_runs_of_agents_that_are_called_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
    let dev = server.client();
    dev.thread("t").await;
    dev.thread("u").await;
    let agent = agent_that(&dev, json!({ "recovery": "none" })).await;
    dev.post("/v1/threads/t/runs", ask("r", json!([user("u", "hi")]))).await.ok(201);
    let mut call = agent.call().await;
    call.say(&said("m", "one")[..2]).await;
    eventually("it is in the log", async || (types_of(&dev, "r").await.len() == 3).then_some(())).await;
    dev.post("/v1/threads/u/runs", ask("mute", json!([]))).await.ok(201);
    let mut mute = agent.call().await;
    let begun = std::time::Instant::now();
    server.stop().await;
    assert!(begun.elapsed().as_secs() < 8, "{:?}", begun.elapsed());
    call.hung_up().await;
    mute.hung_up().await;
    let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
    let dev = server.client();
    let run = dev.get("/v1/threads/t/runs/r").await.ok(200);
    assert_eq!((&run["status"], &run["errorCode"]), (&json!("error"), &json!("server-stopped")));
    let types = ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_ERROR"];
    assert_eq!(types_of(&dev, "r").await, types);
    assert_eq!(dev.get("/v1/threads/u/runs/mute").await.ok(200)["errorCode"], "server-stopped");
    // The agents of the API are still there, and the thread is free.
    dev.post("/v1/threads/t/runs", ask("next", json!([]))).await.ok(201);
    agent.call().await.finish(&[finished("next")]).await;
    assert_eq!(ended(&dev, "next").await["status"], "finished");
    server.stop().await;
}

everywhere! {
    async fn a_run_that_the_server_drives_takes_no_lease(server) {
        let dev = server.client();
        dev.thread("t").await;
        let _agent = agent(&dev).await;
        let mut body = ask("r", json!([]));
        body["leaseSeconds"] = json!(1);
        let problem = send(start(&dev, body)).await.problem(400, "invalid-request");
        assert!(text(&problem, "detail").starts_with("leaseSeconds is not available with input"), "{problem}");
        dev.get("/v1/threads/t/runs/r").await.problem(404, "run-not-found");
    }
}
