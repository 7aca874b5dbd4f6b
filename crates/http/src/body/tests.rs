use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use axum::body::Body;

use super::*;
use threadline_core::{Credential, Principal, ProjectId, Timestamp, UserId, limits::MAX_BATCH_BYTES};

const KIB: usize = 1_024;

fn bodies(room: usize) -> BodyReader {
    let limits = Limits { body_memory: room, ..Limits::default() };
    BodyReader::new(Quota::new(limits), MemoryBudget::new(limits.memory, room))
}

/// Bytes of bodies that are held.
fn held_by(bodies: &BodyReader) -> usize {
    bodies.memory.held()[MemoryKind::Body as usize].1
}

/// A body of 8 KiB pieces that then stalls, or ends; and the number of bytes read from it.
fn pieces(count: usize, ends: bool) -> (Request, Arc<AtomicUsize>) {
    let read = Arc::new(AtomicUsize::new(0));
    let counted = read.clone();
    let pieces = stream::iter(0..count).map(move |_| {
        counted.fetch_add(8 * KIB, SeqCst);
        Ok::<_, io::Error>(Bytes::from_static(&[b' '; 8 * KIB]))
    });
    let rest = if ends { stream::empty().left_stream() } else { stream::pending().right_stream() };
    (Request::new(Body::from_stream(pieces.chain(rest))), read)
}

#[tokio::test]
async fn a_body_of_very_many_tiny_chunks_is_refused_and_not_read_to_its_end() {
    let bodies = bodies(1_024 * KIB);
    let read_in_chunks = async |size: usize, count: usize| {
        let read = Arc::new(AtomicUsize::new(0));
        let counted = read.clone();
        let pieces = stream::iter(0..count).map(move |_| {
            counted.fetch_add(1, SeqCst);
            Ok::<_, io::Error>(Bytes::from(vec![b' '; size]))
        });
        let body = Request::new(Body::from_stream(pieces));
        let whole = bodies.read(body, 1_024 * KIB, Charge::Refuses).await;
        tokio::task::yield_now().await;
        (whole.map(|whole| whole.len()).map_err(|problem| problem.kind), read.load(SeqCst))
    };
    let many = 4 * MAX_SMALL_PIECES;
    assert_eq!(read_in_chunks(1, MAX_SMALL_PIECES).await.0, Ok(MAX_SMALL_PIECES));
    assert_eq!(read_in_chunks(SMALL_PIECE_BYTES, many).await, (Ok(many * SMALL_PIECE_BYTES), many));
    let refused = read_in_chunks(SMALL_PIECE_BYTES - 1, many).await;
    assert_eq!(refused, (Err(ProblemType::InvalidRequest), MAX_SMALL_PIECES + 1));
}

#[tokio::test(start_paused = true)]
async fn half_sent_bodies_cost_no_more_than_the_room() {
    let bodies = bodies(1_024 * KIB);
    let mut reads = Vec::new();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..60 {
        let (body, read) = pieces(120, false);
        reads.push(read);
        let bodies = bodies.clone();
        tasks.spawn(
            async move { bodies.read(body, 1_024 * KIB, Charge::Refuses).await.map_err(|problem| problem.kind) },
        );
    }
    time::sleep(Duration::from_secs(1)).await;
    let held: usize = reads.iter().map(|read| read.load(SeqCst)).sum();
    // Besides the budget, each body holds its free bytes, and one piece that waits for memory.
    let most = 1_024 * KIB + 60 * (BODY_FREE_BYTES + 8 * KIB);
    assert!(held <= most && held > 1_024 * KIB, "{held} of {most}");
    // A small body passes all the same.
    let (small, _) = pieces(2, true);
    assert_eq!(bodies.read(small, 64 * KIB, Charge::Refuses).await.map(|whole| whole.len()).ok(), Some(16 * KIB));
    let mut ends = Vec::new();
    while let Some(end) = tasks.join_next().await {
        ends.push(end.expect("no panic").expect_err("none is whole"));
    }
    assert!(ends.contains(&ProblemType::Busy) && ends.contains(&ProblemType::BodyTimeout), "{ends:?}");
    assert_eq!(held_by(&bodies), 0, "all of it came back");
}

