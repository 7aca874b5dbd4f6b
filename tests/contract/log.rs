//! The log: dense, fenced, and the same bytes for every reader.

use threadline_core::{Fence, LogSlice, ReadFrom, RunStatus, Seq, ThreadKey, limits::PAGE_BYTES};

use crate::support::*;

pub async fn appends_are_dense(env: Env) {
    let (key, fence) = env.running("t", "r").await;
    let mut next = 1;
    for size in [1, 3, 1, 40, 2, 300, 1] {
        env.clock.advance(std::time::Duration::from_millis(1));
        let done = env.put(key, fence, next..next + size).await;
        assert_eq!((done.first_seq, done.head.tail, done.at), (next, next + size - 1, env.clock.now()));
        next += size;
    }
    let wanted: Vec<String> = (1..next).map(|n| format!("{{\"type\":\"X\",\"n\":{n}}}")).collect();
    assert_eq!(env.texts(key).await, wanted);
    assert_eq!(env.get("t").await.expect("there").tail, next - 1);
}

pub async fn an_append_answers_with_the_head_after_it(env: Env) {
    let (key, fence) = env.running("t", "r").await;
    let epoch = env.get("t").await.expect("there").epoch;
    env.clock.advance(std::time::Duration::from_secs(3));
    let done = env.put(key, fence, [1, 2]).await;
    assert_eq!((done.run, done.producer_seq), (run_id("r"), 2));
    assert_eq!((done.head.key, done.head.epoch, done.head.fence), (key, epoch, fence));
    let active = done.head.active.clone().expect("active");
    assert_eq!((active.producer_seq, active.lease_until), (2, env.clock.now().plus(LEASE)), "an append renews");
    assert_eq!(env.head(key).await, done.head);
    let run = env.store.run(key, &run_id("r")).await.expect("run").expect("there");
    assert_eq!((run.producer_seq, run.lease_until), (2, Some(active.lease_until)));
    // Two threads in one commit answer the same way.
    let (other, other_fence) = env.running("o", "ro").await;
    let batch = [append(other, other_fence, 1, events([1])), append(key, fence, 3, events([3, 4, 5]))];
    let answers = env.store.append(&batch).await.expect("appends");
    for (answer, (key, first, producer_seq)) in answers.into_iter().zip([(other, 1, 1), (key, 3, 5)]) {
        let answer = answer.expect("appended");
        assert_eq!((answer.first_seq, answer.producer_seq), (first, producer_seq));
        assert_eq!(answer.head, env.head(key).await);
    }
    assert!(env.store.append(&[]).await.expect("appends").is_empty());
}

pub async fn an_append_must_fit_the_producer_seq(env: Env) {
    let (key, fence) = env.running("t", "r").await;
    for wrong in [0, 2, 3, u64::MAX] {
        assert!(env.append(append(key, fence, wrong, events([9]))).await.is_none(), "{wrong}");
    }
    assert!(env.append(append(key, fence, 1, events([1, 2]))).await.is_some());
    for wrong in [1, 2, 4] {
        assert!(env.append(append(key, fence, wrong, events([9]))).await.is_none(), "{wrong}");
    }
    assert!(env.append(append(key, fence, 3, events([3]))).await.is_some());
    // Without a number the batch is appended at the tail.
    let done = env.append(append(key, fence, None, events([4, 5]))).await.expect("appended");
    assert_eq!((done.first_seq, done.producer_seq), (4, 5));
    assert!(env.append(append(key, fence, 6, events([6]))).await.is_some());
    assert_eq!(env.log(key).await.len(), 6);
    assert!(env.append(append(ThreadKey(12_345), fence, None, events([1]))).await.is_none());
}

pub async fn a_late_retry_changes_nothing(env: Env) {
    let (key, fence) = env.running("t", "r1").await;
    let first = append(key, fence, 1, events([1, 2]));
    let last = append(key, fence, 3, finished());
    env.append(first.clone()).await.expect("appended");
    env.append(last.clone()).await.expect("appended");
    let check = async || {
        let before = (env.log(key).await, env.get("t").await);
        for retry in [&first, &last] {
            assert!(env.append(retry.clone()).await.is_none());
            let anywhere = threadline_store::Append { producer_seq: None, ..retry.clone() };
            assert!(env.append(anywhere).await.is_none(), "the run is over");
        }
        assert_eq!((env.log(key).await, env.get("t").await), before);
    };
    check().await;
    let next = env.start(key, "r2").await;
    check().await;
    env.put(key, next.fence, [1]).await;
    check().await;
    let run = env.store.run(key, &run_id("r1")).await.expect("run").expect("there");
    assert_eq!((run.first_seq, run.producer_seq, run.last_seq()), (1, 3, 3));
}

