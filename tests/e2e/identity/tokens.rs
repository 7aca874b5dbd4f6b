//! Tokens of end users: what is let in, and everything that is not.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use threadline_core::Scope;

use super::token as user_token;
use super::{
    bearer,
    issuer::{Issuer, Signer},
    key,
};
use crate::harness::{Client, Options, Server, Socket, everywhere, run, text};

/// Seconds since 1970 by the server's clock, later by this much.
fn at(server: &Server, seconds: i64) -> i64 {
    server.clock.now().0 / 1_000 + seconds
}

fn claims(server: &Server, change: Value) -> Value {
    let mut claims = json!({ "iss": "default", "aud": "threadline", "sub": "ann", "exp": at(server, 60) });
    for (name, value) in change.as_object().expect("an object") {
        if value.is_null() {
            claims.as_object_mut().expect("an object").remove(name);
        } else {
            claims[name] = value.clone();
        }
    }
    claims
}

fn signed(secret: &str, algorithm: Algorithm, claims: &Value) -> String {
    jsonwebtoken::encode(&Header::new(algorithm), claims, &EncodingKey::from_secret(secret.as_bytes()))
        .expect("a token")
}

async fn secret(server: &Server, project: &str) -> String {
    let path = format!("/v1/projects/{project}/token-secret");
    text(&server.project().post(&path, json!({})).await.ok(201), "secret").to_owned()
}

everywhere! {
    async fn a_users_token_acts_only_as_that_user(server: |options| options.with_key("secret")) {
        let made = server.project().post("/v1/tokens", json!({ "userId": "ann" })).await.ok(201);
        let ann = bearer(server, text(&made, "token"));
        ann.thread("t").await;
        assert_eq!(server.user("ann").get("/v1/threads/t").await.ok(200)["userId"], "ann");
        server.user("bob").get("/v1/threads/t").await.problem(404, "thread-not-found");
        // Its own user may be named, another may not.
        Client { user: Some("ann".into()), ..ann.clone() }.get("/v1/threads/t").await.ok(200);
        Client { user: Some("bob".into()), ..ann.clone() }.get("/v1/threads").await.problem(403, "forbidden");
        ann.get("/v1/keys").await.problem(403, "forbidden");
        ann.post("/v1/tokens", json!({ "userId": "ann" })).await.problem(403, "forbidden");
        // One that may only read.
        let made = server.project().post("/v1/tokens", json!({ "userId": "ann", "scopes": ["read"] })).await.ok(201);
        let reader = bearer(server, text(&made, "token"));
        reader.get("/v1/threads/t/events").await.ok(200);
        let refused = reader.post("/v1/threads", json!({ "threadId": "u" })).await.problem(403, "forbidden");
        assert_eq!(refused["scope"], "chat");
        for scopes in [json!(["admin"]), json!(["agents"]), json!(["tokens"])] {
            let asked = json!({ "userId": "ann", "scopes": scopes });
            server.project().post("/v1/tokens", asked).await.problem(403, "forbidden");
        }
        for body in [json!({}), json!({ "userId": "a", "expiresInSeconds": 0 }), json!({ "userId": "a", "scopes": [] }),
            json!({ "userId": "a", "scopes": ["fly"] }), json!({ "userId": "a", "expiresInSeconds": 604_801 }), json!({ "userId": "" })]
        {
            server.project().post("/v1/tokens", body).await.problem(400, "invalid-request");
        }
    }
}

everywhere! {
    async fn a_key_gives_no_more_to_a_token_than_it_has(server: |options| options.with_key("secret")) {
        server.user("ann").thread("t").await;
        let neither = key(server, "default", &[Scope::Tokens, Scope::Admin]).await;
        neither.post("/v1/tokens", json!({ "userId": "ann" })).await.problem(400, "invalid-request");
        let reads = key(server, "default", &[Scope::Tokens, Scope::Read]).await;
        let made = reads.post("/v1/tokens", json!({ "userId": "ann" })).await.ok(201);
        let reader = bearer(server, text(&made, "token"));
        reader.get("/v1/threads/t").await.ok(200);
        let edit = reader.patch("/v1/threads/t", json!({ "name": "Mine" })).await;
        assert_eq!(edit.problem(403, "forbidden")["scope"], "chat");
    }
}

