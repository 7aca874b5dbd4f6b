//! Tokens are bound to the key that made them, and keys to the keys that made those.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use threadline_core::Scope;

use super::bearer;
use crate::harness::{
    Client, Options, Server, Socket, eventually, everywhere, http::send, raw::Raw, run, sse::Events, text,
};

/// A key with this id, made by a client.
async fn made(server: &Server, by: &Client, id: &str) -> Client {
    let scopes = ["read", "chat", "approve", "produce", "tokens", "admin"];
    let made = by.post("/v1/keys", json!({ "keyId": id, "scopes": scopes })).await.ok(201);
    bearer(server, text(&made, "key"))
}

async fn token(by: &Client, user: &str) -> String {
    text(&by.post("/v1/tokens", json!({ "userId": user })).await.ok(201), "token").to_owned()
}

/// The claims of a token.
pub(super) fn claims(token: &str) -> Value {
    let payload = token.split('.').nth(1).expect("a payload");
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).expect("base64")).expect("claims")
}

everywhere! {
    async fn a_revoked_key_ends_all_that_it_made(server: |options| {
        options.with_key("secret").with_timeouts(|patience| patience.credentials = Duration::from_millis(20))
    }) {
        let operator = server.project();
        let (stolen, other) = (made(server, &operator, "stolen").await, made(server, &operator, "other").await);
        let minted = token(&stolen, "ann").await;
        assert_eq!(claims(&minted)["by"], "key:stolen");
        let (ann, safe) = (bearer(server, &minted), bearer(server, &token(&other, "ann").await));
        let by_operator = token(&operator, "ann").await;
        let mark = claims(&by_operator)["by"].as_str().expect("a maker").to_owned();
        assert!(mark.strip_prefix("op:").is_some_and(|mark| mark.len() == 16), "{mark}");
        ann.thread("t").await;
        let mut socket = Socket::open(&ann).await;
        let mut events = Events::open(ann.request(reqwest::Method::GET, "/v1/threads/t/events")).await;
        events.named("hello").await;
        let ticket = text(&ann.post("/v1/socket-tickets", json!({})).await.ok(201), "ticket").to_owned();

        operator.delete("/v1/keys/stolen").await.ok(200);
        let refused = ann.get("/v1/threads/t").await.problem(401, "unauthorized");
        assert!(text(&refused, "detail").contains("revoked"), "{refused}");
        let closing = socket.frame("closing").await;
        assert_eq!((closing["code"].as_u64(), closing["reconnect"].as_bool()), (Some(4501), Some(false)));
        loop {
            let event = events.next().await.expect("it says why it ends");
            if event.event.as_deref() == Some("closing") {
                assert_eq!(event.json()["code"], 4501);
                break;
            }
        }
        let open = ann.request(reqwest::Method::GET, &format!("/v1/socket?ticket={ticket}"));
        send(open).await.problem(401, "unauthorized");
        // Keys and tokens of other makers stay valid.
        safe.get("/v1/threads/t").await.ok(200);
        bearer(server, &by_operator).get("/v1/threads/t").await.ok(200);
    }
}

everywhere! {
    async fn a_feeds_token_ends_with_its_key_and_with_its_user(server: |options| options.with_key("secret")) {
        let operator = server.project();
        let lent = async |by: &Client, user: &str| {
            let made = by.post("/api/threads/subscribe", json!({ "userId": user })).await.ok(200);
            text(&made, "joinToken").to_owned()
        };
        let opens = async |token: &str| {
            operator.get(&format!("/client/longpoll?vsn=2.0.0&join_token={token}")).await.status
        };
        let (one, other) = (made(server, &operator, "one").await, made(server, &operator, "other").await);
        let (by_one, by_other, of_bob) = (lent(&one, "ann").await, lent(&other, "ann").await, lent(&other, "bob").await);
        assert_eq!((&claims(&by_one)["by"], opens(&by_one).await), (&json!("key:one"), 200));
        let minted = token(&operator, "ann").await;
        let by_token = lent(&bearer(server, &minted), "ann").await;
        // A credential that is made with a token is as old as the token, and has the same maker.
        assert_eq!(["by", "iat"].map(|name| claims(&by_token)[name].clone()), ["by", "iat"].map(|name| claims(&minted)[name].clone()));
        operator.delete("/v1/keys/one").await.ok(200);
        assert_eq!((opens(&by_one).await, opens(&by_other).await, opens(&by_token).await), (403, 200, 200));
        operator.post("/v1/users/ann/sign-out", json!({})).await.ok(200);
        assert_eq!((opens(&by_other).await, opens(&by_token).await, opens(&of_bob).await), (403, 403, 200));
        assert_eq!(opens(&lent(&other, "ann").await).await, 200, "the key may lend anew");
    }
}