pub async fn the_terminal_event_frees_the_thread_in_its_commit(env: Env) {
    let (key, fence) = env.running("t", "r1").await;
    env.put(key, fence, [1]).await;
    let version = env.get("t").await.expect("there").version;
    env.clock.advance(std::time::Duration::from_millis(9));
    let done = env.append(append(key, fence, 2, ndjson("{\"type\":\"Y\"}\n{\"type\":\"RUN_FINISHED\"}"))).await;
    let done = done.expect("appended");
    assert_eq!((done.first_seq, done.producer_seq, done.run.clone()), (2, 3, run_id("r1")));
    assert_eq!((done.head.tail, done.head.active.clone(), done.head.fence), (3, None, fence));
    assert_eq!(env.head(key).await, done.head);
    let run = env.store.run(key, &run_id("r1")).await.expect("run").expect("there");
    assert_eq!((run.status, run.ended_at, run.lease_until), (RunStatus::Finished, Some(env.clock.now()), None));
    assert_eq!((run.producer_seq, run.last_seq()), (3, 3));
    let thread = env.get("t").await.expect("there");
    assert_eq!((thread.last_run_at, thread.active_run.clone()), (Some(env.clock.now()), None));
    assert!(thread.version > version);
    assert_eq!(env.start(key, "r2").await.first_seq, 4);
}

pub async fn a_terminal_error_is_recorded(env: Env) {
    // Text that needs escaping on the way.
    let message = "a \"quoted\" \\ new\nline é 漢 \u{1f600} '; DROP TABLE log; --";
    let thread = env.create("t").await;
    let mut batch = Vec::new();
    for (id, run) in [("a", "ra"), ("b", "rb")] {
        let (key, fence) = env.running(id, run).await;
        let event = serde_json::json!({"type": "RUN_ERROR", "message": message, "code": id});
        batch.push(append(key, fence, 1, ndjson(&event.to_string())));
    }
    let fence = env.start(thread.key, "rt").await.fence;
    batch.push(append(thread.key, fence, 1, ndjson("{\"type\":\"RUN_ERROR\"}")));
    let answers = env.store.append(&batch).await.expect("appends");
    assert!(answers.iter().all(Option::is_some));
    for (append, (run, code, text)) in
        batch.iter().zip([("ra", Some("a"), Some(message)), ("rb", Some("b"), Some(message)), ("rt", None, None)])
    {
        let run = env.store.run(append.key, &run_id(run)).await.expect("run").expect("there");
        assert_eq!((run.status, run.error_code.as_deref()), (RunStatus::Error, code));
        assert_eq!(run.error_message.as_deref(), text);
    }
}

pub async fn a_stale_writer_is_refused(env: Env) {
    let (key, old) = env.running("t", "r1").await;
    env.put(key, old, 1..=300).await;
    env.clock.advance(LEASE);
    let mut start = start_run(key, "r2");
    start.closing = Some(closing(&env.head(key).await, Some(run_error())));
    let new = env.started(start).await.run.fence;
    let stale = async |when: &str| {
        let before = env.head(key).await;
        for producer_seq in [None, Some(1), Some(301), Some(302)] {
            assert!(env.append(append(key, old, producer_seq, events([666]))).await.is_none(), "{when}");
        }
        for fence in [Fence(0), Fence(new.0 + 1), Fence(-1)] {
            assert!(env.append(append(key, fence, None, events([666]))).await.is_none(), "{when}");
        }
        assert_eq!(env.head(key).await, before, "{when}");
    };
    stale("after the next start").await;
    assert!(env.store.seal(key).await.expect("seals"));
    stale("after sealing").await;
    env.append(append(key, new, None, finished())).await.expect("ends");
    stale("after the end of the next run").await;
    assert_eq!(env.log(key).await.len(), 302);
}

