//! Agents that speak AG-UI themselves: their events are forwarded unchanged.

use std::time::Duration;

use reqwest::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use threadline_core::agent::Secret;
use threadline_http::egress::EgressClient;

use super::{
    http::{self, Call, IDEMPOTENCY_KEY},
    source::{AgentFailure, EventStream, RunInput},
};

/// Header sent once with a run, so that a Threadline to which the agent's address leads back recognises its own run:
/// following that run would feed the run with itself forever.
pub const RUN_HEADER: &str = "threadline-run-id";

/// Header with the number of the attempt, from 1: an agent may be called again after the loss of a node.
pub const ATTEMPT_HEADER: &str = "threadline-attempt";

/// Header with the mark of the thread: the same in all runs of a thread, and another one for a thread of another user or
/// project that has the same id.
pub const THREAD_HEADER: &str = "threadline-thread";

/// Runs an agent: `POST` of the input, answered by an event stream.
///
/// The request is sent at the first poll, and the answer is not read ahead of the polling, except what a connection
/// buffers. After an error the stream ends; a clean end does not mean that the run is complete.
pub fn run(
    outbound: &EgressClient,
    url: &str,
    headers: &[(String, Secret)],
    input: &RunInput,
    idle: Duration,
) -> EventStream {
    let secrets = headers.iter().map(|(_, value)| value.clone()).collect();
    let request = match http::post(outbound, url) {
        Ok(request) => request.body(input.to_json()),
        Err(failure) => return http::failed(failure),
    };
    let request = match header_map(headers) {
        Some(headers) => request.headers(headers),
        None => {
            tracing::warn!("invalid header fields of an agent: check their names and values");
            return http::failed(AgentFailure::Unreachable);
        }
    };
    let request = match HeaderValue::from_bytes(input.run_id.as_str().as_bytes()) {
        Ok(run) => request.header(RUN_HEADER, run),
        Err(_) => request,
    };
    let request = match &input.thread_mark {
        Some(mark) => request.header(THREAD_HEADER, mark.as_str()),
        None => request,
    };
    let request = match &input.call {
        Some(call) => request.header(IDEMPOTENCY_KEY, &call.key).header(ATTEMPT_HEADER, call.attempt),
        None => request,
    };
    Call { request, secrets, idle }.events()
}

