use std::{sync::atomic::AtomicU64, time::Duration};

use threadline_core::{
    Limits, Principal,
    limits::{CLIENT_WORK, KEY_WORK, LONG_STEP_BYTES},
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use super::*;
use crate::limits::quota::tests::{client, key};

/// Time that the simulated store takes for a slice.
const SLICE_TIME: Duration = Duration::from_millis(10);

/// A queue, and the number and the bytes of the slices that were done.
#[derive(Clone)]
struct Simulated {
    queue: FairQueue,
    slices: Arc<AtomicU64>,
}

impl Simulated {
    fn new(slots: usize) -> Self {
        Self { queue: FairQueue::new(slots, Quota::new(Limits::default())), slices: Arc::default() }
    }

    fn slices(&self) -> u64 {
        self.slices.load(Relaxed)
    }

    /// Does work of this many slices. Returns how many slices others did in the meantime.
    async fn work(self, principal: Principal, slices: usize, bytes: usize) -> Result<u64, Limited> {
        let before = self.slices();
        let mut work = self.queue.begin(&principal).await?;
        let waited = self.slices() - before;
        for _ in 0..slices {
            work.step(bytes).await?;
            self.slices.fetch_add(1, Relaxed);
            sleep(SLICE_TIME).await;
            work.done(bytes, 1);
        }
        Ok(waited)
    }

    /// Fills the queue of a client with long work, until no more is taken.
    async fn flood(&self, attacks: &mut JoinSet<Result<u64, Limited>>, principal: &Principal) {
        for _ in 0..CLIENT_WORK + CLIENT_WORK_WAITING + KEY_WORK + PROJECT_WORK_WAITING {
            attacks.spawn(self.clone().work(principal.clone(), 1_000, WORK_SLICE_BYTES));
        }
        settle().await;
        while attacks.try_join_next().is_some() {}
    }

    fn is_at_rest(&self) -> bool {
        self.queue.order().is_at_rest(self.queue.slots())
    }
}

/// Lets every task do what it can do now.
async fn settle() {
    sleep(SLICE_TIME / 10).await;
}

#[tokio::test]
async fn other_tasks_of_a_thread_run_between_two_slices() {
    let (simulated, ran) = (Simulated::new(1), Arc::new(AtomicU64::new(0)));
    let counting = ran.clone();
    let other = tokio::spawn(async move {
        loop {
            counting.fetch_add(1, Relaxed);
            yield_now().await;
        }
    });
    let mut work = simulated.queue.begin(&client("a", "u")).await.expect("a slice");
    for slice in 1..=20 {
        work.done(WORK_SLICE_BYTES, 0);
        work.go_on().await.expect("a slice");
        assert!(ran.load(Relaxed) >= slice, "the thread did nothing else before slice {slice}");
    }
    other.abort();
}

#[tokio::test(start_paused = true)]
async fn before_a_small_work_at_most_one_slice_of_each_other_project_is_done() {
    for (slots, projects, users) in [(1, 1, 1), (2, 1, 12), (2, 8, 3), (4, 20, 2), (8, 3, 1)] {
        let simulated = Simulated::new(slots);
        let mut attacks = JoinSet::new();
        for project in 0..projects {
            let project = format!("p{project}");
            for user in 0..users {
                simulated.flood(&mut attacks, &client(&project, &format!("u{user}"))).await;
            }
            simulated.flood(&mut attacks, &key(&project, None)).await;
        }
        sleep(SLICE_TIME * 20).await;
        // The victim's project, then a new user of a project whose users and keys all attack.
        for (victim, turns) in [(client("victim", "v"), 1), (key("other", None), 1), (client("p0", "v"), users + 1)] {
            let waited = simulated.clone().work(victim.clone(), 1, 1).await.expect("done");
            let most = slots * (projects * turns + 1);
            assert!(waited <= most as u64, "{victim:?}: {waited} of {most}, {slots} slots, {projects} projects");
        }
        attacks.shutdown().await;
        assert!(simulated.is_at_rest());
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_has_two_in_hand_and_sixteen_waiting() {
    let simulated = Simulated::new(1);
    let mut tasks = JoinSet::new();
    for _ in 0..CLIENT_WORK + CLIENT_WORK_WAITING {
        tasks.spawn(simulated.clone().work(client("p", "ann"), 1, 1));
    }
    settle().await;
    let refused = simulated.clone().work(client("p", "ann"), 1, 1).await.expect_err("full");
    assert_eq!((refused.limit, refused.value), (Limit::UserWork, CLIENT_WORK_WAITING as u64));
    for other in [client("p", "bob"), client("q", "ann"), key("p", Some("ann"))] {
        assert!(simulated.clone().work(other, 1, 1).await.is_ok());
    }
    while let Some(done) = tasks.join_next().await {
        assert!(done.expect("no panic").is_ok());
    }
    assert!(simulated.is_at_rest());
}

#[tokio::test(start_paused = true)]
async fn a_project_that_waits_for_too_much_refuses_those_who_wait_already() {
    let simulated = Simulated::new(1);
    let mut tasks = JoinSet::new();
    for _ in 0..=PROJECT_WORK_WAITING {
        tasks.spawn(simulated.clone().work(key("p", None), 1, 1));
    }
    settle().await;
    let refused = simulated.clone().work(key("p", Some("ann")), 1, 1).await.expect_err("full");
    assert_eq!((refused.limit, refused.value), (Limit::ProjectWork, PROJECT_WORK_WAITING as u64));
    for other in [client("p", "bob"), key("q", None)] {
        assert!(simulated.clone().work(other, 1, 1).await.is_ok());
    }
    while let Some(done) = tasks.join_next().await {
        assert!(done.expect("no panic").is_ok());
    }
    assert!(simulated.is_at_rest());
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends() {
    let simulated = Simulated::new(1);
    let held = simulated.queue.begin(&client("p", "ann")).await.expect("free");
    let permit = held.permit();
    drop(held);
    // The thread that works for a client holds the slot, although the client has left.
    let begun = Instant::now();
    let refused = simulated.clone().work(client("q", "bob"), 1, 1).await.expect_err("no slot");
    assert_eq!((refused.limit, begun.elapsed()), (Limit::WorkWaitSeconds, WORK_WAIT));
    drop(permit);
    assert!(simulated.clone().work(client("q", "bob"), 1, 1).await.is_ok());
    assert!(simulated.is_at_rest());
}

#[tokio::test(start_paused = true)]
async fn large_slices_are_repaid() {
    // The first free slot of several serves the work that waits at that moment, debts or not.
    let simulated = Simulated::new(1);
    let mut done = [0_u64; 2];
    let mut tasks = JoinSet::new();
    for (at, bytes) in [(0, 8 * WORK_SLICE_BYTES), (1, WORK_SLICE_BYTES)] {
        for _ in 0..CLIENT_WORK {
            let queue = simulated.queue.clone();
            tasks.spawn(async move {
                let mut work = queue.begin(&client(&format!("p{at}"), "u")).await.expect("begun");
                let (begun, mut slices) = (Instant::now(), 0);
                while begun.elapsed() < SLICE_TIME * 1_000 {
                    work.go_on().await.expect("a slice");
                    sleep(SLICE_TIME).await;
                    work.done(bytes, 1);
                    slices += 1;
                }
                (at, slices * bytes as u64)
            });
        }
    }
    while let Some(task) = tasks.join_next().await {
        let (at, bytes) = task.expect("no panic");
        done[at] += bytes;
    }
    let ratio = done[0] as f64 / done[1] as f64;
    assert!((0.8..1.25).contains(&ratio), "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn clients_that_leave_at_any_time_leave_nothing_behind() {
    let mut random = 1_u64;
    let mut below = |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    for slots in 1..4 {
        let simulated = Simulated::new(slots);
        let mut tasks = Vec::new();
        for _ in 0..2_000 {
            let project = format!("p{}", below(3));
            let principal = if below(3) == 0 { key(&project, None) } else { client(&project, &below(2).to_string()) };
            let (slices, bytes) = (1 + below(3), 1 + below(2 * LONG_STEP_BYTES as u64));
            tasks.push(tokio::spawn(simulated.clone().work(principal, slices as usize, bytes as usize)));
            if below(4) == 0 {
                sleep(SLICE_TIME / 3 * below(4) as u32).await;
            }
            if below(2) == 0 {
                tasks.swap_remove(below(tasks.len() as u64) as usize).abort();
            }
        }
        for task in tasks {
            let _ = task.await;
        }
        assert!(simulated.is_at_rest());
    }
}

#[tokio::test(start_paused = true)]
async fn long_inputs_wait_for_their_turn_and_short_ones_do_not() {
    let simulated = Simulated::new(1);
    let hog = tokio::spawn(simulated.clone().work(client("a", "hog"), 5, WORK_SLICE_BYTES));
    settle().await;
    let (victim, begun) = (client("b", "victim"), Instant::now());
    assert!(simulated.queue.process(&victim, LONG_INPUT_BYTES - 1, || ()).await.is_ok());
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert!(simulated.queue.process(&victim, LONG_INPUT_BYTES, || ()).await.is_ok());
    assert!(!begun.elapsed().is_zero() && begun.elapsed() <= SLICE_TIME, "{:?}", begun.elapsed());
    hog.await.expect("no panic").expect("its turns");
    assert!(simulated.is_at_rest());
}

#[tokio::test(start_paused = true)]
async fn a_short_slice_waits_for_no_long_step() {
    for slots in 2..5 {
        let simulated = Simulated::new(slots);
        let (long, mut attacks) = (Duration::from_secs(3), JoinSet::new());
        for user in 0..2 * slots {
            let queue = simulated.queue.clone();
            attacks.spawn(async move {
                let mut work = queue.begin(&client(&format!("p{user}"), "hog")).await.expect("begun");
                loop {
                    work.step(LONG_STEP_BYTES).await.expect("its turn");
                    sleep(long).await;
                    work.done(LONG_STEP_BYTES, 0);
                }
            });
        }
        sleep(long * 3 / 2).await;
        let begun = Instant::now();
        for bytes in [0, LONG_STEP_BYTES - 1] {
            assert!(simulated.clone().work(client("v", "ann"), 2, bytes).await.is_ok());
        }
        assert!(begun.elapsed() <= SLICE_TIME * 4, "{:?} with {slots} slots", begun.elapsed());
        // A long step has its turn, too: after those in progress and one of each other client.
        let mut work = simulated.queue.begin(&client("v", "ann")).await.expect("begun");
        work.step(LONG_STEP_BYTES).await.expect("a long slice");
        assert!(begun.elapsed() <= long * 3 * slots as u32, "{:?} with {slots} slots", begun.elapsed());
        drop(work);
        attacks.shutdown().await;
        assert!(simulated.is_at_rest());
    }
}