pub async fn a_batch_of_many_threads_fails_only_for_the_stale(env: Env) {
    let mut batch = Vec::new();
    for n in 0..40 {
        let (key, fence) = env.running(&format!("t{n}"), &format!("r{n}")).await;
        batch.push(append(key, fence, 1, events([1, 2])));
    }
    // One fenced, one with a gap, one repeated, one ended, one gone, one of a thread that never was.
    batch[3].fence.run.0 += 1;
    batch[7].producer_seq = Some(2);
    env.append(batch[11].clone()).await.expect("appended");
    env.append(append(batch[13].key, batch[13].fence.run, None, finished())).await.expect("ends");
    env.store.delete_thread(batch[17].key, None).await.expect("deletes");
    batch[19].key = ThreadKey(123_456);
    batch[23].events = finished();
    let answers = env.store.append(&batch).await.expect("appends");
    assert_eq!(answers.len(), batch.len());
    for (n, (append, answer)) in batch.iter().zip(&answers).enumerate() {
        assert_eq!(answer.is_some(), ![3, 7, 11, 13, 17, 19].contains(&n), "{n}");
        if let Some(answer) = answer {
            assert_eq!((answer.head.key, answer.run.clone()), (append.key, run_id(&format!("r{n}"))));
            assert_eq!(env.log(append.key).await.len(), append.events.count());
        }
    }
    for (n, tail) in [(3, 0), (7, 0), (11, 2), (13, 1)] {
        assert_eq!(env.head(batch[n].key).await.tail, tail, "{n}");
    }
    // All of them stale: nothing is written, and the next one works.
    let stale: Vec<_> = batch.iter().map(|a| append(a.key, Fence(77), None, events([5]))).collect();
    assert!(env.store.append(&stale).await.expect("appends").iter().all(Option::is_none));
    assert!(env.append(append(batch[0].key, batch[0].fence.run, 3, events([3]))).await.is_some());
}

pub async fn a_thread_named_twice_in_a_batch_is_taken_in_order(env: Env) {
    let (key, fence) = env.running("t", "r").await;
    let (other, other_fence) = env.running("o", "r").await;
    let batch = [
        append(key, fence, 1, events([1])),
        append(other, other_fence, 1, events([1])),
        append(key, fence, 2, events([2])),
        append(key, fence, 2, events([9])),
        append(key, fence, 3, finished()),
        append(key, fence, 4, events([9])),
    ];
    let answers = env.store.append(&batch).await.expect("appends");
    let some: Vec<bool> = answers.iter().map(Option::is_some).collect();
    assert_eq!(some, [true, true, true, false, true, false]);
    assert_eq!(env.log(key).await.len(), 3);
}

/// A log of many batch sizes, runs and moments; what it holds.
async fn mixed(env: &Env, key: ThreadKey, batches: u64) -> Vec<(Seq, String, i64, String)> {
    let mut next = 0;
    for n in 0..batches {
        let run = env.start(key, &format!("run {n}")).await;
        for size in [1 + n % 5, 1, 30 * (n % 3) + 1] {
            env.clock.advance(std::time::Duration::from_millis(n));
            env.put(key, run.fence, next..next + size).await;
            next += size;
        }
        env.append(append(key, run.fence, None, finished())).await.expect("ends");
    }
    env.log(key).await
}

fn flat(slice: &LogSlice) -> Vec<(Seq, String, i64, String)> {
    let text = |event: &[u8]| String::from_utf8(event.to_vec()).expect("text");
    slice.events().map(|(seq, event, batch)| (seq, batch.run.to_string(), batch.at.0, text(event))).collect()
}

pub(crate) async fn check_all_cursors(env: &Env, key: ThreadKey, log: &[(Seq, String, i64, String)]) {
    let tail = log.len() as Seq;
    for max in [1, 2, 7, 100_000] {
        for cursor in (0..=tail + 2).step_by(if max == 7 { 1 } else { 13 }).chain([tail - 1, tail, u64::MAX]) {
            let page = env.store.read(key, ReadFrom::After(cursor), max).await.expect("reads").expect("there");
            assert_eq!(page.head.tail, tail);
            let got = flat(&page.slice);
            let from = cursor.min(tail) as usize;
            assert!(got.len() <= max && (from == log.len() || !got.is_empty()), "after {cursor}, {max}");
            assert_eq!(got[..], log[from..from + got.len()], "after {cursor}, {max}");
            if max <= 7 {
                assert_eq!(got.len(), max.min(log.len() - from), "small pages are full");
            }

            let page = env.store.read(key, ReadFrom::Before(cursor), max).await.expect("reads").expect("there");
            let got = flat(&page.slice);
            let to = cursor.saturating_sub(1).min(tail) as usize;
            assert!(got.len() <= max && (to == 0 || !got.is_empty()), "before {cursor}, {max}");
            assert_eq!(got[..], log[to - got.len()..to], "before {cursor}, {max}");
            if max <= 7 {
                assert_eq!(got.len(), max.min(to), "small pages are full");
            }
        }
    }
}

