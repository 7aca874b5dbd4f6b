//! Clients that disconnect from the run that they requested.

use reqwest::Method;
use serde_json::json;
use threadline_core::{ProjectId, RunId, RunStatus, ThreadId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{agent, agent_that, agui, ask, ended, finished, said, types_of, user};
use crate::harness::{
    Options, Server, eventually, everywhere, http::open, intercept::Failing, raw::Raw, soon, sse::Events,
};

const APIS: [&str; 2] = ["/v1/threads/t/runs", "/agui/a"];

/// A request by which a run is asked for and waited for, on a connection of its own.
async fn waiting(server: &Server, api: &str, run: &str) -> Raw {
    asking(server, api, run, "text/event-stream").await
}

async fn asking(server: &Server, api: &str, run: &str, accept: &str) -> Raw {
    let body = match api {
        "/agui/a" => json!({ "threadId": "t", "runId": run, "messages": [user(&format!("u-{run}"), "hi")] }),
        _ => ask(run, json!([user(&format!("u-{run}"), "hi")])),
    };
    let body = body.to_string();
    let mut raw = Raw::connect(server.addr).await;
    let head = format!("POST {api} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n");
    raw.write(format!("{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())).await;
    raw
}

/// Reads until this text has come.
async fn until(raw: &mut Raw, wanted: &str) {
    let mut all = Vec::new();
    while !String::from_utf8_lossy(&all).contains(wanted) {
        let read = soon(raw.0.read_buf(&mut all)).await.expect("more");
        assert!(read > 0, "no {wanted:?} in {:?}", String::from_utf8_lossy(&all));
    }
}

/// Goes away, and waits until the server has noticed.
async fn leave(mut raw: Raw) {
    soon(raw.0.shutdown()).await.expect("closed");
    assert!(raw.rest().await.is_empty());
}

everywhere! {
    async fn a_run_continues_without_its_requester(server) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        // JSON: the answer was all that was waited for.
        let mut client = asking(server, APIS[0], "r0", "application/json").await;
        let mut call = agent.call().await;
        until(&mut client, "\"cursor\":0").await;
        drop(client);
        call.say(&said("a0", "still here")).await;
        call.finish(&[finished("r0")]).await;
        assert_eq!(ended(&dev, "r0").await["status"], "finished");
        for (number, api) in APIS.iter().enumerate() {
            let run = format!("r{}", number + 1);
            let mut client = waiting(server, api, &run).await;
            let mut call = agent.call().await;
            call.say(&said(&format!("a-{run}"), "one")).await;
            until(&mut client, "TEXT_MESSAGE_END").await;
            drop(client);
            eventually("no followers", async || (server.followers() <= 1).then_some(())).await;
            call.say(&said(&format!("b-{run}"), "two")).await;
            call.finish(&[finished(&run)]).await;
            assert_eq!(ended(&dev, &run).await["status"], "finished");
            assert_eq!(types_of(&dev, &run).await.len(), 8);
        }
    }
}

everywhere! {
    async fn a_run_stops_with_its_requester_if_the_agent_says_so(server) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent_that(&dev, json!({ "onDisconnect": "stop" })).await;
        for (number, api) in APIS.iter().enumerate() {
            let run = format!("r{number}");
            let mut client = waiting(server, api, &run).await;
            let mut call = agent.call().await;
            call.say(&said(&format!("a-{run}"), "one")[..2]).await;
            until(&mut client, "TEXT_MESSAGE_CONTENT").await;
            drop(client);
            call.hung_up().await;
            assert_eq!(ended(&dev, &run).await["status"], "stopped");
            let types = types_of(&dev, &run).await;
            assert_eq!((types.len(), types[3].as_str(), types[4].as_str()), (5, "TEXT_MESSAGE_END", "RUN_FINISHED"));
        }
    }
}

everywhere! {
    async fn leaving_before_the_first_byte_of_the_agent_is_leaving(server) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent_that(&dev, json!({ "onDisconnect": "stop" })).await;
        for (number, api) in APIS.iter().enumerate() {
            let run = format!("r{number}");
            let client = waiting(server, api, &run).await;
            let mut call = agent.call().await;
            drop(client);
            call.hung_up().await;
            assert_eq!(ended(&dev, &run).await["status"], "stopped");
            assert_eq!(types_of(&dev, &run).await, ["RUN_STARTED", "RUN_FINISHED"]);
        }
        // A JSON request does not wait for the run: there is no stream to leave.
        dev.post("/v1/threads/t/runs", ask("j", json!([]))).await.ok(201);
        agent.call().await.finish(&[finished("j")]).await;
        assert_eq!(ended(&dev, "j").await["status"], "finished");
    }
}

everywhere! {
    async fn leaving_while_the_run_is_being_started_is_leaving(server: |options| options.with_glass()) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent_that(&dev, json!({ "onDisconnect": "stop" })).await;
        for (number, api) in APIS.iter().enumerate() {
            let run = format!("r{number}");
            server.intercept().start_gate.hold();
            let client = waiting(server, api, &run).await;
            server.intercept().start_gate.reached().await;
            leave(client).await;
            server.intercept().start_gate.open();
            eventually("the run is stopped", async || {
                let found = dev.get(&format!("/v1/threads/t/runs/{run}")).await;
                (found.status == 200 && found.json()["status"] == "stopped").then_some(())
            })
            .await;
            assert_eq!(types_of(&dev, &run).await, ["RUN_STARTED", "RUN_FINISHED"]);
        }
        assert!(agent.requests() <= 2);
    }
}

