//! What a client that comes back is told first: everything up to now, in a form that it can take whatever it has.
//!
//! It sends no cursor, and it may still have messages of its own, or the beginning of one: a page that was opened anew has
//! nothing, one that was told of another tab's run has all but that. Told the events again, it would have texts twice. So it
//! is given the messages and the state as they are, as one run that has ended, and then, if a run is active, the events of
//! that from the last quiet one on (see [`Resuming`]). Old errors are not repeated; interrupts that wait for an answer are.

use std::collections::HashSet;

use serde_json::{json, value::RawValue};

use super::{
    acceptable,
    stream::{Telling, bound, write, write_value},
};
use crate::{
    api::{ApiState, problem::Problem},
    domain::{Principal, Run, RunId, Seq, Thread, ThreadId, limits::MAX_EVENT_PAGE},
    projection::{conversation::Conversation, resuming::Resuming},
    service::{PageRequest, ServiceError},
    store::ReadFrom,
    subscription::Subscription,
};

/// A thread may be deleted and made again this often while it is looked at.
const TRIES: usize = 8;
/// How many runs back the name of the last one is looked for that said anything.
const LOOK_BACK: usize = 16;

/// What is told.
pub struct Opening {
    /// Everything up to now.
    pub told: Vec<u8>,
    /// What comes after it, if a run is active.
    pub rest: Option<(Subscription, Telling)>,
}

/// Makes the opening for a client that has reasoning with these ids; `None` if there is nothing to tell.
pub async fn opening(
    state: &ApiState,
    principal: &Principal,
    id: &ThreadId,
    known: &HashSet<String>,
) -> Result<Option<Opening>, Problem> {
    for _ in 0..TRIES {
        let thread = match state.service.threads.get(principal, id).await {
            Err(ServiceError::ThreadNotFound) => return Ok(None),
            thread => thread?,
        };
        match attempt(state, principal, &thread, known).await {
            // Another log has taken its place meanwhile.
            Err(ServiceError::LogReplaced { .. } | ServiceError::RunNotFound) => {}
            Err(ServiceError::ThreadNotFound) => return Ok(None),
            opening => return Ok(opening?),
        }
    }
    Ok(None)
}

async fn attempt(
    state: &ApiState,
    principal: &Principal,
    thread: &Thread,
    known: &HashSet<String>,
) -> Result<Option<Opening>, ServiceError> {
    let service = &state.service;
    let (runs, _) = service.runs.list(principal, &thread.id, None, LOOK_BACK, None).await?;
    let active = runs.first().filter(|run| run.status.is_active());
    let ended = runs.iter().find(|run| !run.status.is_active() && run.producer_seq > 0);
    let Some(newest) = active.or(ended) else { return Ok(None) };
    let resuming = folded(state, principal, thread, newest).await?;
    let seq = if active.is_some() { resuming.quiet() } else { newest.last_seq() };
    let projected = service.projections.at(principal, &thread.id, Some(seq), Some(thread.epoch)).await?;
    let conversation = projected.conversation;
    let mut told = Vec::new();
    let name = ended.unwrap_or(newest);
    let Some(active) = active else {
        history(&mut told, thread, &name.id, &conversation, &HashSet::new(), Some(&resuming));
        return Ok(Some(Opening { told, rest: None }));
    };
    let half = resuming.reasoning().iter().filter(|id| known.contains(*id)).map(String::as_str).collect();
    if seq > 0 || conversation.messages().len() > 0 {
        history(&mut told, thread, &name.id, &conversation, &half, None);
    }
    let begun = seq >= active.first_seq;
    if begun {
        write_value(&mut told, &bound("RUN_STARTED", &thread.id, &active.id));
        let mut telling = Telling::new(thread.id.clone(), active.id.clone(), true);
        for event in resuming.custom(seq).chain(resuming.spans()) {
            telling.tell(&mut told, event);
        }
    }
    let events = &service.events;
    let subscription = events.subscribe(principal, &thread.id, seq, Some(thread.epoch), Some(&active.id)).await?;
    let telling = Telling::new(thread.id.clone(), active.id.clone(), begun);
    Ok(Some(Opening { told, rest: Some((subscription, telling)) }))
}

/// Where a run can be gone on from.
async fn folded(state: &ApiState, principal: &Principal, thread: &Thread, run: &Run) -> Result<Resuming, ServiceError> {
    let mut resuming = Resuming::new(run.first_seq);
    let (mut cursor, end) = (run.first_seq - 1, run.last_seq());
    while cursor < end {
        let request = PageRequest {
            from: ReadFrom::After(cursor),
            limit: MAX_EVENT_PAGE,
            epoch: Some(thread.epoch),
            run: Some(run.id.clone()),
            wait: None,
        };
        let page = state.service.events.page(principal, &thread.id, request).await?;
        for (seq, event, _) in page.slice.events().filter(|(seq, ..)| *seq <= end) {
            resuming.observe(seq, event);
        }
        if page.cursor <= cursor {
            break;
        }
        cursor = page.cursor;
    }
    Ok(resuming)
}

/// Messages and state as a run that has ended. `half`: reasoning that the client has the beginning of, and that is told from
/// its beginning afterwards. With `last`, the thread's last run, nothing comes afterwards.
fn history(
    out: &mut Vec<u8>,
    thread: &Thread,
    run: &RunId,
    conversation: &Conversation,
    half: &HashSet<&str>,
    last: Option<&Resuming>,
) {
    write_value(out, &bound("RUN_STARTED", &thread.id, run));
    let mut snapshot = b"{\"type\":\"MESSAGES_SNAPSHOT\",\"messages\":[".to_vec();
    let begin = snapshot.len();
    let mut text = Vec::new();
    let mut add = |message: &[u8]| {
        let Some(message) = std::str::from_utf8(message).ok().and_then(acceptable::message) else { return };
        if snapshot.len() > begin {
            snapshot.push(b',');
        }
        snapshot.extend_from_slice(message.as_bytes());
    };
    for message in conversation.messages() {
        text.clear();
        message.write_json(&mut text);
        add(&text);
    }
    for id in half {
        add(json!({ "id": id, "role": "reasoning", "content": "" }).to_string().as_bytes());
    }
    snapshot.extend_from_slice(b"]}");
    write(out, &snapshot);
    let state = conversation.state_json();
    // The client begins with this one; sent, it would take away what its application has put there.
    if state != b"{}" {
        write(out, &[b"{\"type\":\"STATE_SNAPSHOT\",\"snapshot\":".as_slice(), &state, b"}"].concat());
    }
    let mut finished = bound("RUN_FINISHED", &thread.id, run);
    if let Some(last) = last {
        let mut telling = Telling::new(thread.id.clone(), run.clone(), true);
        last.custom(Seq::MAX).for_each(|event| telling.tell(out, event));
        let interrupts: Vec<Box<RawValue>> =
            serde_json::from_slice(&conversation.interrupts_json()).unwrap_or_default();
        if !interrupts.is_empty() {
            finished["outcome"] = json!({ "type": "interrupt", "interrupts": interrupts });
        }
    }
    write_value(out, &finished);
}
