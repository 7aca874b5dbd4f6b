//! Streams that chunks continue.
//!
//! A `*_CHUNK` stands for start, content and end; one that continues a stream may leave its id out. As in
//! `@ag-ui/client` 1.0.0 there is one open stream a lane, a lane being the subagent that chunks are attributed to (or
//! none: the parent agent). A chunk that the client refuses (an error ends its run) changes no stream here.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// Construct that chunks build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Text,
    Tool,
    Reasoning,
}

/// Stream that chunks may continue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stream {
    pub kind: Kind,
    pub id: String,
    /// Members of the first chunk: role and name of a message, name and parent of a call. Later chunks may only repeat
    /// them.
    pub said: [Option<String>; 2],
}

/// Open streams by their lanes.
#[derive(Debug, Clone, Default)]
pub(super) struct Lanes {
    open: HashMap<Option<String>, Stream>,
    /// Lane of each stream, per kind. A stream is open in one lane at most.
    holders: [HashMap<String, Option<String>>; 3],
}

/// Members of a chunk that concern its stream.
#[derive(Debug)]
pub(super) struct Chunk {
    pub kind: Kind,
    pub id: Option<String>,
    pub owner: Option<String>,
    pub said: [Option<String>; 2],
}

/// Effect of a chunk on the streams.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Opens the stream of this id.
    Open(String),
    /// Continues the stream of this id.
    Continue(String),
}

impl Lanes {
    /// Ends the open stream of a lane. Every event that is no chunk does so.
    pub fn close(&mut self, owner: &Option<String>) {
        if let Some(stream) = self.open.remove(owner) {
            self.holders[stream.kind as usize].remove(&stream.id);
        }
    }

    /// Ends all streams. An event of the complete run does so.
    pub fn close_all(&mut self) {
        if !self.open.is_empty() {
            *self = Self::default();
        }
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Finds or opens the stream of a chunk. `None` for a chunk that the client refuses.
    pub fn take(&mut self, chunk: Chunk) -> Option<Step> {
        let lane = self.lane(&chunk)?;
        if let Some(stream) = self.open.get(&lane)
            && stream.kind == chunk.kind
            && chunk.id.as_ref().is_none_or(|id| *id == stream.id)
        {
            let agrees = chunk.said.iter().zip(&stream.said).all(|(new, old)| new.is_none() || new == old);
            return agrees.then(|| Step::Continue(stream.id.clone()));
        }
        let id = chunk.id?;
        if chunk.kind == Kind::Tool && chunk.said[0].is_none() {
            return None;
        }
        let mut said = chunk.said;
        if chunk.kind == Kind::Text {
            said[0].get_or_insert_with(|| "assistant".to_owned());
        }
        // A chunk in a lane that holds another owner's stream is continued above, so the owner is this lane.
        self.open(lane, Stream { kind: chunk.kind, id: id.clone(), said });
        Some(Step::Open(id))
    }

    /// Open streams with their lanes, for storage.
    pub fn iter(&self) -> impl Iterator<Item = (&Option<String>, &Stream)> {
        self.open.iter()
    }

    /// Opens a stream in a lane, and ends the stream that was open there.
    pub fn open(&mut self, lane: Option<String>, stream: Stream) {
        self.close(&lane);
        self.holders[stream.kind as usize].insert(stream.id.clone(), lane.clone());
        self.open.insert(lane, stream);
    }

    fn lane(&self, chunk: &Chunk) -> Option<Option<String>> {
        let holders = &self.holders[chunk.kind as usize];
        if let Some(id) = &chunk.id {
            return match holders.get(id) {
                Some(holder) if chunk.owner.is_some() && chunk.owner != *holder => None,
                Some(holder) => Some(holder.clone()),
                None => Some(chunk.owner.clone()),
            };
        }
        if chunk.owner.is_some() || self.open.get(&None).is_some_and(|stream| stream.kind == chunk.kind) {
            return Some(chunk.owner.clone());
        }
        // Without id and owner a chunk can only mean the one stream of its kind, if there is one.
        match holders.len() {
            0 => Some(None),
            1 => holders.values().next().cloned(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(kind: Kind, id: Option<&str>, owner: Option<&str>, said: [Option<&str>; 2]) -> Chunk {
        Chunk {
            kind,
            id: id.map(str::to_owned),
            owner: owner.map(str::to_owned),
            said: said.map(|s| s.map(str::to_owned)),
        }
    }

    #[test]
    fn a_chunk_continues_what_it_can_only_mean() {
        let mut lanes = Lanes::default();
        let mut take = |kind, id, owner, said| lanes.take(chunk(kind, id, owner, said));
        let (open, next) = (|id: &str| Some(Step::Open(id.into())), |id: &str| Some(Step::Continue(id.into())));
        assert_eq!(take(Kind::Text, None, None, [None; 2]), None);
        assert_eq!(take(Kind::Text, Some("m"), Some("s"), [None; 2]), open("m"));
        assert_eq!(take(Kind::Text, None, None, [None; 2]), next("m"));
        assert_eq!(take(Kind::Text, None, Some("s"), [Some("assistant"), None]), next("m"));
        assert_eq!(take(Kind::Text, None, Some("s"), [Some("user"), None]), None);
        assert_eq!(take(Kind::Text, None, Some("s"), [None, Some("name")]), None);
        assert_eq!(take(Kind::Text, Some("m"), Some("other"), [None; 2]), None);
        assert_eq!(take(Kind::Text, Some("n"), Some("t"), [Some("user"), None]), open("n"));
        assert_eq!(take(Kind::Text, None, None, [None; 2]), None, "two could be meant");
        assert_eq!(take(Kind::Text, Some("n"), None, [None; 2]), next("n"));
        assert_eq!(take(Kind::Text, Some("p"), None, [None; 2]), open("p"));
        assert_eq!(take(Kind::Text, None, None, [None; 2]), next("p"));
        assert_eq!(take(Kind::Tool, Some("c"), None, [None; 2]), None, "a call needs a name");
        assert_eq!(take(Kind::Tool, Some("c"), None, [Some("f"), Some("p")]), open("c"));
        assert_eq!(take(Kind::Tool, Some("c"), None, [Some("f"), None]), next("c"));
        assert_eq!(take(Kind::Text, None, Some("s"), [None; 2]), next("m"));
        lanes.close(&Some("s".into()));
        assert_eq!(lanes.take(chunk(Kind::Text, None, Some("s"), [None; 2])), None);
        assert_eq!(lanes.take(chunk(Kind::Text, None, None, [None; 2])), next("n"));
        lanes.close_all();
        assert!(lanes.is_empty() && lanes.iter().next().is_none());
    }
}
