//! The row of a thread has its open interrupts: from the end of the run that requests them to the end of a run that
//! answers them.

use std::time::Duration;

use serde_json::{Value, json};
use threadline_core::{
    Author, Fence, ListOrder, NewEvents, OpenInterrupt, RunStatus, Thread, ThreadKey, ThreadStatus,
    limits::{MAX_LISTED_INTERRUPT_BYTES, MAX_LISTED_INTERRUPTS_BYTES, MAX_OPEN_INTERRUPTS},
};
use threadline_store::{ListThreads, StartRun};

use crate::support::*;

/// RUN_FINISHED that requests interrupts.
pub fn requests(ids: &[&str]) -> Value {
    let interrupts: Vec<_> = ids.iter().map(|id| json!({ "id": id, "reason": "tool_call" })).collect();
    json!({ "type": "RUN_FINISHED", "outcome": { "type": "interrupt", "interrupts": interrupts } })
}

/// RUN_STARTED that answers interrupts.
pub fn answers(ids: &[&str]) -> Value {
    let resume: Vec<_> = ids.iter().map(|id| json!({ "interruptId": id, "status": "resolved" })).collect();
    json!({ "type": "RUN_STARTED", "input": { "resume": resume } })
}

fn batch(events: &[Value]) -> NewEvents {
    NewEvents::from_values(events)
}

fn done() -> Value {
    json!({ "type": "RUN_FINISHED" })
}

fn failed() -> Value {
    json!({ "type": "RUN_ERROR", "message": "no" })
}

async fn open(env: &Env, key: ThreadKey) -> Vec<OpenInterrupt> {
    let mut rows = env.store.open_interrupts(&[key, ThreadKey(404)]).await.expect("interrupts");
    assert!(rows.len() <= 1);
    rows.pop().map(|(of, open)| (assert_eq!(of, key), open).1).unwrap_or_default()
}

/// Ids of the open interrupts, with the runs that answer them.
async fn ids(env: &Env, key: ThreadKey) -> Vec<(String, Option<String>)> {
    open(env, key).await.into_iter().map(|one| (one.id, one.answered_in.map(|run| run.to_string()))).collect()
}

fn waiting(ids: &[&str]) -> Vec<(String, Option<String>)> {
    ids.iter().map(|id| ((*id).to_owned(), None)).collect()
}

fn answered(ids: &[(&str, Option<&str>)]) -> Vec<(String, Option<String>)> {
    ids.iter().map(|(id, run)| ((*id).to_owned(), run.map(str::to_owned))).collect()
}

async fn thread(env: &Env, id: &str) -> Thread {
    env.get(id).await.expect("there")
}

/// A run that is appended complete.
async fn whole(env: &Env, key: ThreadKey, run: &str, events: &[Value]) {
    env.started(StartRun { events: Some(batch(events)), ..start_run(key, run) }).await;
}

/// A start of a run that answers the interrupt `i`.
fn answering(key: ThreadKey, run: &str) -> StartRun {
    StartRun { events: Some(batch(&[answers(&["i"])])), ..start_run(key, run) }
}

async fn put(env: &Env, key: ThreadKey, fence: Fence, events: &[Value]) {
    env.append(append(key, fence, None, batch(events))).await.expect("appends");
}

