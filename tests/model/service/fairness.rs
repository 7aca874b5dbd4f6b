//! Long folds and large pages of some clients, small requests of another one, and what each is charged.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::Value;
use threadline_core::{
    Clock, Credential, Limit, Limits, Principal, ProjectId, Quotas, ReadFrom, Seq, ThreadId, Timestamp, UserId,
    kv::{KvFilter, KvKey, KvNamespace, KvPlace, KvWords},
    limits::{
        BODY_ROOM_WAIT, CURSOR_PAGE, FOLD_EVENTS, MAX_EVENT_PAGE, MAX_KV_WORDS, MAX_TREE_BYTES, MIN_MEMORY_BYTES,
        PAGE_BYTES, WORK_SLICE_BYTES, WORK_UNIT_BYTES,
    },
};
use threadline_engine::{
    CreateThread, EntryChange, KvDone, KvOp, KvSearch, PageRequest, Ports, Projected, ProjectionError, PutEntry,
    Service, WriteEntry,
    limits::MemoryKind,
    subscription::{Delivery, FollowMethod, Subscription},
};
use threadline_store::{DynStore, StoreResult, memory::MemoryStore};
use tokio::{
    sync::watch,
    task::{JoinSet, yield_now},
    time::{Instant, timeout},
};

use crate::{
    support::{Rng, events, new_run, numbered, run_id, run_seed, seeds, thread_id},
    through::{Call, Pass, Through},
};

/// Projects whose clients all read long threads.
const ATTACKERS: usize = 3;
/// Most reads of the store in a slice: the last page may begin just below the end of the slice.
const READS: usize = WORK_SLICE_BYTES / PAGE_BYTES + 1;
/// Slices of a long thread.
const LONG: usize = 12;
/// Kinds of large events: one is a part of the conversation, and the other one is not.
const MESSAGE: &str = "TEXT_MESSAGE_CONTENT";
const OTHER: &str = "X";

/// A store whose reads of the log are counted, and take the time in which every other task continues.
#[derive(Default)]
struct Counted {
    reads: watch::Sender<usize>,
}

impl Pass for Counted {
    async fn pass<T: Send>(&self, call: Call<'_>, work: impl Future<Output = StoreResult<T>> + Send) -> StoreResult<T> {
        if call.name == "read" {
            self.reads.send_modify(|reads| *reads += 1);
            yield_now().await;
        }
        work.await
    }
}

fn principal(project: usize, user: Option<usize>) -> Principal {
    let project = ProjectId::new(format!("p{project}")).expect("an id");
    let user = user.map(|user| UserId::new(format!("u{user}")).expect("an id"));
    let credential = match user {
        Some(_) => Credential::Token { expires_at: Timestamp(i64::MAX), signer: None, by: None, issued_at: None },
        None => Credential::Operator,
    };
    Principal { user, credential, ..Principal::project(project) }
}

