//! Conversations as documents: the whole list of messages under a name, which is the thread's id.
//!
//! Saving one compares it with what the log amounts to and appends what is new, as finished runs. It is worked out from the
//! events up to a tail, and the store takes it only behind that tail: of two savers that saw the same, one wins, and the
//! other looks again.

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::time;

use super::{
    CreateThread, EditThread, NewRun, Projected, Projections, Runs, ServiceError, Threads, context::Context,
    directory::ThreadRef, error::ActiveRun, opening::Begun, projections::aside,
};
use crate::{
    domain::{
        AgentId, Epoch, EventError, NewEvents, Principal, RunId, Seq, ThreadId,
        json::quoted,
        limits::{MAX_EVENT_BYTES, RECHECK_INTERVAL, WHOLE_RUN_WAIT},
    },
    projection::conversation::{Conversation, Draft},
    store::{Head, StoreError},
};

/// A save may be overtaken by others this often before the client is asked to come again.
const SAVE_TRIES: usize = 32;

/// Bytes of an event that brings messages, besides them: two ids, twice each, with every byte escaped. The largest message
/// fits beside them, see `MAX_DOCUMENT_MESSAGE_BYTES`.
const FRAME_BYTES: usize = 4 * 1_024;

/// Which version of a conversation: changed by every event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// The incarnation of the log.
    pub epoch: Epoch,
    /// The newest event that is in it.
    pub seq: Seq,
}

/// What must be so for a save to be carried out. A list that is stored already is never refused.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Condition {
    /// Nothing: it is carried out if nothing stored is lost by it.
    #[default]
    None,
    /// The conversation has one of these versions. Then it may be replaced.
    Version(Vec<Version>),
    /// There is a conversation.
    Exists,
    /// There is none.
    Absent,
}

/// A conversation to be saved.
#[derive(Debug, Clone)]
pub struct Save {
    /// All of its messages.
    pub messages: Vec<Draft>,
    /// Changes of the thread's metadata (RFC 7396).
    pub metadata: Option<Map<String, Value>>,
    /// The agent that a new thread, and the runs that are appended, are of.
    pub agent: Option<AgentId>,
    /// What must be so.
    pub condition: Condition,
}

/// What a save did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Messages were put behind those that were there.
    Appended,
    /// It was stored like this already.
    Unchanged,
    /// It was saved like this before, and others have appended since.
    Repeated,
    /// It took the place of what was there.
    Replaced,
}

/// A conversation that is stored.
#[derive(Debug, Clone)]
pub struct Saved {
    /// What the save did.
    pub outcome: Outcome,
    /// The version that has exactly these messages.
    pub version: Version,
    /// Whether its thread was made.
    pub created: bool,
    /// How many messages were put into the log.
    pub appended: usize,
}

/// The use cases of conversations as documents.
#[derive(Clone)]
pub struct Conversations {
    pub(super) context: Context,
    pub(super) threads: Threads,
    pub(super) runs: Runs,
    pub(super) projections: Projections,
}

/// What is to be put into the log: a run, its events, and how many of the messages these bring.
type Step = (RunId, NewEvents, usize);

/// What came of one look.
enum Attempt {
    Done(Saved),
    Again,
}

impl Conversations {
    /// The version that a conversation has now.
    pub async fn version(&self, principal: &Principal, id: &ThreadId) -> Result<Version, ServiceError> {
        let (_, head) = self.look(principal, id).await?;
        Ok(Version { epoch: head.epoch, seq: head.tail })
    }

    /// Saves a conversation. The answer means that it is durable; a retry adds nothing, whatever others did meanwhile.
    pub async fn save(&self, principal: &Principal, id: &ThreadId, save: Save) -> Result<Saved, ServiceError> {
        self.context.refuse_if_draining()?;
        let deadline = time::Instant::now() + WHOLE_RUN_WAIT;
        let save = Arc::new(save);
        let created = self.ensure(principal, id, &save).await?;
        for _ in 0..SAVE_TRIES {
            if let Attempt::Done(mut saved) = self.attempt(principal, id, &save, created, deadline).await? {
                saved.created = created;
                if let Some(metadata) = save.metadata.clone().filter(|_| !created) {
                    let edit = EditThread { metadata: Some(metadata), ..EditThread::default() };
                    self.threads.edit(principal, id, edit).await?;
                }
                return Ok(saved);
            }
        }
        Err(StoreError::Unavailable("the conversation is changing too fast; save it again".into()).into())
    }

