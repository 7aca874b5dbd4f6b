//! Following a thread through everything that can happen to a connection.

use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};
use threadline_client::{Client, ClientConfig, ClientError, EndReason, Tail, TailItem, TailOptions};

use super::support::*;

/// Reads until the stream has caught up with seq 6 or ends; returns the seqs, and what else happened.
async fn seqs(tail: &mut Tail) -> (Vec<u64>, Vec<TailItem>) {
    let (mut seqs, mut rest) = (Vec::new(), Vec::new());
    while let Some(item) = tail.next().await {
        match item.expect("no error") {
            TailItem::Event { seq, event, .. } => {
                assert_eq!(event.get(), self::event(seq).to_string());
                seqs.push(seq);
            }
            TailItem::CaughtUp(6) => break,
            item => rest.push(item),
        }
    }
    (seqs, rest)
}

fn after(subscribe: &Value) -> u64 {
    subscribe["subscribe"]["after"].as_u64().expect("a cursor")
}

/// What a good server says to a cursor.
fn rest_of_log(subscribe: &Value) -> Vec<Act> {
    let after = after(subscribe);
    let mut acts = vec![Act::Send(hello(after))];
    if after < 6 {
        acts.push(Act::Send(events(after + 1, 6)));
    }
    acts.push(Act::Send(caught_up(6)));
    acts
}

#[tokio::test]
async fn a_connection_cut_at_any_frame_loses_no_event() {
    let frames = || vec![hello(0), events(1, 2), events(3, 3), caught_up(3), events(4, 6), caught_up(6)];
    let delivered = [0, 0, 2, 3, 3, 6];
    for (cut, delivered) in delivered.into_iter().enumerate() {
        let (server, mut seen) = socket_server(move |n, subscribe| {
            if n > 0 {
                return rest_of_log(subscribe);
            }
            frames().into_iter().take(cut).map(Act::Send).chain([Act::Cut]).collect()
        })
        .await;
        let mut tail = server.client().tail("t", TailOptions::default());
        let (seqs, rest) = seqs(&mut tail).await;
        assert_eq!(seqs, [1, 2, 3, 4, 5, 6], "cut before frame {cut}");
        let reconnects = rest.iter().filter(|item| matches!(item, TailItem::Reconnecting { .. })).count();
        assert_eq!(reconnects, 1);
        assert_eq!(after(&next_frame(&mut seen).await), 0);
        let second = next_frame(&mut seen).await;
        assert_eq!(after(&second), delivered, "cut before frame {cut}");
        let epoch = if cut == 0 { Value::Null } else { json!("e") };
        assert_eq!(second["subscribe"]["epoch"], epoch);
    }
}