/// A thread of each user and each key, with a run that continues, so that no snapshot shortens its folds.
async fn fill(service: &Service, principal: &Principal, slices: usize, kind: &str) {
    let create = CreateThread {
        id: Some(thread_id(principal.user.as_ref().map_or("of-keys", |user| user.as_str()))),
        user: principal.user.is_none().then(|| UserId::new("someone").expect("an id")),
        ..CreateThread::default()
    };
    let thread = service.threads.create(principal, create).await.expect("created").thread.id;
    service.runs.start(principal, &thread, new_run("r")).await.expect("started");
    let begin = r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#;
    service.runs.append(principal, &thread, &run_id("r"), None, events(&[begin])).await.expect("appended");
    let delta = "x".repeat(WORK_SLICE_BYTES / 16);
    let large = format!(r#"{{"type":"{kind}","messageId":"m","delta":"{delta}"}}"#);
    for _ in 0..slices {
        let batch = events(&[large.as_str(); 16]);
        service.runs.append(principal, &thread, &run_id("r"), None, batch).await.expect("appended");
    }
    service.runs.append(principal, &thread, &run_id("r"), None, numbered("small", 3)).await.expect("appended");
}

async fn fold(service: Service, principal: Principal) {
    let thread = thread_id(principal.user.as_ref().map_or("of-keys", |user| user.as_str()));
    // A client is refused once it has as much waiting as it may have.
    while service.projections.at(&principal, &thread, None, None).await.is_ok() {}
}

#[test]
fn a_small_fold_waits_for_a_slice_of_each_other_project_and_not_for_their_threads() {
    run_seed(1, async {
        let clock = Clock::manual(Timestamp(0));
        let store = Arc::new(Through::new(Arc::new(MemoryStore::new(clock.clone())), Counted::default()));
        let service = Service::start(Ports::alone(store.clone() as DynStore, clock));
        let slots = service.queue.slots();
        let mut attacks = JoinSet::new();
        for project in 0..ATTACKERS {
            for principal in [principal(project, Some(1)), principal(project, Some(2)), principal(project, None)] {
                fill(&service, &principal, LONG, OTHER).await;
                for _ in 0..40 {
                    attacks.spawn(fold(service.clone(), principal.clone()));
                }
            }
        }
        let victim = principal(ATTACKERS, Some(1));
        fill(&service, &victim, 0, OTHER).await;
        let mut rng = Rng::new(1);
        for _ in 0..40 {
            let next = *store.pass.reads.borrow() + 1 + rng.below(100) as usize;
            store.pass.reads.subscribe().wait_for(|reads| *reads > next).await.expect("the attacks read");
            let before = *store.pass.reads.borrow();
            let mut reads = store.pass.reads.subscribe();
            // The slices that are being done, one of each project, and the victim's own read.
            let most = (slots + ATTACKERS) * READS + 1;
            let thread = thread_id("u1");
            tokio::select! {
                folded = service.projections.at(&victim, &thread, None, None) => drop(folded.expect("folded")),
                _ = reads.wait_for(|reads| *reads > before + most) => panic!("{most} reads before a small fold"),
            }
        }
        assert!(!attacks.is_empty(), "the attacks go on");
        attacks.shutdown().await;
    });
}

#[test]
fn a_commit_of_many_small_events_takes_several_turns() {
    run_seed(1, async {
        let clock = Clock::manual(Timestamp(0));
        let service = Service::start(Ports::alone(Arc::new(MemoryStore::new(clock.clone())) as DynStore, clock));
        let (hog, victim) = (principal(0, Some(1)), principal(1, Some(1)));
        for client in [&hog, &victim] {
            fill(&service, client, 0, OTHER).await;
        }
        let batch = numbered("dense", 4 * FOLD_EVENTS);
        service.runs.append(&hog, &thread_id("u1"), &run_id("r"), None, batch).await.expect("appended");
        // Just below the tail, where a snapshot may be already.
        let fold = async |client: Principal, at| {
            service.projections.at(&client, &thread_id("u1"), at, None).await.expect("folded");
        };
        let order = turns(&service, fold(hog, Some(4 * FOLD_EVENTS as Seq)), fold(victim, None)).await;
        assert_eq!(order, ["small", "long"], "the small fold waits for a slice and not for a commit");
    });
}

/// Order in which long and small work end that both wait for one slice, the long one first.
async fn turns(
    service: &Service,
    long: impl Future<Output = ()>,
    small: impl Future<Output = ()>,
) -> Vec<&'static str> {
    let mut held = Vec::new();
    for slot in 0..service.queue.slots() {
        let project = ProjectId::new(format!("h{slot}")).expect("an id");
        held.push(service.queue.begin_for(&project).await.expect("a slice"));
    }
    let order = Mutex::new(Vec::new());
    let note = |name| order.lock().expect("no panic").push(name);
    let settle = async || {
        for _ in 0..20 {
            yield_now().await;
        }
    };
    let long = async {
        long.await;
        note("long");
    };
    let small = async {
        settle().await;
        small.await;
        note("small");
    };
    let free = async {
        settle().await;
        settle().await;
        held.pop();
    };
    tokio::join!(long, small, free);
    order.into_inner().expect("no panic")
}

