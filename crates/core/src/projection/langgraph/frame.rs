//! Derived events, and their frames on the wire.

use crate::{Epoch, Seq, Timestamp, json::quoted};

/// Kind of a derived event, as frames name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The run begins or ends.
    Lifecycle,
    /// Part of a message.
    Messages,
    /// Execution of a tool.
    Tools,
    /// An interrupt waits for an answer.
    InputRequested,
    /// A run answers interrupts.
    InputAnswered,
    /// Event of the application.
    Custom,
    /// Checkpoint whose values are in the next event.
    Checkpoints,
    /// State with all messages.
    Values,
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Self::Lifecycle => "lifecycle",
            Self::Messages => "messages",
            Self::Tools => "tools",
            Self::InputRequested => "input.requested",
            Self::InputAnswered => "input.answered",
            Self::Custom => "custom",
            Self::Checkpoints => "checkpoints",
            Self::Values => "values",
        }
    }

    /// True for events whose ids name the run. LangGraph's server makes such events itself, and clients read the run from their ids.
    fn names_run(self) -> bool {
        matches!(self, Self::Lifecycle | Self::InputRequested | Self::InputAnswered)
    }
}

/// Checkpoint of a thread, with its values: two events, the second of which the caller makes from the conversation after `seq`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// Number of the event of the checkpoint; that of the values is the next one.
    pub number: u64,
    /// Newest event that the values include.
    pub seq: Seq,
    /// Checkpoint before this one; 0 for none.
    pub parent: Seq,
    /// True if no later point replaces this one, however soon it follows.
    pub stays: bool,
}

/// Derived event of any kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Derived {
    /// Event with its data.
    Event {
        /// Number of the event.
        number: u64,
        /// Kind of the event.
        method: Method,
        /// Data of the event, as JSON.
        data: String,
    },
    /// Checkpoint, with its values.
    Point(Point),
}

/// Frames of the events of one run, from one commit.
#[derive(Debug, Clone, Copy)]
pub struct Frames<'a> {
    /// Incarnation of the log.
    pub epoch: Epoch,
    /// Id of the run.
    pub run: &'a str,
    /// Time of the commit.
    pub at: Timestamp,
}

impl Frames<'_> {
    /// Appends the frame of an event. The id is the same on every stream, and no event of another incarnation of the log has it.
    pub fn write(&self, number: u64, method: Method, data: &str, out: &mut Vec<u8>) {
        let epoch = self.epoch;
        let id = if method.names_run() {
            // Clients read the run up to the next colon.
            let run = self.run.replace('%', "%25").replace(':', "%3A");
            quoted(&format!("synth:{run}:{epoch}:{number}"))
        } else {
            format!("\"{epoch}:{number}\"")
        };
        let (name, at) = (method.name(), self.at.0);
        let frame = format!(
            "event: {name}\nid: {number}\ndata: {{\"type\":\"event\",\"event_id\":{id},\"seq\":{number},\"method\":\"{name}\",\
             \"params\":{{\"namespace\":[],\"timestamp\":{at},\"data\":{data}}}}}\n\n"
        );
        out.extend_from_slice(frame.as_bytes());
    }
}