#[tokio::test]
async fn a_key_that_expires_ends_all_that_it_made() {
    run(Options::memory().with_key("secret").with_manual_clock(), async |server: &Server| {
        let body = json!({ "keyId": "k", "expiresInSeconds": 60 });
        let key = bearer(server, text(&server.project().post("/v1/keys", body).await.ok(201), "key"));
        let ann = bearer(server, &token(&key, "ann").await);
        server.pass(59);
        ann.get("/v1/threads").await.ok(200);
        // The leeway is for the clocks of issuers: it does not prolong the key.
        server.pass(1);
        ann.get("/v1/threads").await.problem(401, "unauthorized");
    })
    .await;
}

everywhere! {
    async fn keys_that_a_key_made_are_named_and_can_go_with_it(server: |options| options.with_key("secret")) {
        let operator = server.project();
        let mother = made(server, &operator, "mother").await;
        let child = made(server, &mother, "child").await;
        let grandchild = made(server, &child, "grandchild").await;
        let stranger = made(server, &operator, "stranger").await;
        let ann = bearer(server, &token(&grandchild, "ann").await);
        ann.get("/v1/threads").await.ok(200);
        let keys = operator.get("/v1/keys").await.ok(200);
        let makers = |keys: &Value| -> Vec<_> {
            let keys = keys["keys"].as_array().expect("keys").iter();
            keys.map(|key| (text(key, "keyId").to_owned(), key["madeBy"].as_str().map(str::to_owned))).collect()
        };
        let by = |id: &str, by: Option<&str>| (id.to_owned(), by.map(str::to_owned));
        assert_eq!(makers(&keys), [
            by("child", Some("mother")), by("grandchild", Some("child")), by("mother", None), by("stranger", None),
        ]);
        let alone = operator.delete("/v1/keys/mother").await.ok(200);
        assert_eq!((&alone["stillValid"], &alone["alsoRevoked"]), (&json!(["child", "grandchild"]), &json!([])));
        child.get("/v1/agents").await.ok(200);
        let with = operator.delete("/v1/keys/mother?andMade=true").await.ok(200);
        assert_eq!((&with["stillValid"], &with["alsoRevoked"]), (&json!([]), &json!(["child", "grandchild"])));
        assert_eq!(with["revokedAt"], alone["revokedAt"]);
        for gone in [&child, &grandchild, &ann] {
            gone.get("/v1/agents").await.problem(401, "unauthorized");
        }
        stranger.get("/v1/agents").await.ok(200);
        operator.delete("/v1/keys/mother?andMade=yes").await.problem(400, "invalid-request");
        let again = operator.delete("/v1/keys/mother?andMade=true").await.ok(200);
        assert_eq!((&again["stillValid"], &again["alsoRevoked"]), (&json!([]), &json!([])));
    }
}

everywhere! {
    async fn a_key_shows_its_last_use(server: |options| options.with_key("secret")) {
        let key = made(server, &server.project(), "k").await;
        let shown = async || server.project().get("/v1/keys").await.ok(200)["keys"][0].clone();
        assert!(shown().await["lastUsedAt"].is_null());
        key.get("/v1/agents").await.ok(200);
        server.sum_trail().await;
        let used = shown().await;
        assert!(text(&used, "lastUsedAt") >= text(&used, "createdAt"), "{used}");
        assert_eq!(used["lastUsedFrom"], "127.0.0.1");
        server.sum_trail().await;
        assert_eq!(shown().await, used, "no use since");
    }
}

#[tokio::test]
async fn a_token_ends_with_the_operators_key_that_made_it() {
    let store = std::sync::Arc::new(threadline_store::memory::MemoryStore::new(Options::memory().clock));
    let before = Server::over(store.clone(), Options::memory().with_key("before")).await;
    let minted = token(&before.project(), "ann").await;
    bearer(&before, &minted).get("/v1/threads").await.ok(200);
    before.stop().await;
    let after = Server::over(store, Options::memory().with_key("after")).await;
    bearer(&after, &minted).get("/v1/threads").await.problem(401, "unauthorized");
    after.stop().await;
}

