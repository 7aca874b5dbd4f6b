//! Search of the run that brought a message into a conversation.

use memchr::memmem;
use threadline_core::{
    Epoch, Principal, ReadFrom, Run, RunId, Seq, ThreadId, event::brings, json, limits::FOLD_EVENTS,
};
use threadline_store::StoreError;

use super::deps::ForkDeps;
use crate::{ForkError, directory, limits::in_place};

/// Run that brought a message into a conversation.
#[derive(Debug, Clone)]
pub struct MessageOrigin {
    /// Epoch of the log.
    pub epoch: Epoch,
    /// Run that brought the message.
    pub run: Run,
    /// Event that brought it.
    pub event: String,
    /// Seq of the last event of the run's own user messages before the message; `None` if there are none.
    pub asked: Option<Seq>,
    /// State that the run was given, as JSON: the STATE_SNAPSHOT right behind its RUN_STARTED.
    pub state: Option<String>,
    /// RUN_STARTED of the run, with what it was given; `None` if it has none before the message.
    pub started: Option<String>,
}

impl MessageOrigin {
    /// Seq of the last event before the run.
    pub fn before(&self) -> Seq {
        self.run.first_seq - 1
    }
}

/// Messages of a user that a run has as events of its own.
#[derive(Debug, Default)]
struct Asking {
    run: Option<RunId>,
    message: Option<String>,
    asked: Option<Seq>,
}

impl Asking {
    fn observe(&mut self, seq: Seq, event: &[u8], run: &RunId) {
        if self.run.as_ref() != Some(run) {
            *self = Self { run: Some(run.clone()), ..Self::default() };
        }
        if memmem::find(event, b"TEXT_MESSAGE_").is_none() {
            return;
        }
        let text = std::str::from_utf8(event).unwrap_or_default();
        let member = |name: &str| json::string_member(text, name);
        let is_of_user = || member("role").as_deref() == Some("user");
        match member("type").as_deref() {
            Some("TEXT_MESSAGE_START") if is_of_user() => self.message = member("messageId"),
            Some("TEXT_MESSAGE_END") if self.message.is_some() && self.message == member("messageId") => {
                self.asked = Some(seq);
            }
            Some("TEXT_MESSAGE_CHUNK") if is_of_user() => self.asked = Some(seq),
            _ => {}
        }
    }
}

/// State of a STATE_SNAPSHOT, as JSON; `None` of any other event.
fn snapshot_of(event: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(event).ok()?;
    let is_snapshot = json::string_member(text, "type").as_deref() == Some("STATE_SNAPSHOT");
    json::member(text, "snapshot").filter(|_| is_snapshot).map(str::to_owned)
}

impl ForkDeps {
    /// Finds the run that brought a message. Reads the log from its first event on.
    pub(super) async fn origin_of(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        message: &str,
    ) -> Result<MessageOrigin, ForkError> {
        let thread = directory::read(&self.store, principal, thread).await?;
        let mut work = self.queue.begin(principal).await?;
        let (mut since, mut started, mut asking) = (0, None::<(RunId, String)>, Asking::default());
        let (mut given_at, mut state) = (0, None);
        while since < thread.tail {
            work.go_on().await?;
            let page = self.store.page(thread.key, ReadFrom::After(since), FOLD_EVENTS).await?;
            let slice = page.ok_or(ForkError::ThreadNotFound)?.slice.between(since, thread.tail + 1);
            since = slice.last_seq().ok_or_else(|| StoreError::Corrupt(format!("the log ends at seq {since}")))?;
            work.done(slice.bytes(), slice.0.len());
            let found = in_place(|| {
                slice.events().find_map(|(seq, event, batch)| {
                    if memmem::find(event, b"RUN_STARTED").is_some() {
                        let text = std::str::from_utf8(event).unwrap_or_default();
                        if json::string_member(text, "type").as_deref() == Some("RUN_STARTED") {
                            started = Some((batch.run.clone(), text.to_owned()));
                            given_at = seq + 1;
                            state = None;
                        }
                    }
                    let found = brings(event, message);
                    if !found {
                        asking.observe(seq, event, &batch.run);
                    }
                    if seq == given_at {
                        state = snapshot_of(event);
                    }
                    let text = || String::from_utf8_lossy(event).into_owned();
                    found.then(|| (batch.run.clone(), text()))
                })
            });
            if let Some((run, event)) = found {
                let started = started.filter(|(of, _)| *of == run).map(|(_, text)| text);
                let run = self.store.run(thread.key, &run).await?.ok_or(ForkError::ThreadNotFound)?;
                let asked = asking.asked.filter(|_| asking.run.as_ref() == Some(&run.id));
                return Ok(MessageOrigin { epoch: thread.epoch, run, event, asked, state, started });
            }
        }
        Err(ForkError::MessageNotFound(message.to_owned()))
    }
}
