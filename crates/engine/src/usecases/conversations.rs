//! Conversations as documents: the complete list of messages under a name, which is the thread's id.
//!
//! A save compares the list with the projection of the log and appends the new messages, as finished runs. The
//! comparison uses the events up to a tail, and the store accepts the runs only directly after that tail: of two savers
//! that read the same tail, one succeeds, and the other reads again.

use std::sync::Arc;

use serde_json::{Map, Value};
use threadline_core::{
    AgentId, EventError, NewEvents, Principal, RunId, Scope, Seq, ThreadId, Version,
    json::quoted,
    limits::{COMPLETE_RUN_WAIT, MAX_EVENT_BYTES},
    projection::conversation::{Conversation, Draft, message_snapshots},
};
use threadline_store::{Head, StoreClock, StoreError};
use tokio::time;

use crate::{
    CreateThread, CreateThreadError, EditThread, LookupError, Opening, Projected, ProjectionError, Projections, Runs,
    SaveError, StartRequest, Threads, authority,
    errors::{ActiveRun, ForbiddenError},
    limits::BudgetPermit,
    read::folding::aside,
    records::ThreadRef,
    runs::{
        start::{ExpectTail, StartAttempt},
        thread_watch::ThreadWatch,
    },
};

/// Number of concurrent saves that may overtake a save before the client must retry.
const SAVE_TRIES: usize = 32;

/// Bytes reserved in an event that brings messages: two ids, twice each, with every byte escaped. The largest message
/// fits next to them, see `MAX_DOCUMENT_MESSAGE_BYTES`.
const FRAME_BYTES: usize = 4 * 1_024;

/// Precondition of a save. A list that is already stored is never refused.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Condition {
    /// No precondition: the save succeeds if no stored message is lost.
    #[default]
    None,
    /// The conversation has one of these versions, and may then be replaced.
    Version(Vec<Version>),
    /// The conversation must exist.
    Exists,
    /// The conversation must not exist.
    Absent,
}

/// Request to save a conversation.
#[derive(Debug, Clone)]
pub struct Save {
    /// Complete list of messages.
    pub messages: Vec<Draft>,
    /// Merge patch for the thread's metadata (RFC 7396).
    pub metadata: Option<Map<String, Value>>,
    /// Agent of a new thread, and of the runs that are appended.
    pub agent: Option<AgentId>,
    /// Precondition of the save.
    pub condition: Condition,
    /// Memory that the messages take.
    pub room: Arc<BudgetPermit>,
}

/// Effect of a save.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The new messages were appended.
    Appended,
    /// The same list was already stored.
    Unchanged,
    /// The same list was saved before, and others have appended since.
    Repeated,
    /// The list replaced the stored messages.
    Replaced,
}

/// State of a conversation after a save.
#[derive(Debug, Clone)]
pub struct Saved {
    /// Effect of the save.
    pub outcome: Outcome,
    /// Version that has exactly these messages.
    pub version: Version,
    /// True if the save created the thread.
    pub created: bool,
    /// Number of messages written to the log.
    pub appended: usize,
}

/// Use cases of conversations as documents.
#[derive(Clone)]
pub struct Conversations {
    pub(crate) clock: StoreClock,
    pub(crate) threads: Threads,
    pub(crate) runs: Runs,
    pub(crate) projections: Projections,
}

/// Run to append, with its events and the number of messages in them.
type Step = (RunId, NewEvents, usize);

/// Outcome of one attempt.
enum SaveAttempt {
    Done(Saved),
    Again,
}

impl Conversations {
    /// Current version of a conversation.
    pub async fn version(&self, principal: &Principal, id: &ThreadId) -> Result<Version, LookupError> {
        let (_, head) = self.look(principal, id).await?;
        Ok(Version { epoch: head.epoch, seq: head.tail })
    }