#[tokio::test]
async fn a_token_that_names_no_maker_holds_by_the_secret_alone() {
    use jsonwebtoken::{EncodingKey, Header};
    run(Options::memory().with_key("secret"), async |server: &Server| {
        let path = "/v1/projects/default/token-secret";
        let secret = text(&server.project().post(path, json!({})).await.ok(201), "secret").to_owned();
        let now = server.clock.now().0 / 1_000;
        let sign = |by: Value| {
            let mut claims =
                json!({ "iss": "default", "aud": "threadline", "sub": "ann", "iat": now, "exp": now + 60 });
            if !by.is_null() {
                claims["by"] = by;
            }
            jsonwebtoken::encode(&Header::default(), &claims, &EncodingKey::from_secret(secret.as_bytes()))
                .expect("a token")
        };
        bearer(server, &sign(Value::Null)).get("/v1/threads").await.ok(200);
        for by in [json!("key:none"), json!("op:0000000000000000"), json!("k"), json!("key:"), json!(1), json!("")] {
            bearer(server, &sign(by)).get("/v1/threads").await.problem(401, "unauthorized");
        }
    })
    .await;
}

#[tokio::test]
async fn a_token_lives_no_longer_than_its_project_allows() {
    use jsonwebtoken::{EncodingKey, Header};
    run(Options::memory().with_key("secret").with_manual_clock(), async |server: &Server| {
        let operator = server.project();
        let path = "/v1/projects/default/token-secret";
        let secret = text(&operator.post(path, json!({})).await.ok(201), "secret").to_owned();
        let now = server.clock.now().0 / 1_000;
        let get = async |iat: Option<i64>, exp: i64| {
            let mut claims = json!({ "iss": "default", "aud": "threadline", "sub": "ann", "exp": exp });
            if let Some(iat) = iat {
                claims["iat"] = json!(iat);
            }
            let key = EncodingKey::from_secret(secret.as_bytes());
            let token = jsonwebtoken::encode(&Header::default(), &claims, &key).expect("a token");
            bearer(server, &token).get("/v1/threads").await
        };
        get(Some(now), now + 604_800).await.ok(200);
        get(Some(now - 1), now + 604_800).await.problem(401, "unauthorized");
        get(None, now + 604_800).await.ok(200);
        get(None, now + 604_900).await.problem(401, "unauthorized");
        for seconds in [json!(0), json!(2_592_001), json!(-1), json!("1")] {
            let refused = operator.put("/v1/projects/default", json!({ "maxTokenSeconds": seconds })).await;
            refused.problem(400, "invalid-request");
        }
        operator.put("/v1/projects/default", json!({ "maxTokenSeconds": 60 })).await.ok(200);
        let refused = get(Some(now), now + 61).await.problem(401, "unauthorized");
        assert!(text(&refused, "detail").contains("60 seconds"), "{refused}");
        get(Some(now), now + 60).await.ok(200);
        let long = json!({ "userId": "ann", "expiresInSeconds": 61 });
        operator.post("/v1/tokens", long).await.problem(400, "invalid-request");
        let made = operator.post("/v1/tokens", json!({ "userId": "ann" })).await.ok(201);
        let made = claims(text(&made, "token"));
        assert!(made["exp"].as_f64().expect("exp") - made["iat"].as_f64().expect("iat") <= 60.0, "{made}");
        operator.put("/v1/projects/default", json!({ "maxTokenSeconds": 2_592_000 })).await.ok(200);
        get(Some(now), now + 2_592_000).await.ok(200);
        let long = json!({ "userId": "ann", "expiresInSeconds": 2_592_000 });
        operator.post("/v1/tokens", long).await.ok(201);
    })
    .await;
}

#[tokio::test]
async fn a_key_is_not_made_with_one_that_was_revoked_meanwhile() {
    let store = std::sync::Arc::new(threadline_store::memory::MemoryStore::new(Options::memory().clock));
    let one = Server::over(store.clone(), Options::memory().with_key("secret")).await;
    let two = Server::over(store, Options::memory().with_key("secret")).await;
    let mother = made(&one, &one.project(), "mother").await;
    let there = Client { addr: two.addr, ..mother };
    there.get("/v1/agents").await.ok(200);
    one.project().delete("/v1/keys/mother?andMade=true").await.ok(200);
    // The other node remembers the key for some seconds.
    let late = there.post("/v1/keys", json!({ "keyId": "late", "scopes": [Scope::Admin.as_str()] })).await;
    late.problem(401, "unauthorized");
    let keys = one.project().get("/v1/keys").await.ok(200);
    assert!(keys["keys"].as_array().expect("keys").iter().all(|key| !key["revokedAt"].is_null()), "{keys}");
    one.stop().await;
    two.stop().await;
}

