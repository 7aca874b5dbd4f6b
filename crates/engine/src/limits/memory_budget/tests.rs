use threadline_core::{Limit, Principal};
use tokio::{
    task::JoinSet,
    time::{Duration, Instant},
};

use super::*;
use crate::limits::quota::tests::{client, key};

const KIB: usize = 1_024;
const MIB: usize = 1_024 * 1_024;
const SIZE: usize = 256 * MIB;

/// A permit that has taken all that its owner can get, in steps.
async fn greedy(budget: &MemoryBudget, principal: &Principal, kind: MemoryKind) -> BudgetPermit {
    let mut permit = budget.place(kind, &BudgetOwner::of(principal));
    for step in [MIB, 64 * KIB, KIB] {
        while permit.take(step, Instant::now()).await.is_ok() {}
    }
    permit
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

#[tokio::test(start_paused = true)]
async fn one_alone_has_most_and_many_share_evenly() {
    let budget = MemoryBudget::new(SIZE, SIZE);
    for (principal, share) in [(key("p", None), 0.8), (client("p", "ann"), 0.5)] {
        let held = greedy(&budget, &principal, MemoryKind::Answer).await;
        let part = held.bytes() as f64 / SIZE as f64;
        assert!((part - share).abs() < 0.01, "{principal:?} has {part}");
    }
    let mut held = Vec::new();
    // In small steps in turn, as clients of a node do.
    let clients: Vec<_> = (0..9).map(|n| client(&format!("p{n}"), "u")).collect();
    held.extend(clients.iter().map(|client| budget.place(MemoryKind::Answer, &BudgetOwner::of(client))));
    for _ in 0..SIZE / (64 * KIB) {
        for permit in &mut held {
            let _ = permit.take(64 * KIB, Instant::now()).await;
        }
    }
    let bytes: Vec<_> = held.iter().map(|permit| permit.bytes() / KIB).collect();
    let (least, most) = (bytes.iter().min().expect("nine"), bytes.iter().max().expect("nine"));
    assert!(most - least <= 64 && *least >= SIZE / 11 / KIB, "{bytes:?}");
    drop(held);
    assert_eq!((budget.free(), budget.pool().holders.len()), (SIZE, 0));
}

#[tokio::test(start_paused = true)]
async fn a_client_gets_memory_at_once_while_others_hold_all_they_can() {
    let budget = MemoryBudget::new(SIZE, SIZE);
    let mut held = vec![greedy(&budget, &key("hog", None), MemoryKind::Body).await];
    for user in 0..500 {
        held.push(greedy(&budget, &client("crowd", &user.to_string()), MemoryKind::Frame).await);
    }
    // Waits of these clients for more change nothing.
    let mut waits = JoinSet::new();
    for user in 0..500 {
        let mut permit = budget.place(MemoryKind::Answer, &BudgetOwner::of(&client("crowd", &user.to_string())));
        waits.spawn(async move { permit.take(8 * MIB, soon()).await });
    }
    tokio::task::yield_now().await;
    for (victim, kind) in [
        (client("v", "ann"), MemoryKind::Body),
        (key("v", None), MemoryKind::Answer),
        (client("w", "bob"), MemoryKind::Fold),
    ] {
        let mut permit = budget.place(kind, &BudgetOwner::of(&victim));
        assert_eq!(permit.take(MIB, Instant::now()).await, Ok(()), "{victim:?}");
        held.push(permit);
    }
    let exceeded = BudgetExceeded { limit: Limit::Memory, value: SIZE };
    assert_eq!(waits.join_next().await.expect("a wait").expect("no panic"), Err(exceeded));
    waits.shutdown().await;
    drop(held);
    let pool = budget.pool();
    assert_eq!((budget.free(), pool.holders.len(), pool.round.len()), (SIZE, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn little_memory_is_not_counted() {
    let budget = MemoryBudget::new(MIB, MIB);
    let ann = BudgetOwner::of(&client("p", "ann"));
    let _hog = greedy(&budget, &key("p", None), MemoryKind::Body).await;
    let mut all = budget.place(MemoryKind::Fold, &BudgetOwner::default());
    all.take(budget.free(), Instant::now()).await.expect("free");
    let (mut first, mut second) = (budget.place(MemoryKind::Frame, &ann), budget.place(MemoryKind::Body, &ann));
    assert!(first.take(40 * KIB, Instant::now()).await.is_ok());
    assert!(second.take(24 * KIB, Instant::now()).await.is_ok());
    assert!(second.take(1, Instant::now()).await.is_err());
    drop(first);
    assert!(second.take(40 * KIB, Instant::now()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn bodies_are_a_part_and_are_shared_by_the_same_rule() {
    let budget = MemoryBudget::new(SIZE, 32 * MIB);
    let held = greedy(&budget, &client("p", "ann"), MemoryKind::Body).await;
    assert!(held.bytes() <= 16 * MIB + 64 * KIB && held.bytes() > 15 * MIB, "{}", held.bytes());
    let mut more = budget.place(MemoryKind::Body, &BudgetOwner::of(&client("p", "ann")));
    let exceeded = BudgetExceeded { limit: Limit::BodyMemory, value: 32 * MIB };
    assert_eq!(more.take(MIB, Instant::now()).await, Err(exceeded));
    let mut other = budget.place(MemoryKind::Body, &BudgetOwner::of(&client("p", "bob")));
    assert_eq!(other.take(4 * MIB, Instant::now()).await, Ok(()));
    let mut answer = budget.place(MemoryKind::Answer, &BudgetOwner::of(&client("p", "ann")));
    assert_eq!(answer.take(64 * MIB, Instant::now()).await, Ok(()));
    assert_eq!(budget.held().map(|(_, bytes)| bytes / MIB), [held.bytes() / MIB + 4, 0, 64, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_its_bytes_and_one_that_was_left_keeps_none() {
    let budget = MemoryBudget::new(MIB, MIB);
    let ann = BudgetOwner::of(&client("p", "ann"));
    let mut first = budget.place(MemoryKind::Body, &ann);
    first.take(512 * KIB, Instant::now()).await.expect("free");
    let mut second = budget.place(MemoryKind::Body, &ann);
    drop(budget.place(MemoryKind::Body, &ann).take(512 * KIB, soon()));
    let waiting = tokio::spawn(async move { second.take(512 * KIB, soon()).await.map(|()| second) });
    tokio::task::yield_now().await;
    first.release();
    let second = waiting.await.expect("no panic").expect("its bytes");
    assert_eq!((second.bytes(), budget.free()), (512 * KIB, MIB - 448 * KIB));
    drop((first, second));
    assert_eq!((budget.free(), budget.pool().holders.len()), (MIB, 0));
}

#[tokio::test(start_paused = true)]
async fn clients_that_leave_at_any_time_leave_nothing_behind() {
    let mut random = 1_u64;
    let mut below = |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    let budget = MemoryBudget::new(16 * MIB, 8 * MIB);
    let mut tasks = Vec::new();
    for _ in 0..4_000 {
        let project = format!("p{}", below(3));
        let principal = if below(3) == 0 { key(&project, None) } else { client(&project, &below(5).to_string()) };
        let kind = MemoryKind::ALL[below(4) as usize];
        let (bytes, time) = (1 + below(MIB as u64), Duration::from_millis(below(50)));
        let mut permit = budget.place(kind, &BudgetOwner::of(&principal));
        tasks.push(tokio::spawn(async move {
            for _ in 0..8 {
                let _ = permit.take(bytes as usize, Instant::now() + time).await;
                tokio::time::sleep(time).await;
            }
        }));
        if below(3) == 0 {
            tokio::time::sleep(Duration::from_millis(below(5))).await;
        }
        if below(2) == 0 {
            tasks.swap_remove(below(tasks.len() as u64) as usize).abort();
        }
    }
    for task in tasks {
        let _ = task.await;
    }
    let pool = budget.pool();
    assert_eq!((budget.free(), pool.holders.len(), pool.round.len()), (16 * MIB, 0, 0));
    assert_eq!((pool.kinds, pool.bodies.used, pool.all.projects.len()), ([0; 4], 0, 0));
}
