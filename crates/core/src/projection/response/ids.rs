//! Ids of items: those of the log with a prefix for their kind, so that each leads back to its message or call.

use std::fmt;

/// Id of an item, with what it names in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemId<'a> {
    /// Text of a message: the message.
    Message(&'a str),
    /// Tool call: the call.
    Call(&'a str),
    /// Tool call that the agent itself executes: the call.
    Hosted(&'a str),
    /// Result of a tool call: its message.
    Output(&'a str),
    /// Reasoning: the message that has it.
    Reasoning(&'a str),
    /// Request for an approval: the interrupt.
    Approval(&'a str),
}

impl<'a> ItemId<'a> {
    /// Reads the id of an item. `None` for an id of another kind, and for one that names nothing.
    pub fn read(id: &'a str) -> Option<Self> {
        let (prefix, named) = id.split_once('_').filter(|(_, named)| !named.is_empty())?;
        Some(match prefix {
            "msg" => Self::Message(named),
            "fc" => Self::Call(named),
            "mcp" => Self::Hosted(named),
            "fco" => Self::Output(named),
            "rs" => Self::Reasoning(named),
            "mcpr" => Self::Approval(named),
            _ => return None,
        })
    }
}

impl fmt::Display for ItemId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (prefix, named) = match self {
            Self::Message(named) => ("msg", named),
            Self::Call(named) => ("fc", named),
            Self::Hosted(named) => ("mcp", named),
            Self::Output(named) => ("fco", named),
            Self::Reasoning(named) => ("rs", named),
            Self::Approval(named) => ("mcpr", named),
        };
        write!(f, "{prefix}_{named}")
    }
}
