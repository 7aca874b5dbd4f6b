//! Checks 1–12: threads over REST.

use super::{
    frames::{bearer, handshake},
    *,
};
use crate::{
    harness::{Client, everywhere},
    identity::key,
};
use threadline_core::Scope;

/// The ids of a list.
fn ids(list: &Value) -> Vec<&str> {
    list["threads"].as_array().expect("threads").iter().map(|thread| text(thread, "id")).collect()
}

everywhere! {
    async fn c01_an_unknown_thread_is_not_found(server: |options| options.with_key(KEY)) {
        get(server, "/api/threads/none?userId=ann").await.problem(404, "thread-not-found");
        get(server, "/api/threads/none").await.problem(404, "thread-not-found");
        let answer = post(server, "/api/threads/none/connect", json!({ "userId": "ann" })).await;
        assert_eq!((answer.status, answer.body.len()), (204, 0), "an empty chat");
        get(server, "/api/threads/none/messages?userId=ann").await.problem(404, "thread-not-found");
        // The inspector's requests name no user and receive an empty thread.
        assert_eq!(inspected(server, "none").await, [] as [Value; 0]);
        let state = get(server, "/api/_inspect/threads/none/state").await.ok(200);
        assert_eq!(state, json!({ "kind": "no-snapshot" }));
    }
}

everywhere! {
    async fn c02_of_two_concurrent_creates_one_succeeds(server: |options| options.with_key(KEY)) {
        for round in 0..5 {
            let make = || post(server, "/api/threads", json!({
                "threadId": format!("t{round}"), "userId": "ann", "agentId": "agent"
            }));
            let (one, other) = tokio::join!(make(), make());
            let (made, refused) = if one.status == 201 { (one, other) } else { (other, one) };
            refused.problem(409, "thread-exists");
            let thread = made.ok(201)["thread"].take();
            assert_eq!(get(server, &format!("/api/threads/t{round}?userId=ann")).await.ok(200)["thread"], thread);
            assert!(thread.get("lastRunAt").is_none() && thread["name"].is_null(), "{thread}");
            for (member, value) in [
                ("organizationId", "default"), ("agentId", "agent"), ("createdById", "ann")
            ] {
                assert_eq!(text(&thread, member), value);
            }
            // Clients compare times as strings.
            for member in ["createdAt", "updatedAt", "lastUpdatedAt"] {
                let time = text(&thread, member);
                assert!(time.len() == 24 && time.ends_with('Z') && time.as_bytes()[19] == b'.', "{time}");
            }
        }
    }
}

everywhere! {
    async fn c03_an_encoded_id_names_the_same_thread_in_every_call(server: |options| options.with_key(KEY)) {
        let (id, path) = ("t/1 é", "/api/threads/t%2F1%20%C3%A9");
        thread(server, id).await;
        assert_eq!(get(server, &format!("{path}?userId=ann")).await.ok(200)["thread"]["id"], id);
        let named = patch(server, path, json!({ "userId": "ann", "agentId": "agent", "name": "N" })).await.ok(200);
        assert_eq!((&named["thread"]["id"], &named["thread"]["name"]), (&json!(id), &json!("N")));
        let body = json!({ "runId": "r", "userId": "ann", "agentId": "agent" });
        let locked = post(server, &format!("{path}/lock"), body).await.ok(200);
        assert_eq!(text(&locked, "threadId"), id);
        patch(server, &format!("{path}/lock"), json!({ "runId": "r", "ttlSeconds": 20 })).await.ok(200);
        let mut runner = Frames::producing(server, id, "r").await;
        let events = said(id, "r", "hi there");
        runner.sends(&events).await;
        let mut page = Frames::of_run(server, text(&locked, "joinToken"), id, "r").await;
        page.hears(&events).await;
        let messages = get(server, &format!("{path}/messages?userId=ann")).await.ok(200);
        assert_eq!(messages["messages"][1]["content"], "hi there");
        let connected = post(server, &format!("{path}/connect"), json!({ "userId": "ann" })).await.ok(200);
        assert_eq!(text(&connected, "threadId"), id);
        Frames::of_thread(server, text(&connected, "joinToken"), id, None).await.hears(&events).await;
        let shown = get(server, "/api/_inspect/threads/t%2F1%20%C3%A9/events").await.ok(200);
        assert_eq!(shown["events"].as_array().map(Vec::len), Some(events.len()));
        let released = delete(server, &format!("{path}/lock"), json!({ "runId": "r" })).await;
        assert_eq!(released.status, 204);
        assert_eq!(delete(server, path, json!({ "userId": "ann", "reason": "x" })).await.status, 204);
        get(server, path).await.problem(404, "thread-not-found");
    }
}

