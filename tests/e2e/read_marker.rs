//! Up to where a thread was read.

use serde_json::json;

use crate::harness::{after, eventually, everywhere, number};

everywhere! {
    async fn a_thread_knows_how_far_it_was_read(server: |options| options.with_manual_clock()) {
        let dev = server.client();
        assert_eq!(dev.thread("t").await["readSeq"], 0);
        dev.put("/v1/threads/t/runs/r", json!([{ "type": "A" }, { "type": "B" }, { "type": "RUN_FINISHED" }])).await.ok(201);
        dev.thread("newer").await;
        let before = dev.get("/v1/threads/t").await.ok(200);
        assert_eq!((number(&before, "readSeq"), number(&before, "tail")), (0, 3));
        server.pass(1);
        let read = |seq: u64| dev.put("/v1/threads/t/read", json!({ "seq": seq }));
        let two = read(2).await.ok(200);
        let mut unread = two.clone();
        unread["readSeq"] = json!(0);
        assert_eq!((number(&two, "readSeq"), &unread), (2, &before), "nothing else has changed");
        // Sent again, or late: the same answer.
        for seq in [2, 1, 0] {
            assert_eq!(read(seq).await.ok(200), two);
        }
        let ahead = read(4).await.problem(416, "cursor-ahead");
        assert_eq!((&ahead["tail"], &ahead["epoch"]), (&before["tail"], &before["epoch"]));
        read(u64::MAX).await.problem(416, "cursor-ahead");
        assert_eq!(dev.get("/v1/threads/t").await.ok(200), two);
        assert_eq!(number(&read(3).await.ok(200), "readSeq"), 3);
        // It stands where it stood in the list.
        let list = dev.get("/v1/threads").await.ok(200);
        let shown = |at: usize| (list["threads"][at]["threadId"].clone(), list["threads"][at]["readSeq"].clone());
        assert_eq!([shown(0), shown(1)], [(json!("newer"), json!(0)), (json!("t"), json!(3))]);
        // An append makes it unread again.
        dev.put("/v1/threads/t/runs/s", json!([{ "type": "RUN_FINISHED" }])).await.ok(201);
        let more = dev.get("/v1/threads/t").await.ok(200);
        assert_eq!((number(&more, "readSeq"), number(&more, "tail")), (3, 4));
    }
}

everywhere! {
    async fn other_devices_learn_of_a_change_from_the_feed(server) {
        let dev = server.client();
        dev.thread("t").await;
        dev.put("/v1/threads/t/runs/r", json!([{ "type": "RUN_FINISHED" }])).await.ok(201);
        let fed = async |place: &str, read: u64| {
            eventually("the feed tells of it", async || {
                // Before the page: an entry written between the two looks would be missing from its cursor.
                let quiet = server.store.dirty_feeds(1).await.expect("looks").is_empty();
                let page = dev.get(&format!("/v1/feed?{place}")).await.ok(200);
                let fed = page["entries"].as_array()?.iter().any(|entry| entry["thread"]["readSeq"] == read);
                (fed && quiet).then(|| after(&page))
            })
            .await
        };
        let unread = fed("after=0", 0).await;
        dev.put("/v1/threads/t/read", json!({ "seq": 1 })).await.ok(200);
        let read = fed(&unread, 1).await;
        // A marker that changes nothing adds no entry.
        dev.put("/v1/threads/t/read", json!({ "seq": 1 })).await.ok(200);
        dev.put("/v1/threads/t/read", json!({ "seq": 0 })).await.ok(200);
        assert!(server.store.dirty_feeds(1).await.expect("looks").is_empty());
        assert_eq!(after(&dev.get("/v1/feed").await.ok(200)), read);
    }
}

everywhere! {
    async fn invalid_read_positions_are_refused(server) {
        let dev = server.client();
        dev.thread("t").await;
        for bad in [json!({}), json!({ "seq": null }), json!({ "seq": -1 }), json!({ "seq": 1.5 }), json!({ "seq": "0" }), json!({ "seq": 0, "x": 1 }), json!([0])] {
            dev.put("/v1/threads/t/read", bad).await.problem(400, "invalid-request");
        }
        let nothing = dev.request(reqwest::Method::PUT, "/v1/threads/t/read");
        crate::harness::http::send(nothing.header("content-type", "application/json")).await.problem(400, "invalid-request");
        let (foreign, unknown) = (
            server.user("eve").put("/v1/threads/t/read", json!({ "seq": 0 })).await,
            server.user("eve").put("/v1/threads/none/read", json!({ "seq": 0 })).await,
        );
        foreign.problem(404, "thread-not-found");
        assert_eq!(foreign.body, unknown.body);
        dev.delete("/v1/threads/t").await;
        dev.put("/v1/threads/t/read", json!({ "seq": 0 })).await.problem(404, "thread-not-found");
    }
}