/// A request that was authenticated, and whose body the server waits for.
async fn held(server: &Server, bearer: &str, line: &str, length: usize) -> Raw {
    let mut held = Raw::connect(server.addr).await;
    let head = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {bearer}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\nExpect: 100-continue\r\n\r\n"
    );
    held.write(head).await;
    let answer = held.beginning().await;
    assert!(answer.starts_with("HTTP/1.1 100"), "{answer}");
    held
}

everywhere! {
    async fn a_request_whose_body_comes_after_a_revocation_is_not_carried_out(server: |options| options.with_key("secret")) {
        let operator = server.project();
        let key = operator.post("/v1/keys", json!({ "keyId": "stolen", "scopes": ["read", "chat", "tokens"] })).await.ok(201);
        let key = text(&key, "key").to_owned();
        let minted = token(&bearer(server, &key), "ann").await;
        let of_bob = token(&operator, "bob").await;
        let thread = json!({ "threadId": "late" }).to_string();
        let wish = json!({ "userId": "ann" }).to_string();
        let late = [
            (held(server, &minted, "POST /v1/threads", thread.len()).await, &thread),
            (held(server, &key, "POST /v1/tokens", wish.len()).await, &wish),
            (held(server, &of_bob, "POST /v1/threads", thread.len()).await, &thread),
        ];
        operator.delete("/v1/keys/stolen").await.ok(200);
        operator.delete("/v1/users/bob").await.ok(200);
        for (mut held, body) in late {
            held.write(body).await;
            held.answer().await.problem(401, "unauthorized");
        }
        for user in ["ann", "bob"] {
            let threads = operator.get(&format!("/v1/threads?userId={user}")).await.ok(200);
            assert_eq!(threads["threads"], json!([]), "{user}");
        }
    }
}

everywhere! {
    async fn what_arrives_on_an_open_connection_after_a_revocation_is_not_carried_out(server: |options| options.with_key("secret")) {
        let operator = server.project();
        // A socket is closed by the first frame that comes too late, although credentials are checked every 15 s only.
        let stolen = made(server, &operator, "stolen").await;
        let ann = Client { user: Some("ann".into()), ..stolen.clone() };
        let by_token = bearer(server, &token(&operator, "bob").await);
        ann.thread("t").await;
        ann.run("t", "r").await;
        by_token.thread("u").await;
        let append = |seq: u64| json!({ "id": "1", "append": {
            "threadId": "t", "runId": "r", "producerSeq": seq, "events": [{ "type": "CUSTOM", "name": "n", "value": seq }],
        } });
        let (mut producer, mut follower) = (Socket::open(&ann).await, Socket::open(&by_token).await);
        producer.send(append(1)).await;
        producer.until("appended").await;
        let line = |seq: u64| format!("{{\"type\":\"CUSTOM\",\"name\":\"n\",\"value\":{seq}}}\n");
        let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
        let mut stream = Raw::connect(server.addr).await;
        ann.thread("s").await;
        let head = format!(
            "POST /v1/threads/s/runs?runId=r HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nThreadline-User: ann\r\n\
             Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n",
            stolen.key.as_deref().expect("a key"),
        );
        stream.write(format!("{head}{}", chunk(&line(1)))).await;
        eventually("the first line is stored", async || (ann.types("s").await == ["CUSTOM"]).then_some(())).await;

        operator.delete("/v1/keys/stolen").await.ok(200);
        operator.post("/v1/users/bob/sign-out", json!({})).await.ok(200);
        producer.send(append(2)).await;
        follower.send(json!({ "id": "1", "subscribe": { "threadId": "u" } })).await;
        for mut socket in [producer, follower] {
            let (closing, code) = socket.closed().await;
            assert_eq!((text(&closing, "reason"), code), ("credential-over", 4_501));
        }
        stream.write(chunk(&line(2))).await;
        stream.answer().await.problem(401, "unauthorized");
        let of_ann = Client { user: Some("ann".into()), ..operator.clone() };
        for thread in ["t", "s"] {
            assert_eq!(of_ann.types(thread).await, ["CUSTOM"], "{thread}");
        }
    }
}