#[tokio::test]
async fn a_backend_with_the_secret_signs_its_own_tokens() {
    run(Options::memory().with_key("secret").with_manual_clock(), async |server: &Server| {
        let first = secret(server, "default").await;
        let good = signed(&first, Algorithm::HS256, &claims(server, json!({})));
        bearer(server, &good).get("/v1/threads").await.ok(200);
        // Without an issuer it is the default project's; an audience may be one of several.
        for change in [
            json!({ "iss": null }),
            json!({ "aud": ["other", "threadline"] }),
            json!({ "scope": null }),
            json!({ "scope": "chat  read" }),
            json!({ "nbf": at(server, 29) }),
            json!({ "exp": at(server, -29) }),
        ] {
            let token = signed(&first, Algorithm::HS256, &claims(server, change.clone()));
            bearer(server, &token).get("/v1/threads").await.ok(200);
        }
        let refused = [
            ("no exp", json!({ "exp": null })),
            ("expired", json!({ "exp": at(server, -31) })),
            ("expired long ago", json!({ "exp": -1 })),
            ("not valid yet", json!({ "nbf": at(server, 31) })),
            ("no audience", json!({ "aud": null })),
            ("wrong audience", json!({ "aud": "other" })),
            ("no user", json!({ "sub": null })),
            ("an empty user", json!({ "sub": "" })),
            ("a user with control characters", json!({ "sub": "a\u{0}" })),
            ("a foreign issuer", json!({ "iss": "elsewhere" })),
            ("an issuer that is no id", json!({ "iss": "" })),
        ];
        for (what, change) in refused {
            let token = signed(&first, Algorithm::HS256, &claims(server, change));
            let answer = bearer(server, &token).get("/v1/threads").await;
            assert_eq!(answer.status, 401, "{what}: {}", answer.text());
            let problem = answer.problem(401, "unauthorized");
            // The secret of before, which has not signed it, has nothing to say about it.
            assert!(!what.starts_with("expired") || text(&problem, "detail").contains("expired"), "{problem}");
        }
        for (what, token) in [
            ("another secret", signed("another secret", Algorithm::HS256, &claims(server, json!({})))),
            ("another algorithm", signed(&first, Algorithm::HS512, &claims(server, json!({})))),
            ("no signature", good.rsplit_once('.').map(|(rest, _)| format!("{rest}.")).expect("a token")),
            ("a changed payload", {
                let parts: Vec<_> = good.split('.').collect();
                let payload = URL_SAFE_NO_PAD.encode(claims(server, json!({ "sub": "bob" })).to_string());
                format!("{}.{payload}.{}", parts[0], parts[2])
            }),
            ("alg: none", {
                let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
                format!("{}.{}.", part(json!({ "alg": "none" })), part(claims(server, json!({}))))
            }),
            ("alg: none, signed", {
                let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
                let parts: Vec<_> = good.split('.').collect();
                format!("{}.{}.{}", part(json!({ "alg": "none" })), parts[1], parts[2])
            }),
            ("unknown extensions", {
                let header: Header =
                    serde_json::from_value(json!({ "alg": "HS256", "crit": ["b64"] })).expect("a header");
                let key = EncodingKey::from_secret(first.as_bytes());
                jsonwebtoken::encode(&header, &claims(server, json!({})), &key).expect("a token")
            }),
            ("too long", signed(&first, Algorithm::HS256, &claims(server, json!({ "x": "x".repeat(9_000) })))),
            ("dots", "a.b.c".to_owned()),
            ("nothing but dots", "..".to_owned()),
        ] {
            let answer = bearer(server, &token).get("/v1/threads").await;
            assert_eq!(answer.status, 401, "{what}: {}", answer.text());
        }
        // A new secret: tokens of the one before are good until the next.
        let second = secret(server, "default").await;
        bearer(server, &good).get("/v1/threads").await.ok(200);
        let newer = signed(&second, Algorithm::HS256, &claims(server, json!({})));
        bearer(server, &newer).get("/v1/threads").await.ok(200);
        secret(server, "default").await;
        bearer(server, &good).get("/v1/threads").await.problem(401, "unauthorized");
        bearer(server, &newer).get("/v1/threads").await.ok(200);
    })
    .await;
}

