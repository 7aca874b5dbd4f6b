//! Random operations on the reference and on another back-end with one clock: every answer must be the same.
//!
//! `CONTRACT_SEED=n` runs one seed alone.

use std::time::Duration;

use threadline_core::{
    AttemptId, Author, CreatedThread, DriverFence, Epoch, Fence, Generation, Hold, ListOrder, NameSource, NodeId,
    ReadFrom, RunId, Thread, ThreadKey, ThreadPatch, ThreadStatus, WriteFence, limits::DRIVER_TTL,
};
use threadline_store::{
    Advance, Append, ChangeQueue, ClaimTurns, CloseWhen, Displaced, Head, HeartbeatRequest, ListThreads, NewTurn,
    Queue, StartOutcome, StartRun, TakeTurn, TakeUp,
};

use crate::support::*;

/// A small generator: the same numbers for the same seed, everywhere.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.roll(100) < percent
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.roll(from.len() as u64) as usize]
    }
}

/// Epochs are random in each store: everything else of an answer is compared as text.
fn text(answer: &impl std::fmt::Debug) -> String {
    let mut text = format!("{answer:?}");
    while let Some(at) = text.find("Epoch(") {
        let end = text[at..].find(')').map_or(text.len(), |end| at + end + 1);
        text.replace_range(at..end, "E");
    }
    // Made on the first use by a reader, and no part of an answer.
    text.replace("encoded: OnceLock(<uninit>)", "")
}

/// Asks both, compares, gives the reference's answer.
macro_rules! both {
    ($envs:expr, $what:expr, |$env:ident| $ask:expr) => {{
        let first = {
            let $env = &$envs.0;
            $ask
        };
        let second = {
            let $env = &$envs.1;
            $ask
        };
        assert_eq!(text(&first), text(&second), "{}", $what);
        first
    }};
}

fn some_events(dice: &mut Dice) -> threadline_core::NewEvents {
    let count = if dice.chance(5) { 200 } else { 1 + dice.roll(4) };
    let mut lines: Vec<String> = (0..count)
        .map(|n| format!("{{\"type\":\"X\",\"n\":{n},\"pad\":\"{}\"}}", "é\\n".repeat(dice.roll(20) as usize)))
        .collect();
    if dice.chance(10) {
        lines.insert(0, crate::interrupts::answers(&[*dice.pick(&["i", "j"]), *dice.pick(&["k", "é"])]).to_string());
    }
    match dice.roll(12) {
        0 => lines.push(if dice.chance(50) {
            crate::interrupts::requests(&["i", *dice.pick(&["j", "k", "é"])]).to_string()
        } else {
            "{\"type\":\"RUN_FINISHED\"}".into()
        }),
        1 => lines.push("{\"type\":\"RUN_ERROR\",\"message\":\"it \\\"broke\\\"\"}".into()),
        _ => {}
    }
    ndjson(&lines.join("\n"))
}

/// Nodes that drive runs.
const NODES: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];

/// Fences of a writer, now and then those of one before.
fn write_fence(dice: &mut Dice, head: &Head, stale: u64) -> WriteFence {
    let WriteFence { run, driver } = head.write_fence();
    let driver = DriverFence(driver.0 - i64::from(driver.0 > 0 && dice.chance(stale)));
    WriteFence { run: Fence(run.0 - i64::from(dice.chance(stale))), driver }
}

/// The active run of a thread, now and then none.
async fn active_run(dice: &mut Dice, env: &Env, key: ThreadKey) -> Option<RunId> {
    let runs = env.store.runs(key, None, 100).await.expect("runs");
    runs.into_iter().find(|run| run.status.is_active()).map(|run| run.id).filter(|_| dice.chance(90))
}

/// A change of a queue, now and then from an old version of it.
fn some_change(dice: &mut Dice, queue: &Queue, run: &str) -> ChangeQueue {
    let mut change = crate::queue::change(queue);
    change.seen.queue.version = change.seen.queue.version.saturating_sub(u64::from(dice.chance(10)));
    let others = change.order.len() as u64;
    match dice.roll(6) {
        0..=2 => {
            let new =
                crate::queue::queued(&if dice.chance(20) { run.to_owned() } else { format!("{run}{}", dice.roll(9)) });
            if !change.order.contains(&new.run) {
                change.order.insert(dice.roll(others + 1) as usize, new.run.clone());
                change.new = Some(new);
            }
        }
        3 if others > 0 => {
            let gone = change.order.remove(dice.roll(others) as usize);
            change.gone.push(gone);
        }
        4 if others > 0 => {
            let moved = change.order.remove(dice.roll(others) as usize);
            change.edited = Some((moved.clone(), "edited".to_owned()));
            change.order.insert(dice.roll(others) as usize, moved);
        }
        _ => change.held = *dice.pick(&[None, Some(Hold::Stop), Some(Hold::Hand)]),
    }
    change
}