fn header_map(headers: &[(String, Secret)]) -> Option<HeaderMap> {
    let mut map = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let name = HeaderName::try_from(name.as_str()).ok()?;
        if [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING].contains(&name) {
            // A configuration must not decide the end of the request.
            continue;
        }
        let mut value = HeaderValue::from_str(value.reveal()).ok()?;
        value.set_sensitive(true);
        map.append(name, value);
    }
    Some(map)
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;
    use threadline_core::limits::MAX_EVENT_BYTES;
    use tokio::net::TcpListener;

    use super::{
        super::tests::{Endpoint, Then, answer, collect, input, outbound, torn},
        *,
    };

    const IDLE: Duration = Duration::from_secs(30);

    async fn ask(then: Then) -> (Vec<String>, Option<AgentFailure>) {
        let endpoint = Endpoint::start(then).await;
        collect(run(&outbound(), &endpoint.url, &[], &input(), IDLE)).await
    }

    fn headed(head: &str) -> Then {
        Then::Send(format!("HTTP/1.1 {head}\r\nConnection: close\r\n\r\ndata: {{}}\n\n").into_bytes())
    }

    #[tokio::test]
    async fn an_agent_gets_the_input_and_its_events_come_back_as_they_are() {
        let endpoint = Endpoint::start(Then::Send(answer(
            "\u{feff}: hello\r\n\r\ndata: {\"type\" : \"A\"}\r\n\r\nevent: x\r\ndata: {\r\ndata: }\r\n\r\ndata: {\"torn\"",
        )))
        .await;
        let headers = [
            ("X-Key".to_owned(), Secret::new("s3cret")),
            ("accept".to_owned(), Secret::new("*/*")),
            ("x-key".to_owned(), Secret::new("another")),
            ("Content-Length".to_owned(), Secret::new("1")),
        ];
        let url = format!("{}/agent?v=1", endpoint.url);
        let (events, failure) = collect(run(&outbound(), &url, &headers, &input(), IDLE)).await;
        assert_eq!((events, failure), (vec!["{\"type\" : \"A\"}".to_owned(), "{\n}".to_owned()], None));
        let (head, body) = endpoint.request().await;
        assert_eq!(body, input().to_json());
        assert!(head.starts_with("post /agent?v=1 http/1.1"), "{head}");
        for line in ["accept: text/event-stream", "content-type: application/json", "x-key: s3cret", "x-key: another"] {
            assert_eq!(head.lines().filter(|found| *found == line).count(), 1, "{line} in {head}");
        }
        assert!(!head.contains("*/*"), "{head}");
    }

    #[tokio::test]
    async fn a_response_that_is_no_event_stream_is_refused() {
        let stream = "Content-Type: text/event-stream";
        for (head, expected) in [
            (format!("200 OK\r\n{stream}"), None),
            ("201 Created\r\nContent-Type: Text/Event-Stream ; charset=utf-8".to_owned(), None),
            (format!("500 Oh\r\n{stream}"), Some(AgentFailure::Unreachable)),
            ("401 No".to_owned(), Some(AgentFailure::Unreachable)),
            ("307 There\r\nLocation: http://127.0.0.1:1/".to_owned(), Some(AgentFailure::Unreachable)),
            ("200 OK\r\nContent-Type: application/json".to_owned(), Some(AgentFailure::Unreachable)),
            ("200 OK\r\nContent-Type: text/event-streams".to_owned(), Some(AgentFailure::Unreachable)),
            ("200 OK".to_owned(), Some(AgentFailure::Unreachable)),
            (format!("200 OK\r\n{stream}\r\nContent-Encoding: gzip"), Some(AgentFailure::Unreachable)),
        ] {
            let (events, failure) = ask(headed(&head)).await;
            assert_eq!((events.len(), &failure), (usize::from(expected.is_none()), &expected), "{head}");
        }
        let (_, failure) = ask(Then::Send(b"SSH-2.0-OpenSSH_9.6\r\n".to_vec())).await;
        assert_eq!(failure, Some(AgentFailure::Broken));
    }

    #[tokio::test]
    async fn a_refusal_that_never_ends_is_still_one() {
        let endless = format!("HTTP/1.1 503 Busy\r\nContent-Length: 999999\r\n\r\n{}", "x".repeat(100_000));
        assert_eq!(ask(Then::Hold(endless.into_bytes())).await.1, Some(AgentFailure::Unreachable));
    }

    #[tokio::test]
    async fn agents_that_cannot_be_reached() {
        let client = outbound();
        let free = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
        for url in [format!("http://{free}/"), "no address".to_owned(), "ftp://127.0.0.1/".to_owned()] {
            assert_eq!(
                collect(run(&client, &url, &[], &input(), IDLE)).await.1,
                Some(AgentFailure::Unreachable),
                "{url}"
            );
        }
        let headers = [("a name".to_owned(), Secret::new("x"))];
        let events = run(&client, "http://127.0.0.1:1", &headers, &input(), IDLE);
        assert_eq!(collect(events).await.1, Some(AgentFailure::Unreachable));
    }

    #[tokio::test]
    async fn a_broken_connection_differs_from_an_end() {
        assert_eq!(ask(Then::Send(answer("data: 1\n\ndata: 2\n\n"))).await, (vec!["1".into(), "2".into()], None));
        assert_eq!(ask(Then::Send(torn("data: 1\n\n"))).await, (vec!["1".into()], Some(AgentFailure::Broken)),);
        assert_eq!(ask(Then::Send(Vec::new())).await, (vec![], Some(AgentFailure::Broken)));
    }

    #[tokio::test]
    async fn an_event_that_is_too_large_ends_the_stream() {
        let body = format!("data: 1\n\ndata: {}", "x".repeat(MAX_EVENT_BYTES + 1));
        let (events, failure) = ask(Then::Hold(answer(&body))).await;
        assert_eq!(events, ["1"]);
        assert!(matches!(failure, Some(AgentFailure::InvalidEvent(_))), "{failure:?}");
    }

    #[tokio::test]
    async fn an_agent_that_does_not_answer_is_silent() {
        // Real time is needed: paused time runs ahead of real sockets. The tests of the HTTP client cover the read
        // timeout of a body in paused time.
        let idle = Duration::from_millis(50);
        let endpoint = Endpoint::start(Then::Hold(Vec::new())).await;
        let events = run(&outbound(), &endpoint.url, &[], &input(), idle);
        assert_eq!(collect(events).await, (vec![], Some(AgentFailure::Silent(idle))));
    }

    #[tokio::test]
    async fn dropping_the_stream_ends_the_request() {
        let endpoint = Endpoint::start(Then::Hold(torn("data: 1\n\n"))).await;
        let mut events = run(&outbound(), &endpoint.url, &[], &input(), IDLE);
        assert_eq!(events.next().await, Some(Ok("1".into())));
        drop(events);
        endpoint.request().await;
    }
}
