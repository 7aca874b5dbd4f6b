//! Development mode: for this machine only.

use std::sync::Arc;

use reqwest::Method;
use serde_json::json;
use threadline::{
    app::{App, ServeConfig, StartError},
    config::Authentication,
};
use threadline_core::Clock;
use threadline_store::memory::MemoryStore;

use crate::{
    harness::{Client, Options, Server, http::send, raw::Raw, run, text},
    table::routes,
};

const FOREIGN: [&str; 5] = ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "10.0.0.1", "192.168.0.1:80"];

#[tokio::test]
async fn foreign_hosts_and_origins_are_refused_on_every_route() {
    run(Options::memory(), async |server: &Server| {
        server.client().thread("t").await;
        for route in routes() {
            let line = format!("{} {} HTTP/1.1", route.method, route.at("t", "r"));
            for foreign in FOREIGN {
                for headers in [
                    format!("Host: {foreign}\r\n"),
                    format!("Host: localhost\r\nOrigin: http://{foreign}\r\n"),
                    format!("Host: localhost\r\nOrigin: https://{foreign}\r\n"),
                    "Host: localhost\r\nOrigin: null\r\n".to_owned(),
                    "Host: localhost\r\nOrigin: file://\r\n".to_owned(),
                ] {
                    let mut raw = Raw::connect(server.addr).await;
                    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
                    let upgrade = if route.is_socket() { upgrade } else { "" };
                    raw.write(format!("{line}\r\n{headers}{upgrade}\r\n")).await;
                    let answer = raw.answer().await;
                    answer.problem(403, "forbidden-origin");
                    assert!(!answer.headers.contains_key("access-control-allow-origin"), "{headers}");
                }
            }
        }
        server.client().get("/v1/threads/t").await.ok(200);
    })
    .await;
}

/// Header fields of proxies, and values that name another machine.
const FORWARDED: [(&str, &str); 14] = [
    ("X-Forwarded-For", "203.0.113.7"),
    ("X-Forwarded-For", "127.0.0.1, 203.0.113.7"),
    ("X-Forwarded-For", "203.0.113.7, 127.0.0.1"),
    ("X-Forwarded-For", "unknown"),
    ("X-Forwarded-For", "10.0.0.1:1234"),
    ("X-Forwarded-For", "::ffff:203.0.113.7"),
    ("X-Forwarded-Host", "app.example"),
    ("X-Forwarded-Host", "localhost.evil.example"),
    ("X-Real-IP", "203.0.113.7"),
    ("X-Real-IP", "[2001:db8::1]"),
    ("Forwarded", "for=203.0.113.7"),
    ("Forwarded", "for=127.0.0.1;host=app.example"),
    ("Forwarded", "For=\"[2001:db8::1]:4711\""),
    ("Forwarded", "for=127.0.0.1, for=_hidden;proto=https"),
];

#[tokio::test]
async fn proxied_requests_from_other_machines_are_refused_on_every_route() {
    run(Options::memory(), async |server: &Server| {
        for (turn, route) in routes().iter().enumerate() {
            let (name, value) = FORWARDED[turn % FORWARDED.len()];
            let mut raw = Raw::connect(server.addr).await;
            let line = format!("{} {} HTTP/1.1", route.method, route.at("t", "r"));
            raw.write(format!("{line}\r\nHost: localhost\r\n{name}: {value}\r\n\r\n")).await;
            let problem = raw.answer().await.problem(403, "development-only");
            assert!(text(&problem, "detail").contains(name), "{problem}");
        }
        let with = async |name: &str, value: &str| {
            send(server.client().request(Method::GET, "/v1/threads").header(name, value)).await
        };
        for (name, value) in FORWARDED {
            let problem = with(name, value).await.problem(403, "development-only");
            assert!(text(&problem, "help").contains("THREADLINE_API_KEY"), "{problem}");
        }
        // A second field of the same name is read as well.
        let twice = server.client().request(Method::GET, "/v1/threads").header("x-forwarded-for", "127.0.0.1");
        send(twice.header("x-forwarded-for", "203.0.113.7")).await.problem(403, "development-only");
        // The development servers of this machine forward for pages of this machine.
        for (name, value) in [
            ("X-Forwarded-For", "127.0.0.1"),
            ("X-Forwarded-For", "::1, 127.0.0.1"),
            ("X-Forwarded-For", "::ffff:127.0.0.1"),
            ("X-Forwarded-For", "127.0.0.1:51324"),
            ("X-Forwarded-Host", "localhost:5173"),
            ("X-Forwarded-Host", "app.localhost"),
            ("X-Real-IP", "::1"),
            ("Forwarded", "for=127.0.0.1;host=localhost:3000;proto=http;by=\"[::1]:80\""),
            ("Forwarded", "For=\"[::1]\", for=\"127.0.0.1:9\""),
        ] {
            assert_eq!(with(name, value).await.status, 200, "{name}: {value}");
        }
    })
    .await;
    // With a key, the origin of a request does not matter.
    run(Options::memory().with_key("k"), async |server: &Server| {
        for (name, value) in FORWARDED {
            let request = server.client().request(Method::GET, "/v1/threads").header(name, value);
            assert_eq!(send(request).await.status, 200, "{name}: {value}");
        }
    })
    .await;
}

