//! Sign-outs: what was issued before one ends, on every node, whatever the clocks and the store do.

use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use jsonwebtoken::{EncodingKey, Header};
use serde_json::{Value, json};
use threadline_core::{Clock, Scope};
use threadline_store::{DynStore, memory::MemoryStore, postgres::PgStore};

use super::{bearer, key, minted::claims};
use crate::{
    backing::Postgres,
    harness::{Client, Options, Server, Socket, eventually, everywhere, http::send, run, sse::Events, text},
};

async fn token(by: &Client, user: &str) -> String {
    text(&by.post("/v1/tokens", json!({ "userId": user })).await.ok(201), "token").to_owned()
}

async fn secret(server: &Server) -> String {
    let path = "/v1/projects/default/token-secret";
    text(&server.project().post(path, json!({})).await.ok(201), "secret").to_owned()
}

/// A token of a user that a backend has signed itself, issued at a second or without one.
fn signed(secret: &str, user: &str, issued_at: Value, expires_at: i64) -> String {
    let mut claims = json!({ "iss": "default", "aud": "threadline", "sub": user, "exp": expires_at });
    if !issued_at.is_null() {
        claims["iat"] = issued_at;
    }
    jsonwebtoken::encode(&Header::default(), &claims, &EncodingKey::from_secret(secret.as_bytes())).expect("a token")
}

/// The status with which a token is answered.
async fn status(server: &Server, token: &str) -> u16 {
    bearer(server, token).get("/v1/threads").await.status
}

everywhere! {
    async fn a_sign_out_ends_what_the_user_has_open(server: |options| {
        options.with_key("secret").with_timeouts(|patience| patience.credentials = Duration::from_millis(20))
    }) {
        let operator = server.project();
        let backend = key(server, "default", &[Scope::Read, Scope::Chat, Scope::Tokens]).await;
        let for_ann = Client { user: Some("ann".into()), ..backend.clone() };
        let (old, bob) = (token(&backend, "ann").await, token(&backend, "bob").await);
        let ann = bearer(server, &old);
        ann.thread("t").await;
        let mut socket = Socket::open(&ann).await;
        let mut events = Events::open(ann.request(reqwest::Method::GET, "/v1/threads/t/events")).await;
        events.named("hello").await;
        // A ticket of the backend acts for the user; the backend itself is not signed out.
        let ticket = text(&for_ann.post("/v1/socket-tickets", json!({})).await.ok(201), "ticket").to_owned();
        let mut own = Socket::open(&for_ann).await;

        let done = operator.post("/v1/users/ann/sign-out", json!({})).await.ok(200);
        let refused = ann.get("/v1/threads/t").await.problem(401, "unauthorized");
        assert!(text(&refused, "detail").contains("signed out"), "{refused}");
        let closing = socket.frame("closing").await;
        assert_eq!((closing["code"].as_u64(), closing["reconnect"].as_bool()), (Some(4501), Some(false)));
        loop {
            if events.next().await.expect("it says why it ends").event.as_deref() == Some("closing") {
                break;
            }
        }
        let open = ann.request(reqwest::Method::GET, &format!("/v1/socket?ticket={ticket}"));
        send(open).await.problem(401, "unauthorized");
        // A new token is good at once, and so are those of others.
        let new = token(&backend, "ann").await;
        let issued_at = claims(&new)["iat"].as_f64().expect("iat");
        assert!((issued_at * 1_000.0).round() as i64 >= millis(text(&done, "notBefore")));
        assert_eq!((status(server, &new).await, status(server, &bob).await), (200, 200));
        own.send(json!({ "id": "1", "ping": {} })).await;
        own.frame("pong").await;
        for_ann.get("/v1/threads/t").await.ok(200);
        // Sign-outs need the scope `admin`.
        backend.post("/v1/users/ann/sign-out", json!({})).await.problem(403, "forbidden");
        bearer(server, &new).post("/v1/users/bob/sign-out", json!({})).await.problem(403, "forbidden");
    }
}

/// Unix milliseconds of a time as the API writes it.
fn millis(text: &str) -> i64 {
    serde_json::from_value::<threadline_core::Timestamp>(json!(text)).expect("a time").0
}

