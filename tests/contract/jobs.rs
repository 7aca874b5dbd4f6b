//! Background work as jobs in the store.

use std::time::Duration;

use threadline_core::{
    ThreadKey,
    limits::{
        JOB_BACKOFF, JOB_CLAIM, JOB_PARKED, JOB_TRIES, PACK_FIRST_LOOK, PACK_IDLE, SEGMENT_MIN_EVENTS, STAGING_TIMEOUT,
    },
};
use threadline_store::{Job, JobEnd, JobKind, JobLevel, JobSubject, Packing, Purging, PutJob};

use crate::support::*;

async fn take(env: &Env, kind: JobKind) -> Vec<Job> {
    env.store.take_jobs(kind, 10).await.expect("takes")
}

async fn keys(env: &Env, kind: JobKind) -> Vec<ThreadKey> {
    take(env, kind).await.into_iter().map(|job| job.subject.thread().expect("a thread")).collect()
}

async fn end(env: &Env, job: &Job, end: JobEnd) {
    env.store.end_job(job, end).await.expect("ends");
}

async fn level(env: &Env, kind: JobKind) -> JobLevel {
    let levels = env.store.job_levels().await.expect("measures");
    assert_eq!(levels.len(), JobKind::ALL.len());
    levels.into_iter().find(|level| level.kind == kind).expect("a level")
}

async fn deleted(env: &Env, id: &str) -> ThreadKey {
    let key = env.create(id).await.key;
    assert!(env.store.delete_thread(key, None).await.expect("deletes"));
    key
}

pub async fn a_job_is_taken_by_one_until_its_claim_ends(env: Env) {
    let first = deleted(&env, "a").await;
    env.clock.advance(Duration::from_millis(5));
    let second = deleted(&env, "b").await;
    let jobs = env.store.take_jobs(JobKind::Purge, 1).await.expect("takes");
    assert_eq!(
        jobs.iter().map(|job| (job.subject.thread().expect("a thread"), job.tries)).collect::<Vec<_>>(),
        [(first, 1)],
        "the oldest first"
    );
    assert_eq!(keys(&env, JobKind::Purge).await, [second]);
    assert_eq!(keys(&env, JobKind::Purge).await, []);
    assert_eq!(keys(&env, JobKind::Seal).await, [], "a job of another kind");

    env.clock.advance(JOB_CLAIM);
    let again = env.store.take_jobs(JobKind::Purge, 1).await.expect("takes");
    assert_eq!(
        again.iter().map(|job| (job.subject.thread().expect("a thread"), job.tries)).collect::<Vec<_>>(),
        [(first, 2)]
    );
    // The claim of the first one was lost, so it ends nothing.
    end(&env, &jobs[0], JobEnd::Done).await;
    end(&env, &again[0], JobEnd::Later(Duration::from_secs(1))).await;
    assert_eq!(keys(&env, JobKind::Purge).await, [second]);
    env.clock.advance(Duration::from_secs(1));
    let again = take(&env, JobKind::Purge).await;
    assert_eq!(
        again.iter().map(|job| (job.subject.thread().expect("a thread"), job.tries)).collect::<Vec<_>>(),
        [(first, 1)],
        "it made progress"
    );
    end(&env, &again[0], JobEnd::Untried).await;
    let again = take(&env, JobKind::Purge).await;
    assert_eq!(
        again.iter().map(|job| (job.subject.thread().expect("a thread"), job.tries)).collect::<Vec<_>>(),
        [(first, 1)]
    );
    end(&env, &again[0], JobEnd::Done).await;
    env.clock.advance(JOB_CLAIM);
    assert_eq!(keys(&env, JobKind::Purge).await, [second]);
}