everywhere! {
    async fn c04_archived_threads_are_listed_on_demand(server: |options| options.with_key(KEY)) {
        for id in ["kept", "put-away"] {
            thread(server, id).await;
        }
        let archive = json!({ "userId": "ann", "agentId": "agent", "archived": true });
        patch(server, "/api/threads/put-away", archive).await.ok(200);
        let list = "/api/threads?userId=ann&agentId=agent";
        assert_eq!(ids(&get(server, list).await.ok(200)), ["kept"]);
        let all = get(server, &format!("{list}&includeArchived=true")).await.ok(200);
        assert_eq!(ids(&all).len(), 2);
        assert_eq!(get(server, "/api/threads?userId=ann&agentId=other").await.ok(200)["threads"], json!([]));
        assert_eq!(get(server, "/api/threads?userId=bob&agentId=agent").await.ok(200)["threads"], json!([]));
        get(server, "/api/threads?agentId=agent").await.problem(400, "invalid-request");
        get(server, &format!("{list}&limit=NaN")).await.problem(400, "invalid-request");
    }
}

everywhere! {
    async fn c05_pages_do_not_overlap_and_the_last_has_no_cursor(server: |options| options.with_key(KEY)) {
        for n in 0..5 {
            thread(server, &format!("t{n}")).await;
        }
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        for size in [2, 2, 1] {
            let path = format!("/api/threads?userId=ann&agentId=agent&limit=2{cursor}");
            let page = get(server, &path).await.ok(200);
            assert_eq!(ids(&page).len(), size, "{page}");
            seen.extend(ids(&page).into_iter().map(str::to_owned));
            cursor = match page["nextCursor"].as_str() {
                Some(next) => format!("&cursor={next}"),
                None => String::new(),
            };
        }
        assert_eq!(cursor, "", "the last page has no cursor");
        seen.sort();
        assert_eq!(seen, ["t0", "t1", "t2", "t3", "t4"]);
    }
}

everywhere! {
    async fn c06_a_user_has_one_join_code(server: |options| options.with_key(KEY)) {
        let code = async |query: &str| {
            let list = get(server, &format!("/api/threads?{query}")).await.ok(200);
            text(&list, "joinCode").to_owned()
        };
        let ann = code("userId=ann&agentId=agent").await;
        assert!(ann.len() >= 16 && !ann.starts_with("memories:"), "{ann}");
        for query in ["userId=ann&agentId=agent", "userId=ann&agentId=other", "userId=ann&includeArchived=true"] {
            assert_eq!(code(query).await, ann);
        }
        assert_ne!(code("userId=bob&agentId=agent").await, ann);
        thread(server, "t").await;
        let both = get(server, "/api/threads/t/join-code?userId=ann").await.ok(200);
        assert_eq!(text(&both, "joinCode"), ann);
        let mut page = Frames::page(server, text(&both, "joinToken")).await.expect("accepted");
        page.joins(&format!("user_meta:{ann}"), json!({})).await;
    }
}

everywhere! {
    async fn c07_a_rename_returns_and_pushes_the_whole_thread(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        ran(server, "t", "r").await;
        let before = get(server, "/api/threads/t?userId=ann").await.ok(200)["thread"].take();
        assert!(before["lastRunAt"].is_string(), "{before}");
        let mut page = listening(server).await;
        let rename = json!({ "userId": "ann", "agentId": "agent", "name": "Named" });
        let after = patch(server, "/api/threads/t", rename).await.ok(200)["thread"].take();
        assert_eq!((&after["name"], &after["lastRunAt"]), (&json!("Named"), &before["lastRunAt"]));
        assert!(text(&after, "updatedAt") >= text(&before, "updatedAt"));
        assert_eq!(get(server, "/api/threads/t?userId=ann").await.ok(200)["thread"], after);
        let pushed = eventually("the rename", async || {
            let pushed = page.pushed_as("thread_metadata").await;
            // The thread's first name, made of the user's words, may be pushed before it.
            (pushed["operation"] == "renamed" && pushed["thread"]["name"] == "Named").then_some(pushed)
        })
        .await;
        assert_eq!(pushed["thread"], after);
        assert_eq!((text(&pushed, "threadId"), text(&pushed, "userId")), ("t", "ann"));
        assert_eq!(text(&pushed, "organizationId"), "default");
        assert!(pushed["occurredAt"].is_string());
        // The same rename again succeeds.
        let again = json!({ "userId": "ann", "agentId": "agent", "name": "Named" });
        assert_eq!(patch(server, "/api/threads/t", again).await.ok(200)["thread"]["name"], "Named");
    }
}