#[test]
fn a_run_that_is_read_whole_takes_several_turns() {
    run_seed(1, async {
        let clock = Clock::manual(Timestamp(0));
        let service = Service::start(Ports::alone(Arc::new(MemoryStore::new(clock.clone())) as DynStore, clock));
        let (hog, victim) = (principal(0, Some(1)), principal(1, Some(1)));
        let read = async |client: Principal| {
            let thread = thread_id("u1");
            let epoch = service.threads.get(&client, &thread).await.expect("a thread").epoch;
            let mut work = service.queue.begin(&client).await.expect("a slice");
            let mut count = 0;
            let (of, all) = ((&client, &thread, epoch), (0, Seq::MAX));
            service.events.fold(&mut work, of, Some(&run_id("r")), all, |_, _, _| count += 1).await.expect("folded");
            count
        };
        fill(&service, &hog, LONG, OTHER).await;
        fill(&service, &victim, 0, OTHER).await;
        let long = async { assert_eq!(read(hog).await, 16 * LONG + 4) };
        let small = async { assert_eq!(read(victim).await, 4) };
        assert_eq!(turns(&service, long, small).await, ["small", "long"]);
    });
}

#[test]
fn a_comparison_of_many_words_with_a_large_value_takes_several_turns() {
    run_seed(1, async {
        let clock = Clock::manual(Timestamp(0));
        let service = Service::start(Ports::alone(Arc::new(MemoryStore::new(clock.clone())) as DynStore, clock));
        let words = |count: usize| (0..count).map(|n| format!("z{n}")).collect::<Vec<_>>().join(" ");
        let store = async |client: &Principal, bytes: usize| {
            let place = KvPlace { ns: KvNamespace::default(), key: KvKey::new("k").expect("a key") };
            let value = format!("\"{}\"", "x".repeat(bytes));
            let put = PutEntry { value, tag: None, life: None, thread: None };
            let write = WriteEntry { place, if_tag: None, change: EntryChange::Put(put) };
            service.kv.run(client, &[KvOp::Write(write)]).await.expect("stored");
        };
        let search = |client: Principal, count: usize| {
            let search = KvSearch {
                prefix: KvNamespace::default(),
                filter: KvFilter::default(),
                words: KvWords::new(&words(count)).expect("a query"),
                limit: 1,
                offset: 0,
                after: None,
            };
            let service = service.clone();
            async move {
                let done = service.kv.run(&client, &[KvOp::Search(search)]).await.expect("searched");
                assert!(matches!(&done[..], [KvDone::Found(found)] if found.scanned == 1 && found.entries.is_empty()));
            }
        };
        // One value, which is one row, and less than a slice of bytes.
        let (hog, victim) = (principal(0, Some(1)), principal(1, Some(1)));
        store(&hog, WORK_SLICE_BYTES / 2).await;
        store(&victim, 10).await;
        let (long, small) = (search(hog, MAX_KV_WORDS), search(victim, 1));
        assert_eq!(turns(&service, long, small).await, ["small", "long"]);
    });
}

/// A fold of a client's own thread.
async fn folded(service: &Service, principal: &Principal) -> Result<Projected, ProjectionError> {
    let thread = thread_id(principal.user.as_ref().expect("a user").as_str());
    service.projections.at(principal, &thread, None, None).await
}

