//! Key-value entries.

use reqwest::Method;
use serde_json::{Value, json};
use threadline_core::Scope;

use crate::{
    harness::{Client, everywhere, http::send},
    identity::{bearer, key, token},
};

async fn batch(client: &Client, ops: Value) -> Value {
    client.post("/v1/kv", json!({ "ops": ops })).await.ok(200)["results"].take()
}

fn get(ns: &[&str], key: &str) -> Value {
    json!({ "op": "get", "ns": ns, "key": key })
}

fn put(ns: &[&str], key: &str, value: Value) -> Value {
    json!({ "op": "put", "ns": ns, "key": key, "value": value })
}

fn with(mut op: Value, name: &str, value: Value) -> Value {
    op[name] = value;
    op
}

/// Values of the entries that a search finds, in their order.
async fn found(client: &Client, search: Value) -> Vec<Value> {
    let mut result = batch(client, json!([with(search, "op", json!("search"))])).await;
    let items = result[0]["items"].as_array_mut().expect("items");
    items.iter_mut().map(|item| item["value"].take()).collect()
}

everywhere! {
    async fn an_entry_is_put_read_and_removed(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        // Every byte of a value is kept, and a batch is answered in its order.
        let sent = "{\"ops\":[{\"op\":\"put\",\"ns\":[\"a\",\"b.c\"],\"key\":\"k\",\"value\":{\"b\" : 1.0,\n\"a\":2,\"a\":3},\"tag\":\"t1\"},\
                    {\"op\":\"get\",\"ns\":[\"a\",\"b.c\"],\"key\":\"k\"}]}";
        let request = ann.request(Method::POST, "/v1/kv").header("content-type", "application/json").body(sent);
        assert_eq!(send(request).await.ok(200)["results"], json!([{ "tag": "t1" }, { "item": null }]), "reads come first");
        let answer = ann.post("/v1/kv", json!({ "ops": [get(&["a", "b.c"], "k")] })).await;
        assert!(answer.text().contains("\"value\":{\"b\" : 1.0, \"a\":2,\"a\":3},\"tag\":\"t1\""), "{}", answer.text());
        let item = &answer.ok(200)["results"][0]["item"];
        assert_eq!((&item["ns"], &item["key"]), (&json!(["a", "b.c"]), &json!("k")));
        assert!(item["createdAt"] == item["updatedAt"] && item["expiresAt"].is_null(), "{item}");
        let deleted = json!({ "op": "delete", "ns": ["a", "b.c"], "key": "k" });
        assert_eq!(batch(&ann, json!([deleted])).await, json!([{ "deleted": true }]));
        assert_eq!(batch(&ann, json!([deleted, get(&["a", "b.c"], "k")])).await, json!([{ "deleted": false }, { "item": null }]));
    }
}

everywhere! {
    async fn entries_belong_to_a_user_or_to_the_project(server: |options| options.with_key("secret")) {
        let (project, ann, bob) = (server.project(), server.user("ann"), server.user("bob"));
        for (client, value) in [(&project, 0), (&ann, 1), (&bob, 2)] {
            batch(client, json!([put(&["n"], "k", json!(value))])).await;
        }
        for (client, value) in [(&project, 0), (&ann, 1), (&bob, 2)] {
            assert_eq!(found(client, json!({})).await, [json!(value)]);
        }
        let gone = project.delete("/v1/users/ann").await.ok(200);
        assert_eq!(gone["erased"]["kvEntries"], 1, "{gone}");
        assert_eq!((found(&ann, json!({})).await, found(&bob, json!({})).await), (vec![], vec![json!(2)]));
    }
}

