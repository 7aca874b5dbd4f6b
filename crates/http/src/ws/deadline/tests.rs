use threadline_engine::limits::{BudgetOwner, MemoryBudget, MemoryKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;
use crate::ws::frames::tests::{BEGIN, END, PING, TEXT, frame};

const LIMIT: Duration = Duration::from_secs(30);

/// Reads until a failure: the seconds until then, and true if a message was overdue.
async fn reads(near: DuplexStream) -> (u64, bool) {
    reads_with(near, budget(1_000).place(MemoryKind::Frame, &BudgetOwner::default())).await
}

async fn reads_with(near: DuplexStream, memory: BudgetPermit) -> (u64, bool) {
    let begun = Instant::now();
    let mut near = MessageDeadline::new(near, LIMIT, memory);
    let mut buffer = [0; 512];
    loop {
        match near.read(&mut buffer).await {
            Ok(0) => return (begun.elapsed().as_secs(), false),
            Ok(_) => {}
            Err(error) => return (begun.elapsed().as_secs(), is_overdue(&Error::Io(error))),
        }
    }
}

/// Sends each piece, a number of seconds after the one before, then keeps the connection open for long.
async fn sent(pieces: Vec<(u64, Vec<u8>)>) -> (u64, bool) {
    let (near, mut far) = duplex(1 << 20);
    let reader = tokio::spawn(reads(near));
    for (after, bytes) in pieces {
        tokio::time::sleep(Duration::from_secs(after)).await;
        if far.write_all(&bytes).await.is_err() {
            break;
        }
    }
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    drop(far);
    reader.await.expect("read")
}

#[tokio::test(start_paused = true)]
async fn half_a_message_is_overdue_and_pings_put_nothing_off() {
    let half = |frame: Vec<u8>| frame[..frame.len() / 2].to_vec();
    assert_eq!(sent(vec![(5, half(frame(TEXT, 100)))]).await, (35, true));
    assert_eq!(sent(vec![(5, vec![TEXT])]).await, (35, true));
    let pings = (0..20).map(|_| (5, frame(PING, 4)));
    assert_eq!(sent([(0, frame(BEGIN, 10))].into_iter().chain(pings).collect()).await, (30, true));
    // Single bytes are no better, and the end of the previous message is no reason to start later.
    let drops = (0..99).map(|_| (1, vec![0]));
    assert_eq!(sent([(0, half(frame(TEXT, 200)))].into_iter().chain(drops).collect()).await, (30, true));
    let next = [frame(END, 3), half(frame(TEXT, 50))].concat();
    assert_eq!(sent(vec![(0, frame(BEGIN, 3)), (20, next)]).await, (50, true));
}

#[tokio::test(start_paused = true)]
async fn whole_messages_have_all_the_time_between_them() {
    let pieces = vec![(0, frame(TEXT, 3)), (100, frame(PING, 0)), (100, frame(BEGIN, 3)), (29, frame(END, 3))];
    assert_eq!(sent(pieces).await, (3_829, false));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_was_not_read_has_its_time_again() {
    let (near, mut far) = duplex(1 << 20);
    let mut near = MessageDeadline::new(near, LIMIT, budget(1).place(MemoryKind::Frame, &BudgetOwner::default()));
    let whole = frame(TEXT, 100);
    far.write_all(&whole[..50]).await.expect("sent");
    let mut buffer = [0; 512];
    assert_eq!(near.read(&mut buffer).await.expect("read"), 50);
    tokio::time::sleep(LIMIT * 2).await;
    near.restart();
    let begun = Instant::now();
    assert!(near.read(&mut buffer).await.is_err());
    assert_eq!(begun.elapsed(), LIMIT);
}

/// A budget of so many steps of memory.
fn budget(steps: usize) -> MemoryBudget {
    MemoryBudget::new(steps * FRAME_STEP_BYTES, 0)
}

/// A client that sends a message of this size at this rate, and the time and the way in which its socket ends.
async fn at_rate(size: usize, per_second: usize) -> (u64, bool) {
    let message = frame(TEXT, size);
    let pieces: Vec<_> = message.chunks(per_second).map(|piece| (1, piece.to_vec())).collect();
    sent(pieces).await
}

#[tokio::test(start_paused = true)]
async fn a_large_message_has_a_least_rate_and_a_small_one_only_its_deadline() {
    let rate = SOCKET_SLOWEST_MESSAGE;
    // 16 KiB are free: they may take all of the time.
    assert_eq!(at_rate(16 * 1_024, 1_024).await, (3_617, false));
    // A larger one is closed once it is known to be larger and slow.
    assert_eq!(at_rate(300 * 1_024, rate / 4).await, (6, true));
    assert_eq!(at_rate(300 * 1_024, rate / 2).await, (6, true));
    assert_eq!(at_rate(300 * 1_024, rate + 512).await, (3_619, false));
    // However fast it is, it ends.
    assert_eq!(at_rate(1_024 * 1_024, rate + 512).await, (31, true));
    // A message that stops is slow from the moment at which its bytes are no longer enough.
    let fast = frame(TEXT, 300 * 1_024)[..160 * 1_024].to_vec();
    assert_eq!(sent(vec![(0, fast)]).await, (10, true));
}

#[tokio::test(start_paused = true)]
async fn incomplete_messages_take_memory_and_give_it_back() {
    let budget = budget(4);
    let (near, mut far) = duplex(1 << 20);
    let reader = tokio::spawn(reads_with(near, budget.place(MemoryKind::Frame, &BudgetOwner::default())));
    let free = |budget: &MemoryBudget| budget.free() / FRAME_STEP_BYTES;
    let message = frame(BEGIN, 100 * 1_024);
    far.write_all(&message[..16 * 1_024]).await.expect("sent");
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(free(&budget), 4);
    far.write_all(&message[16 * 1_024..]).await.expect("sent");
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(free(&budget), 2);
    // A control frame between the frames of a message releases nothing.
    far.write_all(&frame(PING, 10)).await.expect("sent");
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(free(&budget), 2);
    far.write_all(&frame(END, 1)).await.expect("sent");
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(free(&budget), 4);
    drop(far);
    assert_eq!(reader.await.expect("read"), (0, false));
}

#[tokio::test(start_paused = true)]
async fn without_memory_a_message_is_read_no_further_and_continues_once_there_is_some() {
    let budget = budget(1);
    let mut held = budget.place(MemoryKind::Frame, &BudgetOwner::default());
    held.take(FRAME_STEP_BYTES, Instant::now()).await.expect("free");
    let (near, mut far) = duplex(1_024);
    let mut reader = tokio::spawn(reads_with(near, budget.place(MemoryKind::Frame, &BudgetOwner::default())));
    let message = frame(TEXT, 60 * 1_024);
    // 16 KiB, one read more, and what the connection itself holds.
    let most = 16 * 1_024 + 512 + 1_024;
    let written = write_for(&mut far, &message, LIMIT / 3).await;
    assert!((16 * 1_024..=most).contains(&written), "{written}");
    // A small message of another socket needs none.
    assert_eq!(sent_with(&budget, frame(TEXT, 1_000), Duration::ZERO).await, (0, false));
    drop(held);
    // The rate is measured anew: the message was not slow, it was not read.
    far.write_all(&message[written..]).await.expect("sent");
    drop(far);
    assert_eq!((&mut reader).await.expect("read"), (10, false));
    // Without any memory the message is overdue.
    let mut held = budget.place(MemoryKind::Frame, &BudgetOwner::default());
    held.take(FRAME_STEP_BYTES, Instant::now()).await.expect("free");
    assert_eq!(sent_with(&budget, frame(TEXT, 60 * 1_024), LIMIT * 2).await, (30, true));
}

/// Writes as much as the peer takes within a time. Returns the number of bytes.
async fn write_for(far: &mut DuplexStream, bytes: &[u8], time: Duration) -> usize {
    let (mut written, until) = (0, Instant::now() + time);
    while written < bytes.len()
        && let Ok(Ok(more)) = tokio::time::timeout_at(until, far.write(&bytes[written..])).await
    {
        written += more;
    }
    written
}

/// Sends these bytes to a socket with this budget, and ends the connection this much later.
async fn sent_with(budget: &MemoryBudget, bytes: Vec<u8>, later: Duration) -> (u64, bool) {
    let (near, mut far) = duplex(1 << 20);
    let reader = tokio::spawn(reads_with(near, budget.place(MemoryKind::Frame, &BudgetOwner::default())));
    far.write_all(&bytes).await.expect("sent");
    let ends = tokio::spawn(async move {
        tokio::time::sleep(later).await;
        drop(far);
    });
    let read = reader.await.expect("read");
    ends.abort();
    read
}
