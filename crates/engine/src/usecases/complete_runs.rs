//! Complete runs: appended in one commit, by a producer or as the words of a user.

use std::{collections::HashSet, sync::Arc};

use threadline_core::{NewEvents, Principal, RunId, Scope, ThreadId, limits::COMPLETE_RUN_WAIT};
use threadline_store::StoreError;
use tokio::time;

use super::conversations::Conversations;
use crate::{
    CompleteRunError, LookupError, Opening, ProjectionError, StartRequest, StartedRun,
    authority::{require, said},
    directory::Attempt,
    records::ThreadRef,
    runs::{
        close,
        start::{ExpectTail, StartAttempt},
    },
};

/// Attempts at an append to a thread that others write to, before it fails.
const TRIES: usize = 8;

impl Conversations {
    /// Appends a complete run of these events. A principal with the scope `produce` appends events of any role. Without
    /// it, the scope `chat` is enough for a run that only says something as the user, in messages that are new to the
    /// thread: a message that grew by another one's words would have two authors. A repetition with the same id returns
    /// the existing run.
    pub async fn append_run(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        request: StartRequest,
        events: NewEvents,
    ) -> Result<StartedRun, CompleteRunError> {
        if principal.scopes.contains(Scope::Produce) {
            let request = StartRequest { opening: Opening::Complete(events), ..request };
            return Ok(self.runs.start(principal, thread, request).await?);
        }
        require(principal, Scope::Chat)?;
        let Some(new) = said(&events) else { return Err(CompleteRunError::Forbidden(Scope::Produce)) };
        self.runs.deps.lifecycle.refuse_if_draining()?;
        let id = request.run.clone().unwrap_or_else(RunId::generate);
        let opening = Opening::Complete(close::ended(thread, &id, events));
        let request = StartRequest { opening, ..request };
        let deadline = time::Instant::now() + COMPLETE_RUN_WAIT;
        for _ in 0..TRIES {
            let (found, tail) = self.unused(principal, thread, &id, &new).await?;
            match self.runs.start_in(principal, &found, &id, &request, tail, deadline).await? {
                StartAttempt::Run(started) => return Ok(started),
                StartAttempt::TailMismatch => {}
                StartAttempt::ThreadGone => self.runs.deps.directory.forget(&found),
            }
        }
        Err(StoreError::Unavailable("the thread is changing too fast; send the run again".into()).into())
    }

    /// Checks that the thread has no message of these ids. Returns the thread, and the tail up to which that is so; no
    /// log's tail for a run that exists, which is then compared.
    async fn unused(
        &self,
        principal: &Principal,
        id: &ThreadId,
        run: &RunId,
        new: &[String],
    ) -> Result<(Arc<ThreadRef>, ExpectTail), CompleteRunError> {
        let look = move |thread: Arc<ThreadRef>| async move {
            let exists = self.runs.deps.directory.run(thread.key, run).await?.is_some();
            Ok::<_, LookupError>(Attempt::Done((thread, exists)))
        };
        let (thread, exists) = self.runs.deps.directory.with_thread(principal, id, look).await?;
        if exists {
            // The store finds the run before it compares the tail, which no log has. A run that the store has lost is not begun
            // unchecked.
            return Ok((thread, ExpectTail::At(i64::MAX.unsigned_abs())));
        }
        let projected = match self.projections.at(principal, id, None, None).await {
            Ok(projected) => projected,
            Err(ProjectionError::ThreadNotFound) => return Err(CompleteRunError::ThreadNotFound),
            Err(ProjectionError::ThreadAmbiguous) => return Err(CompleteRunError::ThreadAmbiguous),
            Err(ProjectionError::ConversationTooLarge) => return Err(CompleteRunError::ConversationTooLarge),
            Err(ProjectionError::LogReplaced(replaced)) => return Err(CompleteRunError::LogReplaced(replaced)),
            // Without a position, none is ahead.
            Err(ProjectionError::CursorAhead { .. }) => return Err(CompleteRunError::ThreadNotFound),
            Err(ProjectionError::Limited(limited)) => return Err(CompleteRunError::Limited(limited)),
            Err(ProjectionError::Store(error)) => return Err(error.into()),
        };
        let taken = projected.conversation.process(|conversation| {
            let used: HashSet<&str> = conversation.messages().map(|message| message.id()).collect();
            new.iter().find(|id| used.contains(id.as_str()))
        });
        match taken {
            Some(taken) => Err(CompleteRunError::MessageExists(taken.clone())),
            None => Ok((thread, ExpectTail::At(projected.seq))),
        }
    }
}