pub async fn an_interrupt_is_open_until_a_run_that_answers_it_has_ended(env: Env) {
    let key = env.create("t").await.key;
    let start = StartRun { author: Some(Author::stored("agent:a")), ..start_run(key, "asks") };
    let fence = env.started(start).await.run.fence;
    put(&env, key, fence, &[json!({ "type": "X" })]).await;
    assert_eq!((thread(&env, "t").await.open_interrupts, open(&env, key).await), (0, Vec::new()));
    env.clock.advance(Duration::from_millis(7));
    put(&env, key, fence, &[requests(&["i", "j"])]).await;
    let asked = open(&env, key).await;
    let expected = |id: &str| OpenInterrupt {
        id: id.to_owned(),
        seq: 2,
        at: env.clock.now(),
        run: run_id("asks"),
        author: Some(Author::stored("agent:a")),
        answered_in: None,
        body: json!({ "id": id, "reason": "tool_call" }).to_string(),
    };
    assert_eq!(asked, [expected("i"), expected("j")]);
    let waits = thread(&env, "t").await;
    assert_eq!((waits.open_interrupts, waits.status()), (2, ThreadStatus::Waiting));

    // An answer is noted when its run begins: with the start, or in a later append.
    let answer = batch(&[answers(&["i", "unknown"])]);
    let fence = env.started(StartRun { events: Some(answer), ..start_run(key, "fails") }).await.run.fence;
    assert_eq!(ids(&env, key).await, answered(&[("i", Some("fails")), ("j", None)]));
    assert_eq!(thread(&env, "t").await.status(), ThreadStatus::Running);
    put(&env, key, fence, &[failed()]).await;
    assert_eq!(ids(&env, key).await, waiting(&["i", "j"]), "a run that failed settles nothing");
    assert_eq!(thread(&env, "t").await.status(), ThreadStatus::Waiting);

    let fence = env.start(key, "answers").await.fence;
    put(&env, key, fence, &[answers(&["i"])]).await;
    assert_eq!(ids(&env, key).await, answered(&[("i", Some("answers")), ("j", None)]));
    put(&env, key, fence, &[done()]).await;
    assert_eq!(ids(&env, key).await, waiting(&["j"]));

    whole(&env, key, "answers nothing", &[done()]).await;
    assert_eq!(ids(&env, key).await, waiting(&["j"]), "a run that answers nothing settles nothing");
    whole(&env, key, "fails whole", &[answers(&["j"]), failed()]).await;
    assert_eq!(ids(&env, key).await, waiting(&["j"]));
    whole(&env, key, "asks again", &[answers(&["j"]), requests(&["j", "k"])]).await;
    let again = open(&env, key).await;
    assert!(again.iter().all(|one| one.run == run_id("asks again")), "{again:?}");
    whole(&env, key, "asks what is open", &[requests(&["k", "l"])]).await;
    let more: Vec<_> = open(&env, key).await.into_iter().map(|one| (one.id, one.run.to_string())).collect();
    let more: Vec<_> = more.iter().map(|(id, run)| (&**id, &**run)).collect();
    assert_eq!(more, [("j", "asks again"), ("k", "asks again"), ("l", "asks what is open")]);
    whole(&env, key, "answers all", &[answers(&["k", "j", "l"]), done()]).await;
    let settled = thread(&env, "t").await;
    assert_eq!((open(&env, key).await, settled.open_interrupts, settled.status()), (Vec::new(), 0, ThreadStatus::Idle));
}

pub async fn a_run_that_another_one_closes_settles_by_its_end(env: Env) {
    for (number, (status, left)) in
        [(RunStatus::Stopped, &[][..]), (RunStatus::Abandoned, &["i"][..])].into_iter().enumerate()
    {
        let key = env.create(&format!("closed {number}")).await.key;
        whole(&env, key, "asks", &[requests(&["i"])]).await;
        env.started(answering(key, "answers")).await;
        let mut end = closing(&env.head(key).await, None);
        end.status = status;
        env.close(key, end).await;
        assert_eq!(ids(&env, key).await, waiting(left), "{status:?}");

        let key = env.create(&format!("replaced {number}")).await.key;
        whole(&env, key, "asks", &[requests(&["i"])]).await;
        env.started(answering(key, "lapses")).await;
        env.clock.advance(LEASE);
        let mut end = closing(&env.head(key).await, None);
        end.status = status;
        env.started(StartRun { closing: Some(end), ..answering(key, "next") }).await;
        let next: Vec<_> = left.iter().map(|id| (*id, Some("next"))).collect();
        assert_eq!(ids(&env, key).await, answered(&next), "{status:?}");
    }
}

pub async fn runs_of_one_commit_change_each_its_own_thread(env: Env) {
    let mut appends = Vec::new();
    for id in ["asks", "answers", "fails", "begins", "other"] {
        let key = env.create(id).await.key;
        if id != "asks" {
            whole(&env, key, "before", &[requests(&[id])]).await;
        }
        let fence = env.start(key, "r").await.fence;
        let events = match id {
            "asks" => vec![requests(&["new"])],
            "answers" => vec![answers(&[id]), done()],
            "fails" => vec![answers(&[id]), failed()],
            "begins" => vec![answers(&[id])],
            _ => vec![json!({ "type": "X" })],
        };
        appends.push(append(key, fence, None, batch(&events)));
    }
    assert!(env.store.append(&appends).await.expect("appends").iter().all(Option::is_some));
    let expected = [waiting(&["new"]), waiting(&[]), waiting(&["fails"]), answered(&[("begins", Some("r"))])];
    for (append, expected) in appends.iter().zip(expected.into_iter().chain([waiting(&["other"])])) {
        assert_eq!(ids(&env, append.key).await, expected);
    }
}

