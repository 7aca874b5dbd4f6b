//! Reading, writing, pauses, and clients that read or send too little.

use super::*;

#[tokio::test(start_paused = true)]
async fn output_that_is_ready_together_is_written_once() {
    let mut served = native().await;
    (0..5).for_each(|n| served.push(n.to_string()));
    for n in 0..5 {
        assert_eq!(served.client.next().await.expect("a message").expect("a message"), Message::text(n.to_string()));
    }
    rest().await;
    assert_eq!(served.look(|seen| seen.written), 1);
}

#[tokio::test(start_paused = true)]
async fn texts_that_arrive_together_share_a_bounded_turn() {
    let mut served = native().await;
    for n in 0..4 {
        served.client.feed(Message::text(n.to_string())).await.expect("fed");
    }
    served.client.flush().await.expect("sent");
    rest().await;
    assert_eq!(served.turns(), [vec!["0", "1", "2"], vec!["3"]]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_closed_after_the_time_for_its_bytes() {
    for bytes in [3_000, 100_000] {
        let mut served = serve::<true>(1_000, None, false).await;
        served.push("x".repeat(bytes));
        let patience = WRITE + Duration::from_secs((bytes / SLOWEST_READ) as u64);
        // The close frame cannot be written either.
        assert_eq!(served.ended().await, (patience + CLOSE).as_secs());
        assert!(served.was_closed(CloseCode::SlowConsumer));
        assert_eq!((served.hand_over(), served.look(|seen| seen.written)), (Some(HandOver::Uncertain), 0));
    }
}

#[tokio::test(start_paused = true)]
async fn each_heartbeat_has_a_ping_and_a_silent_client_is_idle() {
    let mut served = native().await;
    let message = served.client.next().await.expect("a message").expect("a message");
    assert_eq!((message, served.begun.elapsed().as_secs()), (Message::text("beat"), 15));
    let message = served.client.next().await.expect("a message").expect("a message");
    assert!(message.is_ping());
    // Pongs keep the client alive.
    assert!(timeout(LONG, served.read_to_end()).await.is_err());
    let mut silent = native().await;
    // No pong is sent: the third heartbeat finds the client idle.
    assert_eq!(silent.ended().await, (HEARTBEAT * 3 + CLOSE).as_secs());
    assert!(silent.was_closed(CloseCode::Idle));
}

#[tokio::test(start_paused = true)]
async fn a_pause_stops_reading_and_is_not_idle_time() {
    let mut served = native().await;
    served.say("full").await;
    served.say("after").await;
    sleep(LONG - Duration::from_secs(1)).await;
    assert_eq!(served.turns(), [["full"]]);
    assert!(!served.served.is_finished());
    sleep(Duration::from_secs(2)).await;
    assert_eq!(served.turns(), [["full"], ["after"]]);
}

#[tokio::test(start_paused = true)]
async fn a_full_client_is_not_read_but_is_written() {
    let mut served = native().await;
    *served.reading.lock().expect("no panic") = Reading::Full;
    served.push("wakes");
    assert!(served.client.next().await.is_some());
    served.say("waits").await;
    rest().await;
    assert!(served.turns().is_empty());
    *served.reading.lock().expect("no panic") = Reading::Open;
    served.push("wakes");
    rest().await;
    assert_eq!(served.turns(), [["waits"]]);
}

#[tokio::test(start_paused = true)]
async fn a_partial_message_has_its_time_again_after_a_pause() {
    let mut served = native().await;
    // A text of five bytes, masked with zeros, of which two arrive.
    let whole = [0x81, 0x85, 0, 0, 0, 0, b'h', b'e', b'l', b'l', b'o'];
    tokio::io::AsyncWriteExt::write_all(served.client.get_mut(), &whole[..8]).await.expect("sent");
    rest().await;
    *served.reading.lock().expect("no panic") = Reading::PausedUntil(Instant::now() + LONG);
    served.push("wakes");
    sleep(LONG + Duration::from_secs(10)).await;
    tokio::io::AsyncWriteExt::write_all(served.client.get_mut(), &whole[8..]).await.expect("sent");
    rest().await;
    assert_eq!(served.turns(), [["hello"]]);
}

#[tokio::test(start_paused = true)]
async fn a_partial_message_has_its_time_again_after_a_pause_that_a_flush_outlasts() {
    let mut served = serve::<false>(1_000, None, false).await;
    let complete = [0x81, 0x85, 0, 0, 0, 0, b'h', b'e', b'l', b'l', b'o'];
    tokio::io::AsyncWriteExt::write_all(served.client.get_mut(), &complete[..8]).await.expect("sent");
    rest().await;
    *served.reading.lock().expect("no panic") = Reading::PausedUntil(Instant::now() + Duration::from_secs(1));
    served.push("x".repeat(3_000));
    // Longer than a message may take, and shorter than a write.
    sleep(Duration::from_secs(25)).await;
    assert_eq!(served.client.next().await.expect("a message").expect("a message"), Message::text("x".repeat(3_000)));
    rest().await;
    tokio::io::AsyncWriteExt::write_all(served.client.get_mut(), &complete[8..]).await.expect("sent");
    rest().await;
    assert_eq!(served.turns(), [["hello"]]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_pings_too_often_is_read_more_slowly() {
    let mut served = native().await;
    for _ in 0..10 {
        served.client.send(Message::Ping(Default::default())).await.expect("sent");
    }
    served.say("first").await;
    rest().await;
    assert_eq!(served.turns(), [["first"]]);
    for _ in 0..50 {
        served.client.send(Message::Ping(Default::default())).await.expect("sent");
    }
    served.say("second").await;
    let begun = Instant::now();
    while served.turns().len() < 2 {
        rest().await;
    }
    let seconds = begun.elapsed().as_secs_f64();
    assert!((4.9..5.1).contains(&seconds), "{seconds}");
}

#[tokio::test(start_paused = true)]
async fn pings_that_pause_a_socket_keep_no_half_message_alive() {
    let mut served = native().await;
    // The first frame of a text, masked with zeros.
    tokio::io::AsyncWriteExt::write_all(served.client.get_mut(), &[0x01, 0x82, 0, 0, 0, 0, b'h', b'e'])
        .await
        .expect("sent");
    let begun = Instant::now();
    while !served.was_closed(CloseCode::MessageTimeout) {
        for _ in 0..100 {
            let _ = served.client.send(Message::Ping(Default::default())).await;
        }
        sleep(Duration::from_millis(100)).await;
        assert!(begun.elapsed() < Duration::from_secs(30), "the message has its time again");
    }
}