everywhere! {
    async fn an_unknown_scope_is_refused_by_its_name(server: |options| options.with_key("secret")) {
        let first = secret(server, "default").await;
        for (scope, word) in [
            ("", "empty"),
            ("   ", "empty"),
            ("raed", "`raed`"),
            ("read fly", "`fly`"),
            ("openid profile", "`openid`"),
            ("READ", "`READ`"),
            ("read admin", "`admin`"),
        ] {
            let token = signed(&first, Algorithm::HS256, &claims(server, json!({ "scope": scope })));
            let problem = bearer(server, &token).get("/v1/threads").await.problem(401, "unauthorized");
            assert!(text(&problem, "detail").contains(word), "{scope:?}: {problem}");
        }
        let long = signed(&first, Algorithm::HS256, &claims(server, json!({ "scope": "é".repeat(2_000) })));
        let problem = bearer(server, &long).get("/v1/threads").await.problem(401, "unauthorized");
        assert!(text(&problem, "detail").len() < 300, "{problem}");
        for narrowed in [json!({ "scope": ["read"] }), json!({ "scope": 1 }), json!({ "scopes": ["read"] }), json!({ "scp": "read" })] {
            let token = signed(&first, Algorithm::HS256, &claims(server, narrowed.clone()));
            let problem = bearer(server, &token).get("/v1/threads").await.problem(401, "unauthorized");
            assert!(text(&problem, "detail").contains("separated by spaces"), "{narrowed}: {problem}");
        }
        let reads = signed(&first, Algorithm::HS256, &claims(server, json!({ "scope": "read" })));
        bearer(server, &reads).get("/v1/threads").await.ok(200);
        bearer(server, &reads).post("/v1/threads", json!({})).await.problem(403, "forbidden");
        // A key that has nothing to give makes no key that may do nothing.
        let admin = key(server, "default", &[Scope::Admin]).await;
        admin.post("/v1/keys", json!({})).await.problem(400, "invalid-request");
        admin.post("/v1/keys", json!({ "scopes": [] })).await.problem(400, "invalid-request");
        server.project().post("/v1/tokens", json!({ "userId": "a", "scopes": [] })).await.problem(400, "invalid-request");
    }
}

#[tokio::test]
async fn a_token_of_one_project_is_invalid_in_another() {
    run(Options::memory().with_key("secret"), async |server: &Server| {
        for project in ["p", "q"] {
            server.project().put(&format!("/v1/projects/{project}"), json!({})).await.ok(201);
        }
        let (p, q) = (secret(server, "p").await, secret(server, "q").await);
        let of =
            |secret: &str, issuer: &str| signed(secret, Algorithm::HS256, &claims(server, json!({ "iss": issuer })));
        bearer(server, &of(&p, "p")).thread("t").await;
        bearer(server, &of(&q, "q")).get("/v1/threads/t").await.problem(404, "thread-not-found");
        for token in [of(&p, "q"), of(&q, "p"), of(&p, "default")] {
            bearer(server, &token).get("/v1/threads").await.problem(401, "unauthorized");
        }
        let request = bearer(server, &of(&p, "p")).request(reqwest::Method::GET, "/v1/threads");
        let answer = crate::harness::http::send(request.header("threadline-project", "q")).await;
        answer.problem(403, "forbidden");
    })
    .await;
}

