//! Tests of long-polling, with paused time.

use std::time::Duration;

use axum::{body::Body, extract::Request, response::Response};
use http_body_util::BodyExt;
use threadline_core::{
    Scope, Scopes,
    limits::{CHANNEL_POLL_TIMEOUT, CHANNEL_POLL_WAIT, FRAMES_TOGETHER_BYTES},
};
use threadline_engine::ServiceError;
use threadline_http::{auth::AuthError, ws::protocol::HandOver};
use tokio::time::{self, Instant};

use super::{
    super::longpoll::{open, poll, refused, send},
    *,
};

async fn body(response: Response) -> Value {
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    serde_json::from_slice(&bytes).expect("JSON")
}

async fn opened(state: &ApiState, intercept: &Intercept) -> String {
    let answer = body(open(state, principal("ann"), intercept.plane()).await).await;
    assert_eq!(answer["status"], 410);
    answer["token"].as_str().expect("a token").to_owned()
}

async fn sends(state: &ApiState, token: &str, lines: &'static str) -> Value {
    body(send(state, token, Request::new(Body::from(lines))).await).await
}

/// Polls, and returns the frames of the answer.
async fn frames(state: &ApiState, token: &str) -> Vec<Value> {
    let answer = body(poll(state, token, Some(&principal("ann"))).await).await;
    assert_eq!((&answer["status"], &answer["token"]), (&json!(200), &json!(token)));
    answer["messages"].as_array().expect("messages").iter().map(|text| value(text.as_str().expect("a text"))).collect()
}

async fn polled(state: &ApiState, token: &str) -> Value {
    body(poll(state, token, None).await).await
}

const JOIN: &str = r#"["1","1","t:a","phx_join",{}]"#;