everywhere! {
    async fn a_key_and_a_project_can_be_signed_out(server: |options| options.with_key("secret")) {
        let operator = server.project();
        let scopes = json!(["read", "chat", "tokens"]);
        let body = json!({ "keyId": "leaky", "scopes": scopes });
        let leaky = bearer(server, text(&operator.post("/v1/keys", body).await.ok(201), "key"));
        let other = key(server, "default", &[Scope::Read, Scope::Tokens]).await;
        operator.put("/v1/projects/q", json!({})).await.ok(201);
        let foreign = key(server, "q", &[Scope::Read, Scope::Tokens, Scope::Admin]).await;
        let (by_leaky, by_other, abroad) =
            (token(&leaky, "ann").await, token(&other, "ann").await, token(&foreign, "ann").await);
        operator.post("/v1/keys/leaky/sign-out", json!({})).await.ok(200);
        let statuses = async |tokens: [&str; 3]| {
            [status(server, tokens[0]).await, status(server, tokens[1]).await, status(server, tokens[2]).await]
        };
        assert_eq!(statuses([&by_leaky, &by_other, &abroad]).await, [401, 200, 200]);
        let by_leaky = token(&leaky, "ann").await;
        assert_eq!(status(server, &by_leaky).await, 200, "the key is as good as before");
        operator.post("/v1/projects/default/sign-out", json!({})).await.ok(200);
        assert_eq!(statuses([&by_leaky, &by_other, &abroad]).await, [401, 401, 200]);
        assert_eq!(status(server, &token(&other, "ann").await).await, 200);
        operator.post("/v1/keys/none/sign-out", json!({})).await.problem(404, "key-not-found");
        operator.post("/v1/projects/none/sign-out", json!({})).await.problem(404, "project-not-found");
        foreign.post("/v1/projects/default/sign-out", json!({})).await.problem(404, "project-not-found");
        foreign.post("/v1/keys/leaky/sign-out", json!({})).await.problem(404, "key-not-found");
        let audit = operator.get("/v1/audit").await.ok(200);
        let entries = audit["entries"].as_array().expect("entries").iter();
        let told: Vec<_> = entries.map(|entry| text(entry, "action")).filter(|it| it.contains("signed-out")).collect();
        assert_eq!(told, ["project.signed-out", "key.signed-out"]);
    }
}

#[tokio::test]
async fn equal_seconds_fast_clocks_and_tokens_without_a_time_of_issue() {
    run(Options::memory().with_key("secret").with_manual_clock(), async |server: &Server| {
        let secret = secret(server).await;
        let (now, exact) = (server.clock.now().0 / 1_000, server.clock.now().0);
        let of = |user: &str, issued_at: Value| signed(&secret, user, issued_at, now + 60);
        // A token from a clock that is too fast is refused, so that it cannot outlive the next sign-out.
        assert_eq!(status(server, &of("ann", json!(now + 10))).await, 200);
        let ahead = bearer(server, &of("ann", json!(now + 11))).get("/v1/threads").await.problem(401, "unauthorized");
        assert!(text(&ahead, "detail").contains("future"), "{ahead}");
        let (timeless, of_bob) = (of("ann", Value::Null), of("bob", Value::Null));
        assert_eq!(status(server, &timeless).await, 200);
        let done = server.project().post("/v1/users/ann/sign-out", json!({})).await.ok(200);
        assert_eq!(millis(text(&done, "notBefore")), exact + 1);
        let second = |millis: i64| millis as f64 / 1_000.0;
        for issued_at in [json!(now - 1), json!(now), json!(second(exact)), Value::Null] {
            assert_eq!(status(server, &of("ann", issued_at.clone())).await, 401, "{issued_at}");
        }
        for issued_at in [json!(now + 1), json!(second(exact + 1))] {
            assert_eq!(status(server, &of("ann", issued_at.clone())).await, 200, "{issued_at}");
        }
        assert_eq!(status(server, &of_bob).await, 200, "nobody has signed bob out");
        // A token of the same moment, made after the sign-out, is dated after it, and the next sign-out ends it, whichever
        // subject the one before had.
        for (path, round) in [("/v1/users/ann/sign-out", 1), ("/v1/projects/default/sign-out", 2)] {
            let made = token(&server.project(), "ann").await;
            assert_eq!(claims(&made)["iat"], second(exact + round));
            assert_eq!(status(server, &made).await, 200);
            let again = server.project().post(path, json!({})).await.ok(200);
            assert_eq!((millis(text(&again, "notBefore")), status(server, &made).await), (exact + round + 1, 401));
        }
    })
    .await;
}

#[tokio::test]
async fn a_sign_out_on_one_node_is_known_to_the_other_within_seconds() {
    let postgres = PgStore::open(&Postgres::shared().fresh_database(), Clock::system()).await.expect("the store opens");
    let stores: [DynStore; 2] = [Arc::new(MemoryStore::new(Clock::system())), Arc::new(postgres.clone())];
    for store in stores {
        let options = || {
            Options::memory().with_key("secret").with_timeouts(|patience| {
                patience.credentials = Duration::from_millis(20);
            })
        };
        let one = Server::over(store.clone(), options()).await;
        let two = Server::over(store, options()).await;
        let (ann, bob) = (token(&one.project(), "ann").await, token(&one.project(), "bob").await);
        assert_eq!((status(&two, &ann).await, status(&two, &bob).await), (200, 200));
        let mut socket = Socket::open(&bearer(&two, &ann)).await;
        one.project().post("/v1/users/ann/sign-out", json!({})).await.ok(200);
        eventually("the other node learns of the sign-out", async || (status(&two, &ann).await == 401).then_some(()))
            .await;
        assert_eq!(socket.frame("closing").await["code"], 4501);
        assert_eq!(status(&two, &bob).await, 200);
        one.stop().await;
        two.stop().await;
    }
    postgres.close().await;
}