pub async fn a_row_lists_a_bounded_number_of_interrupts(env: Env) {
    let key = env.create("many").await.key;
    let many: Vec<_> = (0..MAX_OPEN_INTERRUPTS).map(|at| at.to_string()).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    whole(&env, key, "many", &[requests(&many)]).await;
    whole(&env, key, "more", &[requests(&["more"])]).await;
    assert_eq!(thread(&env, "many").await.open_interrupts, MAX_OPEN_INTERRUPTS as u64);
    let key = env.create("large").await.key;
    let large = "é".repeat((MAX_LISTED_INTERRUPT_BYTES - 64) / 2);
    for run in 0..=MAX_LISTED_INTERRUPTS_BYTES / MAX_LISTED_INTERRUPT_BYTES + 1 {
        let event = json!({ "type": "RUN_FINISHED", "outcome": { "type": "interrupt", "interrupts": [
            { "id": run.to_string(), "message": large }
        ] } });
        whole(&env, key, &format!("{run}"), &[event]).await;
    }
    let bytes: usize = open(&env, key).await.iter().map(|one| one.body.len()).sum();
    let bounds = MAX_LISTED_INTERRUPTS_BYTES..=MAX_LISTED_INTERRUPTS_BYTES + MAX_LISTED_INTERRUPT_BYTES;
    assert!(bounds.contains(&bytes), "{bytes}");
}

pub async fn interrupts_of_an_agent_are_listed_whatever_producers_request(env: Env) {
    let request = async |author: &str, key, run: &str, ids: &[&str]| {
        let author = Some(Author::stored(author));
        env.started(StartRun { author, events: Some(batch(&[requests(ids)])), ..start_run(key, run) }).await;
    };
    let listed = async |key, id: &str| open(&env, key).await.into_iter().find(|one| one.id == id);
    // A row that producers have filled has room for the interrupts of an agent, and none for those of another producer.
    let key = env.create("full").await.key;
    let many: Vec<_> = (0..MAX_OPEN_INTERRUPTS).map(|at| at.to_string()).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    request("user:u", key, "fills", &many).await;
    request("agent:a", key, "asks", &["i", "7"]).await;
    let author = async |id: &str| listed(key, id).await.and_then(|one| one.author).map(|author| author.to_string());
    assert_eq!(author("i").await.as_deref(), Some("agent:a"));
    // An id that a producer has requested first is the agent's from then on, and stays so.
    assert_eq!(author("7").await.as_deref(), Some("agent:a"));
    assert_eq!(listed(key, "7").await.map(|one| one.run), Some(run_id("asks")));
    request("user:u", key, "repeats", &["i", "7"]).await;
    assert_eq!(author("i").await.as_deref(), Some("agent:a"));
    assert_eq!(open(&env, key).await.len(), MAX_OPEN_INTERRUPTS + 1);
    // Agents have a bound of their own.
    let key = env.create("agent").await.key;
    request("agent:a", key, "fills", &many).await;
    request("agent:a", key, "asks", &["i"]).await;
    request("user:u", key, "repeats", &["i"]).await;
    assert_eq!(open(&env, key).await.len(), MAX_OPEN_INTERRUPTS);
}

pub async fn threads_that_wait_are_listed_in_every_order(env: Env) {
    for n in 0..9 {
        let key = env.create(&format!("{n}")).await.key;
        let events = match n % 3 {
            0 => vec![requests(&["i"])],
            1 => vec![failed()],
            _ => vec![done()],
        };
        whole(&env, key, "r", &events).await;
        if n == 6 {
            env.started(StartRun { events: Some(batch(&[answers(&["i"])])), ..start_run(key, "answers") }).await;
        }
        if n == 3 {
            whole(&env, key, "fails", &[failed()]).await;
        }
        env.clock.advance(Duration::from_millis(1));
    }
    let found = async |status, order| {
        let list = ListThreads { status: Some(status), order, ..list(100) };
        let page = env.store.list_threads(list).await.expect("lists");
        page.threads.into_iter().map(|thread| thread.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(found(ThreadStatus::Waiting, ListOrder::Recent).await, ["3", "0"]);
    assert_eq!(found(ThreadStatus::Waiting, ListOrder::Created).await, ["0", "3"]);
    assert_eq!(found(ThreadStatus::Failed, ListOrder::Created).await, ["1", "4", "7"]);
    assert_eq!(found(ThreadStatus::Idle, ListOrder::Recent).await, ["8", "5", "2"]);
    assert_eq!(found(ThreadStatus::Running, ListOrder::Recent).await, ["6"]);
}

pub async fn a_deleted_thread_has_no_open_interrupt(env: Env) {
    let key = env.create("t").await.key;
    whole(&env, key, "asks", &[requests(&["i"])]).await;
    assert!(env.store.delete_thread(key, None).await.expect("deletes"));
    assert_eq!(open(&env, key).await, Vec::new());
}
