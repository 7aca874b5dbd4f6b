//! Long folds of some clients, and a small read of another one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use threadline_core::{
    Clock, Credential, Principal, ProjectId, Timestamp, UserId,
    limits::{PAGE_BYTES, WORK_SLICE_BYTES},
};
use threadline_engine::{CreateThread, Ports, Service};
use threadline_store::{DynStore, StoreResult, memory::MemoryStore};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    support::{events, new_run, numbered, run_id, run_seed, thread_id},
    through::{Call, Pass, Through},
};

/// Projects whose clients all read long threads.
const ATTACKERS: usize = 4;
/// Most reads of the store in a slice: the last page may begin just below the end of the slice.
const READS: usize = WORK_SLICE_BYTES / PAGE_BYTES + 1;
/// Slices of a long thread.
const LONG: usize = 6;

/// A store whose reads of the log take a millisecond, and are counted.
#[derive(Default)]
struct Counted {
    reads: AtomicUsize,
}

impl Pass for Counted {
    async fn pass<T: Send>(&self, call: Call<'_>, work: impl Future<Output = StoreResult<T>> + Send) -> StoreResult<T> {
        if call.name == "read" {
            self.reads.fetch_add(1, SeqCst);
            sleep(Duration::from_millis(1)).await;
        }
        work.await
    }
}

fn principal(project: usize, user: Option<usize>) -> Principal {
    let project = ProjectId::new(format!("p{project}")).expect("an id");
    let user = user.map(|user| UserId::new(format!("u{user}")).expect("an id"));
    let credential = match user {
        Some(_) => Credential::Token { expires_at: Timestamp(i64::MAX), signer: None },
        None => Credential::Operator,
    };
    Principal { user, credential, ..Principal::project(project) }
}

/// A thread of each user and each key, with a run that continues, so that no snapshot shortens its folds.
async fn fill(service: &Service, principal: &Principal, slices: usize) {
    let create = CreateThread {
        id: Some(thread_id(principal.user.as_ref().map_or("of-keys", |user| user.as_str()))),
        user: principal.user.is_none().then(|| UserId::new("someone").expect("an id")),
        ..CreateThread::default()
    };
    let thread = service.threads.create(principal, create).await.expect("created").thread.id;
    service.runs.start(principal, &thread, new_run("r")).await.expect("started");
    let large = format!(r#"{{"type":"X","rest":"{}"}}"#, "x".repeat(WORK_SLICE_BYTES / 16));
    for _ in 0..slices {
        let batch = events(&[large.as_str(); 16]);
        service.runs.append(principal, &thread, &run_id("r"), None, batch).await.expect("appended");
    }
    service.runs.append(principal, &thread, &run_id("r"), None, numbered("small", 3)).await.expect("appended");
}

async fn fold(service: Service, principal: Principal) {
    let thread = thread_id(principal.user.as_ref().map_or("of-keys", |user| user.as_str()));
    // Beyond what a client may have waiting, it is refused; whatever is not, folds.
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
                fill(&service, &principal, LONG).await;
                for _ in 0..40 {
                    attacks.spawn(fold(service.clone(), principal.clone()));
                }
            }
        }
        let victim = principal(ATTACKERS, Some(1));
        fill(&service, &victim, 0).await;
        for _ in 0..20 {
            sleep(Duration::from_millis(17)).await;
            let before = store.pass.reads.load(SeqCst);
            let thread = thread_id("u1");
            let fold = service.projections.at(&victim, &thread, None, None);
            timeout(Duration::from_secs(1), fold).await.expect("in time").expect("folded");
            // The slices that are being done, one of each project, and the victim's own read.
            let (reads, most) = (store.pass.reads.load(SeqCst) - before, (slots + ATTACKERS) * READS + 1);
            assert!(reads <= most, "{reads} reads of {most}");
        }
        assert!(!attacks.is_empty(), "the attacks go on");
        attacks.shutdown().await;
    });
}