#[tokio::test]
async fn a_node_that_starts_knows_the_sign_outs_of_before() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = || Options::new(crate::harness::Backend::Sqlite).with_key("secret");
    let before = Server::in_directory(directory.path(), options()).await;
    let ann = token(&before.project(), "ann").await;
    before.project().post("/v1/users/ann/sign-out", json!({})).await.ok(200);
    before.stop().await;
    let after = Server::in_directory(directory.path(), options()).await;
    assert_eq!(status(&after, &ann).await, 401);
    after.stop().await;
}

#[tokio::test]
async fn while_the_store_is_away_the_last_known_sign_outs_and_keys_hold() {
    run(Options::memory().with_key("secret").with_glass(), async |server: &Server| {
        let operator = server.project();
        let made = async |id: &str| {
            let body = json!({ "keyId": id, "scopes": ["read", "tokens"] });
            bearer(server, text(&operator.post("/v1/keys", body).await.ok(201), "key"))
        };
        let (good, bad) = (made("good").await, made("bad").await);
        let (ann, bob, lost) = (token(&good, "ann").await, token(&good, "bob").await, token(&bad, "eve").await);
        for token in [&ann, &bob, &lost] {
            assert_eq!(status(server, token).await, 200);
        }
        operator.post("/v1/users/ann/sign-out", json!({})).await.ok(200);
        operator.delete("/v1/keys/bad").await.ok(200);
        assert_eq!((status(server, &ann).await, status(server, &lost).await), (401, 401));
        server.intercept().away.store(true, SeqCst);
        let asked = || {
            let calls = server.intercept().credentials.lock().expect("lock").clone();
            ["cutoffs", "key_named", "projects"].map(|name| calls.iter().filter(|call| **call == name).count())
        };
        let before = asked();
        // The node has asked for everything once more, in vain.
        eventually("the memories end", async || {
            assert_eq!((status(server, &ann).await, status(server, &lost).await), (401, 401));
            // The store itself is missing here, not the credential.
            assert_eq!(status(server, &bob).await, 503);
            asked().iter().zip(before).all(|(now, before)| *now > before).then_some(())
        })
        .await;
        server.intercept().away.store(false, SeqCst);
        assert_eq!((status(server, &ann).await, status(server, &bob).await), (401, 200));
    })
    .await;
}

#[tokio::test]
async fn no_request_reads_the_store_for_a_sign_out() {
    run(Options::memory().with_key("secret").with_glass(), async |server: &Server| {
        let ann = token(&key(server, "default", &[Scope::Read, Scope::Tokens]).await, "ann").await;
        server.project().post("/v1/users/bob/sign-out", json!({})).await.ok(200);
        assert_eq!(status(server, &ann).await, 200);
        let calls = || server.intercept().credentials.lock().expect("lock").clone();
        let count = |calls: &[&str], name: &str| calls.iter().filter(|call| **call == name).count();
        let (before, begun) = (calls(), tokio::time::Instant::now());
        for _ in 0..200 {
            assert_eq!(status(server, &ann).await, 200);
        }
        // The memory of keys and projects ends every 5 seconds, and the sign-outs are looked for as often.
        let (all, looks) = (calls(), begun.elapsed().as_secs() as usize / 5 + 1);
        for name in ["cutoffs", "key_named", "key", "projects"] {
            let read = count(&all, name) - count(&before, name);
            assert!(read <= looks, "{read} calls of {name} in {:?}", begun.elapsed());
        }
    })
    .await;
}

#[tokio::test]
async fn a_user_is_signed_out_before_their_data_is_erased() {
    run(Options::memory().with_key("secret").with_glass(), async |server: &Server| {
        let ann = token(&server.project(), "ann").await;
        bearer(server, &ann).thread("t").await;
        server.project().delete("/v1/users/ann").await.ok(200);
        let calls = server.intercept().credentials.lock().expect("lock").clone();
        let at =
            |name: &str| calls.iter().position(|call| *call == name).unwrap_or_else(|| panic!("{name}: {calls:?}"));
        assert!(at("put_cutoff") < at("footprint") && at("put_cutoff") < at("delete_thread"), "{calls:?}");
        assert_eq!(status(server, &ann).await, 401);
        // The audit does not name the user.
        let audit = server.project().get("/v1/audit").await;
        assert!(!audit.text().contains("\"ann\""), "{}", audit.text());
    })
    .await;
}