everywhere! {
    async fn what_agents_keep_is_not_for_users(server: |options| options.with_key("secret")) {
        let ops = json!({ "ops": [get(&[], "k")] });
        token(server, "ann").await.post("/v1/kv", ops.clone()).await.problem(403, "forbidden");
        let all = json!({ "userId": "ann", "scopes": ["read", "chat", "approve", "produce"] });
        let made = server.project().post("/v1/tokens", all).await.ok(201);
        let producer = bearer(server, made["token"].as_str().expect("a token"));
        producer.post("/v1/kv", ops.clone()).await.problem(403, "forbidden");
        let reader = key(server, "default", &[Scope::Read, Scope::Chat]).await;
        assert_eq!(reader.post("/v1/kv", ops.clone()).await.problem(403, "forbidden")["scope"], "produce");
        key(server, "default", &[Scope::Produce]).await.post("/v1/kv", ops).await.ok(200);
    }
}

everywhere! {
    async fn a_batch_whose_condition_fails_changes_nothing(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        let first = with(put(&[], "k", json!(1)), "ifTag", json!(null));
        let tag = batch(&ann, json!([first])).await[0]["tag"].take();
        let refused = json!([put(&[], "other", json!(0)), get(&[], "k"), with(put(&[], "k", json!(2)), "ifTag", json!("wrong"))]);
        let problem = ann.post("/v1/kv", json!({ "ops": refused })).await.problem(412, "kv-changed");
        assert_eq!(problem["index"], 2, "{problem}");
        ann.post("/v1/kv", json!({ "ops": [first] })).await.problem(412, "kv-changed");
        assert_eq!(found(&ann, json!({})).await, [json!(1)]);
        // The answer of a write is lost, and the write is repeated with its tag.
        let named = with(with(put(&[], "k", json!(2)), "ifTag", tag), "tag", json!("mine"));
        for _ in 0..2 {
            assert_eq!(batch(&ann, json!([named])).await, json!([{ "tag": "mine" }]));
        }
        assert_eq!(found(&ann, json!({})).await, [json!(2)]);
    }
}

everywhere! {
    async fn an_entry_is_deleted_with_its_thread(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        ann.thread("t").await;
        batch(&ann, json!([with(put(&[], "k", json!(1)), "threadId", json!("t")), put(&[], "stays", json!(2))])).await;
        assert_eq!(found(&ann, json!({})).await, [json!(1), json!(2)]);
        assert_eq!(ann.delete("/v1/threads/t").await.status, 204);
        assert_eq!(found(&ann, json!({})).await, [json!(2)]);
        let orphan = json!({ "ops": [with(put(&[], "k", json!(1)), "threadId", json!("t"))] });
        ann.post("/v1/kv", orphan.clone()).await.problem(404, "thread-not-found");
        // A thread of the same ID is another one.
        ann.thread("t").await;
        assert_eq!(found(&ann, json!({})).await, [json!(2)]);
        ann.post("/v1/kv", orphan.clone()).await.ok(200);
        server.user("bob").post("/v1/kv", orphan).await.problem(404, "thread-not-found");
    }
}