#[test]
fn without_memory_a_fold_waits_beside_the_queue_and_others_fold() {
    run_seed(1, async {
        let clock = Clock::manual(Timestamp(0));
        let store = Arc::new(MemoryStore::new(clock.clone())) as DynStore;
        // A client may have half of it: one conversation of three slices (a text that grows has room for four), and not two.
        let limits = Limits { memory: 12 * WORK_SLICE_BYTES, ..Limits::default() };
        let service = Service::start(Ports { limits, ..Ports::alone(store, clock) });
        let (hog, victim) = (principal(0, Some(1)), principal(1, Some(1)));
        fill(&service, &hog, 3, MESSAGE).await;
        fill(&service, &victim, 1, MESSAGE).await;
        let held = folded(&service, &hog).await.expect("folded");
        let begun = Instant::now();
        let mut waits = JoinSet::new();
        for _ in 0..service.queue.slots() {
            let (service, hog) = (service.clone(), hog.clone());
            waits.spawn(async move { folded(&service, &hog).await });
        }
        yield_now().await;
        // The waits hold no slice, and leave memory for others.
        drop(folded(&service, &victim).await.expect("folded"));
        assert_eq!(begun.elapsed(), Duration::ZERO);
        let refused = waits.join_next().await.expect("a wait").expect("no panic").expect_err("no memory");
        assert!(matches!(&refused, ProjectionError::Limited(limited) if limited.limit == Limit::Memory), "{refused:?}");
        assert_eq!(begun.elapsed(), BODY_ROOM_WAIT);
        waits.shutdown().await;
        // A wait ends with the memory of the conversation that is held.
        let waiting = tokio::spawn({
            let (service, hog) = (service.clone(), hog.clone());
            async move { folded(&service, &hog).await }
        });
        yield_now().await;
        assert!(!waiting.is_finished());
        drop(held);
        drop(waiting.await.expect("no panic").expect("folded"));
        assert_eq!(service.memory.free(), service.memory.size());
    });
}

#[test]
fn a_state_of_many_small_values_takes_the_memory_of_its_tree() {
    run_seed(1, async {
        const NUMBERS: usize = 400_000;
        let clock = Clock::manual(Timestamp(0));
        let store = Arc::new(MemoryStore::new(clock.clone())) as DynStore;
        let limits = Limits { memory: MIN_MEMORY_BYTES, ..Limits::default() };
        let service = Service::start(Ports { limits, ..Ports::alone(store, clock) });
        let (hog, victim) = (principal(0, Some(1)), principal(1, Some(1)));
        for principal in [&hog, &victim] {
            fill(&service, principal, 0, OTHER).await;
        }
        let state = format!(r#"{{"type":"STATE_SNAPSHOT","snapshot":[{}]}}"#, vec!["0"; NUMBERS].join(","));
        let batch = events(&[state.as_str()]);
        service.runs.append(&hog, &thread_id("u1"), &run_id("r"), None, batch).await.expect("appended");
        let taken = || service.memory.held()[MemoryKind::Fold as usize].1;
        let tree = NUMBERS * size_of::<Value>();
        let first = folded(&service, &hog).await.expect("folded");
        assert!((tree..3 * tree).contains(&taken()), "{} bytes for a tree of {tree}", taken());
        // As many as fit into the half of one client, whatever it asks for.
        let mut held = vec![first];
        let refused = loop {
            match folded(&service, &hog).await {
                Ok(another) => held.push(another),
                Err(refused) => break refused,
            }
            assert!(held.len() * tree <= MIN_MEMORY_BYTES / 2, "{} trees of {tree}", held.len());
        };
        assert!(matches!(&refused, ProjectionError::Limited(limited) if limited.limit == Limit::Memory), "{refused:?}");
        let begun = Instant::now();
        drop(folded(&service, &victim).await.expect("folded"));
        assert_eq!(begun.elapsed(), Duration::ZERO);
        // Requests share this memory, and one piece of work takes no more than there is.
        let refused = service.projections.room(&hog, MAX_TREE_BYTES).await.expect_err("no memory");
        assert_eq!(refused.limit, Limit::Memory);
        drop(held);
        drop(service.projections.room(&hog, MAX_TREE_BYTES).await.expect("memory"));
        assert_eq!(service.memory.free(), service.memory.size());
    });
}

/// A service whose memory is so many slices, and a hog and a victim with a thread each.
async fn with_memory(slices: usize) -> (Service, Arc<Through<Written>>, [Principal; 2]) {
    let clock = Clock::manual(Timestamp(0));
    let store = Arc::new(Through::new(Arc::new(MemoryStore::new(clock.clone())), Written::default()));
    let limits = Limits { memory: slices * WORK_SLICE_BYTES, ..Limits::default() };
    let service = Service::start(Ports { limits, ..Ports::alone(store.clone() as DynStore, clock) });
    let clients = [principal(0, Some(1)), principal(1, Some(1))];
    for client in &clients {
        fill(&service, client, 0, OTHER).await;
    }
    (service, store, clients)
}

/// A store whose snapshots are counted.
#[derive(Default)]
struct Written {
    snapshots: watch::Sender<usize>,
}

impl Pass for Written {
    async fn pass<T: Send>(&self, call: Call<'_>, work: impl Future<Output = StoreResult<T>> + Send) -> StoreResult<T> {
        let name = call.name;
        let done = work.await;
        if name == "put_snapshot" {
            self.snapshots.send_modify(|snapshots| *snapshots += 1);
        }
        done
    }
}

/// Appends one event to the client's run `r`.
async fn append(service: &Service, client: &Principal, event: &str) -> Seq {
    service.runs.append(client, &thread_id("u1"), &run_id("r"), None, events(&[event])).await.expect("appended");
    service.threads.get(client, &thread_id("u1")).await.expect("a thread").tail
}

/// Outcome of work that ends within a minute.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(60), what).await.expect("within a minute")
}

