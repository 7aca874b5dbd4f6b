//! Repeated requests of the OpenAI API for whose response there is no thread any more.

use super::{
    recovery::called,
    responses::{answered, create, refused, run_of},
    *,
};
use crate::harness::{eventually, everywhere, http::send, soon};

async fn threads(client: &Client) -> usize {
    let listed = client.get("/v1/threads?includeArchived=true").await.ok(200);
    listed["threads"].as_array().expect("threads").len()
}

everywhere! {
    async fn a_response_that_was_not_stored_is_not_made_again(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let stored = answered(&dev, &agent, json!({ "model": "a", "input": "keep" }), "kept").await;
        let new = json!({ "model": "a", "input": "pay", "store": false });
        let beside = json!({ "model": "a", "input": "pay", "store": false, "previous_response_id": stored["id"] });
        for (number, body) in [new, beside].iter().enumerate() {
            let keyed = || create(&dev, body.clone()).header("idempotency-key", format!("k{number}"));
            let counted = |tries: &str| create(&dev, body.clone()).header("x-stainless-retry-count", tries);
            for (first, again) in [(keyed(), keyed()), (counted("0"), counted("1"))] {
                let asking = tokio::spawn(async move { send(first).await });
                let call = agent.call().await;
                let run = run_of(&call);
                call.finish(&whole(&run, "m", "paid")).await;
                soon(asking).await.expect("a request").ok(200);
                let requests = agent.requests();
                eventually("the thread is deleted", async || (threads(&dev).await == 1).then_some(())).await;
                refused(&send(again).await, 410, "thread_deleted");
                assert_eq!((agent.requests(), threads(&dev).await), (requests, 1));
            }
            // Without a name of the request, an equal request is another one.
            answered(&dev, &agent, body.clone(), "paid once more").await;
        }
    }
}

everywhere! {
    async fn retries_that_come_at_the_same_time_get_one_response(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let retry = || create(&dev, json!({ "model": "a", "input": "pay" })).header("x-stainless-retry-count", "1");
        let asking: Vec<_> = (0..8).map(|_| tokio::spawn(send(retry()))).collect();
        let call = agent.call().await;
        let run = run_of(&call);
        call.finish(&whole(&run, "m", "paid")).await;
        let mut ids = std::collections::HashSet::new();
        for one in asking {
            ids.insert(text(&soon(one).await.expect("a request").ok(200), "id").to_owned());
        }
        ids.insert(text(&send(retry()).await.ok(200), "id").to_owned());
        assert_eq!((ids.len(), agent.requests(), threads(&dev).await), (1, 1, 1));
    }
}

everywhere! {
    async fn a_conversation_that_was_deleted_does_not_come_back_with_a_repeated_request(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let body = json!({ "model": "a", "input": "pay" });
        let keyed = || create(&dev, body.clone()).header("idempotency-key", "k");
        let counted = |tries: &str| create(&dev, body.clone()).header("x-stainless-retry-count", tries);
        for (first, again) in [(keyed(), keyed()), (counted("0"), counted("1"))] {
            let asking = tokio::spawn(async move { send(first).await });
            let call = agent.call().await;
            let run = run_of(&call);
            call.finish(&whole(&run, "m", "paid")).await;
            let paid = soon(asking).await.expect("a request").ok(200);
            let conversation = paid["conversation"]["id"].as_str().expect("an id");
            dev.delete(&format!("/openai/v1/conversations/{conversation}")).await.ok(200);
            let requests = agent.requests();
            refused(&send(again).await, 410, "thread_deleted");
            assert_eq!((agent.requests(), threads(&dev).await), (requests, 0));
        }
    }
}

everywhere! {
    async fn an_approval_is_stored_in_its_conversation(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let request = create(&dev, json!({ "model": "a", "input": "pay" }));
        let asking = tokio::spawn(async move { send(request).await });
        let call = agent.call().await;
        let mut ends = finished(&run_of(&call));
        ends["outcome"] = json!({ "type": "interrupt", "interrupts": [{ "id": "i", "reason": "approval", "toolCallId": "c" }] });
        call.finish(&[&called("c")[..], &[ends]].concat()).await;
        let asks = soon(asking).await.expect("a request").ok(200);
        let approve = json!({ "model": "a", "previous_response_id": asks["id"], "store": false,
            "input": [{ "type": "mcp_approval_response", "approval_request_id": "mcpr_i", "approve": true }] });
        for _ in 0..2 {
            let error = refused(&send(create(&dev, approve.clone())).await, 400, "invalid_request");
            assert_eq!(error["param"], "store");
        }
        assert_eq!((agent.requests(), threads(&dev).await), (1, 1));
    }
}
