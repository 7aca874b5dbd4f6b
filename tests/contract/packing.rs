//! Packing: the rest of an idle thread becomes a segment.

use std::{sync::Arc, time::Duration};

use threadline_core::{ReadFrom, ThreadKey, limits::PACK_IDLE};
use threadline_store::Packing;
use tokio::{sync::watch, time::timeout};

use crate::{differential::Dice, log::check_all_cursors, support::*};

/// Packs a thread as far as possible; returns the number of steps that changed rows.
async fn pack(env: &Env, key: ThreadKey) -> u64 {
    let mut steps = 0;
    loop {
        match env.store.pack(key, Duration::ZERO).await.expect("packs") {
            Packing::More => steps += 1,
            Packing::Packed(tail) => {
                assert_eq!(tail, env.head(key).await.tail);
                return steps;
            }
            other => panic!("{other:?}"),
        }
        assert!(steps < 100, "it ends");
    }
}

pub async fn a_thread_is_packed_once_it_is_idle(env: Env) {
    let (key, fence) = env.running("t", "r").await;
    env.put(key, fence, 1..20).await;
    env.clock.advance(PACK_IDLE * 2);
    assert_eq!(env.store.pack(key, PACK_IDLE).await.expect("looks"), Packing::Active);
    env.append(append(key, fence, 20, finished())).await.expect("ends");
    assert_eq!(env.store.pack(key, PACK_IDLE).await.expect("looks"), Packing::Recent(PACK_IDLE));
    env.clock.advance(PACK_IDLE - Duration::from_secs(1));
    assert_eq!(env.store.pack(key, PACK_IDLE).await.expect("looks"), Packing::Recent(Duration::from_secs(1)));
    env.clock.advance(Duration::from_secs(1));
    let log = env.log(key).await;
    assert_eq!(env.store.pack(key, PACK_IDLE).await.expect("packs"), Packing::More);
    assert_eq!(env.store.pack(key, PACK_IDLE).await.expect("looks"), Packing::Packed(20));
    assert_eq!(env.log(key).await, log);
    // The thread goes on, and what came before stays as it was.
    let next = env.start(key, "next").await;
    assert_eq!(next.first_seq, 21);
    env.put(key, next.fence, 1..5).await;
    assert_eq!(env.log(key).await[..20], log[..]);
    assert_eq!(env.store.pack(ThreadKey(4_040), PACK_IDLE).await.expect("looks"), Packing::Gone);
}

/// Random logs, packed and sealed at random moments, read as the log did before: at every cursor, both ways.
pub async fn packing_changes_nothing_for_readers(env: Env) {
    for seed in 0..6 {
        let mut dice = Dice(seed + 1);
        let key = env.create(&format!("t{seed}")).await.key;
        let mut steps = 0;
        for n in 0..14 {
            let run = env.start(key, &format!("run {n}")).await;
            for _ in 0..dice.roll(6) {
                env.clock.advance(Duration::from_millis(dice.roll(3)));
                let size = match dice.roll(10) {
                    0 => 1 + dice.roll(150),
                    _ => 1 + dice.roll(9),
                };
                env.put(key, run.fence, 0..size).await;
            }
            if seed == 5 && dice.chance(30) {
                let large = format!("{{\"type\":\"X\",\"pad\":\"{}\"}}", "x".repeat(1_100_000));
                env.append(append(key, run.fence, None, ndjson(&large))).await.expect("appended");
            }
            env.append(append(key, run.fence, None, finished())).await.expect("ends");
            let log = env.log(key).await;
            match dice.roll(3) {
                0 => steps += pack(&env, key).await,
                1 => while env.store.seal(key).await.expect("seals") {},
                _ => {}
            }
            assert_eq!(env.log(key).await, log, "seed {seed}");
        }
        let log = env.log(key).await;
        steps += pack(&env, key).await;
        assert_eq!(pack(&env, key).await, 0, "seed {seed}: nothing is left to pack");
        assert!(steps > 0, "seed {seed}");
        if seed < 5 {
            check_all_cursors(&env, key, &log).await;
        }
    }
}

/// Readers, a writer whose runs begin and end, and two nodes' packing at the same time.
pub async fn readers_see_no_seam_while_a_log_is_packed(env: Env) {
    let env = Arc::new(env);
    let key = env.create("t").await.key;
    let total = 600;
    let steps = watch::Sender::new(0_u64);
    let writer = {
        let (env, mut steps) = (env.clone(), steps.subscribe());
        tokio::spawn(async move {
            let mut next = 1;
            for run in 0.. {
                if next > total {
                    break;
                }
                let fence = env.start(key, &format!("run {run}")).await.fence;
                for _ in 0..3 {
                    env.put(key, fence, next..next + 4).await;
                    next += 4;
                }
                env.close(key, closing(&env.head(key).await, None)).await;
                if next > total / 2 {
                    let _ = timeout(Duration::from_secs(60), steps.wait_for(|steps| *steps > 0)).await;
                }
                tokio::task::yield_now().await;
            }
        })
    };
    let mut packers = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let (env, steps) = (env.clone(), steps.clone());
        packers.spawn(async move {
            while env.head(key).await.tail < total {
                if env.store.pack(key, Duration::ZERO).await.expect("packs") == Packing::More {
                    steps.send_modify(|steps| *steps += 1);
                }
                tokio::task::yield_now().await;
            }
        });
    }
    let mut cursor = 0;
    while cursor < total {
        let page = env.store.read(key, ReadFrom::After(cursor), 100_000).await.expect("reads").expect("there");
        assert_eq!(page.slice.last_seq().unwrap_or(cursor), page.head.tail, "what is committed is seen");
        for (seq, event, _) in page.slice.events() {
            cursor += 1;
            assert_eq!(seq, cursor);
            assert_eq!(event, format!("{{\"type\":\"X\",\"n\":{seq}}}").as_bytes());
        }
        let page = env.store.read(key, ReadFrom::Before(u64::MAX), 20).await.expect("reads").expect("there");
        assert_eq!(page.slice.last_seq().unwrap_or(0), page.head.tail);
    }
    writer.await.expect("writes");
    packers.join_all().await;
    assert!(*steps.borrow() > 0, "packed meanwhile");
    assert_eq!(env.log(key).await.len() as u64, env.head(key).await.tail);
}