everywhere! {
    async fn c08_archiving_and_unarchiving_are_delivered(server: |options| options.with_key(KEY)) {
        let mut page = listening(server).await;
        thread(server, "t").await;
        assert_eq!(page.pushed_as("thread_metadata").await["operation"], "created");
        for (archived, operation) in [(true, "archived"), (false, "unarchived")] {
            let body = json!({ "userId": "ann", "agentId": "agent", "archived": archived });
            let thread = patch(server, "/api/threads/t", body).await.ok(200)["thread"].take();
            let pushed = page.pushed_as("thread_metadata").await;
            assert_eq!((&pushed["operation"], &pushed["thread"]), (&json!(operation), &thread));
        }
    }
}

everywhere! {
    async fn c09_a_change_ignores_read_only_and_unknown_members(server: |options| options.with_key(KEY)) {
        let before = thread(server, "t").await;
        let body = json!({
            "userId": "ann", "agentId": "other", "name": "N", "createdById": "eve", "id": "u", "organizationId": "q",
            "createdAt": "1999-01-01T00:00:00.000Z", "lastRunAt": "1999-01-01T00:00:00.000Z", "more": { "x": [] }
        });
        let after = patch(server, "/api/threads/t", body).await.ok(200)["thread"].take();
        assert_eq!(after["name"], "N");
        for member in ["id", "agentId", "createdById", "organizationId", "createdAt", "lastRunAt"] {
            assert_eq!(after[member], before[member], "{member}");
        }
        let foreign = json!({ "userId": "eve", "agentId": "agent", "name": "mine" });
        patch(server, "/api/threads/t", foreign).await.problem(403, "foreign-thread");
        patch(server, "/api/threads/none", json!({ "userId": "ann", "name": "N" })).await.problem(404, "thread-not-found");
    }
}

everywhere! {
    async fn c10_a_delete_is_final(server: |options| options.with_key(KEY)) {
        // The body of version 1.57, and that of later ones.
        let shapes = [
            json!({ "reason": "user" }), json!({ "userId": "ann", "agentId": "agent", "reason": "user" })
        ];
        let mut page = listening(server).await;
        for shape in shapes {
            thread(server, "t").await;
            assert_eq!(page.pushed_as("thread_metadata").await["operation"], "created");
            assert_eq!(delete(server, "/api/threads/t", json!({ "userId": "eve" })).await.status, 403);
            assert_eq!(delete(server, "/api/threads/t", shape.clone()).await.status, 204);
            let pushed = page.pushed_as("thread_metadata").await;
            assert_eq!((&pushed["operation"], &pushed["deleted"]), (&json!("deleted"), &json!({ "id": "t" })));
            assert!(pushed.get("thread").is_none() && text(&pushed, "threadId") == "t");
            get(server, "/api/threads/t?userId=ann").await.problem(404, "thread-not-found");
            delete(server, "/api/threads/t", shape).await.problem(404, "thread-not-found");
        }
    }
}

everywhere! {
    async fn c11_calls_without_a_user_act_for_the_project(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        ran(server, "t", "r").await;
        for (named, status) in [("", 200), ("?userId=ann", 200), ("?userId=eve", 403)] {
            assert_eq!(get(server, &format!("/api/threads/t{named}")).await.status, status, "{named}");
            assert_eq!(get(server, &format!("/api/threads/t/messages{named}")).await.status, status, "{named}");
        }
        let connect = post(server, "/api/threads/t/connect", json!({ "userId": "eve" })).await;
        connect.problem(403, "foreign-thread");
    }
}

everywhere! {
    async fn c12_a_wrong_key_is_refused_and_opens_no_socket(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        let wrong = Client { key: Some("wrong".into()), ..server.project() };
        for path in ["/api/threads?userId=ann", "/api/threads/t", "/api/_inspect/threads/t/events"] {
            wrong.get(path).await.problem(401, "unauthorized");
        }
        wrong.post("/api/threads", json!({ "threadId": "u", "userId": "ann" })).await.problem(401, "unauthorized");
        let opens = async |protocols: Option<&str>| {
            Frames::open(handshake(server, "/runner/websocket?vsn=2.0.0", protocols)).await.map(drop)
        };
        assert_eq!(opens(Some(&bearer("wrong"))).await, Err(401));
        assert_eq!(opens(Some("phoenix, base64url.bearer.phx.%%%")).await, Err(401));
        assert_eq!(opens(Some("phoenix")).await, Err(401));
        assert_eq!(opens(None).await, Err(401));
        let reader = key(server, "default", &[Scope::Read]).await.key.expect("a key");
        assert_eq!(opens(Some(&bearer(&reader))).await, Err(403));
        assert_eq!(opens(Some(&bearer(KEY))).await, Ok(()));
        let version = handshake(server, "/runner/websocket?vsn=1.0.0", Some(&bearer(KEY)));
        assert_eq!(Frames::open(version).await.map(drop), Err(400));
        assert_eq!(server.project().get("/runner/websocket?vsn=2.0.0").await.status, 400, "no handshake");
    }
}