/// An end of the active run, the begin of a queued one, or both; now and then from an old version of the queue.
fn some_advance(dice: &mut Dice, queue: &Queue) -> Advance {
    let mut seen = queue.head.queue;
    seen.version = seen.version.saturating_sub(u64::from(dice.chance(10)));
    let end = (queue.head.active.is_some() || dice.chance(10)).then(|| {
        let closing = closing(
            &queue.head,
            Some(match dice.roll(3) {
                0 => finished(),
                1 => run_error(),
                _ => ndjson(&crate::interrupts::requests(&["i"]).to_string()),
            }),
        );
        (closing, if dice.chance(30) { CloseWhen::IfDue } else { CloseWhen::Always })
    });
    let mut turns = queue.turns.iter().map(|turn| turn.run.clone());
    let dropped = if dice.chance(20) { turns.next().into_iter().collect() } else { Vec::new() };
    let next = turns.next().filter(|_| end.is_none() || dice.chance(70));
    let held = *dice.pick(&[None, None, Some(Hold::Error)]);
    // Without either it would be no advance.
    let next = next.or_else(|| end.is_none().then(|| run_id("missing")));
    Advance { key: queue.head.key, end, seen, next, dropped, held }
}

pub async fn history(seed: u64, steps: usize, other: Env) {
    let memory = threadline_store::memory::MemoryStore::new(other.clock.clone());
    let clock = other.clock.clone();
    let envs = (Env { store: std::sync::Arc::new(memory), clock: clock.clone(), ..Env::memory() }, other);
    let mut dice = Dice(seed);
    let ids = ["a", "b", "c", "d"];
    let runs = ["r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8"];
    let mut old: Vec<ThreadKey> = vec![ThreadKey(404)];
    for step in 0..steps {
        let at = format!("seed {seed}, step {step}");
        let id = *dice.pick(&ids);
        let thread: Option<Thread> = both!(envs, at, |env| env.get(id).await);
        let owner = user(if dice.chance(50) { "u" } else { "v" });
        let of = both!(envs, at, |env| env.store.thread_of(&project(), &owner, &thread_id(id)).await.expect("looks"));
        both!(envs, at, |env| env.store.thread_named(&project(), &thread_id(id)).await.expect("looks"));
        let thread = thread.or(of);
        let key = match &thread {
            Some(thread) if !dice.chance(4) => thread.key,
            _ => *dice.pick(&old),
        };
        let head = both!(envs, at, |env| env.store.heads(&[key]).await.expect("heads")).pop();
        both!(envs, at, |env| env.store.open_interrupts(&[key]).await.expect("interrupts"));
        let fence = head.as_ref().map_or(Fence(1), |head| head.fence);
        let run = *dice.pick(&runs);
        match dice.roll(38) {
            0 | 1 => {
                let mut new = new_thread(id, if dice.chance(50) { "u" } else { "v" });
                new.claimed = dice.chance(60);
                new.agent = dice.chance(30).then(|| agent("a"));
                new.name = dice.chance(30).then(|| "näme".into());
                let CreatedThread { thread: made, .. } =
                    both!(envs, at, |env| env.store.create_thread(new.clone()).await.expect("creates"));
                old.push(made.key);
            }
            2 if dice.chance(25) => {
                both!(envs, at, |env| env.store.delete_thread(key, None).await.expect("deletes"));
            }
            2 | 3 => {
                let version = thread.as_ref().map_or(1, |thread| thread.version) - i64::from(dice.chance(20));
                let patch = ThreadPatch {
                    name: dice.chance(50).then(|| dice.chance(70).then(|| ("n".into(), NameSource::Auto))),
                    metadata: dice.chance(50).then(|| "{\"x\":[]}".into()),
                    archived: dice.chance(30).then(|| dice.chance(50)),
                };
                both!(envs, at, |env| env.store.edit_thread(key, version, patch.clone(), None).await.expect("edits"));
            }
            4..=6 => {
                let stale = dice.chance(20);
                let closing = head.as_ref().filter(|_| dice.chance(70)).map(|head| {
                    let mut closing = closing(head, dice.chance(80).then(run_error));
                    closing.tail += u64::from(stale);
                    closing
                });
                let first = dice.chance(30).then(|| if dice.chance(40) { finished() } else { some_events(&mut dice) });
                let lease = Duration::from_millis(dice.roll(30_000));
                // A start with all events of a run has no driver.
                let is_open = first.as_ref().is_none_or(|first| first.terminal().is_none());
                let turn = (is_open && dice.chance(50)).then(|| {
                    let input = dice.chance(70).then(|| "{\"é\":1}".to_owned());
                    NewTurn { driver: *dice.pick(&NODES), input }
                });
                let agent = Some(agent("a"));
                let writer = *dice.pick(&["agent:a", "user:u"]);
                let author = Some(Author::stored(writer)).filter(|_| dice.chance(90));
                let start = StartRun { closing, events: first, lease, agent, author, turn, ..start_run(key, run) };
                let outcome = both!(envs, at, |env| env.store.start(start.clone()).await.expect("starts"));
                if let StartOutcome::Started(started) = outcome {
                    assert!(started.head.fence > fence || head.is_none(), "{at}");
                }
            }
            7..=12 => {
                let mut batch = Vec::new();
                for id in ids {
                    if !dice.chance(60) {
                        continue;
                    }
                    let Some(thread) = both!(envs, at, |env| env.get(id).await) else { continue };
                    let head = envs.0.head(thread.key).await;
                    let next = head.active.as_ref().map_or(1, |active| active.producer_seq + 1);
                    let producer_seq = match dice.roll(8) {
                        0 => Some(dice.roll(6)),
                        1 | 2 => None,
                        _ => Some(next),
                    };
                    let fence = write_fence(&mut dice, &head, 8);
                    batch.push(Append {
                        key: thread.key,
                        fence,
                        epoch: None,
                        producer_seq,
                        events: some_events(&mut dice),
                    });
                }
                both!(envs, at, |env| env.store.append(&batch).await.expect("appends"));
            }
            13 => {
                if let Some(head) = &head {
                    let mut closing = closing(head, dice.chance(80).then(run_error));
                    closing.tail += u64::from(dice.chance(20));
                    let when = if dice.chance(50) { CloseWhen::IfDue } else { CloseWhen::Always };
                    both!(envs, at, |env| env.store.close(key, closing.clone(), when).await.expect("closes"));
                }
            }
            14 => {
                let lease = dice.chance(40).then(|| Duration::from_millis(dice.roll(60_000)));
                let fence = head.as_ref().map_or(fence.into(), |head| write_fence(&mut dice, head, 20));
                let beats = [
                    HeartbeatRequest { key, fence, lease, epoch: None },
                    HeartbeatRequest { key: *dice.pick(&old), fence, lease: None, epoch: None },
                ];
                both!(envs, at, |env| env.store.heartbeat(&beats).await.expect("beats"));
            }
            15 => {
                let holds = dice.chance(60);
                both!(envs, at, |env| env.store.request_stop(key, &run_id(run), None, holds).await.expect("stops"));
            }
            16 if dice.chance(50) => {
                both!(envs, at, |env| env.store.release(key, fence, None).await.expect("releases"));
            }
            16 | 17 => clock.advance(Duration::from_millis(dice.roll(12_000))),
            18 => {
                both!(envs, at, |env| env.store.seal(key).await.expect("seals"));
                both!(envs, at, |env| env.store.pack(key, Duration::ZERO).await.expect("packs"));
            }
            19 => {
                both!(envs, at, |env| env.store.pump_feed(&project(), &user("u")).await.expect("pumps").position);
                if dice.chance(50) {
                    let _more = envs.1.purge(1 + dice.roll(20) as usize).await;
                }
            }
            20 | 21 => {
                let new = crate::annotations::annotation(&dice.roll(9).to_string(), "{\"é\":1.0}");
                both!(envs, at, |env| env.store.put_annotation(key, new.clone()).await.expect("puts"));
                let (after, limit) = (dice.roll(8), 1 + dice.roll(4) as usize);
                both!(envs, at, |env| env.store.annotations(key, after, limit).await.expect("reads"));
            }
            22 => {
                let seq = dice.roll(head.map_or(1, |head| head.tail) + 3);
                both!(envs, at, |env| env.store.mark_read(key, seq, None).await.expect("marks"));
            }
            23 if dice.chance(40) => {
                let (before, day) =
                    (clock.now().minus(Duration::from_millis(dice.roll(9_000))), Duration::from_secs(86_400));
                let keys = [key, *dice.pick(&old)];
                both!(envs, at, |env| env.store.trash(&project(), &keys, before, day).await.expect("trashes"));
            }
            24 => {
                let who = dice.chance(60).then(|| user(if dice.chance(50) { "u" } else { "v" }));
                both!(envs, at, |env| env
                    .store
                    .restore(&project(), who.as_ref(), &thread_id(id), &crate::trash::entry("thread.restored"))
                    .await
                    .expect("restores"));
            }
            27 => {
                // On SQLite all other nodes have ended.
                let judges = envs.1.dir.is_some() || dice.chance(60);
                let own = old.iter().copied().filter(|_| dice.chance(20)).collect();
                // With a smaller limit, each store has a choice.
                let claim = ClaimTurns { node: *dice.pick(&NODES), judges, own, limit: 100 };
                both!(envs, at, |env| {
                    let mut claimed = env.store.claim_turns(&claim).await.expect("claims");
                    claimed.sort_by_key(|turn| turn.key);
                    claimed
                });
            }
            28 | 29 => {
                let Some(head) = &head else { continue };
                let taken = TakeTurn {
                    key,
                    run: active_run(&mut dice, &envs.0, key).await.unwrap_or(run_id(run)),
                    fence: write_fence(&mut dice, head, 10),
                    tail: head.tail - u64::from(head.tail > 0 && dice.chance(10)),
                    driver: *dice.pick(&NODES),
                    events: dice.chance(60).then(|| events([1, 2])),
                    futile: dice.roll(4),
                    input: None,
                };
                // A takeover follows a claim, which only a driven run has.
                if head.driver > DriverFence::NONE {
                    both!(envs, at, |env| env.store.take_turn(taken.clone()).await.expect("takes"));
                    continue;
                }
                let TakeTurn { run, fence, tail, events, .. } = taken;
                let generation = Generation(head.generation.0 + i64::from(dice.chance(5)));
                let (number, attempt_id) = (2 + dice.roll(3), AttemptId::new("a").expect("id"));
                let lease = dice.chance(30).then_some(LEASE * 2);
                let displaced = Displaced::default().with((number > 2).then(|| attempt_id.clone()));
                let take =
                    TakeUp { key, run, fence, tail, generation, attempt: number, attempt_id, displaced, lease, events };
                both!(envs, at, |env| env.store.take_up(take.clone()).await.expect("takes"));
                both!(envs, at, |env| env.store.producer_turn(key, &take.run).await.expect("reads"));
            }
            30 | 31 => {
                let Some(head) = &head else { continue };
                let (WriteFence { driver, .. }, marks) = (write_fence(&mut dice, head, 20), dice.chance(60));
                // Only a driver does either; no driver has the number of a queued turn.
                if head.driver <= DriverFence::NONE {
                    continue;
                }
                let run = active_run(&mut dice, &envs.0, key).await.unwrap_or(run_id(run));
                if marks {
                    both!(envs, at, |env| env.store.mark_called(key, &run, driver).await.expect("marks"));
                } else {
                    both!(envs, at, |env| env.store.leave_turn(key, &run, driver).await.expect("leaves"));
                }
            }
            32 => {
                // Nodes that beat are alive, until they stop. SQLite does not ask for that.
                for node in NODES.into_iter().filter(|_| dice.chance(40) && envs.1.dir.is_none()) {
                    both!(envs, at, |env| env.store.put_beat(&crate::nodes::beat(node.0)).await.expect("beats").number);
                }
                clock.advance(DRIVER_TTL / 2);
            }
            33..=35 => {
                let Some(queue) = envs.0.store.queue(key).await.expect("reads") else { continue };
                let change = some_change(&mut dice, &queue, run);
                both!(envs, at, |env| env.store.change_queue(change.clone()).await.expect("changes"));
            }
            36 | 37 => {
                let Some(queue) = envs.0.store.queue(key).await.expect("reads") else { continue };
                let advance = some_advance(&mut dice, &queue);
                both!(envs, at, |env| env.store.advance(advance.clone()).await.expect("advances"));
            }
            _ => {
                let cursor = dice.roll(head.map_or(1, |head| head.tail) + 3);
                let max = 1 + dice.roll(40) as usize;
                // Rows may be cut differently, events not.
                let page = |page: Option<threadline_store::LogPage>| {
                    page.map(|page| {
                        let flat = page.slice.events().map(|(seq, event, batch)| {
                            (seq, String::from_utf8_lossy(event).into_owned(), batch.run.clone(), batch.at)
                        });
                        (page.head, flat.collect::<Vec<_>>())
                    })
                };
                for from in [ReadFrom::After(cursor), ReadFrom::Before(cursor)] {
                    both!(envs, at, |env| page(env.store.read(key, from, max).await.expect("reads")));
                }
            }
        }
        if step % 25 == 24 {
            compare(&envs, &mut dice, &at, &old).await;
        }
    }
    compare(&envs, &mut dice, &format!("seed {seed}, end"), &old).await;
}