#[tokio::test]
async fn pages_of_other_sites_send_nothing_without_an_origin() {
    run(Options::memory(), async |server: &Server| {
        let with = async |method: Method, path: &str, headers: &[(&str, &str)]| {
            let request = server.client().request(method, path);
            send(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))).await
        };
        let cross = ("sec-fetch-site", "cross-site");
        let (opened, framed, image) = (
            [cross, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")],
            [cross, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")],
            [cross, ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")],
        );
        for path in ["/v1/threads", "/", "/livez", "/nowhere"] {
            for headers in [&[cross][..], &image, &framed] {
                with(Method::GET, path, headers).await.problem(403, "forbidden-origin");
            }
        }
        with(Method::POST, "/v1/threads", &opened).await.problem(403, "forbidden-origin");
        with(Method::POST, "/v1/threads", &[cross]).await.problem(403, "forbidden-origin");
        // A link to the console; and a page of this machine, whose other name is another site.
        assert_eq!(with(Method::GET, "/", &opened).await.status, 200);
        let allowed = [cross, ("origin", "http://localhost:5173")];
        assert_eq!(with(Method::GET, "/v1/threads", &allowed).await.status, 200);
        for site in ["same-site", "same-origin", "none"] {
            assert_eq!(with(Method::GET, "/v1/threads", &[("sec-fetch-site", site)]).await.status, 200, "{site}");
        }
    })
    .await;
    // With a key, the page needs the key.
    run(Options::memory().with_key("k"), async |server: &Server| {
        let request = server.client().request(Method::GET, "/v1/threads").header("sec-fetch-site", "cross-site");
        assert_eq!(send(request).await.status, 200);
    })
    .await;
}

#[tokio::test]
async fn keys_tokens_and_tickets_of_development_mode_are_refused_elsewhere() {
    let store = Arc::new(MemoryStore::new(Clock::system()));
    let development = Server::over(store.clone(), Options::memory()).await;
    let keyed = Server::over(store, Options::memory().with_key("secret")).await;
    let dev = development.client();
    let made = dev.post("/v1/keys", json!({ "keyId": "tried", "scopes": ["read", "tokens"] })).await.ok(201);
    assert_eq!(made["born"], "development");
    let token = dev.post("/v1/tokens", json!({ "userId": "ann" })).await.ok(201);
    let ticket = dev.post("/v1/socket-tickets", json!({})).await.ok(201);
    let with = |server: &Server, secret: &str| Client { key: Some(secret.to_owned()), ..server.user("ann") };
    let (key, token) = (text(&made, "key"), text(&token, "token"));
    let by_key = with(&development, key).post("/v1/tokens", json!({ "userId": "ann" })).await.ok(201);
    for secret in [key, token, text(&by_key, "token")] {
        with(&development, secret).get("/v1/threads").await.ok(200);
        for path in ["/v1/threads", "/v1/threads/none"] {
            let refused = with(&keyed, secret).get(path).await.problem(401, "unauthorized");
            assert!(text(&refused, "detail").contains("created in development mode"), "{refused}");
        }
    }
    let path = format!("/v1/socket?ticket={}", text(&ticket, "ticket"));
    keyed.project().get(&path).await.problem(401, "unauthorized");
    let feed = dev.post("/api/threads/subscribe", json!({ "userId": "ann" })).await.ok(200);
    let path = format!("/client/longpoll?vsn=2.0.0&join_token={}", text(&feed, "joinToken"));
    assert_eq!((keyed.project().get(&path).await.status, development.project().get(&path).await.status), (403, 200));
    // The list says which keys these are. A key that a server with authentication creates is valid everywhere.
    let made = keyed.project().post("/v1/keys", json!({ "keyId": "serves" })).await.ok(201);
    for server in [&keyed, &development] {
        with(server, text(&made, "key")).get("/v1/threads").await.ok(200);
        let keys = server.project().get("/v1/keys").await.ok(200);
        let born: Vec<_> = keys["keys"].as_array().expect("keys").iter().map(|key| text(key, "born")).collect();
        assert_eq!(born, ["authenticated", "development"], "{keys}");
    }
    let again = keyed.project().post("/v1/tokens", json!({ "userId": "ann" })).await.ok(201);
    with(&keyed, text(&again, "token")).get("/v1/threads").await.ok(200);
    with(&development, text(&again, "token")).get("/v1/threads").await.ok(200);
    development.stop().await;
    keyed.stop().await;
}

#[tokio::test]
async fn pages_of_this_machine_may_call_from_another_port() {
    run(Options::memory(), async |server: &Server| {
        let dev = server.client();
        for origin in ["http://localhost:5173", "http://127.0.0.1:3000", "http://[::1]:80", "http://app.localhost"] {
            let answer = send(dev.request(Method::GET, "/v1/threads").header("origin", origin)).await;
            answer.ok(200);
            assert_eq!(answer.header("access-control-allow-origin"), origin);
            for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
                let preflight = dev.request(Method::OPTIONS, "/v1/threads").header("origin", origin);
                let preflight = preflight.header("access-control-request-method", method).header(
                    "access-control-request-headers",
                    "content-type,threadline-user,last-event-id,authorization,accept,x-application",
                );
                let answer = send(preflight).await;
                assert_eq!(answer.status, 200);
                assert_eq!(answer.header("access-control-allow-origin"), origin);
                assert!(answer.header("access-control-allow-methods").contains(method));
                let headers = answer.header("access-control-allow-headers").to_lowercase();
                // Applications have clients send headers of their own.
                for name in
                    ["content-type", "threadline-user", "last-event-id", "authorization", "accept", "x-application"]
                {
                    assert!(headers.contains(name), "{name} in {headers}");
                }
            }
        }
        for origin in ["https://evil.example", "null"] {
            let preflight = dev.request(Method::OPTIONS, "/v1/threads").header("origin", origin);
            let answer = send(preflight.header("access-control-request-method", "POST")).await;
            assert!(!answer.headers.contains_key("access-control-allow-origin"), "{origin}");
        }
        // Errors can be read by the page as well.
        let request = dev.request(Method::GET, "/v1/threads/none").header("origin", "http://localhost:1");
        let answer = send(request).await;
        answer.problem(404, "thread-not-found");
        assert_eq!(answer.header("access-control-allow-origin"), "http://localhost:1");
    })
    .await;
}

