//! Activities: structured progress that keeps its place among the messages.

use serde_json::{Map, Value};

use super::{
    Conversation,
    event::{Event, Malformed, required},
    message::{Content, Message},
    patch, text,
};
use crate::limits::MAX_STATE_BYTES;

impl Conversation {
    /// Applies ACTIVITY_SNAPSHOT. One that replaces an activity replaces its owner too; metadata is merged either way.
    pub(super) fn activity(&mut self, event: &Event<'_>) -> Result<(), Malformed> {
        let (id, kind) = (required(event.message_id)?, required(event.activity_type)?.into_string());
        let content = object(event.content)?;
        let (owner, metadata) = (event.owner()?, event.metadata()?);
        let replace = match event.replace {
            None | Some("true") => true,
            Some("false") => false,
            Some(_) => return Err(Malformed),
        };
        let mut message = Message::new(&id.as_str(), "activity", Content::of(content.into()));
        let found = self.messages.find(&id.as_str());
        let old = found.map(|slot| self.messages.get_mut(slot));
        match old {
            Some(old) if old.role() == "activity" => {
                if replace {
                    (old.content, message.content) = (message.content, Content::Absent);
                    old.set("activityType", kind);
                    match owner {
                        Some(owner) => old.set("subagentRunId", owner),
                        None => drop(old.rest.shift_remove("subagentRunId")),
                    }
                }
                old.merge_metadata(metadata);
            }
            Some(_) if !replace => {}
            _ => {
                message.set("activityType", kind);
                if let Some(owner) = owner {
                    message.set("subagentRunId", owner);
                }
                message.merge_metadata(metadata);
                match found {
                    Some(slot) => self.messages.replace(slot, message),
                    None => drop(self.messages.push(message)),
                }
            }
        }
        Ok(())
    }

    /// Applies ACTIVITY_DELTA. A patch that does not apply is counted in [`Conversation::skipped_deltas`].
    pub(super) fn activity_delta(&mut self, event: &Event<'_>) -> Result<(), Malformed> {
        let (id, kind) = (required(event.message_id)?, required(event.activity_type)?.into_string());
        let metadata = event.metadata()?;
        let found = self.messages.find(&id.as_str()).map(|slot| self.messages.get_mut(slot));
        let Some(message) = found.filter(|message| message.role() == "activity") else {
            self.skipped += 1;
            return Ok(());
        };
        // Metadata is merged even if the patch is refused.
        message.merge_metadata(metadata);
        let patch = event.patch.and_then(text::value);
        let done = match (&mut message.content, patch) {
            (Content::Json(content, size), Some(patch)) => {
                let copy = MAX_STATE_BYTES.saturating_sub(self.copied);
                let applied = patch::apply(content, *size, patch, copy, &mut self.purse);
                applied.inspect(|applied| *size = applied.size)
            }
            _ => Err(patch::Refused),
        };
        match done {
            Ok(applied) => {
                self.copied += applied.copied;
                message.set("activityType", kind);
            }
            Err(patch::Refused) => self.skipped += 1,
        }
        Ok(())
    }
}

fn object(token: Option<&str>) -> Result<Map<String, Value>, Malformed> {
    match token.and_then(text::value) {
        Some(Value::Object(map)) => Ok(map),
        _ => Err(Malformed),
    }
}