pub async fn a_job_that_fails_is_tried_less_often_and_parked(env: Env) {
    let key = deleted(&env, "a").await;
    let mut waited = Duration::ZERO;
    for tries in 1..=JOB_TRIES {
        let jobs = take(&env, JobKind::Purge).await;
        assert_eq!(
            jobs.iter().map(|job| (job.subject.thread().expect("a thread"), job.tries)).collect::<Vec<_>>(),
            [(key, tries)]
        );
        assert_eq!(level(&env, JobKind::Purge).await.parked, u64::from(tries == JOB_TRIES));
        end(&env, &jobs[0], JobEnd::Failed).await;
        let mut now = Duration::ZERO;
        while env.store.take_jobs(JobKind::Purge, 0).await.expect("takes").is_empty()
            && level(&env, JobKind::Purge).await.oldest.is_zero()
            && now < JOB_PARKED * 2
        {
            env.clock.advance(JOB_BACKOFF);
            now += JOB_BACKOFF;
        }
        assert!(now >= waited, "{now:?} after {waited:?}");
        waited = now;
    }
    assert!(waited >= JOB_PARKED, "{waited:?}");
    let jobs = take(&env, JobKind::Purge).await;
    assert_eq!(jobs[0].tries, JOB_TRIES + 1, "a parked job is tried again, once a day");
    end(&env, &jobs[0], JobEnd::Done).await;
    assert_eq!(level(&env, JobKind::Purge).await.parked, 0);
}

pub async fn the_age_of_the_oldest_job_is_measured(env: Env) {
    assert_eq!(level(&env, JobKind::Purge).await, JobLevel { kind: JobKind::Purge, oldest: Duration::ZERO, parked: 0 });
    deleted(&env, "a").await;
    env.clock.advance(Duration::from_secs(7));
    deleted(&env, "b").await;
    assert_eq!(level(&env, JobKind::Purge).await.oldest, Duration::from_secs(7));
    assert_eq!(level(&env, JobKind::Seal).await.oldest, Duration::ZERO);
    take(&env, JobKind::Purge).await;
    assert_eq!(level(&env, JobKind::Purge).await.oldest, Duration::ZERO, "a job in work is not late");
}

pub async fn a_run_puts_the_jobs_of_its_thread(env: Env) {
    let (key, fence) = env.running("short", "r").await;
    env.put(key, fence, 1..SEGMENT_MIN_EVENTS - 1).await;
    env.append(append(key, fence, None, finished())).await.expect("ends");
    assert_eq!(env.head(key).await.tail, SEGMENT_MIN_EVENTS - 1);
    assert_eq!(keys(&env, JobKind::Seal).await, [], "too few events for a segment");
    // One event more, by each way in which a run ends.
    let run = env.start(key, "next").await;
    env.append(append(key, run.fence, None, finished())).await.expect("ends");
    let (grouped, grouped_fence) = env.running("grouped", "r").await;
    env.put(grouped, grouped_fence, 0..300).await;
    let (other, other_fence) = env.running("other", "r").await;
    let batch = [append(grouped, grouped_fence, None, finished()), append(other, other_fence, None, finished())];
    assert!(env.store.append(&batch).await.expect("appends").iter().all(Option::is_some));
    let (closed, closed_fence) = env.running("closed", "r").await;
    env.put(closed, closed_fence, 0..300).await;
    env.close(closed, closing(&env.head(closed).await, None)).await;
    let whole = env.create("whole").await.key;
    let mut lines: Vec<String> = (0..300).map(|n| format!("{{\"type\":\"X\",\"n\":{n}}}")).collect();
    lines.push("{\"type\":\"RUN_FINISHED\"}".to_owned());
    let mut start = start_run(whole, "r");
    start.events = Some(ndjson(&lines.join("\n")));
    env.started(start).await;
    let (lapsed, lapsed_fence) = env.running("lapsed", "r").await;
    env.put(lapsed, lapsed_fence, 0..300).await;
    env.clock.advance(LEASE);
    let mut start = start_run(lapsed, "next");
    start.closing = Some(closing(&env.head(lapsed).await, None));
    env.started(start).await;
    let mut sealed = keys(&env, JobKind::Seal).await;
    sealed.sort();
    assert_eq!(sealed, [key, grouped, closed, whole, lapsed]);

    assert_eq!(keys(&env, JobKind::Pack).await, []);
    env.clock.advance(PACK_FIRST_LOOK);
    let mut packed = keys(&env, JobKind::Pack).await;
    packed.sort();
    assert_eq!(packed, [key, grouped, other, closed, whole, lapsed], "one job for each thread");
}