/// Everything that can be seen.
async fn compare(envs: &(Env, Env), dice: &mut Dice, at: &str, keys: &[ThreadKey]) {
    for name in ["u", "v"] {
        for order in [ListOrder::Recent, ListOrder::Created] {
            let mut after = None;
            let limit = 1 + dice.roll(3) as usize;
            let agent = dice.chance(20).then(|| agent("a"));
            let status = [None, Some(ThreadStatus::Running), Some(ThreadStatus::Failed), Some(ThreadStatus::Idle)];
            let status = status[dice.roll(4) as usize];
            loop {
                let list = ListThreads {
                    user: user(name),
                    order,
                    after: after.clone(),
                    agent: agent.clone(),
                    status,
                    include_archived: limit == 2,
                    ..list(limit)
                };
                let page = both!(envs, at, |env| {
                    let mut page = env.store.list_threads(list.clone()).await.expect("lists");
                    page.feed_cursor.epoch = Epoch::NONE;
                    page
                });
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        let (after, limit) = (dice.roll(10), 1 + dice.roll(10) as usize);
        both!(envs, at, |env| {
            let mut page = env.store.feed(&project(), &user(name), after, limit).await.expect("feed");
            page.head.history.epoch = Epoch::NONE;
            page
        });
    }
    let mut after = None;
    loop {
        let page = both!(envs, at, |env| env.store.trashed(&project(), after.as_ref(), 2).await.expect("lists"));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    both!(envs, at, |env| env.store.dirty_feeds(10).await.expect("dirty"));
    both!(envs, at, |env| {
        let mut claimed = env.store.claim_due(100).await.expect("claims");
        claimed.due.sort_by_key(|due| due.key);
        claimed
    });
    both!(envs, at, |env| env.store.moving_queues(None, 100).await.expect("reads"));
    for name in ["u", "v"] {
        both!(envs, at, |env| env.store.queued_turns(&project(), &user(name), 100).await.expect("counts"));
    }
    for node in NODES {
        both!(envs, at, |env| {
            let mut driven = env.store.turns_of(node).await.expect("reads");
            driven.sort();
            driven
        });
    }
    for key in keys {
        both!(envs, at, |env| env.store.runs(*key, None, 100).await.expect("runs"));
        both!(envs, at, |env| env.store.annotations(*key, 0, 100).await.expect("reads"));
        let heads = both!(envs, at, |env| env.store.heads(&[*key]).await.expect("heads"));
        both!(envs, at, |env| env.store.queue(*key).await.expect("reads").map(|queue| queue.turns));
        if !heads.is_empty() {
            both!(envs, at, |env| env.log(*key).await);
        }
    }
}

fn seeds(many: u64) -> std::ops::Range<u64> {
    match std::env::var("CONTRACT_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..many,
    }
}

#[tokio::test]
async fn the_reference_and_sqlite_answer_alike() {
    for seed in seeds(8) {
        history(seed, 500, Env::sqlite().await).await;
    }
}

#[tokio::test]
async fn the_reference_and_postgres_answer_alike() {
    for seed in seeds(3) {
        history(seed, 500, Env::postgres().await).await;
    }
}
