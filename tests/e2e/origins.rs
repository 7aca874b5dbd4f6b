//! With API keys: which pages may call, and which may open a socket.

use futures_util::StreamExt;
use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{self, Message, client::IntoClientRequest, handshake::client::Response};

use crate::harness::{Client, Options, Server, Socket, http::send, run, socket::handshake, soon, text};

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

/// Status of a handshake with this Origin: 101 is a socket that is served.
async fn opens(server: &Server, origin: Option<&str>, host: Option<&str>) -> u16 {
    let mut request = handshake(&server.client());
    for (name, value) in [("origin", origin), ("host", host)] {
        if let Some(value) = value {
            request.headers_mut().insert(name, value.parse().expect("a value"));
        }
    }
    let named = origin.unwrap_or_default();
    match Socket::connect(request).await {
        Ok((mut socket, response)) => match soon(socket.stream.next()).await.expect("a message").expect("a message") {
            Message::Text(text) => {
                assert!(text.contains("welcome"), "{text}");
                response.status().as_u16()
            }
            Message::Close(Some(frame)) => {
                let reason = format!("forbidden-origin: origin {named} is not in --allowed-origins");
                assert_eq!(frame.reason.as_str(), reason);
                assert!(soon(socket.stream.next()).await.is_none_or(|end| end.is_err()), "{named}");
                frame.code.into()
            }
            other => panic!("{other:?}"),
        },
        Err(tungstenite::Error::Http(response)) => {
            let problem: Value = serde_json::from_slice(response.body().as_deref().expect("a body")).expect("JSON");
            assert_eq!(problem["type"], "/problems/forbidden-origin", "{problem}");
            assert_eq!(problem["origin"], json!(named), "{problem}");
            let detail = text(&problem, "detail");
            assert!(detail.contains(named) || detail.contains("the Host"), "{problem}");
            response.status().as_u16()
        }
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_socket_is_opened_by_pages_that_are_listed_and_by_programs() {
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
            assert_eq!(opens(server, Some(origin), None).await, 4503, "{origin}");
        }
        let counted = format!("threadline_socket_closes_total{{reason=\"forbidden-origin\"}} {}", FOREIGN.len() + 3);
        assert!(server.project().get("/metrics").await.text().contains(&counted), "{counted}");
    })
    .await;
    // Without a list, and with one that has all of them.
    for origins in [&[][..], &["*"]] {
        run(keyed(origins), async |server: &Server| {
            assert_eq!(opens(server, None, None).await, 101);
            for origin in FOREIGN.into_iter().chain([ALLOWED, ""]) {
                assert_eq!(opens(server, Some(origin), None).await, 101, "{origin}");
            }
        })
        .await;
    }
}

/// Headers that the TypeScript package sends.
const HEADERS: [&str; 6] =
    ["authorization", "content-type", "idempotency-key", "threadline-client", "traceparent", "x-request-id"];

/// The response to a preflight from this page.
async fn preflight(server: &Server, origin: &str) -> Option<String> {
    let asked = server.client().request(Method::OPTIONS, "/v1/threads").header("origin", origin);
    let asked = asked.header("access-control-request-method", "POST");
    let answer = send(asked.header("access-control-request-headers", HEADERS.join(","))).await;
    let allowed = answer.headers.get("access-control-allow-origin");
    if allowed.is_some() {
        assert_eq!(answer.status, 200);
        assert!(answer.header("access-control-allow-methods").contains("POST"));
        let headers: Vec<_> = answer.header("access-control-allow-headers").split(',').map(str::trim).collect();
        for name in HEADERS {
            assert!(headers.contains(&name), "{name} is not in {headers:?}");
        }
    }
    allowed.map(|value| value.to_str().expect("text").to_owned())
}