pub async fn a_job_stays_if_a_run_began_in_its_thread_meanwhile(env: Env) {
    let (key, fence) = env.running("t", "r").await;
    env.append(append(key, fence, None, finished())).await.expect("ends");
    env.clock.advance(PACK_FIRST_LOOK);
    let jobs = take(&env, JobKind::Pack).await;
    let mut packing = env.store.pack(key, PACK_IDLE).await.expect("packs");
    while packing == Packing::More {
        packing = env.store.pack(key, PACK_IDLE).await.expect("packs");
    }
    assert_eq!(packing, Packing::Packed(1));
    let run = env.start(key, "next").await;
    end(&env, &jobs[0], JobEnd::DoneAt(1)).await;
    env.clock.advance(JOB_CLAIM);
    let jobs = take(&env, JobKind::Pack).await;
    assert_eq!(jobs.len(), 1, "a run is active");
    env.append(append(key, run.fence, None, finished())).await.expect("ends");
    end(&env, &jobs[0], JobEnd::DoneAt(1)).await;
    env.clock.advance(JOB_CLAIM);
    let jobs = take(&env, JobKind::Pack).await;
    assert_eq!(jobs.len(), 1, "the tail is another one");
    end(&env, &jobs[0], JobEnd::DoneAt(2)).await;
    env.clock.advance(PACK_FIRST_LOOK);
    assert_eq!(keys(&env, JobKind::Pack).await, []);
    env.start(key, "later").await;
    env.clock.advance(PACK_FIRST_LOOK);
    assert_eq!(keys(&env, JobKind::Pack).await, [key]);
}

pub async fn a_job_of_the_store_is_put_once_or_anew(env: Env) {
    let (kind, subject, minute) = (JobKind::ClockStep, JobSubject::Store, Duration::from_secs(60));
    let due = async || env.store.job_due(kind, &subject).await.expect("asks");
    let put = async |after: Duration, put: PutJob| env.store.put_job(kind, &subject, after, put).await.expect("puts");
    assert_eq!(due().await, None);
    assert!(put(minute, PutJob::IfAbsent).await);
    assert!(!put(2 * minute, PutJob::IfAbsent).await);
    assert_eq!(due().await, Some(minute));
    env.clock.advance(minute / 2);
    assert_eq!(due().await, Some(minute / 2));
    assert!(take(&env, kind).await.is_empty());
    assert!(put(2 * minute, PutJob::Anew).await);
    env.clock.advance(2 * minute);
    assert_eq!(due().await, Some(Duration::ZERO));
    let jobs = take(&env, kind).await;
    assert_eq!(jobs.iter().map(|job| (&job.subject, job.tries)).collect::<Vec<_>>(), [(&subject, 1)]);
    end(&env, &jobs[0], JobEnd::Done).await;
    assert_eq!(due().await, None);
}

pub async fn jobs_go_with_their_thread(env: Env) {
    let (key, fence) = env.running("t", "r").await;
    env.put(key, fence, 0..300).await;
    env.append(append(key, fence, None, finished())).await.expect("ends");
    env.store.delete_thread(key, None).await.expect("deletes");
    while env.purge(100).await {}
    env.clock.advance(STAGING_TIMEOUT);
    for kind in JobKind::ALL {
        assert_eq!(keys(&env, kind).await, [], "{kind:?}");
    }
    assert_eq!(env.store.purge(key, 10).await.expect("purges"), Purging::Done);
    assert_eq!(env.store.pack(key, Duration::ZERO).await.expect("packs"), Packing::Gone);
    let (alive, _) = env.running("alive", "r").await;
    assert_eq!(env.store.purge(alive, 10).await.expect("purges"), Purging::Done);
    env.put(alive, env.head(alive).await.fence, [1]).await;
}