/// A state of so many numbers.
fn numbers(count: usize) -> String {
    format!(r#"{{"type":"STATE_SNAPSHOT","snapshot":[{}]}}"#, vec!["0"; count].join(","))
}

#[test]
fn a_tree_larger_than_its_readers_share_is_refused_at_once() {
    run_seed(1, async {
        // A client may have 16 MiB, and of one conversation 12 MiB.
        let (service, store, [hog, victim]) = with_memory(32).await;
        let most = 12 * WORK_SLICE_BYTES;
        let tree = |numbers: usize| numbers.next_power_of_two() * size_of::<Value>();
        let (small, large) = (120_000, 150_000);
        assert!(tree(small) < most && tree(large) > most);
        // The estimate of the small state is beyond the share, and its tree is not.
        append(&service, &victim, &numbers(small)).await;
        let small = folded(&service, &victim).await.expect("folded");
        assert!((tree(120_000)..most).contains(&small.conversation.bytes()), "{}", small.conversation.bytes());
        drop(small);
        let tail = append(&service, &hog, &numbers(large)).await;
        let at = async |at| service.projections.at(&hog, &thread_id("u1"), Some(at), None).await;
        for is_snapshot in [false, true] {
            if is_snapshot {
                // The keys of the project may have more, so there is a snapshot that the client must not have.
                service.runs.finish(&hog, &thread_id("u1"), &run_id("r"), 0).await.expect("finished");
                soon(store.pass.snapshots.subscribe().wait_for(|snapshots| *snapshots == 1)).await.expect("written");
            }
            let begun = Instant::now();
            let read = at(tail + u64::from(is_snapshot)).await;
            assert!(matches!(read, Err(ProjectionError::ConversationTooLarge)), "snapshot: {is_snapshot}");
            drop(at(tail - 1).await.expect("what was before"));
            assert_eq!((begun.elapsed(), service.memory.free()), (Duration::ZERO, service.memory.size()));
        }
    });
}

#[test]
fn what_a_node_reads_for_a_project_takes_its_memory_and_delays_no_other_project() {
    run_seed(1, async {
        let (service, store, [hog, victim]) = with_memory(64).await;
        let mut notices = service.run_notices(16).expect("nobody else names threads");
        let keys = principal(0, None);
        let mut held = Vec::new();
        while let Ok(room) = service.projections.room(&keys, WORK_SLICE_BYTES).await {
            held.push(room);
        }
        let mut snapshots = store.pass.snapshots.subscribe();
        let mut of = Vec::new();
        for client in [&hog, &victim] {
            append(&service, client, &numbers(40_000)).await;
            service.runs.finish(client, &thread_id("u1"), &run_id("r"), 0).await.expect("finished");
            of.push(soon(notices.recv()).await.expect("a notice"));
        }
        // The snapshot of the first thread would have been written before the one of the second.
        assert_eq!(*soon(snapshots.wait_for(|snapshots| *snapshots > 0)).await.expect("written"), 1);
        let begun = Instant::now();
        let refused = service.projections.beginning(&of[0], WORK_SLICE_BYTES).await.expect_err("no memory");
        assert!(matches!(&refused, ProjectionError::Limited(limited) if limited.limit == Limit::Memory), "{refused:?}");
        let beginning = service.projections.beginning(&of[1], WORK_SLICE_BYTES).await.expect("read").expect("there");
        assert!(beginning.bytes() > 40_000 * size_of::<Value>(), "{}", beginning.bytes());
        assert_eq!(begun.elapsed(), Duration::ZERO);
        drop((held, beginning));
        drop(service.projections.beginning(&of[0], WORK_SLICE_BYTES).await.expect("read").expect("there"));
        // The next run has the snapshot written.
        service.runs.start(&hog, &thread_id("u1"), new_run("next")).await.expect("started");
        service.runs.finish(&hog, &thread_id("u1"), &run_id("next"), 0).await.expect("finished");
        soon(snapshots.wait_for(|snapshots| *snapshots == 2)).await.expect("written");
        assert_eq!(service.memory.free(), service.memory.size());
    });
}

#[test]
fn a_reader_stuck_at_large_pages_keeps_the_memory_of_its_own_share() {
    run_seed(1, async {
        let clock = Clock::manual(Timestamp(0));
        let store = Arc::new(MemoryStore::new(clock.clone())) as DynStore;
        let limits = Limits { memory: 32 * WORK_SLICE_BYTES, ..Limits::default() };
        let service = Service::start(Ports { limits, ..Ports::alone(store, clock) });
        let large = format!(r#"{{"type":"X","rest":"{}"}}"#, "x".repeat(6 * WORK_SLICE_BYTES));
        let (hog, victim) = (principal(0, Some(1)), principal(1, Some(1)));
        let reader = async |principal: &Principal| {
            let thread = thread_id(principal.user.as_ref().expect("a user").as_str());
            service.events.subscribe(principal, &thread, 0, None, None, FollowMethod::Socket).await.expect("open")
        };
        for principal in [&hog, &victim] {
            fill(&service, principal, 0, OTHER).await;
        }
        for principal in [&hog, &victim] {
            let thread = thread_id(principal.user.as_ref().expect("a user").as_str());
            let batch = events(&[large.as_str()]);
            service.runs.append(principal, &thread, &run_id("r"), None, batch).await.expect("appended");
        }
        let mut stuck = Vec::new();
        let waiting = loop {
            let mut late = reader(&hog).await;
            let wait = Duration::from_secs(60);
            match timeout(wait, large_page(&mut late)).await {
                Ok(()) => stuck.push(late),
                Err(_) => break late,
            }
            assert!(stuck.len() < 4, "more than half of the memory");
        };
        assert!(!stuck.is_empty());
        let mut other = reader(&victim).await;
        timeout(Duration::from_secs(1), large_page(&mut other)).await.expect("in time");
        drop((stuck, waiting, other));
        assert_eq!(service.memory.free(), service.memory.size());
    });
}

/// Reads up to the large event.
async fn large_page(reader: &mut Subscription) {
    while !matches!(reader.next().await, Ok(Some(Delivery::Events(slice))) if slice.bytes() > WORK_SLICE_BYTES) {}
}

/// Units of work a second of a user in the test of prices: no debt reaches its bound.
const RATE: u64 = 1_000;

/// Does something with a thread, chosen at random. Returns the bytes of events that this took.
async fn something(service: &Service, principal: &Principal, thread: &ThreadId, tail: Seq, rng: &mut Rng) -> usize {
    let page = async |from, limit| {
        let request = PageRequest { from, limit, epoch: None, run: None, wait: None };
        service.events.page(principal, thread, request).await.expect("a page").slice.bytes()
    };
    let at = rng.below(tail) + 1;
    match rng.below(4) {
        0 => page(ReadFrom::After(at), 1 + rng.below(50) as usize).await,
        1 => page(ReadFrom::Before(at), 1 + rng.below(50) as usize).await,
        2 => {
            let mut log = service.events.backwards(principal, thread, CURSOR_PAGE);
            let mut bytes = 0;
            while let Some(page) = log.next().await.expect("a page") {
                bytes += page.slice.bytes();
            }
            bytes
        }
        _ => {
            let via = FollowMethod::Socket;
            let mut reader = service.events.subscribe(principal, thread, at, None, None, via).await.expect("open");
            let mut bytes = 0;
            loop {
                match reader.next().await.expect("a delivery") {
                    Some(Delivery::Events(slice)) => bytes += slice.bytes(),
                    Some(Delivery::CaughtUp(_)) => return bytes,
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

#[test]
fn a_user_is_charged_for_the_bytes_that_were_done() {
    for seed in seeds(12) {
        run_seed(seed, async move {
            let mut rng = Rng::new(seed);
            let clock = Clock::manual(Timestamp(0));
            let store = Arc::new(MemoryStore::new(clock.clone())) as DynStore;
            let user = Quotas { work_per_second: RATE, work_burst: 1, ..Quotas::NONE };
            let service =
                Service::start(Ports { limits: Limits { user, ..Limits::default() }, ..Ports::alone(store, clock) });
            let (principal, thread) = (principal(0, Some(1)), thread_id("u1"));
            fill(&service, &principal, 0, OTHER).await;
            let mut tail = 4;
            for _ in 0..20 + rng.below(40) {
                let line = format!(r#"{{"type":"X","rest":"{}"}}"#, "x".repeat(rng.below(40_000) as usize));
                let count = 1 + rng.below(8);
                let batch = events(&vec![line; count as usize]);
                service.runs.append(&principal, &thread, &run_id("r"), None, batch).await.expect("appended");
                tail += count;
            }
            let through = |to| ReadFrom::Before(to + 1);
            let whole = async |to| {
                let (mut bytes, mut before) = (0, through(to));
                loop {
                    let request =
                        PageRequest { from: before, limit: MAX_EVENT_PAGE, epoch: None, run: None, wait: None };
                    let key = Principal::project(principal.project.clone());
                    let page = service.events.page(&key, &thread, request).await.expect("a page");
                    bytes += page.slice.bytes();
                    before = ReadFrom::Before(page.cursor);
                    if !page.has_more {
                        return bytes;
                    }
                }
            };
            let begun = Instant::now();
            let mut done = 0;
            for _ in 0..1 + rng.below(6) {
                let at = rng.below(tail) + 1;
                service.projections.at(&principal, &thread, Some(at), None).await.expect("folded");
                done += whole(at).await + something(&service, &principal, &thread, tail, &mut rng).await;
            }
            let owes = service.quota.admit(&principal).map_or_else(|limited| limited.wait, |()| Duration::ZERO);
            // What was repaid while replays were paced, what is owed, and the burst.
            let units = (begun.elapsed() + owes).as_secs_f64() * RATE as f64 + 1.0;
            let expected = done as f64 / WORK_UNIT_BYTES as f64;
            assert!((units - expected).abs() <= 1.0, "{units} units for {expected}");
        });
    }
}
