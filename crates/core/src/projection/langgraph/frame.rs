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

/// Event as a client receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    number: u64,
    method: Method,
    /// The event as JSON: the text of a socket's frame, and the data of a server-sent event.
    pub json: String,
}

impl Frame {
    /// Appends the server-sent event.
    pub fn write_sse(&self, out: &mut Vec<u8>) {
        let Self { number, method, json } = self;
        for part in ["event: ", method.name(), "\nid: ", &number.to_string(), "\ndata: ", json, "\n\n"] {
            out.extend_from_slice(part.as_bytes());
        }
    }
}

/// Maker of the frames of one run, from one commit.
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
    /// Frame of an event. The id is the same on every stream, and no event of another incarnation of the log has it.
    pub fn frame(&self, number: u64, method: Method, data: &str) -> Frame {
        let epoch = self.epoch;
        let id = if method.names_run() {
            // Clients read the run up to the next colon.
            let run = self.run.replace('%', "%25").replace(':', "%3A");
            quoted(&format!("synth:{run}:{epoch}:{number}"))
        } else {
            format!("\"{epoch}:{number}\"")
        };
        let (name, at) = (method.name(), self.at.0);
        let json = format!(
            "{{\"type\":\"event\",\"event_id\":{id},\"seq\":{number},\"method\":\"{name}\",\
             \"params\":{{\"namespace\":[],\"timestamp\":{at},\"data\":{data}}}}}"
        );
        Frame { number, method, json }
    }
}
