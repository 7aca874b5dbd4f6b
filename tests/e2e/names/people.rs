//! A person's name is never overwritten, whenever it comes, and through whatever API.

use super::*;
use crate::harness::everywhere;

everywhere_with_model! {
    async fn a_persons_name_stays(server, model) {
        let dev = server.client();
        dev.post("/v1/threads", json!({ "threadId": "given", "name": "Mine" })).await.ok(201);
        converse(&dev, "given", "r", "Plan a trip to Ghent".into()).await;
        // While the model thinks.
        for (thread, path) in [("native", "/v1/threads/native"), ("kit", "/copilotkit/threads/kit")] {
            dev.thread(thread).await;
            converse(&dev, thread, "r", "Plan a trip to Ghent".into()).await;
            let call = model.call().await;
            named(&dev, thread, "Plan a trip to Ghent", "auto").await;
            dev.patch(path, json!({ "name": "Plan a trip to Ghent" })).await.ok(200);
            named(&dev, thread, "Plan a trip to Ghent", "person").await;
            answer(call, "Trip to Ghent").await;
        }
        outcome(server, "overtaken", 2.0).await;
        for thread in ["native", "kit"] {
            let found = look(&dev, thread).await;
            assert_eq!((&found["name"], &found["nameSource"]), (&json!("Plan a trip to Ghent"), &json!("person")));
        }
        let given = look(&dev, "given").await;
        assert_eq!((&given["name"], &given["nameSource"]), (&json!("Mine"), &json!("person")));
        assert_eq!(model.requests(), 2, "a thread with a name causes no request");
    }
}

everywhere_with_model! {
    async fn a_thread_whose_name_was_removed_is_named_again(server, model) {
        let dev = server.client();
        dev.post("/v1/threads", json!({ "threadId": "t", "name": "Mine" })).await.ok(201);
        let free = dev.patch("/v1/threads/t", json!({ "name": null })).await.ok(200);
        assert_eq!((&free["name"], &free["nameSource"]), (&Value::Null, &Value::Null));
        converse(&dev, "t", "r", "Plan a trip to Ghent".into()).await;
        let call = model.call().await;
        named(&dev, "t", "Plan a trip to Ghent", "auto").await;
        // While the model thinks: what it says then is not wanted any more.
        dev.patch("/v1/threads/t", json!({ "name": null })).await.ok(200);
        answer(call, "Trip to Ghent").await;
        outcome(server, "overtaken", 1.0).await;
        let free = look(&dev, "t").await;
        assert_eq!((&free["name"], &free["nameSource"]), (&Value::Null, &Value::Null));
        // The next run's end names it again, and so it does where a model's name was taken away.
        for (run, name) in [("again", "Ghent and Back"), ("once more", "Back Again")] {
            converse(&dev, "t", run, "And back".into()).await;
            let call = model.call().await;
            named(&dev, "t", "Plan a trip to Ghent", "auto").await;
            answer(call, name).await;
            named(&dev, "t", name, "title").await;
            dev.patch("/v1/threads/t", json!({ "name": null })).await.ok(200);
        }
    }
}

everywhere_with_model! {
    async fn threads_may_be_archived_or_go_meanwhile(server, model) {
        let dev = server.client();
        dev.thread("t").await;
        converse(&dev, "t", "r", "Plan a trip to Ghent".into()).await;
        let call = model.call().await;
        dev.patch("/v1/threads/t", json!({ "archived": true, "metadata": { "a": 1 } })).await.ok(200);
        answer(call, "Trip to Ghent").await;
        let thread = named(&dev, "t", "Trip to Ghent", "title").await;
        assert_eq!((&thread["archived"], &thread["metadata"]), (&json!(true), &json!({ "a": 1 })));
        // One made again under its id is another one.
        dev.thread("u").await;
        converse(&dev, "u", "r", "Plan a trip to Bruges".into()).await;
        let call = model.call().await;
        assert_eq!(dev.delete("/v1/threads/u").await.status, 204);
        dev.thread("u").await;
        answer(call, "Trip to Bruges").await;
        outcome(server, "overtaken", 1.0).await;
        assert_eq!(look(&dev, "u").await["name"], Value::Null);
    }
}

everywhere! {
    async fn copilotkits_lists_show_names(server) {
        let dev = server.client();
        dev.post("/v1/threads", json!({ "threadId": "t", "agentId": "a" })).await.ok(201);
        converse(&dev, "t", "r", "Plan a trip to Ghent".into()).await;
        named(&dev, "t", "Plan a trip to Ghent", "auto").await;
        for list in ["/copilotkit/threads?agentId=a", "/api/threads?userId=dev&agentId=a"] {
            let list = dev.get(list).await.ok(200);
            assert_eq!(list["threads"][0]["name"], "Plan a trip to Ghent", "{list}");
        }
    }
}