pub async fn pages_have_every_cursor_both_ways(env: Env) {
    let thread = env.create("t").await;
    // A neighbour on either side must not show through.
    env.running("next", "r").await;
    let log = mixed(&env, thread.key, 12).await;
    check_all_cursors(&env, thread.key, &log).await;
    let empty = env.create("empty").await;
    for from in [ReadFrom::After(0), ReadFrom::After(9), ReadFrom::Before(0), ReadFrom::Before(u64::MAX)] {
        let page = env.store.read(empty.key, from, 10).await.expect("reads").expect("there");
        assert_eq!((page.slice.count(), page.head.tail), (0, 0));
    }
}

pub async fn pages_are_bounded_but_never_empty(env: Env) {
    let (key, fence) = env.running("t", "r").await;
    let line = |size: usize| ndjson(&format!("{{\"type\":\"X\",\"pad\":\"{}\"}}", "x".repeat(size)));
    // Small ones, one larger than any page, a batch that is larger as a whole, small ones.
    let mut count = 0;
    for size in [10, 10, 3 * PAGE_BYTES, 10, 10] {
        count += 1;
        env.append(append(key, fence, count, line(size))).await.expect("appended");
    }
    let lines: Vec<String> =
        (0..200).map(|n| format!("{{\"type\":\"X\",\"n\":{n},\"pad\":\"{}\"}}", "y".repeat(4_000))).collect();
    env.append(append(key, fence, None, ndjson(&lines.join("\n")))).await.expect("appended");
    for _ in 0..300 {
        env.append(append(key, fence, None, line(3_000))).await.expect("appended");
    }
    let tail = env.head(key).await.tail;
    assert_eq!(tail, 5 + 200 + 300);
    let largest_row = 3 * PAGE_BYTES + 8_000;
    let (mut after, mut pages) = (0, 0);
    while after < tail {
        let page = env.store.read(key, ReadFrom::After(after), 100_000).await.expect("reads").expect("there");
        assert_eq!(page.slice.first_seq(), Some(after + 1));
        assert!(page.slice.bytes() <= PAGE_BYTES + largest_row, "{}", page.slice.bytes());
        after = page.slice.last_seq().expect("never empty");
        pages += 1;
    }
    assert!(pages >= 5, "{pages}");
    let mut before = tail + 1;
    while before > 1 {
        let page = env.store.read(key, ReadFrom::Before(before), 100_000).await.expect("reads").expect("there");
        assert_eq!(page.slice.last_seq(), Some(before - 1));
        assert!(page.slice.bytes() <= PAGE_BYTES + largest_row, "{}", page.slice.bytes());
        before = page.slice.first_seq().expect("never empty");
    }
}

pub async fn sealing_changes_nothing_for_readers(env: Env) {
    let thread = env.create("t").await;
    let log = mixed(&env, thread.key, 30).await;
    assert!(log.len() > 700);
    let head = env.head(thread.key).await;
    assert!(env.store.seal(thread.key).await.expect("seals"));
    assert!(!env.store.seal(thread.key).await.expect("seals"), "nothing is left to seal");
    assert_eq!(env.head(thread.key).await, head);
    assert_eq!(env.log(thread.key).await, log);
    check_all_cursors(&env, thread.key, &log).await;
    // The log continues after the segments, and is sealed again.
    let more = mixed_from(&env, thread.key, 1_000).await;
    assert_eq!(env.log(thread.key).await, more);
    assert!(env.store.seal(thread.key).await.expect("seals"));
    assert_eq!(env.log(thread.key).await, more);
    assert_eq!(more[..log.len()], log[..]);
}