everywhere! {
    async fn a_disconnect_counts_though_the_store_is_briefly_unreachable(server: |options| options.with_glass()) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent_that(&dev, json!({ "onDisconnect": "stop" })).await;
        let client = waiting(server, APIS[1], "r").await;
        let mut call = agent.call().await;
        server.intercept().fail(&[Failing::Before]);
        drop(client);
        call.hung_up().await;
        assert_eq!((ended(&dev, "r").await["status"].as_str(), server.intercept().failures()), (Some("stopped"), 0));
    }
}

everywhere! {
    async fn a_start_is_carried_through_for_a_client_that_has_not_waited_for_the_answer(
        server: |options| options.with_glass()
    ) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent_that(&dev, json!({ "onDisconnect": "stop" })).await;
        server.intercept().start_gate.hold();
        let client = asking(server, APIS[0], "r", "application/json").await;
        server.intercept().start_gate.reached().await;
        leave(client).await;
        server.intercept().start_gate.open();
        agent.call().await.finish(&[finished("r")]).await;
        assert_eq!(ended(&dev, "r").await["status"], "finished");
        // Asked again, it is the same run.
        dev.post("/v1/threads/t/runs", ask("r", json!([user("u-r", "hi")]))).await.ok(200);
        assert_eq!((types_of(&dev, "r").await.len(), agent.requests()), (2, 1));
    }
}

everywhere! {
    async fn a_reader_that_leaves_stops_no_run(server) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent_that(&dev, json!({ "onDisconnect": "stop" })).await;
        let mut first = waiting(server, APIS[1], "r").await;
        let mut call = agent.call().await;
        call.say(&said("a", "one")).await;
        until(&mut first, "TEXT_MESSAGE_END").await;
        let mut listeners = Vec::new();
        for api in APIS {
            let mut listener = waiting(server, api, "r").await;
            until(&mut listener, "TEXT_MESSAGE_END").await;
            listeners.push(listener);
        }
        let mut events = Events::open(dev.request(Method::GET, "/v1/threads/t/events?runId=r")).await;
        events.named("hello").await;
        // A page that is being read holds the thread as well, for that moment.
        eventually("four readers and the one who feeds the run", async || (server.followers() == 5).then_some(())).await;
        drop((listeners, events));
        eventually("the listeners are gone", async || (server.followers() == 2).then_some(())).await;
        call.say(&said("b", "two")).await;
        call.finish(&[finished("r")]).await;
        assert_eq!(ended(&dev, "r").await["status"], "finished");
        until(&mut first, "RUN_FINISHED").await;
        assert_eq!(agent.requests(), 1);
    }
}

#[tokio::test]
async fn a_draining_server_reports_how_its_driven_runs_ended() {
    let mut server = Server::start(Options::memory()).await;
    let dev = server.client();
    dev.thread("t").await;
    let agent = agent_that(&dev, json!({ "onDisconnect": "stop", "recovery": "none" })).await;
    // Followers are disconnected; a pending request keeps the server in its drain.
    let response = open(agui(&dev, "r", json!([user("u", "hi")]))).await;
    let mut call = agent.call().await;
    call.say(&said("a", "one")).await;
    let mut held = Raw::connect(server.addr).await;
    let head = "PATCH /v1/threads/t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\nExpect: 100-continue\r\n\r\n";
    held.write(head).await;
    until(&mut held, "100 Continue").await;
    let (project, id, run) = (ProjectId::new("default"), ThreadId::new("t"), RunId::new("r").expect("an id"));
    let found =
        server.store.thread_named(&project.expect("an id"), &id.expect("an id")).await.expect("a store").thread();
    let key = found.expect("a thread").key;
    server.drain();
    // AG-UI clients take a clean end for success, and all `data:` for events.
    let text = soon(response.text()).await.expect("a whole answer");
    assert!(text.contains("RUN_ERROR") && text.contains("server-stopped") && !text.contains("closing"), "{text}");
    call.hung_up().await;
    eventually("the run ends", async || {
        let run = server.store.run(key, &run).await.expect("a store").expect("a run");
        run.ended_at.map(|_| assert_eq!(run.status, RunStatus::Error))
    })
    .await;
    drop(held);
    server.stop().await;
}

#[tokio::test]
async fn a_run_that_outlasts_the_server_is_cut_off_from_its_followers() {
    let mut server = Server::start(Options::memory()).await;
    let dev = server.client();
    dev.thread("t").await;
    let _agent = agent_that(&dev, json!({})).await;
    // Pushed by another producer, which may continue after a restart.
    dev.run("t", "r").await;
    let response = open(agui(&dev, "r", json!([]))).await;
    server.drain();
    assert!(soon(response.text()).await.is_err(), "AG-UI clients take a clean end for success");
    server.stop().await;
}