everywhere! {
    async fn entries_are_found_by_prefix_members_and_words(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        let memory = |n: u64, text: &str| json!({ "n": n, "text": text });
        batch(&ann, json!([
            put(&["m", "a"], "1", memory(1, "Ann likes green tea")),
            put(&["m", "a"], "2", memory(2, "Ann likes coffee")),
            put(&["m", "b"], "3", memory(3, "green, and green again")),
            put(&["mb"], "4", memory(4, "tea")),
        ])).await;
        let numbers = async |search: Value| {
            found(&ann, search).await.iter().map(|value| value["n"].as_u64().expect("a number")).collect::<Vec<_>>()
        };
        assert_eq!(numbers(json!({})).await, [1, 2, 3, 4]);
        assert_eq!(numbers(json!({ "prefix": ["m"] })).await, [1, 2, 3]);
        assert_eq!(numbers(json!({ "prefix": ["m", "a"], "offset": 1 })).await, [2]);
        assert_eq!(numbers(json!({ "filter": { "n": { "$gte": 2, "$lt": 4.0 } } })).await, [2, 3]);
        assert_eq!(numbers(json!({ "filter": { "n": 3.0 } })).await, [3]);
        assert_eq!(numbers(json!({ "query": "GREEN tea" })).await, [1, 3, 4], "the best first");
        assert_eq!(numbers(json!({ "query": "green tea", "filter": { "n": { "$ne": 1 } }, "limit": 1 })).await, [3]);
        let scored = batch(&ann, json!([{ "op": "search", "query": "tea green" }])).await;
        let scores: Vec<_> = scored[0]["items"].as_array().expect("items").iter().map(|item| item["score"].clone()).collect();
        assert_eq!(scores, [json!(1.0), json!(0.5), json!(0.5)]);
        assert_eq!((&scored[0]["scanned"], &scored[0]["cursor"]), (&json!(4), &json!(null)));
        // Page by page.
        let (mut all, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let search = json!({ "op": "search", "limit": 3, "cursor": cursor });
            let page = batch(&ann, json!([search])).await[0].take();
            all.extend(page["items"].as_array().expect("items").iter().map(|item| item["key"].clone()));
            cursor = page["cursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
        assert_eq!(all, ["1", "2", "3", "4"]);
    }
}

everywhere! {
    async fn namespaces_are_listed_by_their_ends(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        let all = [vec!["m", "a", "x"], vec!["m", "a", "y"], vec!["m", "b", "x"], vec!["n"]];
        batch(&ann, json!(all.iter().map(|ns| put(ns, "k", json!(1))).collect::<Vec<_>>())).await;
        let list = async |op: Value| batch(&ann, json!([with(op, "op", json!("namespaces"))])).await[0]["namespaces"].take();
        assert_eq!(list(json!({})).await, json!(all));
        assert_eq!(list(json!({ "match": [{ "kind": "prefix", "path": ["m", "*"] }] })).await, json!(all[..3]));
        let both = json!([{ "kind": "prefix", "path": ["m"] }, { "kind": "suffix", "path": ["x"] }]);
        assert_eq!(list(json!({ "match": both })).await, json!([all[0], all[2]]));
        assert_eq!(list(json!({ "maxDepth": 2 })).await, json!([["m", "a"], ["m", "b"], ["n"]]));
        assert_eq!(list(json!({ "maxDepth": 1, "offset": 1, "limit": 1 })).await, json!([["n"]]));
        let (mut found, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let op = json!({ "op": "namespaces", "maxDepth": 2, "limit": 1, "cursor": cursor });
            let page = batch(&ann, json!([op])).await[0].take();
            found.extend(page["namespaces"].as_array().expect("namespaces").clone());
            cursor = page["cursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
        assert_eq!(json!(found), json!([["m", "a"], ["m", "b"], ["n"]]), "none is listed twice");
    }
}

everywhere! {
    async fn invalid_operations_are_refused(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        batch(&ann, json!([put(&[], "k", json!(1)), put(&[], "l", json!(1))])).await;
        let place = batch(&ann, json!([{ "op": "search", "limit": 1 }])).await[0]["cursor"].take();
        let labels = |count: usize| vec!["x"; count];
        let words = |count: usize| (0..count).map(|n| format!("w{n}")).collect::<Vec<_>>().join(" ");
        let members = |count: usize| (0..count).map(|n| (format!("m{n}"), json!(1))).collect::<serde_json::Map<_, _>>();
        let matches = |count: usize| vec![json!({ "kind": "prefix", "path": [] }); count];
        for (op, detail) in [
            (json!({ "op": "get", "key": "k" }), "ns is missing"),
            (json!({ "op": "get", "ns": [] }), "key is missing"),
            (json!({ "op": "get", "ns": [], "key": "k", "value": 1 }), "get has no member \"value\""),
            (json!({ "op": "get", "ns": [""], "key": "k" }), "a label of a namespace has 1 to 256 bytes"),
            (json!({ "op": "get", "ns": labels(17), "key": "k" }), "this one has 17"),
            (json!({ "op": "get", "ns": [], "key": "a\u{0}" }), "no control characters"),
            (json!({ "op": "put", "ns": [], "key": "k" }), "put needs a value"),
            (put(&[], "k", json!(null)), "put needs a value"),
            (put(&[], "k", json!("x".repeat(1_024 * 1_024))), "this one has 1048578"),
            (put(&["threadline.openai", "x"], "k", json!(1)), "only the server writes entries below threadline.*"),
            (json!({ "op": "delete", "ns": ["threadline.x"], "key": "k" }), "only the server writes"),
            (json!({ "op": "touch", "ns": ["threadline."], "key": "k" }), "only the server writes"),
            (with(put(&[], "k", json!(1)), "ttlSeconds", json!(0)), "ttlSeconds is 0"),
            (with(put(&[], "k", json!(1)), "tag", json!("")), "a tag has 1 to 64 bytes"),
            (json!({ "op": "search", "limit": 0 }), "limit is 0"),
            (json!({ "op": "search", "limit": 1_001 }), "limit is 1001"),
            (json!({ "op": "search", "offset": 10_001 }), "offset is 10001"),
            (json!({ "op": "search", "filter": { "a": { "$in": [] } } }), "\"$in\""),
            (json!({ "op": "search", "query": words(257) }), "query has 257 different words, but at most 256"),
            (json!({ "op": "search", "query": "x ".repeat(16_385) }), "query has 32770 bytes, but at most 32768"),
            (json!({ "op": "search", "filter": members(65) }), "the filter has 65 conditions, but at most 64"),
            (json!({ "op": "namespaces", "match": matches(65) }), "match has 65 conditions, but at most 64"),
            (json!({ "op": "search", "cursor": "c1.x" }), "cursor"),
            (json!({ "op": "namespaces", "cursor": place }), "a search of entries"),
            (json!({ "op": "namespaces", "maxDepth": 0 }), "maxDepth is 0"),
            (json!({ "op": "namespaces", "match": [{ "kind": "prefix", "path": labels(17) }] }), "has 17 labels"),
        ] {
            let problem = ann.post("/v1/kv", json!({ "ops": [get(&[], "k"), op] })).await.problem(400, "invalid-request");
            let text = problem["detail"].as_str().expect("a detail");
            assert!(text.contains(detail) && text.starts_with("operation 1: "), "{op}: {text}");
        }
        let most = json!([
            { "op": "search", "query": words(256), "filter": members(64) },
            { "op": "namespaces", "match": matches(64) },
        ]);
        assert_eq!(batch(&ann, most).await[0]["items"], json!([]), "the limits themselves are fine");
        for ops in [json!([]), json!(vec![get(&[], "k"); 1_001])] {
            ann.post("/v1/kv", json!({ "ops": ops })).await.problem(400, "invalid-request");
        }
        for ops in [json!([{ "op": "take" }]), json!([{}]), json!([{ "op": "get", "noSuchMember": 1 }])] {
            ann.post("/v1/kv", json!({ "ops": ops })).await.problem(400, "invalid-request");
        }
    }
}

everywhere! {
    async fn an_answer_is_bounded(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        let large = json!("x".repeat(1_000_000));
        for half in [0..9, 9..18] {
            batch(&ann, json!(half.map(|n| put(&["n"], &format!("{n:02}"), large.clone())).collect::<Vec<_>>())).await;
        }
        let all = (0..18).map(|n| get(&["n"], &format!("{n:02}"))).collect::<Vec<_>>();
        ann.post("/v1/kv", json!({ "ops": all })).await.problem(413, "too-large");
        ann.post("/v1/kv", json!({ "ops": all[..9] })).await.ok(200);
        // A search says where it goes on.
        let page = batch(&ann, json!([{ "op": "search", "limit": 100 }])).await[0].take();
        let first = page["items"].as_array().expect("items").len();
        assert!((10..18).contains(&first) && page["cursor"].is_string(), "{first}");
        let rest = batch(&ann, json!([{ "op": "search", "limit": 100, "cursor": page["cursor"] }])).await[0].take();
        assert_eq!((rest["items"].as_array().expect("items").len(), &rest["cursor"]), (18 - first, &json!(null)));
    }
}

everywhere! {
    async fn entries_count_as_stored_data(server: |options| options.with_key("secret")) {
        let limits = json!({ "limits": { "projectStoredBytes": 1_000 } });
        server.project().put("/v1/projects/small", limits).await.ok(201);
        let ann = Client { user: Some("ann".into()), ..key(server, "small", &[Scope::Chat, Scope::Produce]).await };
        batch(&ann, json!([put(&[], "k", json!("x".repeat(1_000)))])).await;
        ann.post("/v1/kv", json!({ "ops": [put(&[], "l", json!(1))] })).await.problem(507, "storage-full");
        // Reading and removing remain possible.
        batch(&ann, json!([get(&[], "k"), { "op": "delete", "ns": [], "key": "k" }])).await;
        batch(&ann, json!([put(&[], "l", json!(1))])).await;
        ann.post("/v1/threads", json!({ "threadId": "t" })).await.ok(201);
        let list = "/v1/threads/t/items/l";
        ann.post(list, json!({ "key": "1", "items": ["x".repeat(1_000)] })).await.ok(200);
        ann.post(list, json!({ "key": "2", "items": [2] })).await.problem(507, "storage-full");
        ann.put(list, json!({ "key": "3", "items": [3] })).await.problem(507, "storage-full");
        ann.put(list, json!({ "key": "4", "items": [] })).await.ok(200);
    }
}

everywhere! {
    async fn a_cursor_of_another_search_does_not_leave_the_prefix(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        let puts = ["aa", "mm", "zz"].map(|ns| ["k", "l"].map(|key| put(&[ns], key, json!(1)))).concat();
        batch(&ann, json!(puts)).await;
        let search = |prefix: &str, cursor: &Value| json!([{ "op": "search", "prefix": [prefix], "limit": 1, "cursor": cursor }]);
        let of = async |prefix: &str| batch(&ann, search(prefix, &json!(null))).await[0]["cursor"].take();
        let (early, late) = (of("aa").await, of("zz").await);
        let found = |results: Value| results[0]["items"].as_array().expect("items").len();
        assert_eq!(found(batch(&ann, search("mm", &early)).await), 1, "from the beginning of the range");
        assert_eq!(found(batch(&ann, search("mm", &late)).await), 0, "behind the range");
    }
}

everywhere! {
    async fn a_value_that_no_float_holds_is_found_by_its_other_members(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        let body = r#"{"ops":[{"op":"put","ns":["n"],"key":"k","value":{"n":1,"half":"\ud800","far":1e999}}]}"#;
        let request = ann.request(Method::POST, "/v1/kv").header("content-type", "application/json");
        send(request.body(body)).await.ok(200);
        let search = json!({ "ops": [{ "op": "search", "prefix": ["n"], "filter": { "n": 1 } }] });
        let found = ann.post("/v1/kv", search).await;
        assert!(found.text().contains(r#""value":{"n":1,"half":"\ud800","far":1e999}"#), "{}", found.text());
    }
}

everywhere! {
    async fn a_removal_with_a_tag_is_repeated(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        batch(&ann, json!([with(put(&[], "lock", json!("mine")), "tag", json!("t1"))])).await;
        let remove = json!({ "op": "delete", "ns": [], "key": "lock", "ifTag": "t1", "tag": "t2" });
        let all = json!([remove, put(&["n"], "done", json!(1))]);
        let first = batch(&ann, all.clone()).await;
        assert_eq!(first[0], json!({ "deleted": true }));
        assert_eq!(batch(&ann, all.clone()).await[0], first[0], "the first result");
        assert_eq!(batch(&ann, json!([get(&[], "lock")])).await, json!([{ "item": null }]));
        // A removal by another, or without a tag, is not this one.
        let other = json!({ "ops": [with(remove.clone(), "tag", json!("t3"))] });
        ann.post("/v1/kv", other).await.problem(412, "kv-changed");
        batch(&ann, json!([put(&[], "lock", json!("another's"))])).await;
        ann.post("/v1/kv", json!({ "ops": all })).await.problem(412, "kv-changed");
    }
}

everywhere! {
    async fn a_touch_renews_the_life_of_an_entry_alone(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        ann.thread("t").await;
        let short = with(with(put(&[], "k", json!({ "a": 1 })), "ttlSeconds", json!(3_600)), "threadId", json!("t"));
        batch(&ann, json!([short])).await;
        let entry = async || batch(&ann, json!([get(&[], "k")])).await[0]["item"].take();
        let before = entry().await;
        let touch = json!({ "op": "touch", "ns": [], "key": "k" });
        let missing = json!({ "op": "touch", "ns": [], "key": "none" });
        let results = batch(&ann, json!([with(touch.clone(), "ttlSeconds", json!(7_200)), missing])).await;
        assert_eq!(results, json!([{ "touched": true }, { "touched": false }]));
        let after = entry().await;
        assert!(after["expiresAt"].as_str() > before["expiresAt"].as_str(), "{before} {after}");
        assert_eq!(with(after, "expiresAt", before["expiresAt"].clone()), before);
        ann.post("/v1/kv", json!({ "ops": [with(touch, "ifTag", json!("t"))] })).await.problem(400, "invalid-request");
        assert_eq!(ann.delete("/v1/threads/t").await.status, 204);
        assert_eq!(entry().await, json!(null), "it still goes with its thread");
    }
}

everywhere! {
    async fn a_cursor_knows_what_is_left_of_the_offset(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        let large = "x".repeat(1_000_000);
        for half in [0..9, 9..18] {
            let puts = half.map(|n| put(&["n"], &format!("{n:02}"), json!({ "all": 1, "n": n, "pad": large })));
            batch(&ann, json!(puts.collect::<Vec<_>>())).await;
        }
        // One search does not read all of them.
        let search = json!({ "op": "search", "filter": { "all": 1 }, "offset": 17, "limit": 1 });
        let first = batch(&ann, json!([search])).await[0].take();
        assert!(first["items"] == json!([]) && first["cursor"].is_string(), "{}", first["scanned"]);
        let rest = batch(&ann, json!([with(search, "cursor", first["cursor"].clone())])).await[0].take();
        assert_eq!(rest["items"][0]["value"]["n"], 17, "{}", rest["scanned"]);
        let scanned = |page: &Value| page["scanned"].as_u64().expect("a number");
        assert_eq!(scanned(&first) + scanned(&rest), 18);
    }
}

everywhere! {
    async fn numbers_are_compared_as_they_are_written(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        let send_raw = async |ops: &str| {
            let request = ann.request(Method::POST, "/v1/kv").header("content-type", "application/json");
            send(request.body(format!("{{\"ops\":[{ops}]}}"))).await.text().to_owned()
        };
        let numbers = ["9007199254740992.0", "9007199254740993", "18446744073709551616", "18446744073709551617"];
        for (key, number) in numbers.iter().enumerate() {
            send_raw(&format!(r#"{{"op":"put","ns":[],"key":"{key}","value":{{"n":{number}}}}}"#)).await;
        }
        for (at, number) in numbers.iter().enumerate() {
            for (condition, wanted) in [(number.to_string(), 1), (format!(r#"{{"$gte":{number}}}"#), numbers.len() - at)] {
                let found = send_raw(&format!(r#"{{"op":"search","filter":{{"n":{condition}}}}}"#)).await;
                assert_eq!(found.matches("\"value\"").count(), wanted, "{condition}: {found}");
            }
        }
    }
}