#[tokio::test(start_paused = true)]
async fn partial_bodies_of_one_client_block_no_other() {
    let bodies = bodies(4 * MAX_BATCH_BYTES);
    let large = |user: &str, ends: bool| {
        let (mut request, _) = pieces(1_536, ends);
        let user = Principal::user(ProjectId::new("p").expect("an id"), UserId::new(user).expect("an id"));
        let token = Principal {
            credential: Credential::Token { expires_at: Timestamp(i64::MAX), signer: None, by: None, issued_at: None },
            ..user
        };
        request.extensions_mut().insert(BudgetOwner::of(&token));
        let bodies = bodies.clone();
        async move {
            bodies.read(request, MAX_BATCH_BYTES, Charge::Refuses).await.map(|_| ()).map_err(|problem| problem.kind)
        }
    };
    let half_sent: Vec<_> = (0..3).map(|_| tokio::spawn(large("ann", false))).collect();
    time::sleep(Duration::from_secs(1)).await;
    let begun = Instant::now();
    assert_eq!(large("bob", true).await, Ok(()));
    assert_eq!(begun.elapsed(), Duration::ZERO, "it did not wait");
    assert_eq!(large("ann", true).await, Err(ProblemType::Busy));
    half_sent.iter().for_each(tokio::task::JoinHandle::abort);
    for task in half_sent {
        let _ = task.await;
    }
    assert_eq!(held_by(&bodies), 0, "all of it came back");
}

#[tokio::test(start_paused = true)]
async fn of_lines_only_what_is_not_complete_is_held() {
    let bodies = bodies(64 * KIB);
    let free = |bodies: &BodyReader| 64 - held_by(bodies) / KIB;
    let piece = |ends: &'static str| [vec![b' '; 32 * KIB], ends.into()].concat();
    let pieces = [piece(""), piece(""), piece("\n"), piece(""), piece(""), piece("")];
    let mut data = Body::from_stream(stream::iter(pieces.map(Ok::<_, io::Error>))).into_data_stream();
    let refused = OnceLock::new();
    let mut place = bodies.memory.place(MemoryKind::Body, &BudgetOwner::default());
    let mut lines = std::pin::pin!(bodies.lines(&mut place, &mut data, &refused));
    let mut left = Vec::new();
    while let Some(Ok(_)) = lines.next().await {
        left.push(free(&bodies));
    }
    // 32, then 64 of which 16 are free; the line ends; again, and the third piece finds no memory.
    assert_eq!(left, [48, 16, 64, 48, 16]);
    assert_eq!(refused.get().map(|problem| problem.kind), Some(ProblemType::Busy));
}

#[tokio::test(start_paused = true)]
async fn a_body_continues_as_soon_as_there_is_room() {
    let bodies = bodies(64 * KIB);
    let (first, _) = pieces(8, true);
    let held = bodies.read(first, 64 * KIB, Charge::Refuses).await.expect("whole");
    let (second, _) = pieces(8, true);
    let waiting = tokio::spawn({
        let bodies = bodies.clone();
        async move { bodies.read(second, 64 * KIB, Charge::Refuses).await.map(|whole| whole.len()).ok() }
    });
    time::sleep(Duration::from_secs(5)).await;
    assert!(!waiting.is_finished());
    drop(held);
    assert_eq!(waiting.await.expect("no panic"), Some(64 * KIB));
}

#[tokio::test(start_paused = true)]
async fn bytes_are_charged_whatever_becomes_of_the_body() {
    let principal = Principal::user(ProjectId::new("p").expect("an id"), UserId::new("ann").expect("an id"));
    let reads = |limit: usize, charge: Charge, count: usize, ends: bool| {
        let mut limits = Limits::default();
        limits.project.append_bytes_per_second = 8 * KIB as u64;
        let bodies = BodyReader::new(Quota::new(limits), MemoryBudget::new(limits.memory, limits.body_memory));
        let principal = principal.clone();
        async move {
            let mut results = Vec::new();
            for _ in 0..2 {
                let (mut request, _) = pieces(count, ends);
                request.extensions_mut().insert(Presented { principal: principal.clone(), as_of: 0 });
                let read = time::timeout(Duration::from_millis(1), bodies.read(request, limit, charge)).await;
                results.push(read.map(|read| read.map(|whole| whole.len()).map_err(|problem| problem.kind)).ok());
            }
            let (mut small, _) = pieces(1, true);
            small.extensions_mut().insert(Presented { principal, as_of: 0 });
            let last = bodies.read(small, 64 * KIB, Charge::Refuses).await.map_err(|problem| problem.kind);
            (results, last.map(|whole| whole.len()))
        }
    };
    let refused = Err(ProblemType::RateLimited);
    for (limit, charge, count, ends, expected) in [
        (64 * KIB, Charge::Refuses, 4, true, [Some(Ok(32 * KIB)), Some(Err(ProblemType::RateLimited))]),
        (64 * KIB, Charge::Passes, 4, true, [Some(Ok(32 * KIB)), Some(Ok(32 * KIB))]),
        (16 * KIB, Charge::Refuses, 4, true, [Some(Err(ProblemType::TooLarge)), Some(Err(ProblemType::TooLarge))]),
        // The client goes away.
        (64 * KIB, Charge::Refuses, 4, false, [None, None]),
    ] {
        assert_eq!(reads(limit, charge, count, ends).await, (expected.to_vec(), refused), "{limit} {charge:?} {ends}");
    }
    assert_eq!(reads(64 * KIB, Charge::Refuses, 0, true).await.1, Ok(8 * KIB));
}