    /// Makes the thread if there is none: whether it did.
    async fn ensure(&self, principal: &Principal, id: &ThreadId, save: &Save) -> Result<bool, ServiceError> {
        match self.threads.get(principal, id).await {
            Ok(_) => return Ok(false),
            Err(ServiceError::ThreadNotFound) => {}
            Err(error) => return Err(error),
        }
        if matches!(save.condition, Condition::Version(_) | Condition::Exists) {
            return Err(ServiceError::ConversationChanged { version: None });
        }
        // Before anything is made.
        Conversation::default().repeated_id(&save.messages, 0)?;
        let create = CreateThread {
            id: Some(id.clone()),
            agent: save.agent.clone(),
            metadata: save.metadata.clone(),
            ..CreateThread::default()
        };
        match self.threads.create(principal, create).await {
            Ok((_, created)) => Ok(created),
            // Somebody was quicker: the same principal, or the id is another's.
            Err(ServiceError::ThreadExists) => match self.threads.get(principal, id).await {
                Ok(_) => Ok(false),
                Err(ServiceError::ThreadNotFound) => Err(ServiceError::ThreadExists),
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    async fn attempt(
        &self,
        principal: &Principal,
        id: &ThreadId,
        save: &Arc<Save>,
        created: bool,
        deadline: time::Instant,
    ) -> Result<Attempt, ServiceError> {
        let (thread, head) = self.look(principal, id).await?;
        let now = Version { epoch: head.epoch, seq: head.tail };
        let projected = match self.projections.at(principal, id, Some(now.seq), Some(now.epoch)).await {
            // It was deleted and made again in between.
            Err(ServiceError::LogReplaced { .. } | ServiceError::CursorAhead { .. }) => return Ok(Attempt::Again),
            projected => projected?,
        };
        let stored = projected.conversation.messages().len();
        let (projected, common) = compare(projected, save.clone()).await?;
        let done = |outcome, version| Attempt::Done(Saved { outcome, version, created, appended: 0 });
        let wanted = save.messages.len();
        if common == wanted && common == stored {
            return Ok(done(Outcome::Unchanged, now));
        }
        let is_named = matches!(&save.condition, Condition::Version(versions) if versions.contains(&now));
        if common == wanted
            && !is_named
            && let Some(version) = self.saved_before(&thread, save).await?
        {
            return Ok(done(Outcome::Repeated, version));
        }
        // What a run is adding is not the end of it.
        if self.is_held(&head) {
            self.wait(&thread, &head, deadline).await?;
            return Ok(Attempt::Again);
        }
        let is_met = match &save.condition {
            Condition::None | Condition::Exists => true,
            Condition::Version(_) => is_named,
            Condition::Absent => created || now.seq == 0,
        };
        if !is_met {
            return Err(ServiceError::ConversationChanged { version: Some(now) });
        }
        let (outcome, steps) = if common == stored {
            projected.conversation.repeated_id(&save.messages, stored)?;
            (Outcome::Appended, self.appending(&thread, save, &projected, stored).await?)
        } else if is_named {
            Conversation::default().repeated_id(&save.messages, 0)?;
            (Outcome::Replaced, vec![replacing(&thread, save.clone(), projected).await?])
        } else {
            return Err(ServiceError::ConversationDiverged { stored, common, version: now });
        };
        let bytes = steps.iter().map(|(_, events, _)| events.body().len()).sum();
        self.context.quota.append(principal, bytes)?;
        self.carry_out(&thread, save, steps, now, outcome, deadline).await
    }

    async fn carry_out(
        &self,
        thread: &Arc<ThreadRef>,
        save: &Save,
        steps: Vec<Step>,
        mut version: Version,
        outcome: Outcome,
        deadline: time::Instant,
    ) -> Result<Attempt, ServiceError> {
        let mut appended = 0;
        for (run, events, messages) in steps {
            let new = NewRun { id: Some(run.clone()), agent: save.agent.clone(), lease: None };
            match self.runs.begin_whole(thread, &run, &new, &events, Some(version.seq), deadline).await? {
                Begun::Run(started) => version.seq = started.run.last_seq(),
                Begun::Moved => return Ok(Attempt::Again),
                Begun::Gone => {
                    self.context.directory.forget(thread);
                    return Ok(Attempt::Again);
                }
            }
            appended += messages;
        }
        Ok(Attempt::Done(Saved { outcome, version, created: false, appended }))
    }

    async fn look(&self, principal: &Principal, id: &ThreadId) -> Result<(Arc<ThreadRef>, Head), ServiceError> {
        let mut lookup = self.context.directory.lookup(principal, id);
        loop {
            let thread = lookup.next().await?;
            if let Some(head) = self.context.store.heads(&[thread.key]).await?.pop() {
                return Ok((thread, head));
            }
        }
    }

    /// The version that an earlier save of this very list has left, if there was one.
    async fn saved_before(&self, thread: &ThreadRef, save: &Save) -> Result<Option<Version>, ServiceError> {
        let Some(last) = save.messages.last() else { return Ok(None) };
        let mut names = vec![plain(last)];
        if let Condition::Version(versions) = &save.condition {
            names.extend(versions.iter().map(|version| based(Some(last), version.seq)));
        }
        for name in names {
            if let Some(run) = self.context.store.run(thread.key, &name).await? {
                return Ok(Some(Version { epoch: thread.epoch, seq: run.last_seq() }));
            }
        }
        Ok(None)
    }

    fn is_held(&self, head: &Head) -> bool {
        let now = self.context.clock.now();
        head.active.as_ref().is_some_and(|active| !active.finishing && active.lease_until > now)
    }

    /// Waits until the thread is free, or the deadline has come.
    async fn wait(&self, thread: &Arc<ThreadRef>, head: &Head, deadline: time::Instant) -> Result<(), ServiceError> {
        let topic = self.context.hub.join(thread.key);
        let mut changes = topic.watch();
        loop {
            changes.borrow_and_update();
            let Some(now) = self.context.store.heads(&[thread.key]).await?.pop() else { return Ok(()) };
            if now.fence != head.fence || !self.is_held(&now) {
                return Ok(());
            }
            if time::Instant::now() >= deadline {
                let Some(run) = self.context.store.runs(thread.key, None, 1).await?.pop() else { return Ok(()) };
                self.context.metrics.conflicts.by_store.inc();
                return Err(ServiceError::RunActive(Box::new(ActiveRun::new(run, now.epoch))));
            }
            let look = deadline.min(time::Instant::now() + RECHECK_INTERVAL);
            let over = async { while !topic.state().is_over(head.fence) && changes.changed().await.is_ok() {} };
            let _ = time::timeout_at(look, over).await;
        }
    }

    /// The runs that put the messages from `start` on into the log: one, or as many as their size takes.
    async fn appending(
        &self,
        thread: &ThreadRef,
        save: &Save,
        projected: &Projected,
        start: usize,
    ) -> Result<Vec<Step>, ServiceError> {
        let interrupts = projected.conversation.interrupts_json();
        let mut steps = Vec::new();
        let mut from = start;
        while from < save.messages.len() {
            let mut size = FRAME_BYTES;
            let fits = |draft: &&Draft| {
                size += draft.text().len() + 1;
                size <= MAX_EVENT_BYTES
            };
            let to = from + save.messages[from..].iter().take_while(fits).count();
            // An id that is taken is of a save before a replacement: there it had another meaning.
            let last = save.messages[..to].last();
            let run = match last.map(plain) {
                Some(name) if self.context.store.run(thread.key, &name).await?.is_none() => name,
                _ => based(last, projected.seq),
            };
            let messages: Vec<_> = save.messages[from..to].iter().map(Draft::text).collect();
            let (start, mut end) = frame(thread, &run);
            if interrupts != b"[]" {
                // A save answers nothing: what waits for an answer goes on waiting.
                let interrupts = String::from_utf8_lossy(&interrupts);
                end.insert_str(
                    end.len() - 1,
                    &format!(",\"outcome\":{{\"type\":\"interrupt\",\"interrupts\":{interrupts}}}"),
                );
            }
            let input = format!(
                "{start},\"state\":{{}},\"messages\":[{}],\"tools\":[],\"context\":[],\"forwardedProps\":{{}}}}}}",
                messages.join(",")
            );
            steps.push((run, events(&[input, end])?, to - from));
            from = to;
        }
        Ok(steps)
    }
}

async fn compare(projected: Projected, save: Arc<Save>) -> Result<(Projected, usize), ServiceError> {
    Ok(aside(move || {
        let common = projected.conversation.in_common(&save.messages);
        (projected, common)
    })
    .await?)
}

/// The run that puts another list into the place of what was there.
async fn replacing(thread: &ThreadRef, save: Arc<Save>, projected: Projected) -> Result<Step, ServiceError> {
    let run = based(save.messages.last(), projected.seq);
    let (start, end) = frame(thread, &run);
    let texts: Vec<_> = save.messages.iter().map(Draft::text).collect();
    let whole = snapshot(&texts.join(","));
    if whole.len() > MAX_EVENT_BYTES {
        return Err(ServiceError::ReplacementTooLarge);
    }
    let count = save.messages.len();
    let snapshots = aside(move || {
        let becomes = |events: &[String]| {
            let mut conversation = projected.conversation.clone();
            events.iter().for_each(|event| conversation.observe(event.as_bytes()));
            conversation.messages().len() == count && conversation.in_common(&save.messages) == count
        };
        let snapshots = vec![whole.clone()];
        if becomes(&snapshots) {
            return snapshots;
        }
        // A snapshot leaves messages that it repeats where they were, and reasoning as long as it has none. So first all goes
        // but one message, of the id of the first one to come: it is replaced where it stands.
        let first = save.messages.first().map_or("-", Draft::id);
        let only = |role: &str| snapshot(&format!("{{\"id\":{},\"role\":\"{role}\",\"content\":\"\"}}", quoted(first)));
        vec![only("reasoning"), only("system"), whole]
    })
    .await?;
    let input =
        format!("{start},\"state\":{{}},\"messages\":[],\"tools\":[],\"context\":[],\"forwardedProps\":{{}}}}}}");
    let lines: Vec<_> = [input].into_iter().chain(snapshots).chain([end]).collect();
    Ok((run, events(&lines)?, count))
}

fn snapshot(messages: &str) -> String {
    // It speaks for all activities: those that it leaves out are gone.
    format!(
        "{{\"type\":\"MESSAGES_SNAPSHOT\",\"messages\":[{messages}],\
         \"metadata\":{{\"@ag-ui/client\":{{\"authoritativeActivityTypes\":null}}}}}}"
    )
}

/// RUN_STARTED up to its input's ids, and RUN_FINISHED.
fn frame(thread: &ThreadRef, run: &RunId) -> (String, String) {
    let ids = format!("\"threadId\":{},\"runId\":{}", quoted(thread.id.as_str()), quoted(run.as_str()));
    (format!("{{\"type\":\"RUN_STARTED\",{ids},\"input\":{{{ids}"), format!("{{\"type\":\"RUN_FINISHED\",{ids}}}"))
}

fn events(events: &[String]) -> Result<NewEvents, EventError> {
    NewEvents::from_array(format!("[{}]", events.join(",")).as_bytes())
}

/// The run that has first made the list up to this message whole.
fn plain(last: &Draft) -> RunId {
    name(last.name_of_list())
}

/// The run that has made it so from what was there at this seq.
fn based(last: Option<&Draft>, seq: Seq) -> RunId {
    name(format!("{}-{seq}", last.map_or("none".to_owned(), Draft::name_of_list)))
}

fn name(text: String) -> RunId {
    // Hexadecimal digits and a number are an id.
    RunId::new(format!("conversation-{text}")).unwrap_or_else(|_| RunId::generate())
}