#[tokio::test]
async fn events_sent_again_are_not_delivered_again() {
    let (server, _seen) = socket_server(|n, _| match n {
        0 => vec![Act::Send(hello(0)), Act::Send(events(1, 4)), Act::Cut],
        _ => vec![Act::Send(hello(2)), Act::Send(events(3, 5)), Act::Send(events(5, 6)), Act::Send(caught_up(6))],
    })
    .await;
    let (seqs, _) = seqs(&mut server.client().tail("t", TailOptions::default())).await;
    assert_eq!(seqs, [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn a_gap_is_mended_by_a_new_connection() {
    let (server, mut seen) = socket_server(|n, subscribe| match n {
        0 => vec![Act::Send(hello(0)), Act::Send(events(1, 2)), Act::Send(events(4, 6)), Act::Send(caught_up(6))],
        1 => vec![Act::Send(hello(2)), Act::Send(caught_up(6))],
        _ => rest_of_log(subscribe),
    })
    .await;
    let (seqs, rest) = seqs(&mut server.client().tail("t", TailOptions::default())).await;
    assert_eq!(seqs, [1, 2, 3, 4, 5, 6]);
    for expected in [0, 2, 2] {
        assert_eq!(after(&next_frame(&mut seen).await), expected);
    }
    let out_of_step =
        |item: &&TailItem| matches!(item, TailItem::Reconnecting { after: 2, error: ClientError::OutOfStep(_), .. });
    assert_eq!(rest.iter().filter(out_of_step).count(), 2);
}

#[tokio::test]
async fn a_client_waits_as_long_as_a_draining_server_asks() {
    let (server, _seen) = socket_server(|n, subscribe| match n {
        0 => vec![
            Act::Send(hello(0)),
            Act::Send(json!({"closing": {"code": 4000, "reason": "draining", "retryAfterMs": 20}})),
            Act::Close(4000),
        ],
        _ => rest_of_log(subscribe),
    })
    .await;
    let (seqs, rest) = seqs(&mut server.client().tail("t", TailOptions::default())).await;
    assert_eq!(seqs, [1, 2, 3, 4, 5, 6]);
    let waited = rest.iter().any(|item| {
        matches!(item, TailItem::Reconnecting { wait, error: ClientError::Closed { code: 4000, .. }, .. }
            if *wait >= Duration::from_millis(20))
    });
    assert!(waited, "{rest:?}");
}

#[tokio::test]
async fn where_no_reconnect_can_help_the_stream_ends_with_the_reason() {
    for (slug, status) in [("thread-not-found", 404), ("log-replaced", 410), ("cursor-ahead", 416)] {
        let (server, _seen) = socket_server(move |_, _| {
            vec![Act::Send(json!({"id": "subscribe", "error": problem(slug, status, false)}))]
        })
        .await;
        let mut tail = server.client().tail("t", TailOptions { after: 9, ..TailOptions::default() });
        let error = tail.next().await.expect("an item").expect_err("an error");
        assert!(error.problem(slug).is_some_and(|problem| problem.status == status), "{error:?}");
        assert!(tail.next().await.is_none());
    }
    for code in [4500, 4501, 4503, 4509, 4510] {
        let (server, _seen) = socket_server(move |_, _| vec![Act::Close(code)]).await;
        let mut tail = server.client().tail("t", TailOptions::default());
        let error = tail.next().await.expect("an item").expect_err("an error");
        assert!(matches!(error, ClientError::Closed { code: c, .. } if c == code), "{error:?}");
        assert!(tail.next().await.is_none());
    }
}

#[tokio::test]
async fn a_refusal_that_passes_is_waited_out() {
    let (server, _seen) = socket_server(|n, subscribe| match n {
        0 => vec![Act::Send(json!({"error": problem("store-unavailable", 503, true)}))],
        _ => rest_of_log(subscribe),
    })
    .await;
    let (seqs, _) = seqs(&mut server.client().tail("t", TailOptions::default())).await;
    assert_eq!(seqs, [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn a_bounded_subscription_ends_with_its_run() {
    let (server, mut seen) =
        socket_server(|_, _| vec![Act::Send(hello(4)), Act::Send(events(5, 6)), Act::Send(ended("run-ended"))]).await;
    let mut tail = server.client().tail("t", TailOptions { run: Some("r".into()), ..TailOptions::default() });
    let (seqs, rest) = seqs(&mut tail).await;
    assert_eq!(seqs, [5, 6]);
    assert!(matches!(rest.last(), Some(TailItem::Ended { reason: EndReason::RunEnded })));
    assert!(tail.next().await.is_none());
    assert_eq!(next_frame(&mut seen).await["subscribe"]["runId"], "r");
}

#[tokio::test]
async fn heartbeats_are_answered() {
    let (server, mut seen) = socket_server(|_, _| {
        vec![
            Act::Send(hello(0)),
            Act::Send(json!({"heartbeat": {"tails": [{"threadId": "t", "epoch": "e", "tail": 6}]}})),
            Act::Receive,
            Act::Send(events(1, 6)),
            Act::Send(caught_up(6)),
        ]
    })
    .await;
    let (seqs, _) = seqs(&mut server.client().tail("t", TailOptions::default())).await;
    assert_eq!(seqs.len(), 6);
    assert!(next_frame(&mut seen).await["subscribe"].is_object());
    assert_eq!(next_frame(&mut seen).await, json!({"ping": {}}));
}

#[tokio::test]
async fn a_silent_connection_is_closed() {
    let (server, _seen) = socket_server(|n, subscribe| match n {
        0 => vec![Act::Send(hello(0))],
        _ => rest_of_log(subscribe),
    })
    .await;
    let mut tail = server.client().tail("t", TailOptions::default());
    assert!(matches!(tail.next().await, Some(Ok(TailItem::Hello { .. }))));
    // With nothing else to do, the paused clock jumps to the moment at which patience ends.
    tokio::time::pause();
    let item = tail.next().await;
    tokio::time::resume();
    assert!(matches!(&item, Some(Ok(TailItem::Reconnecting { error: ClientError::Transport { .. }, .. }))), "{item:?}");
    assert_eq!(seqs(&mut tail).await.0, [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn an_unreachable_server_is_reported_and_retried() {
    let mut config = ClientConfig::new(closed_url().await);
    config.backoff.base = Duration::from_millis(1);
    config.backoff.max = Duration::from_millis(1);
    let mut tail = Client::new(config).expect("a client").tail("t", TailOptions { after: 3, ..TailOptions::default() });
    for _ in 0..3 {
        let item = tail.next().await;
        let Some(Ok(TailItem::Reconnecting { after: 3, error, .. })) = item else { panic!("{item:?}") };
        assert!(matches!(&error, ClientError::Unreachable { .. }), "{error:?}");
        assert!(error.to_string().contains("threadline dev"), "{error}");
    }
}
