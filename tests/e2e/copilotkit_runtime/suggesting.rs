//! Suggestions: an agent is asked, and nothing of it is left.

use serde_json::{Value, json};

use super::{agent, asks, finished, input, kinds, rest, run, said, user};
use crate::harness::{everywhere, sse::Events, text};

/// How a client asks for suggestions that knows no address for them.
fn suggest() -> Value {
    let mut body = input("s", json!([user("q", "what next?")]));
    body["forwardedProps"] =
        json!({ "toolChoice": { "type": "function", "function": { "name": "copilotkitSuggest" } } });
    body
}

everywhere! {
    async fn suggestions_leave_no_thread(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let single = json!({ "method": "agent/suggest", "params": { "agentId": "a" }, "body": suggest() });
        for (path, body) in [("/agent/a/suggest", suggest()), ("/agent/a/run", suggest()), ("", single)] {
            let mut stream = Events::open(asks(&dev, path, &body)).await;
            let call = agent.call().await;
            assert_eq!((text(&call.input(), "threadId"), text(&call.input(), "runId")), ("t", "s"));
            call.finish(&[&said("m", "1,\n 2")[..], &[finished("s")]].concat()).await;
            let received = rest(&mut stream).await;
            assert_eq!((kinds(&received)[0], kinds(&received)[4], received.len()), ("RUN_STARTED", "RUN_FINISHED", 5));
        }
        dev.get("/v1/threads/t").await.problem(404, "thread-not-found");
        assert_eq!(dev.get("/v1/threads?includeArchived=true").await.ok(200)["threads"], json!([]));
    }
}

everywhere! {
    async fn suggestions_are_made_while_the_thread_is_busy_and_end_with_their_agent(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let _busy = run(&dev, "r", json!([user("u", "hi")])).await;
        let _call = agent.call().await;
        // Without an end of its own, half a message, or a connection.
        let mut stream = Events::open(asks(&dev, "/agent/a/suggest", &suggest())).await;
        agent.call().await.finish(&said("m", "x")[..2]).await;
        assert_eq!(kinds(&rest(&mut stream).await)[3..], ["TEXT_MESSAGE_END", "RUN_ERROR"]);
        let stream = Events::open(asks(&dev, "/agent/a/suggest", &suggest())).await;
        let mut call = agent.call().await;
        drop(stream);
        call.hung_up().await;
        dev.post("/copilotkit/agent/none/suggest", suggest()).await.problem(404, "agent-not-found");
        assert_eq!(dev.get("/v1/threads/t/runs").await.ok(200)["runs"].as_array().map(Vec::len), Some(1));
    }
}