async fn mixed_from(env: &Env, key: ThreadKey, count: u64) -> Vec<(Seq, String, i64, String)> {
    let run = env.start(key, "later").await;
    for n in 0..count / 10 {
        env.put(key, run.fence, n * 10..n * 10 + 10).await;
    }
    env.log(key).await
}

pub async fn sealing_packs_across_runs_and_skips_large_rows(env: Env) {
    let (key, fence) = env.running("t", "r").await;
    let large = format!("{{\"type\":\"X\",\"pad\":\"{}\"}}", "x".repeat(1_500_000));
    env.append(append(key, fence, None, ndjson(&large))).await.expect("appended");
    assert!(!env.store.seal(key).await.expect("seals"));
    for _ in 0..4 {
        env.put(key, fence, 0..100).await;
    }
    for _ in 0..4 {
        env.append(append(key, fence, None, ndjson(&large))).await.expect("appended");
    }
    env.append(append(key, fence, None, finished())).await.expect("ends");
    let next = env.start(key, "r2").await;
    for _ in 0..4 {
        env.put(key, next.fence, 0..100).await;
    }
    let log = env.log(key).await;
    let mut sealed = 0;
    while env.store.seal(key).await.expect("seals") {
        sealed += 1;
        assert!(sealed < 10);
    }
    assert!(sealed >= 1);
    assert_eq!(env.log(key).await, log);
    // An active run is sealed too, and continues.
    env.put(key, next.fence, 0..300).await;
    assert!(env.store.seal(key).await.expect("seals"));
    env.put(key, next.fence, [1]).await;
    assert_eq!(env.log(key).await.len(), log.len() + 301);
}

pub async fn heads_are_read_in_one_query(env: Env) {
    let mut keys = Vec::new();
    for n in 0..20 {
        keys.push(env.create(&format!("t{n}")).await.key);
    }
    let run = env.start(keys[4], "r").await;
    env.put(keys[4], run.fence, 0..9).await;
    env.store.delete_thread(keys[5], None).await.expect("deletes");
    let mut heads = env.store.heads(&[keys[4], keys[5], ThreadKey(9_999), keys[0]]).await.expect("heads");
    heads.sort_by_key(|head| head.key);
    assert_eq!(heads.len(), 2);
    assert_eq!((heads[0].key, heads[0].tail, heads[0].active.clone()), (keys[0], 0, None));
    assert_eq!((heads[1].key, heads[1].tail, heads[1].fence), (keys[4], 9, run.fence));
    assert_eq!(heads[1].active.as_ref().map(|active| active.producer_seq), Some(9));
    assert!(env.store.heads(&[]).await.expect("heads").is_empty());
    let many: Vec<ThreadKey> = (0..5_000).map(ThreadKey).collect();
    assert_eq!(env.store.heads(&many).await.expect("heads").len(), 19);
}

pub async fn events_are_returned_byte_for_byte(env: Env) {
    let (key, fence) = env.running("t", "r").await;
    let nasty = [
        r#"{"type":"X","a":1,"a":2,"z":null, "b" : [ ] }"#.to_owned(),
        r#"{"type":"X","nul":"\u0000","lone":"\ud800","pair":"\ud83d\ude00"}"#.to_owned(),
        r#"{"type":"X","big":123456789012345678901234567890.000,"e":1E400}"#.to_owned(),
        "{\"type\":\"X\",\"text\":\"é漢😀\u{7f}\u{2028}\"}".to_owned(),
        format!("{{\"type\":\"X\",\"deep\":{}{}}}", "[".repeat(100), "]".repeat(100)),
        format!("{{\"type\":\"X\",\"long\":\"{}\"}}", "0123456789".repeat(100_000)),
    ];
    for event in &nasty {
        env.append(append(key, fence, None, ndjson(event))).await.expect("appended");
    }
    let (other, other_fence) = env.running("o", "r").await;
    let all = ndjson(&nasty.join("\n"));
    let batch = [append(key, fence, None, all.clone()), append(other, other_fence, None, all)];
    assert!(env.store.append(&batch).await.expect("appends").iter().all(Option::is_some));
    assert_eq!(env.texts(other).await, nasty);
    let twice: Vec<String> = nasty.iter().chain(&nasty).cloned().collect();
    assert_eq!(env.texts(key).await, twice);
    env.put(key, fence, 0..400).await;
    while env.store.seal(key).await.expect("seals") {}
    assert_eq!(env.texts(key).await[..12], twice);
}