    /// Saves a conversation. The answer means that the list is durable; a retry adds nothing, whatever other clients
    /// did meanwhile.
    pub async fn save(&self, principal: &Principal, id: &ThreadId, save: Save) -> Result<Saved, SaveError> {
        self.runs.deps.lifecycle.refuse_if_draining()?;
        if !principal.scopes.contains(Scope::Produce) && !principal.scopes.contains(Scope::Chat) {
            may_save(principal, &save.messages)?;
            authority::require(principal, Scope::Chat)?;
        }
        let deadline = time::Instant::now() + COMPLETE_RUN_WAIT;
        let save = Arc::new(save);
        let created = self.ensure(principal, id, &save).await?;
        for _ in 0..SAVE_TRIES {
            if let SaveAttempt::Done(mut saved) = self.attempt(principal, id, &save, created, deadline).await? {
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

    /// Refuses messages that a principal may not append: all but those of the user need the scope `produce`.
    pub fn may_append(&self, principal: &Principal, messages: &[Draft]) -> Result<(), SaveError> {
        if !principal.scopes.contains(Scope::Produce) {
            may_save(principal, messages)?;
            authority::require(principal, Scope::Chat)?;
        }
        Ok(())
    }

    /// Appends messages as a finished run with this id; once, however often it is called. Refused while another run is active.
    pub async fn append(
        &self,
        principal: &Principal,
        id: &ThreadId,
        run: &RunId,
        messages: &[Draft],
    ) -> Result<(), SaveError> {
        self.runs.deps.lifecycle.refuse_if_draining()?;
        self.may_append(principal, messages)?;
        for _ in 0..SAVE_TRIES {
            let (thread, head) = self.look(principal, id).await?;
            if self.runs.deps.store.run(thread.key, run).await?.is_some() {
                return Ok(());
            }
            if self.is_held(&head) {
                // Without a wait: the deadline is now.
                self.wait(&thread, &head, time::Instant::now()).await?;
                continue;
            }
            let now = Version { epoch: head.epoch, seq: head.tail };
            let Some(projected) = self.projected(principal, id, now).await? else { continue };
            projected.conversation.repeated_id(messages, 0)?;
            let opening = Opening::Complete(events(&lines_of(&thread, run, messages, &projected.conversation))?);
            let request = StartRequest { opening, ..StartRequest::default() };
            let (tail, deadline) = (ExpectTail::At(now.seq), time::Instant::now());
            match self.runs.start_in(principal, &thread, run, &request, tail, deadline).await? {
                StartAttempt::Run(_) => return Ok(()),
                StartAttempt::TailMismatch => {}
                StartAttempt::ThreadGone => self.runs.deps.directory.forget(&thread),
            }
        }
        Err(StoreError::Unavailable("the conversation is changing too fast; try again".into()).into())
    }

    /// Creates the thread if there is none. True if it was created.
    async fn ensure(&self, principal: &Principal, id: &ThreadId, save: &Save) -> Result<bool, SaveError> {
        match self.threads.get(principal, id).await {
            Ok(_) => return Ok(false),
            Err(LookupError::ThreadNotFound) => {}
            Err(LookupError::ThreadAmbiguous) => return Err(SaveError::ThreadAmbiguous),
            Err(LookupError::Store(error)) => return Err(error.into()),
        }
        if matches!(save.condition, Condition::Version(_) | Condition::Exists) {
            return Err(SaveError::ConversationChanged { version: None });
        }
        // Checked before the thread is created.
        may_save(principal, &save.messages)?;
        Conversation::default().repeated_id(&save.messages, 0)?;
        let create = CreateThread {
            id: Some(id.clone()),
            agent: save.agent.clone(),
            metadata: save.metadata.clone(),
            ..CreateThread::default()
        };
        match self.threads.create(principal, create).await {
            Ok(made) => Ok(made.created),
            // A concurrent request created the thread, or another user's thread has claimed the id.
            Err(CreateThreadError::ThreadExists) => match self.threads.get(principal, id).await {
                Ok(_) => Ok(false),
                Err(LookupError::ThreadNotFound) => Err(SaveError::ThreadExists),
                Err(LookupError::ThreadAmbiguous) => Err(SaveError::ThreadAmbiguous),
                Err(LookupError::Store(error)) => Err(error.into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    async fn attempt(
        &self,
        principal: &Principal,
        id: &ThreadId,
        save: &Arc<Save>,
        created: bool,
        deadline: time::Instant,
    ) -> Result<SaveAttempt, SaveError> {
        let (thread, head) = self.look(principal, id).await?;
        let now = Version { epoch: head.epoch, seq: head.tail };
        let Some(projected) = self.projected(principal, id, now).await? else { return Ok(SaveAttempt::Again) };
        let stored = projected.conversation.messages().len();
        let (projected, common) = compare(projected, save.clone()).await?;
        let done = |outcome, version| SaveAttempt::Done(Saved { outcome, version, created, appended: 0 });
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
        may_save(principal, &save.messages[common..])?;
        // A running run may add messages, so the save waits for its end.
        if self.is_held(&head) {
            self.wait(&thread, &head, deadline).await?;
            return Ok(SaveAttempt::Again);
        }
        let is_met = match &save.condition {
            Condition::None | Condition::Exists => true,
            Condition::Version(_) => is_named,
            Condition::Absent => created || now.seq == 0,
        };
        if !is_met {
            return Err(SaveError::ConversationChanged { version: Some(now) });
        }
        let (outcome, steps) = if common == stored {
            projected.conversation.repeated_id(&save.messages, stored)?;
            (Outcome::Appended, self.appending(&thread, save, &projected, stored).await?)
        } else if is_named {
            authority::require(principal, Scope::Produce)?;
            Conversation::default().repeated_id(&save.messages, 0)?;
            (Outcome::Replaced, vec![replacing(&thread, save.clone(), projected).await?])
        } else {
            return Err(SaveError::ConversationDiverged { stored, common, version: now });
        };
        let carried = self.carry_out(principal, &thread, save, steps, now, deadline).await?;
        let saved = |(version, appended)| SaveAttempt::Done(Saved { outcome, version, created: false, appended });
        Ok(carried.map_or(SaveAttempt::Again, saved))
    }

    /// The conversation at a version; `None` if the thread was deleted and created again since.
    async fn projected(
        &self,
        principal: &Principal,
        id: &ThreadId,
        version: Version,
    ) -> Result<Option<Projected>, SaveError> {
        match self.projections.at(principal, id, Some(version.seq), Some(version.epoch)).await {
            Ok(projected) => Ok(Some(projected)),
            Err(ProjectionError::LogReplaced(_) | ProjectionError::CursorAhead { .. }) => Ok(None),
            Err(ProjectionError::ThreadNotFound) => Err(SaveError::ThreadNotFound),
            Err(ProjectionError::ThreadAmbiguous) => Err(SaveError::ThreadAmbiguous),
            Err(ProjectionError::ConversationTooLarge) => Err(SaveError::ConversationTooLarge),
            Err(ProjectionError::Limited(limited)) => Err(limited.into()),
            Err(ProjectionError::Store(error)) => Err(error.into()),
        }
    }

    /// Appends the runs. Returns the version that they leave, and the number of messages in them; `None` if the thread has
    /// changed meanwhile.
    async fn carry_out(
        &self,
        principal: &Principal,
        thread: &Arc<ThreadRef>,
        save: &Save,
        steps: Vec<Step>,
        mut version: Version,
        deadline: time::Instant,
    ) -> Result<Option<(Version, usize)>, SaveError> {
        let mut appended = 0;
        for (run, events, messages) in steps {
            let opening = Opening::Complete(events);
            let request = StartRequest { agent: save.agent.clone(), opening, ..StartRequest::default() };
            let tail = ExpectTail::At(version.seq);
            match self.runs.start_in(principal, thread, &run, &request, tail, deadline).await? {
                StartAttempt::Run(started) => version.seq = started.run.last_seq(),
                StartAttempt::TailMismatch => return Ok(None),
                StartAttempt::ThreadGone => {
                    self.runs.deps.directory.forget(thread);
                    return Ok(None);
                }
            }
            appended += messages;
        }
        Ok(Some((version, appended)))
    }

    async fn look(&self, principal: &Principal, id: &ThreadId) -> Result<(Arc<ThreadRef>, Head), LookupError> {
        let read = move |thread: Arc<ThreadRef>| async move {
            let head = self.runs.deps.store.heads(&[thread.key]).await?.pop();
            Ok(head.map(|head| (thread, head)).into())
        };
        self.runs.deps.directory.with_thread(principal, id, read).await
    }

    /// Version left by an earlier save of the same list, if there was one.
    async fn saved_before(&self, thread: &ThreadRef, save: &Save) -> Result<Option<Version>, StoreError> {
        let Some(last) = save.messages.last() else { return Ok(None) };
        let mut names = vec![plain(last)];
        if let Condition::Version(versions) = &save.condition {
            names.extend(versions.iter().map(|version| based(Some(last), version.seq)));
        }
        for name in names {
            if let Some(run) = self.runs.deps.store.run(thread.key, &name).await? {
                return Ok(Some(Version { epoch: thread.epoch, seq: run.last_seq() }));
            }
        }
        Ok(None)
    }

    fn is_held(&self, head: &Head) -> bool {
        let now = self.clock.now();
        head.active.as_ref().is_some_and(|active| !active.finishing && active.lease_until > now)
    }

    /// Waits until the thread is free, or until the deadline.
    async fn wait(&self, thread: &Arc<ThreadRef>, head: &Head, deadline: time::Instant) -> Result<(), SaveError> {
        let mut watch = ThreadWatch::new(&self.runs.deps.hub, thread.key);
        loop {
            let Some(now) = self.runs.deps.store.heads(&[thread.key]).await?.pop() else { return Ok(()) };
            if now.fence != head.fence || !self.is_held(&now) {
                return Ok(());
            }
            if time::Instant::now() >= deadline {
                let Some(run) = self.runs.deps.store.runs(thread.key, None, 1).await?.pop() else { return Ok(()) };
                self.runs.deps.metrics.conflicts.by_store.inc();
                return Err(SaveError::RunActive(Box::new(ActiveRun::new(run, now.epoch))));
            }
            watch.until_free(head.fence, deadline).await;
        }
    }

    /// Runs that append the messages from `start` on: one, or as many as their size requires.
    async fn appending(
        &self,
        thread: &ThreadRef,
        save: &Save,
        projected: &Projected,
        start: usize,
    ) -> Result<Vec<Step>, SaveError> {
        let mut steps = Vec::new();
        let mut from = start;
        while from < save.messages.len() {
            let mut size = FRAME_BYTES;
            let fits = |draft: &&Draft| {
                size += draft.text().len() + 1;
                size <= MAX_EVENT_BYTES
            };
            let to = from + save.messages[from..].iter().take_while(fits).count();
            // A taken id belongs to a save before a replacement, with another meaning.
            let last = save.messages[..to].last();
            let run = match last.map(plain) {
                Some(name) if self.runs.deps.store.run(thread.key, &name).await?.is_none() => name,
                _ => based(last, projected.seq),
            };
            let lines = lines_of(thread, &run, &save.messages[from..to], &projected.conversation);
            steps.push((run, events(&lines)?, to - from));
            from = to;
        }
        Ok(steps)
    }
}

/// Refuses new messages of another role than `user`, for a principal that may only say something as its user.
fn may_save(principal: &Principal, new: &[Draft]) -> Result<(), ForbiddenError> {
    if new.iter().all(Draft::is_by_user) { Ok(()) } else { authority::require(principal, Scope::Produce) }
}

async fn compare(projected: Projected, save: Arc<Save>) -> Result<(Projected, usize), SaveError> {
    Ok(aside(move || {
        let common = projected.conversation.in_common(&save.messages);
        (projected, common)
    })
    .await?)
}

/// Run that replaces the stored messages by another list.
async fn replacing(thread: &ThreadRef, save: Arc<Save>, projected: Projected) -> Result<Step, SaveError> {
    let run = based(save.messages.last(), projected.seq);
    let (start, end) = frame(thread, &run);
    let texts: Vec<_> = save.messages.iter().map(Draft::text).collect();
    let list = texts.join(",");
    let count = save.messages.len();
    let snapshots = aside(move || {
        let is_reached = |conversation: &Conversation| {
            conversation.messages().len() == count && conversation.in_common(&save.messages) == count
        };
        message_snapshots(&projected.conversation, &list, is_reached)
    })
    .await?;
    if snapshots.iter().any(|snapshot| snapshot.len() > MAX_EVENT_BYTES) {
        return Err(SaveError::ReplacementTooLarge);
    }
    let input =
        format!("{start},\"state\":{{}},\"messages\":[],\"tools\":[],\"context\":[],\"forwardedProps\":{{}}}}}}");
    let lines: Vec<_> = [input].into_iter().chain(snapshots).chain([end]).collect();
    Ok((run, events(&lines)?, count))
}

/// Events of a run that brings messages.
fn lines_of(thread: &ThreadRef, run: &RunId, messages: &[Draft], conversation: &Conversation) -> [String; 2] {
    let (start, mut end) = frame(thread, run);
    let interrupts = conversation.interrupts_json();
    if interrupts != b"[]" {
        // A save resolves no interrupts: open ones stay open.
        let interrupts = String::from_utf8_lossy(&interrupts);
        let outcome = format!(",\"outcome\":{{\"type\":\"interrupt\",\"interrupts\":{interrupts}}}");
        end.insert_str(end.len() - 1, &outcome);
    }
    let messages: Vec<_> = messages.iter().map(Draft::text).collect();
    let messages = messages.join(",");
    let input = format!(
        "{start},\"state\":{{}},\"messages\":[{messages}],\"tools\":[],\"context\":[],\"forwardedProps\":{{}}}}}}"
    );
    [input, end]
}

/// RUN_STARTED up to the ids of its input, and RUN_FINISHED.
fn frame(thread: &ThreadRef, run: &RunId) -> (String, String) {
    let ids = format!("\"threadId\":{},\"runId\":{}", quoted(thread.id.as_str()), quoted(run.as_str()));
    (format!("{{\"type\":\"RUN_STARTED\",{ids},\"input\":{{{ids}"), format!("{{\"type\":\"RUN_FINISHED\",{ids}}}"))
}

fn events(events: &[String]) -> Result<NewEvents, EventError> {
    NewEvents::from_array(format!("[{}]", events.join(",")).as_bytes())
}

/// Id of the run that first completed the list up to this message.
fn plain(last: &Draft) -> RunId {
    name(last.name_of_list())
}

/// Id of the run that made the list from the messages at this seq.
fn based(last: Option<&Draft>, seq: Seq) -> RunId {
    name(format!("{}-{seq}", last.map_or("none".to_owned(), Draft::name_of_list)))
}

fn name(text: String) -> RunId {
    // Hexadecimal digits and a number always form a valid id.
    RunId::new(format!("conversation-{text}")).unwrap_or_else(|_| RunId::generate())
}