#[tokio::test(start_paused = true)]
async fn frames_go_to_and_fro() {
    let (state, intercept) = (state(), Intercept::default());
    let token = opened(&state, &intercept).await;
    assert_eq!(sends(&state, &token, JOIN).await, json!({ "status": 200 }));
    assert_eq!(frames(&state, &token).await, [joined("1", "t:a")]);
    let two = "[\"1\",\"2\",\"t:a\",\"say\",{\"a\":1}]\n[\"1\",\"3\",\"t:a\",\"say\",{\"a\":2}]\r\n";
    assert_eq!(sends(&state, &token, two).await, json!({ "status": 200 }));
    assert_eq!(intercept.taken(), [r#"{"a":1}"#, r#"{"a":2}"#], "carried out when it is answered, in order");
    assert_eq!(frames(&state, &token).await, [ok("1", "2", "t:a"), ok("1", "3", "t:a")]);
    // A waiting poll receives a push at once.
    let waiting = tokio::spawn({
        let (state, token) = (state.clone(), token.clone());
        async move { frames(&state, &token).await }
    });
    time::sleep(Duration::from_secs(5)).await;
    intercept.push("t:a", 7);
    let begun = Instant::now();
    assert_eq!(waiting.await.expect("no panic"), [number("1", "t:a", 7)]);
    assert_eq!(begun.elapsed(), Duration::ZERO);
    // A poll without a push receives no frames.
    assert_eq!(polled(&state, &token).await, json!({ "status": 204, "token": token }));
    assert_eq!(begun.elapsed(), CHANNEL_POLL_WAIT);
}

#[tokio::test(start_paused = true)]
async fn many_lines_are_taken_in_pieces_and_a_long_one_whole() {
    let (state, intercept) = (state(), Intercept::default());
    let token = opened(&state, &intercept).await;
    sends(&state, &token, JOIN).await;
    let long = "x".repeat(FRAMES_TOGETHER_BYTES * 2);
    let mut lines: Vec<_> = (0..150).map(|n| format!(r#"["1","{n}","t:a","say",{{"n":{n}}}]"#)).collect();
    lines.insert(100, format!(r#"["1","long","t:a","say",{{"x":"{long}"}}]"#));
    lines.push(String::new());
    let request = Request::new(Body::from(lines.join("\n")));
    assert_eq!(body(send(&state, &token, request).await).await, json!({ "status": 200 }));
    assert_eq!(intercept.look(|seen| std::mem::take(&mut seen.together)), [64, 36, 1, 50]);
    let taken = intercept.taken();
    assert_eq!((taken.len(), taken[100].len()), (151, long.len() + 8));
    assert_eq!(frames(&state, &token).await.len(), 152);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_come_back_has_no_session() {
    let (state, intercept) = (state(), Intercept::default());
    let token = opened(&state, &intercept).await;
    for _ in 0..10 {
        assert_eq!(polled(&state, &token).await["status"], 204);
        time::sleep(CHANNEL_POLL_TIMEOUT - Duration::from_secs(1)).await;
    }
    assert_eq!((intercept.closed(), state.service.metrics().sockets.get()), (None, 1));
    time::sleep(Duration::from_secs(2)).await;
    assert_eq!((intercept.closed(), state.service.metrics().sockets.get()), (Some(HandOver::Uncertain), 0));
    assert_eq!(polled(&state, &token).await, json!({ "status": 410 }));
    assert_eq!(sends(&state, &token, JOIN).await, json!({ "status": 410 }));
}

#[tokio::test(start_paused = true)]
async fn a_session_is_of_those_who_have_its_token_and_have_opened_it() {
    let (state, intercept) = (state(), Intercept::default());
    let token = opened(&state, &intercept).await;
    sends(&state, &token, JOIN).await;
    let other = poll(&state, &token, Some(&principal("bob"))).await;
    assert_eq!(body(other).await, json!({ "status": 410 }));
    assert_eq!(polled(&state, "tlp_none").await, json!({ "status": 410 }));
    assert_eq!(sends(&state, "", JOIN).await, json!({ "status": 410 }));
    assert_eq!(frames(&state, &token).await, [joined("1", "t:a")]);
}

#[tokio::test(start_paused = true)]
async fn frames_of_a_lost_poll_arrive_with_the_next() {
    let (state, intercept) = (state(), Intercept::default());
    let token = opened(&state, &intercept).await;
    sends(&state, &token, JOIN).await;
    frames(&state, &token).await;
    {
        let lost = poll(&state, &token, None);
        assert!(time::timeout(Duration::from_secs(1), lost).await.is_err());
    }
    intercept.push("t:a", 1);
    time::sleep(Duration::from_secs(1)).await;
    // The later of two polls replaces the earlier one.
    let first = tokio::spawn({
        let (state, token) = (state.clone(), token.clone());
        async move {
            frames(&state, &token).await;
            polled(&state, &token).await
        }
    });
    time::sleep(Duration::from_secs(1)).await;
    let second = frames(&state, &token);
    tokio::pin!(second);
    assert!(futures_util::poll!(&mut second).is_pending());
    assert_eq!(first.await.expect("no panic")["status"], 204);
    intercept.push("t:a", 2);
    assert_eq!(second.await, [number("1", "t:a", 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_fetch_its_replies_delays_no_other() {
    let (state, intercept) = (state(), Intercept::default());
    let token = opened(&state, &intercept).await;
    sends(&state, &token, JOIN).await;
    frames(&state, &token).await;
    sends(&state, &token, r#"["1","2","t:a","held",{}]"#).await;
    assert_eq!(intercept.look(|seen| seen.unwritten), 1);
    time::sleep(state.http.close * 2).await;
    assert_eq!(intercept.look(|seen| seen.unwritten), 0);
    assert_eq!(frames(&state, &token).await, [ok("1", "2", "t:a")]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_shuts_down_lets_replies_be_fetched_and_sends_its_clients_away() {
    let (state, intercept) = (state(), Intercept::default());
    let (idle, busy) = (opened(&state, &Intercept::default()).await, opened(&state, &intercept).await);
    sends(&state, &busy, JOIN).await;
    let waiting = tokio::spawn({
        let state = state.clone();
        async move { polled(&state, &idle).await }
    });
    time::sleep(Duration::from_secs(1)).await;
    state.http.draining.cancel();
    assert_eq!(waiting.await.expect("no panic"), json!({ "status": 410 }));
    assert_eq!(frames(&state, &busy).await, [joined("1", "t:a")]);
    assert_eq!(polled(&state, &busy).await, json!({ "status": 410 }));
    assert_eq!(intercept.closed(), Some(HandOver::Uncertain));
    let refused = open(&state, principal("ann"), intercept.plane()).await;
    assert_eq!(refused.status(), 503, "so that a balancer asks another node");
    assert_eq!(body(refused).await["status"], 500, "so that the client asks again");
}

#[tokio::test(start_paused = true)]
async fn nonsense_ends_a_session() {
    let (state, intercept) = (state(), Intercept::default());
    let token = opened(&state, &intercept).await;
    let waiting = tokio::spawn({
        let (state, token) = (state.clone(), token.clone());
        async move { polled(&state, &token).await }
    });
    time::sleep(Duration::from_secs(1)).await;
    assert_eq!(sends(&state, &token, "nonsense").await, json!({ "status": 410 }));
    assert_eq!(waiting.await.expect("no panic"), json!({ "status": 500 }));
    assert_eq!(intercept.closed(), Some(HandOver::Uncertain));
}

#[tokio::test]
async fn a_refusal_has_a_status_that_the_client_knows() {
    for (problem, http, known) in [
        (AuthError::WrongKey.into(), 401, 403),
        (AuthError::Lacks(Scopes::of(&[Scope::Chat])).into(), 403, 403),
        (ServiceError::Draining.into(), 503, 500),
    ] {
        let refused = refused(problem);
        assert_eq!(refused.status(), http);
        let document = body(refused).await;
        assert_eq!(document["status"], known);
        assert!(document["type"].as_str().is_some_and(|kind| kind.starts_with("/problems/")), "{document}");
    }
}
