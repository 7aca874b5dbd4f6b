//! Header fields that keep responses out of caches and out of foreign pages.

use reqwest::{Method, RequestBuilder, StatusCode, header::HeaderMap};
use serde_json::json;
use threadline_http::routes::Access;

use crate::{
    harness::{Client, Options, Server, Socket, everywhere, raw::Raw, run, socket::handshake},
    table::routes,
};

/// Paths whose responses are the same for everyone.
const PUBLIC: [&str; 6] =
    ["/langgraph/info", "/langgraph/ok", "/livez", "/readyz", "/v1/openapi.json", "/problems/{slug}"];
const CONSOLE: [&str; 5] = ["/", "/app.js", "/app.css", "/favicon.svg", "/licenses.txt"];

/// Status and head of a response; the body may never end.
async fn head(request: RequestBuilder) -> (StatusCode, HeaderMap) {
    let response = request.send().await.expect("an answer");
    (response.status(), response.headers().clone())
}

fn value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().expect("text"))
}

#[track_caller]
fn expect_protected(what: &str, public: bool, headers: &HeaderMap) {
    assert_eq!(value(headers, "x-content-type-options"), Some("nosniff"), "{what}");
    let policy = value(headers, "cross-origin-resource-policy");
    let cache = value(headers, "cache-control");
    if public {
        assert_eq!((policy, cache.filter(|cache| *cache != "no-cache")), (None, None), "{what}");
    } else {
        let is_live = headers.get("content-type").is_some_and(|kind| kind == "text/event-stream");
        let wanted = match headers.contains_key("etag") {
            true => "private, no-cache",
            false if is_live => "no-cache, no-store",
            false => "no-store",
        };
        assert_eq!((policy, cache), (Some("same-origin"), Some(wanted)), "{what}");
    }
}

#[tokio::test]
async fn every_route_protects_what_it_answers() {
    run(Options::memory().with_key("secret"), async |server: &Server| {
        server.client().thread("t").await;
        server.client().run("t", "r").await;
        let stranger = Client { key: None, user: None, ..server.client() };
        let mut public = Vec::new();
        for route in routes() {
            let is_public = route.access == Access::Public;
            if is_public {
                public.push(route.path.as_str());
            }
            let method = Method::from_bytes(route.method.as_bytes()).expect("a method");
            for (who, client) in [("with a key", server.client()), ("without", stranger.clone())] {
                for thread in ["t", "none"] {
                    let path = route.at(thread, "r");
                    let request = client.request(method.clone(), &path).header("content-type", "application/json");
                    let (status, headers) = head(request.body(route.valid_body())).await;
                    expect_protected(&format!("{} {path} {who}: {status}", route.method), is_public, &headers);
                }
            }
        }
        public.sort_unstable();
        public.dedup();
        let mut wanted = PUBLIC;
        wanted.sort_unstable();
        assert_eq!(public, wanted);
        for path in CONSOLE {
            let (_, headers) = head(stranger.request(Method::GET, path)).await;
            expect_protected(path, true, &headers);
            assert_eq!(value(&headers, "cache-control"), Some("no-cache"), "{path}");
        }
        // Streams, the socket, and what no route answers.
        server.client().thread("followed").await;
        let events =
            server.client().request(Method::GET, "/v1/threads/followed/events").header("accept", "text/event-stream");
        let (status, headers) = head(events).await;
        assert_eq!((status.as_u16(), value(&headers, "content-type")), (200, Some("text/event-stream")));
        expect_protected("an event stream", false, &headers);
        let (_, response) = Socket::connect(handshake(&server.client())).await.expect("opens");
        expect_protected("a socket", false, response.headers());
        for (method, path, wanted) in [(Method::GET, "/nowhere", 404), (Method::DELETE, "/v1/threads", 405)] {
            let (status, headers) = head(stranger.request(method, path)).await;
            assert_eq!(status, wanted);
            expect_protected(path, false, &headers);
        }
    })
    .await;
}

everywhere! {
    async fn a_document_with_a_tag_is_asked_for_again(server) {
        let saved = json!({ "messages": [{ "role": "user", "content": "Hello" }] });
        server.client().put("/v1/conversations/c", saved).await.ok(201);
        let asked = || server.client().request(Method::GET, "/v1/conversations/c");
        let (status, headers) = head(asked()).await;
        assert_eq!(status, 200);
        expect_protected("a conversation", false, &headers);
        let tag = headers["etag"].clone();
        let (status, headers) = head(asked().header("if-none-match", tag)).await;
        assert_eq!((status.as_u16(), value(&headers, "cache-control")), (304, Some("private, no-cache")));
    }
}

#[tokio::test]
async fn refusals_before_any_route_are_protected() {
    let full = Options::memory().with_limits(|limits| limits.connections = 1);
    run(full, async |server: &Server| {
        let ask = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let mut held = Raw::connect(server.addr).await;
        held.write(ask.to_owned()).await;
        held.answer().await.ok(200);
        let mut refused = Raw::connect(server.addr).await;
        refused.write(ask.to_owned()).await;
        let answer = refused.answer().await;
        assert_eq!(answer.status, 503);
        expect_protected("too many connections", false, &answer.headers);
    })
    .await;
    run(Options::memory(), async |server: &Server| {
        for (name, value) in [("origin", "https://evil.example"), ("x-forwarded-for", "203.0.113.7")] {
            let (status, headers) = head(server.client().request(Method::GET, "/livez").header(name, value)).await;
            assert_eq!(status, 403);
            expect_protected(name, false, &headers);
        }
    })
    .await;
}
