//! Conversations as documents: read, saved and deleted as one list of messages.

use std::fmt;

use reqwest::{
    Method,
    header::{ETAG, HeaderMap, HeaderName, IF_MATCH, IF_NONE_MATCH},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Client, ClientError};
use threadline_core::Seq;

/// Version of a conversation, as the server names it (an entity tag, RFC 9110). Every event of the thread makes another
/// one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ETag(String);

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Complete conversation of a thread.
#[derive(Debug, Clone)]
pub struct Conversation {
    /// All messages, as AG-UI has them, byte for byte as the server wrote them.
    pub messages: Vec<Box<RawValue>>,
    /// Incarnation of the thread's log.
    pub epoch: String,
    /// Seq of the newest event that the messages include: follow the thread from here.
    pub seq: Seq,
    /// Version of the conversation.
    pub etag: ETag,
}

/// Effect of a save.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedConversation {
    /// Kind of effect: `appended`, `unchanged`, `repeated` or `replaced`.
    pub outcome: String,
    /// Number of messages that were put into the log.
    pub appended: usize,
    /// Version that has exactly the saved messages.
    pub etag: ETag,
}

/// Condition under which a save is carried out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SaveIf {
    /// The save must lose no stored message; otherwise it fails with the problem `conversation-diverged`.
    #[default]
    NothingIsLost,
    /// The conversation must have this version, and may be replaced; otherwise the save fails with
    /// `conversation-changed`.
    Is(ETag),
    /// There must be no conversation yet; otherwise the save fails with `conversation-changed`.
    Absent,
}

#[derive(Deserialize)]
struct Document {
    messages: Vec<Box<RawValue>>,
    epoch: String,
    seq: Seq,
}

#[derive(Deserialize)]
struct Saved {
    outcome: String,
    appended: usize,
}

impl Client {
    /// Reads all messages of a thread, of all producers. Fails with the problem `thread-not-found` if there is no such
    /// thread.
    pub async fn conversation(&self, name: &str) -> Result<Conversation, ClientError> {
        let url = self.url(&["conversations", name])?;
        let (Document { messages, epoch, seq }, etag) = self.tagged(self.request(Method::GET, url)).await?;
        Ok(Conversation { messages, epoch, seq, etag })
    }

    /// Saves a complete conversation; the server appends the new messages. May safely be repeated. Fails with the
    /// problem of `condition` if it does not hold.
    pub async fn save_conversation<T: Serialize>(
        &self,
        name: &str,
        messages: &[T],
        condition: &SaveIf,
    ) -> Result<SavedConversation, ClientError> {
        let mut request = self.request(Method::PUT, self.url(&["conversations", name])?);
        let condition: Option<(HeaderName, &str)> = match condition {
            SaveIf::NothingIsLost => None,
            SaveIf::Is(etag) => Some((IF_MATCH, &etag.0)),
            SaveIf::Absent => Some((IF_NONE_MATCH, "*")),
        };
        if let Some((name, value)) = condition {
            request = request.header(name, value);
        }
        #[derive(Serialize)]
        struct Body<'a, T> {
            messages: &'a [T],
        }
        let (Saved { outcome, appended }, etag) = self.tagged(request.json(&Body { messages })).await?;
        Ok(SavedConversation { outcome, appended, etag })
    }

    /// Deletes a conversation with its thread. A second time it may fail with `thread-not-found`.
    pub async fn delete_conversation(&self, name: &str) -> Result<(), ClientError> {
        self.send(self.request(Method::DELETE, self.url(&["conversations", name])?)).await.map(drop)
    }

    async fn tagged<T: serde::de::DeserializeOwned>(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<(T, ETag), ClientError> {
        let response = self.send(request).await?;
        let etag = etag(response.headers());
        let body = response.bytes().await.map_err(|error| self.transport(&error))?;
        let document = serde_json::from_slice(&body).ok();
        document
            .zip(etag)
            .ok_or_else(|| ClientError::Protocol("the response is not a conversation with an ETag".to_owned()))
    }
}

fn etag(headers: &HeaderMap) -> Option<ETag> {
    Some(ETag(headers.get(ETAG)?.to_str().ok()?.to_owned()))
}