#[tokio::test]
async fn an_issuers_tokens_are_verified_with_its_published_keys() {
    run(Options::memory().with_key("secret"), async |server: &Server| {
        let issuer = Issuer::start().await;
        let (rsa, ec, foreign) = (Signer::rsa("one"), Signer::ec("two"), Signer::rsa("one"));
        issuer.publish(&[&rsa, &ec]);
        let named = json!({ "issuer": "https://id.example/", "audience": "my-app", "jwksUrl": issuer.url });
        server.project().put("/v1/projects/p", json!({ "issuer": named })).await.ok(201);
        // Two entries with the same issuer and audience could not be distinguished.
        let again = json!({ "issuer": named });
        server.project().put("/v1/projects/q", again).await.problem(400, "invalid-request");
        let claims = |change: Value| {
            let change = change.as_object().expect("an object").clone();
            let mut all = claims(server, json!({ "iss": "https://id.example/", "aud": "my-app" }));
            all.as_object_mut().expect("an object").extend(change);
            all
        };
        for signer in [&rsa, &ec] {
            let ann = bearer(server, &signer.sign(&claims(json!({}))));
            ann.get("/v1/threads").await.ok(200);
        }
        bearer(server, &rsa.sign(&claims(json!({ "scope": "openid profile" })))).thread("t").await;
        let operator = server.user("ann").request(reqwest::Method::GET, "/v1/threads/t");
        let found = crate::harness::http::send(operator.header("threadline-project", "p")).await.ok(200);
        assert_eq!(found["userId"], "ann");
        assert_eq!(issuer.asked(), 1, "the keys are remembered");
        let public = serde_json::to_string(&json!({ "keys": [] })).expect("JSON");
        for (what, token) in [
            ("another key under its id", foreign.sign(&claims(json!({})))),
            ("wrong audience", rsa.sign(&claims(json!({ "aud": "other" })))),
            ("the audience of ours", rsa.sign(&claims(json!({ "aud": "threadline" })))),
            ("another issuer", rsa.sign(&claims(json!({ "iss": "https://other.example/" })))),
            ("expired", rsa.sign(&claims(json!({ "exp": at(server, -31) })))),
            ("an unknown key", Signer::ec("three").sign(&claims(json!({})))),
            ("a secret where keys are needed", signed(&public, Algorithm::HS256, &claims(json!({})))),
            ("the project's own secret", { signed(&secret(server, "p").await, Algorithm::HS256, &claims(json!({}))) }),
        ] {
            let answer = bearer(server, &token).get("/v1/threads").await;
            assert_eq!(answer.status, 401, "{what}: {}", answer.text());
        }
        assert_eq!(issuer.asked(), 1, "unknown keys do not make the server ask again and again");
        // While an issuer is unreachable, tokens with a known key stay valid.
        issuer.be_away(true);
        bearer(server, &ec.sign(&claims(json!({})))).get("/v1/threads").await.ok(200);
        let named =
            json!({ "issuer": "https://id.example/", "audience": "away", "jwksUrl": format!("{}?b", issuer.url) });
        server.project().put("/v1/projects/r", json!({ "issuer": named })).await.ok(201);
        let token = ec.sign(&claims(json!({ "aud": "away" })));
        let answer = bearer(server, &token).get("/v1/threads").await.problem(503, "issuer-unavailable");
        assert_eq!(answer["retryable"], true);
    })
    .await;
}

everywhere! {
    async fn renewing_the_secret_ends_its_tokens_and_all_that_they_opened(server: |options| {
        options.with_key("secret").with_timeouts(|patience| patience.credentials = Duration::from_millis(20))
    }) {
        let ann = user_token(server, "ann").await;
        ann.thread("t").await;
        let mut socket = Socket::open(&ann).await;
        let ticket = text(&ann.post("/v1/socket-tickets", json!({})).await.ok(201), "ticket").to_owned();
        let waiting = tokio::spawn({
            let ann = ann.clone();
            async move { ann.get("/v1/threads/t/events?wait=15").await }
        });
        secret(server, "default").await;
        // The one before it is good until the next.
        ann.get("/v1/threads/t").await.ok(200);
        secret(server, "default").await;
        ann.get("/v1/threads/t").await.problem(401, "unauthorized");
        assert_eq!(socket.frame("closing").await["code"], 4501);
        waiting.await.expect("answered").problem(401, "unauthorized");
        let answer = ann.request(reqwest::Method::GET, &format!("/v1/socket?ticket={ticket}"));
        crate::harness::http::send(answer).await.problem(401, "unauthorized");
    }
}
