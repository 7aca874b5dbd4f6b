//! Generations of a store's history: what may have been given out before is not given out again, and each cursor is
//! judged by itself.

use threadline_core::{DEFAULT_PROJECT, Epoch, FeedCursor, Generation, Judgement, LogHistory, NodeId, ProjectId};
use threadline_store::{LineageCause, NewBeat, StartOutcome};

use crate::support::{Env, append, events, finished, new_thread, project, start_run, user};

/// Opens a generation, as if commits had been lost.
pub async fn another_generation(env: &Env) -> Generation {
    let (node, version) = (NodeId::generate(), "1.2.3");
    let beat =
        NewBeat { node, name: "host".to_owned(), version, leaving: false, skew_ms: None, rtt_us: None, step_ms: None };
    assert_eq!(env.store.put_beat(&beat).await.expect("a beat").generation, env.store.lineage().generation());
    let lineage = env.store.adopt(LineageCause::Ordered).await.expect("adopts");
    env.store.lineage().open(lineage);
    lineage.generation
}

pub async fn a_log_enters_a_generation_with_its_first_write(env: Env) {
    let key = env.create("a").await.key;
    let fence = env.start(key, "r").await.fence;
    env.put(key, fence, 0..5).await;
    let before = env.head(key).await;
    let generation = another_generation(&env).await;
    assert_eq!(generation, Generation(2));

    // Until it is written, the log is judged by the tail that it has.
    let head = env.head(key).await;
    assert_eq!((head.tail, head.fence, head.active.is_some()), (5, fence, true));
    let judge = |log: LogHistory, tail, epoch, seq| log.judge(tail, Some(epoch), seq, generation);
    assert!(matches!(judge(head.history(), 5, before.epoch, 5), Judgement::Continues | Judgement::Rebased));
    assert_eq!(judge(head.history(), 5, before.epoch, 6), Judgement::Replaced { common_up_to: Some(5) });

    // The run continues, under another epoch.
    env.append(append(key, head.fence, None, events(5..6))).await.expect("appended");
    let head = env.head(key).await;
    assert_eq!((head.tail, head.generation), (6, generation));
    assert!(head.epoch != before.epoch && head.epoch.to_i64() > 0);
    assert_eq!(judge(head.history(), 6, before.epoch, 5), Judgement::Rebased);
    assert_eq!(judge(head.history(), 6, before.epoch, 6), Judgement::Replaced { common_up_to: Some(5) });
    assert_eq!(judge(head.history(), 6, head.epoch, 6), Judgement::Continues);
    env.append(append(key, head.fence, None, events(6..7))).await.expect("appended");
    assert_eq!(env.head(key).await.history(), head.history(), "one write enters the generation");
}

pub async fn a_generation_is_recorded_in_the_audit_log(env: Env) {
    let generation = another_generation(&env).await;
    let default = ProjectId::new(DEFAULT_PROJECT).expect("an id");
    let [(_, entry)] = &env.store.audit(&default, None, 10).await.expect("the audit log")[..] else {
        panic!("one entry for one generation")
    };
    assert_eq!((&*entry.actor, &*entry.action), ("store", "lineage.changed"));
    let facts: serde_json::Value = serde_json::from_str(&entry.facts).expect("JSON");
    assert_eq!(facts, serde_json::json!({ "generation": generation.0, "cause": LineageCause::Ordered.name() }));
    let newest = env.store.generations(1).await.expect("generations").remove(0);
    assert_eq!((newest.generation, newest.at), (generation, entry.at));
}

pub async fn fences_and_keys_are_not_given_in_two_generations(env: Env) {
    let key = env.create("a").await.key;
    let first = env.start(key, "r").await.fence;
    env.append(append(key, first, None, finished())).await.expect("ends");
    let generation = another_generation(&env).await;
    let StartOutcome::Started(second) = env.store.start(start_run(key, "s")).await.expect("starts") else {
        panic!("the thread is free")
    };
    assert_eq!(second.run.fence.0, generation.fence_floor() + 1);
    assert_eq!((first.ordinal(), second.run.fence.ordinal()), (1, 1));
    let other = env.create("b").await.key;
    assert!(other.0 > generation.key_floor() && key.0 < generation.key_floor(), "{other:?}");
    assert_eq!(env.head(other).await.generation, generation);
}

pub async fn a_feed_enters_a_generation_with_its_next_change(env: Env) {
    for name in ["a", "b", "c"] {
        env.create(name).await;
    }
    let pump = async || env.store.pump_feed(&project(), &user("u")).await.expect("pumps");
    let before = pump().await;
    assert_ne!(before.history.epoch, Epoch::NONE);
    let generation = another_generation(&env).await;
    // A cursor of a commit that was lost.
    let seen = FeedCursor { position: before.position + 2, ..before.cursor() };
    let lost = Judgement::Replaced { common_up_to: Some(3) };
    assert_eq!(pump().await.judge(seen, generation), lost, "nothing is written yet");
    env.create("d").await;
    let after = pump().await;
    assert_eq!((after.position, after.history.generation), (4, generation));
    assert_ne!(after.history.epoch, before.history.epoch);
    assert_eq!(after.judge(seen, generation), lost);
    assert_eq!(after.judge(before.cursor(), generation), Judgement::Rebased);
    assert_eq!(env.store.feed(&project(), &user("u"), before.position, 100).await.expect("a page").head, after);
    // Once is enough.
    env.create("e").await;
    let again = pump().await;
    assert_eq!((again.position, again.history), (5, after.history));
    // A feed that begins in the generation has no history before it.
    env.store.create_thread(new_thread("f", "v")).await.expect("creates");
    let other = env.store.pump_feed(&project(), &user("v")).await.expect("pumps");
    assert_eq!((other.history.generation, other.history.prior), (generation, None));
}

pub async fn generations_are_listed_with_their_causes(env: Env) {
    let listed = async || -> Vec<(i64, String)> {
        let records = env.store.generations(10).await.expect("a list");
        records.into_iter().map(|record| (record.generation.0, record.cause)).collect()
    };
    assert_eq!(listed().await, [(1, "created".to_owned())]);
    another_generation(&env).await;
    assert_eq!(listed().await, [(2, "ordered".to_owned()), (1, "created".to_owned())]);
}

pub async fn an_imported_log_belongs_to_the_present_generation(env: Env) {
    let source = Env::memory();
    let key = source.create("t").await.key;
    let fence = source.start(key, "r").await.fence;
    source.put(key, fence, 0..3).await;
    source.append(append(key, fence, None, finished())).await.expect("ends");
    let generation = another_generation(&env).await;
    let moved = crate::transfer::moved(&source, key, &env).await;
    let (before, after) = (source.head(key).await, env.head(moved).await);
    assert_eq!((after.epoch, after.tail, after.generation, after.prior), (before.epoch, 4, generation, None));
}
