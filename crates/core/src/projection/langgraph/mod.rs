//! Events of LangGraph's agent streaming protocol (version 2) from the events of a thread, and LangChain's messages from those of a
//! conversation.
//!
//! Every derived event has a number, which is a pure function of the log: [`PER_EVENT`] times the seq of the event that it derives
//! from, plus its place among those derived from that event. So numbers grow over all runs of a thread, are the same on every
//! node and after every restart, and a reader begins at any run without reading what came before.
//!
//! Protocol: <https://github.com/langchain-ai/agent-protocol/tree/main/streaming>.

mod blocks;
mod channels;
mod frame;
mod message;
mod said;
mod stream;
mod values;

#[cfg(test)]
mod tests;

pub use self::{
    channels::Channels,
    frame::{Derived, Frame, Frames, Method, Point},
    message::message_of,
    said::{Refused, said},
    stream::ThreadStream,
    values::{checkpoint_id, interrupts_of, seq_of_checkpoint, values_of},
};
use crate::Seq;

/// Name of the one node that a thread's agent is, and of its graph.
pub const NODE: &str = "agent";

/// Numbers that one event of the log has room for. Seqs up to 2^41 give numbers that JavaScript holds exactly.
pub const PER_EVENT: u64 = 4_096;

/// Number before the first one that derives from the event after this seq.
pub fn number_after(seq: Seq) -> u64 {
    seq.saturating_add(1).saturating_mul(PER_EVENT) - 1
}

/// Seq of the event from which the event with this number derives.
pub fn seq_of_number(number: u64) -> Seq {
    number / PER_EVENT
}