#[tokio::test]
async fn the_header_names_the_user() {
    run(Options::memory(), async |server: &Server| {
        let unnamed = server.project().post("/v1/threads", json!({})).await.ok(201);
        assert_eq!(unnamed["userId"], "dev");
        let zoe = "Zo\u{eb} \u{1f980}";
        let named = server.user(zoe).post("/v1/threads", json!({ "threadId": "z" })).await.ok(201);
        assert_eq!(named["userId"], zoe);
        server.user("ann").get("/v1/threads/z").await.problem(404, "thread-not-found");
    })
    .await;
}

#[tokio::test]
async fn a_server_in_development_mode_listens_on_this_machine_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = |listen: &str, key: Option<&str>| ServeConfig {
        authentication: key.map_or(Authentication::Development, |key| Authentication::OperatorKey(key.to_owned())),
        ..ServeConfig::embedded(listen.parse().expect("an address"), directory.path().to_owned())
    };
    for open in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let refused = App::start(config(open, None)).await;
        assert!(matches!(refused, Err(StartError::Unprotected(_))), "{open}");
        assert!(!directory.path().join("threadline.db").exists(), "nothing is touched");
    }
    let app = App::start(config("127.0.0.1:0", None)).await.expect("started");
    assert!(app.is_development());
    // A second one on the same data is refused in words.
    let Err(second) = App::start(config("127.0.0.1:0", None)).await else { panic!("two writers") };
    assert!(second.to_string().contains("in use by another process"), "{second}");
    app.run(async {}).await;
    let app = App::start(config("0.0.0.0:0", Some("secret"))).await.expect("started");
    assert!(!app.is_development());
    app.run(async {}).await;
}

#[tokio::test]
async fn keys_and_tokens_can_be_tried_in_development() {
    run(Options::memory(), async |server: &Server| {
        let dev = server.client();
        dev.post("/v1/tokens", json!({ "userId": "ann" })).await.ok(201);
        let made = dev.post("/v1/tokens", json!({ "userId": "dev" })).await.ok(201);
        let with = |secret: &str| Client { key: Some(secret.to_owned()), user: None, ..dev.clone() };
        with(text(&made, "token")).get("/v1/keys").await.problem(403, "forbidden");
        with(text(&made, "token")).thread("t").await;
        dev.get("/v1/threads/t").await.ok(200);
        // A value that looks like a key or token is treated as one; anything else is a placeholder that people write for a key.
        for wrong in ["tl_wrong", "a.b.c"] {
            with(wrong).get("/v1/threads").await.problem(401, "unauthorized");
        }
        with("some-key").get("/v1/threads/t").await.ok(200);
    })
    .await;
}
