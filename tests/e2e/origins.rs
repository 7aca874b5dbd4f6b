//! With API keys: which pages may call, and which may open a socket.

use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite;

use crate::harness::{Options, Server, Socket, http::send, run, socket::handshake, text};

const ALLOWED: &str = "https://app.example.com";
const FOREIGN: [&str; 5] = [
    "https://evil.example",
    "http://app.example.com",
    "https://app.example.com:8443",
    "https://app.example.com.evil.example",
    "null",
];

fn keyed(origins: &[&'static str]) -> Options {
    Options::memory().with_key("secret").with_origins(origins)
}

/// The status of a handshake with this Origin.
async fn opens(server: &Server, origin: Option<&str>, host: Option<&str>) -> u16 {
    let mut request = handshake(&server.client());
    for (name, value) in [("origin", origin), ("host", host)] {
        if let Some(value) = value {
            request.headers_mut().insert(name, value.parse().expect("a value"));
        }
    }
    match Socket::connect(request).await {
        Ok((mut socket, response)) => {
            socket.frame("welcome").await;
            response.status().as_u16()
        }
        Err(tungstenite::Error::Http(response)) => {
            let problem: Value = serde_json::from_slice(response.body().as_deref().expect("a body")).expect("JSON");
            assert_eq!(problem["type"], "/problems/forbidden-origin", "{problem}");
            let named = origin.unwrap_or_default();
            assert_eq!(problem["origin"], json!(named), "{problem}");
            let detail = text(&problem, "detail");
            assert!(detail.contains(named) || detail.contains("the Host"), "{problem}");
            response.status().as_u16()
        }
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_socket_is_opened_by_pages_that_are_let_in_and_by_programs() {
    run(keyed(&[ALLOWED, "http://localhost:3000"]), async |server: &Server| {
        for origin in [None, Some(ALLOWED), Some("https://app.example.com:443"), Some("http://localhost:3000")] {
            assert_eq!(opens(server, origin, None).await, 101, "{origin:?}");
        }
        // A page of this server's own host, also behind a proxy that terminates TLS.
        let own = format!("http://{}", server.addr);
        assert_eq!(opens(server, Some(&own), None).await, 101);
        assert_eq!(opens(server, Some("https://threads.example"), Some("threads.example")).await, 101);
        let other_port = format!("http://{}:1", server.addr.ip());
        for origin in FOREIGN.into_iter().chain([other_port.as_str(), "http://localhost:3001", ""]) {
            assert_eq!(opens(server, Some(origin), None).await, 403, "{origin}");
        }
    })
    .await;
    run(keyed(&[]), async |server: &Server| {
        assert_eq!(opens(server, None, None).await, 101);
        assert_eq!(opens(server, Some(ALLOWED), None).await, 403);
    })
    .await;
    run(keyed(&["*"]), async |server: &Server| {
        for origin in FOREIGN {
            assert_eq!(opens(server, Some(origin), None).await, 101, "{origin}");
        }
    })
    .await;
}

/// The response to a preflight from this page.
async fn preflight(server: &Server, origin: &str) -> Option<String> {
    let asked = server.client().request(Method::OPTIONS, "/v1/threads").header("origin", origin);
    let asked = asked.header("access-control-request-method", "POST");
    let answer = send(asked.header("access-control-request-headers", "authorization,content-type")).await;
    let allowed = answer.headers.get("access-control-allow-origin");
    if allowed.is_some() {
        assert_eq!(answer.status, 200);
        assert!(answer.header("access-control-allow-methods").contains("POST"));
        assert!(answer.header("access-control-allow-headers").contains("authorization"));
    }
    allowed.map(|value| value.to_str().expect("text").to_owned())
}

#[tokio::test]
async fn admitted_pages_may_call_the_api() {
    run(keyed(&[ALLOWED]), async |server: &Server| {
        assert_eq!(preflight(server, ALLOWED).await.as_deref(), Some(ALLOWED));
        for origin in FOREIGN {
            assert_eq!(preflight(server, origin).await, None, "{origin}");
        }
        // The key is what lets a request in; the browser keeps the answer from foreign pages.
        for (origin, shown) in [(ALLOWED, Some(ALLOWED)), ("https://evil.example", None)] {
            let answer = send(server.client().request(Method::GET, "/v1/threads").header("origin", origin)).await;
            answer.ok(200);
            let allowed = answer.headers.get("access-control-allow-origin").map(|value| value.to_str().expect("text"));
            assert_eq!(allowed, shown);
            assert!(
                answer.headers.get_all("vary").iter().any(|vary| vary.to_str().is_ok_and(|it| it.contains("origin")))
            );
        }
        // Refusals can be read as well, with when to come again.
        let refused = server.client().request(Method::GET, "/v1/threads/none").header("origin", ALLOWED);
        let refused = send(refused).await;
        refused.problem(404, "thread-not-found");
        assert!(refused.header("access-control-expose-headers").contains("retry-after"));
    })
    .await;
    run(keyed(&[]), async |server: &Server| assert_eq!(preflight(server, ALLOWED).await, None)).await;
    run(keyed(&["*"]), async |server: &Server| {
        assert_eq!(preflight(server, "https://evil.example").await.as_deref(), Some("*"));
    })
    .await;
}

#[tokio::test]
async fn in_development_only_pages_of_this_machine_are_admitted() {
    run(Options::memory().with_origins(&[ALLOWED]), async |server: &Server| {
        assert_eq!(preflight(server, ALLOWED).await, None);
        assert_eq!(opens(server, Some(ALLOWED), None).await, 403);
        assert_eq!(opens(server, Some("http://localhost:5173"), None).await, 101);
        assert_eq!(opens(server, None, None).await, 101);
        assert_eq!(opens(server, Some("https://threads.example"), Some("threads.example")).await, 403);
    })
    .await;
}

#[tokio::test]
async fn a_refused_page_receives_the_name_of_the_setting_that_admits_it() {
    run(keyed(&[]), async |server: &Server| {
        // With a ticket that is valid: the page has the right, and comes from the wrong place.
        let ticket = server.client().post("/v1/socket-tickets", json!({})).await.ok(201);
        let ticket = text(&ticket, "ticket");
        let mut asked = server.project().request(Method::GET, &format!("/v1/socket?ticket={ticket}"));
        for (name, value) in [
            ("origin", "https://app.example"),
            ("connection", "upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ] {
            asked = asked.header(name, value);
        }
        let problem = send(asked).await.problem(403, "forbidden-origin");
        assert_eq!(problem["origin"], "https://app.example");
        assert!(text(&problem, "detail").contains("--allowed-origins https://app.example"), "{problem}");
    })
    .await;
}
