//! Writes that name the epoch which the log must have.

use threadline_core::{Epoch, ThreadPatch};
use threadline_store::{
    Append, CloseOutcome, CloseWhen, Closing, HeartbeatRequest, StartOutcome, StartRun, StopOutcome,
};

use crate::{
    lineage::another_generation,
    support::{Env, append, closing, events, finished, run_error, run_id, start_run},
};

pub async fn a_write_that_requires_another_epoch_changes_nothing(env: Env) {
    let (key, fence) = env.running("a", "r").await;
    let (beside, beside_fence) = env.running("b", "r").await;
    env.put(key, fence, 0..2).await;
    let before = (env.head(key).await, env.get("a").await.expect("a thread"), env.log(key).await);
    let (right, wrong, version) = (Some(before.0.epoch), Some(Epoch::generate()), before.1.version);
    let at = |epoch, events| Append { epoch, ..append(key, fence, None, events) };
    // Alone, in a group, and with the end of the run.
    for (n, whole) in (0..).zip([events(2..3), finished()]) {
        assert!(env.append(at(wrong, whole.clone())).await.is_none());
        let batch = [at(wrong, whole), append(beside, beside_fence, None, events(n..n + 1))];
        let answers = env.store.append(&batch).await.expect("appends");
        assert_eq!(answers.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true]);
    }
    // The run that exists already as well as a new one.
    for run in ["r", "s"] {
        let start = StartRun { epoch: wrong, ..start_run(key, run) };
        let answer = env.store.start(start).await.expect("answers");
        assert!(matches!(&answer, StartOutcome::OtherEpoch(head) if *head == before.0), "{answer:?}");
    }
    let end = |epoch| Closing { epoch, ..closing(&before.0, Some(run_error())) };
    assert!(matches!(env.store.close(key, end(wrong), CloseWhen::Always).await, Ok(CloseOutcome::Missed)));
    let beat = |epoch| HeartbeatRequest { key, fence: fence.into(), lease: None, epoch };
    assert_eq!(env.store.heartbeat(&[beat(wrong)]).await.expect("answers"), [None]);
    for run in ["r", "none"] {
        let stop = env.store.request_stop(key, &run_id(run), wrong, true).await.expect("answers");
        assert!(matches!(&stop, StopOutcome::OtherEpoch(head) if *head == before.0), "{stop:?}");
    }
    assert!(!env.store.release(key, fence, wrong).await.expect("answers"));
    let archived = || ThreadPatch { archived: Some(true), ..ThreadPatch::default() };
    assert_eq!(env.store.edit_thread(key, version, archived(), wrong).await.expect("answers"), None);
    assert_eq!(env.store.mark_read(key, 1, wrong).await.expect("answers"), None);
    assert!(!env.store.delete_thread(key, wrong).await.expect("answers"));
    assert_eq!((env.head(key).await, env.get("a").await.expect("a thread"), env.log(key).await), before);

    // With the epoch that the log has, each is carried out.
    env.append(at(right, events(2..3))).await.expect("appended");
    let batch = [at(right, events(3..4)), append(beside, beside_fence, None, events(2..3))];
    assert!(env.store.append(&batch).await.expect("appends").iter().all(Option::is_some));
    assert!(env.store.heartbeat(&[beat(right)]).await.expect("answers")[0].is_some());
    env.store.edit_thread(key, version, archived(), right).await.expect("edits").expect("edited");
    env.store.mark_read(key, 1, right).await.expect("marks").expect("marked");
    let stop = env.store.request_stop(key, &run_id("r"), right, true).await.expect("stops");
    assert!(matches!(stop, StopOutcome::Asked(..)), "{stop:?}");
    assert!(env.store.release(key, fence, right).await.expect("releases"));
    let end = Closing { epoch: right, ..closing(&env.head(key).await, Some(run_error())) };
    env.close(key, end).await;
    env.started(StartRun { epoch: right, ..start_run(key, "s") }).await;
    assert!(env.store.delete_thread(key, right).await.expect("deletes"));
}

pub async fn the_epoch_before_names_the_same_thread_but_not_the_same_log(env: Env) {
    let (key, fence) = env.running("a", "r").await;
    env.put(key, fence, 0..2).await;
    let old = Some(env.head(key).await.epoch);
    another_generation(&env).await;
    env.put(key, fence, 2..3).await;
    let before = env.head(key).await;
    assert_eq!(before.prior.map(|prior| prior.epoch), old);
    assert!(env.append(Append { epoch: old, ..append(key, fence, None, events(3..4)) }).await.is_none());
    assert_eq!(env.store.mark_read(key, 1, old).await.expect("answers"), None);
    let stop = env.store.request_stop(key, &run_id("r"), old, true).await.expect("answers");
    assert!(matches!(stop, StopOutcome::OtherEpoch(_)), "{stop:?}");
    assert_eq!(env.head(key).await, before);
    let version = env.get("a").await.expect("a thread").version;
    let archived = ThreadPatch { archived: Some(true), ..ThreadPatch::default() };
    env.store.edit_thread(key, version, archived, old).await.expect("edits").expect("edited");
    assert!(env.store.delete_thread(key, old).await.expect("deletes"));
}