#[tokio::test]
async fn listed_pages_may_call_the_api_and_no_others() {
    run(keyed(&[ALLOWED]), async |server: &Server| {
        assert_eq!(preflight(server, ALLOWED).await.as_deref(), Some(ALLOWED));
        for origin in FOREIGN {
            assert_eq!(preflight(server, origin).await, None, "{origin}");
        }
        let from = async |origin: &str, method: Method, path: &str| {
            send(server.client().request(method, path).header("origin", origin)).await
        };
        let answer = from(ALLOWED, Method::GET, "/v1/threads").await;
        answer.ok(200);
        assert_eq!(answer.header("access-control-allow-origin"), ALLOWED);
        assert_eq!(answer.header("access-control-allow-credentials"), "true");
        assert!(answer.headers.get_all("vary").iter().any(|vary| vary.to_str().is_ok_and(|it| it.contains("origin"))));
        // A page that is not listed is refused with a valid key as well, and nothing is done.
        for origin in FOREIGN {
            for path in ["/v1/threads", "/v1/threads/none", "/nowhere", "/livez"] {
                let answer = from(origin, Method::GET, path).await;
                assert_eq!(answer.problem(403, "forbidden-origin")["origin"], origin);
                assert!(!answer.headers.contains_key("access-control-allow-origin"), "{origin}");
            }
            from(origin, Method::PUT, "/v1/threads/t").await.problem(403, "forbidden-origin");
        }
        // The server's own console.
        let own = format!("http://{}", server.addr);
        from(&own, Method::GET, "/v1/threads").await.ok(200);
        // Refusals can be read as well, with when to come again.
        let refused = from(ALLOWED, Method::GET, "/v1/threads/none").await;
        refused.problem(404, "thread-not-found");
        for name in ["retry-after", "x-request-id"] {
            assert!(refused.header("access-control-expose-headers").contains(name), "{name}");
        }
    })
    .await;
}

#[tokio::test]
async fn without_a_list_pages_of_all_origins_may_call_without_cookies() {
    for origins in [&[][..], &["*"]] {
        run(keyed(origins), async |server: &Server| {
            for origin in FOREIGN {
                assert_eq!(preflight(server, origin).await.as_deref(), Some("*"), "{origin}");
                let answer = send(server.client().request(Method::GET, "/v1/threads").header("origin", origin)).await;
                answer.ok(200);
                assert_eq!(answer.header("access-control-allow-origin"), "*");
                assert!(!answer.headers.contains_key("access-control-allow-credentials"), "{origin}");
            }
            // The credential is what lets a page in, and the page can read that it lacks one.
            let without = Client { key: None, ..server.client() };
            let refused = send(without.request(Method::GET, "/v1/threads").header("origin", "https://a.example")).await;
            refused.problem(401, "unauthorized");
            assert_eq!(refused.header("access-control-allow-origin"), "*");
        })
        .await;
    }
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

/// A handshake of a page with a ticket.
async fn with_ticket(server: &Server, ticket: &str, origin: &str) -> Result<(Socket, Response), tungstenite::Error> {
    let url = format!("ws://{}/v1/socket?ticket={ticket}", server.addr);
    let mut request = url.into_client_request().expect("a request");
    request.headers_mut().insert("origin", origin.parse().expect("a value"));
    request.headers_mut().insert("sec-websocket-protocol", "threadline.v1".parse().expect("a value"));
    Socket::connect(request).await
}

#[tokio::test]
async fn a_ticket_opens_a_socket_from_any_page_unless_there_is_a_list() {
    const ORIGIN: &str = "https://app.example";
    let ticket = async |server: &Server| {
        text(&server.client().post("/v1/socket-tickets", json!({})).await.ok(201), "ticket").to_owned()
    };
    run(keyed(&[]), async |server: &Server| {
        let (mut socket, _) = with_ticket(server, &ticket(server).await, ORIGIN).await.expect("opens");
        socket.frame("welcome").await;
    })
    .await;
    run(keyed(&[ALLOWED]), async |server: &Server| {
        let ticket = ticket(server).await;
        let (mut socket, response) = with_ticket(server, &ticket, ORIGIN).await.expect("opens");
        // Without the subprotocol a browser would report a failed handshake, and not the close frame.
        assert_eq!(response.headers()["sec-websocket-protocol"], "threadline.v1");
        let Some(Ok(Message::Close(Some(frame)))) = soon(socket.stream.next()).await else { panic!("not closed") };
        assert_eq!(u16::from(frame.code), 4503);
        // The ticket is still good, since it was not used for authentication.
        let (mut socket, _) = with_ticket(server, &ticket, ALLOWED).await.expect("opens");
        socket.frame("welcome").await;
        // A request that is no valid handshake, and the sockets of other protocols, are answered by HTTP.
        let malformed = server.client().request(Method::GET, "/v1/socket").header("origin", ORIGIN);
        send(malformed.header("upgrade", "websocket")).await.problem(400, "invalid-request");
        for path in ["/client/websocket?vsn=2.0.0", "/runner/websocket?vsn=2.0.0"] {
            let request = server.client().request(Method::GET, path).header("origin", ORIGIN);
            let refused = send(request.header("connection", "upgrade").header("upgrade", "websocket")).await;
            assert_eq!(refused.problem(403, "forbidden-origin")["origin"], ORIGIN);
        }
    })
    .await;
}
