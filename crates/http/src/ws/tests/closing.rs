//! Reasons to close, and the close handshake.

use super::*;

#[tokio::test(start_paused = true)]
async fn draining_closes_and_an_answer_hands_over() {
    for mut served in [native().await, phoenix().await] {
        served.push("owed");
        rest().await;
        served.draining.cancel();
        assert_eq!(served.code().await, CloseCode::Draining.code());
        served.ended().await;
        assert!(served.look(|seen| seen.over));
    }
    let mut served = phoenix().await;
    served.draining.cancel();
    served.read_to_end().await;
    served.ended().await;
    assert_eq!(served.hand_over(), Some(HandOver::Complete));
}

#[tokio::test(start_paused = true)]
async fn an_expired_credential_closes() {
    let mut served = serve::<false>(1 << 20, Some(Duration::from_secs(7)), false).await;
    let (texts, close) = served.read_to_end().await;
    assert_eq!(texts, ["credential-over"]);
    assert_eq!(close.expect("a close frame").code, WireCode::from(CloseCode::CredentialOver.code()));
    assert_eq!(served.ended().await, 7);
}

#[tokio::test(start_paused = true)]
async fn binary_messages_are_refused_or_ignored() {
    let mut strict = native().await;
    strict.client.send(Message::binary(vec![1])).await.expect("sent");
    assert_eq!(strict.code().await, CloseCode::BadFrame.code());
    let mut patient = phoenix().await;
    patient.client.send(Message::binary(vec![1])).await.expect("sent");
    patient.say("next").await;
    rest().await;
    assert_eq!(patient.turns(), [["next"]]);
}

#[tokio::test(start_paused = true)]
async fn pending_output_is_written_before_a_thorough_close_only() {
    let (mut strict, mut patient) = (native().await, phoenix().await);
    for served in [&strict, &patient] {
        served.push("owed");
        assert!(served.outgoing.send(Err(CloseCode::ServerError)).is_ok());
    }
    assert_eq!(strict.read_to_end().await.0, ["server-error"]);
    assert_eq!(patient.read_to_end().await.0, ["owed"]);
    patient.ended().await;
    assert_eq!(patient.hand_over(), Some(HandOver::Complete));
}

#[tokio::test(start_paused = true)]
async fn texts_that_cross_a_draining_close_are_processed_if_it_is_thorough() {
    for (mut served, processed) in [(native().await, false), (phoenix().await, true)] {
        served.draining.cancel();
        rest().await;
        served.say("late").await;
        served.read_to_end().await;
        served.ended().await;
        assert_eq!(served.turns().len(), usize::from(processed));
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_ends_at_the_timeout_of_one_or_of_each_step() {
    // Without an answer, the steps are the wait for it and the wait for the end.
    for (thorough, seconds) in [(false, 1), (true, 2)] {
        let mut served = if thorough { phoenix().await } else { native().await };
        served.draining.cancel();
        assert_eq!(served.ended().await, seconds);
        assert_eq!(served.hand_over(), Some(HandOver::Uncertain));
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_of_the_client_is_answered_and_hands_nothing_over() {
    for mut served in [native().await, phoenix().await] {
        served.say("last").await;
        let close = CloseFrame { code: WireCode::Normal, reason: "".into() };
        served.client.send(Message::Close(Some(close))).await.expect("sent");
        assert_eq!(served.code().await, u16::from(WireCode::Normal));
        served.ended().await;
        assert_eq!((served.turns(), served.hand_over()), (vec![vec!["last".to_owned()]], Some(HandOver::Uncertain)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_socket_is_closed_and_not_served() {
    let mut served = serve::<false>(1 << 20, None, true).await;
    served.push("never");
    let (texts, close) = served.read_to_end().await;
    assert_eq!(texts, ["unsupported-version"]);
    assert_eq!(u16::from(close.expect("a close frame").code), CloseCode::UnsupportedVersion.code());
    served.ended().await;
}

#[tokio::test(start_paused = true)]
async fn texts_that_were_sent_are_processed_after_a_failed_write_if_closing_is_thorough() {
    for thorough in [false, true] {
        let mut served = if thorough { phoenix().await } else { native().await };
        *served.reading.lock().expect("no panic") = Reading::PausedUntil(Instant::now() + LONG);
        served.push("wakes");
        assert!(served.client.next().await.is_some());
        served.say("sent").await;
        let Served { client, outgoing, seen, served, .. } = served;
        drop(client);
        assert!(outgoing.send(Ok("fails".to_owned())).is_ok());
        served.await.expect("no panic");
        let seen = seen.lock().expect("no panic");
        let processed: &[Vec<String>] = if thorough { &[vec!["sent".to_owned()]] } else { &[] };
        assert_eq!((seen.turns.as_slice(), seen.hand_over), (processed, Some(HandOver::Uncertain)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_pauses_ends_at_the_timeout_too() {
    let Served { mut client, served, draining, begun, .. } = native().await;
    draining.cancel();
    // Empty texts, masked with zeros: more than a task reads in one turn.
    let flood = [0x81, 0x80, 0, 0, 0, 0].repeat(120_000);
    while !served.is_finished() && begun.elapsed() < CLOSE * 5 {
        // The connection breaks once the driver has ended.
        let _ = tokio::io::AsyncWriteExt::write_all(client.get_mut(), &flood).await;
        advance(Duration::from_millis(500)).await;
    }
    assert!(served.is_finished(), "served for {:?}", begun.elapsed());
}
