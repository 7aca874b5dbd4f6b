//! Checks 30 and 41: a server that shuts down, and another one over the same store.

use super::*;
use crate::harness::{Options, soon};

async fn pair() -> (Server, Server) {
    let options = || Options::memory().with_key(KEY);
    let first = Server::start(options()).await;
    let second = Server::over(first.store.clone(), options()).await;
    (first, second)
}

#[tokio::test]
async fn c30_sockets_are_closed_with_1012() {
    let (mut first, second) = pair().await;
    thread(&first, "t").await;
    let token = lock(&first, "t", "r").await;
    let mut runner = Frames::producing(&first, "t", "r").await;
    let mut page = Frames::of_run(&first, &token, "t", "r").await;
    let mut list = listening(&first).await;
    let events = said("t", "r", "Hello world");
    runner.sends(&events[..2]).await;
    // One push is on its way, and either acknowledged or sent again.
    runner.push("events", json!({ "events": events[2..4] })).await;
    first.drain();
    let closed = async |frames: &mut Frames| loop {
        if let Err(code) = frames.next().await {
            return code;
        }
    };
    assert_eq!((closed(&mut runner).await, closed(&mut page).await, closed(&mut list).await), (1012, 1012, 1012));
    assert_eq!(Frames::runner(&second).await.map(drop), Ok(()));
    let mut runner = Frames::producing(&second, "t", "r").await;
    runner.sends(&events[2..4]).await;
    runner.sends(&events[4..]).await;
    assert_eq!(inspected(&second, "t").await, events);
    drop((page, list));
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn c41_after_a_clean_close_the_same_token_continues() {
    let (mut first, second) = pair().await;
    thread(&first, "t").await;
    let token = lock(&first, "t", "r").await;
    let mut runner = Frames::producing(&second, "t", "r").await;
    let mut page = Frames::of_run(&first, &token, "t", "r").await;
    let events = said("t", "r", "Hello world");
    runner.sends(&events[..3]).await;
    page.hears(&events[..3]).await;
    first.drain();
    assert_eq!(page.closed().await, 1012);
    // Phoenix's client repeats its first join.
    let mut page = Frames::of_run(&second, &token, "t", "r").await;
    runner.sends(&events[3..]).await;
    page.hears(&events[3..]).await;
    page.is_silent().await;
    drop(page);
    soon(first.stop()).await;
    second.stop().await;
}

#[tokio::test]
async fn a_client_that_does_not_answer_the_close_needs_another_token() {
    let (mut first, second) = pair().await;
    thread(&first, "t").await;
    let token = lock(&first, "t", "r").await;
    let mut runner = Frames::producing(&second, "t", "r").await;
    let mut page = Frames::of_run(&first, &token, "t", "r").await;
    let events = said("t", "r", "Hello world");
    runner.sends(&events[..3]).await;
    page.hears(&events[..1]).await;
    first.drain();
    first.stop().await;
    assert_eq!(Frames::page(&second, &token).await.map(drop), Err(403));
    let mut page = Frames::of_thread(&second, &connect(&second, "t").await, "t", Some("r-1")).await;
    page.hears(&events[1..3]).await;
    second.stop().await;
}
