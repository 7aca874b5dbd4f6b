//! Uses of memory, and who is charged for it.

use std::sync::Arc;

use threadline_core::{Principal, ProjectId, limits::MEMORY_FREE_BYTES};

use crate::limits::client::Client;

/// Use of the memory, as the metrics show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    /// Bodies of requests that arrive or are handled.
    Body,
    /// Incomplete messages of sockets.
    Frame,
    /// Large responses, and large pages of followers.
    Answer,
    /// Conversations that are being folded.
    Fold,
}

impl MemoryKind {
    /// All kinds, each once.
    pub const ALL: [Self; 4] = [Self::Body, Self::Frame, Self::Answer, Self::Fold];

    /// Name in the metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Body => "body",
            Self::Frame => "frame",
            Self::Answer => "answer",
            Self::Fold => "fold",
        }
    }
}

/// Owner of memory: a client in its project, or the node itself (the default).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct BudgetOwner(Option<Arc<Client>>);

impl BudgetOwner {
    /// Owner of a principal's memory.
    pub fn of(principal: &Principal) -> Self {
        Self(Some(Arc::new(Client::of(principal))))
    }

    /// Owner of what the node holds for a project: counted like the memory of the project's keys.
    pub fn keys(project: &ProjectId) -> Self {
        Self(Some(Arc::new(Client::keys(project))))
    }

    /// The client, unless it is the node.
    pub(super) fn client(&self) -> Option<&Client> {
        self.0.as_deref()
    }

    pub(super) fn is_untrusted(&self) -> bool {
        self.0.as_ref().is_some_and(|client| client.is_untrusted())
    }

    /// Bytes that count, of those that this owner holds.
    pub(super) fn counted(&self, bytes: usize) -> usize {
        if self.0.is_some() { bytes.saturating_sub(MEMORY_FREE_BYTES) } else { bytes }
    }
}
