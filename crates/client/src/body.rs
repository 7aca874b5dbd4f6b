//! Bodies of events that the client sends.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::ClientError;
use threadline_core::NewEvents;

/// Body of an append. Sent as it is; cheap to clone, so that a retry sends the very same bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventBody {
    /// NDJSON: one event a line.
    Ndjson(Bytes),
    /// JSON array of events.
    Array(Bytes),
}

impl EventBody {
    /// Puts each event on a line of its own. The events keep their bytes, except for line breaks between tokens.
    pub fn from_raw<'a>(events: impl IntoIterator<Item = &'a RawValue>) -> Self {
        let mut lines = String::new();
        for event in events {
            // A line break inside a raw value is between tokens, where a space means the same.
            lines.extend(event.get().chars().map(|c| if matches!(c, '\n' | '\r') { ' ' } else { c }));
            lines.push('\n');
        }
        Self::Ndjson(lines.into())
    }

    pub(super) fn content_type(&self) -> &'static str {
        match self {
            Self::Ndjson(_) => "application/x-ndjson",
            Self::Array(_) => "application/json",
        }
    }

    pub(super) fn into_bytes(self) -> Bytes {
        match self {
            Self::Ndjson(bytes) | Self::Array(bytes) => bytes,
        }
    }
}

impl From<&NewEvents> for EventBody {
    fn from(events: &NewEvents) -> Self {
        Self::Ndjson(events.body().clone())
    }
}

/// Checks and encodes values that serialise to objects with a `type`.
pub(super) fn encode<T: serde::Serialize>(events: &[T]) -> Result<NewEvents, ClientError> {
    let array = serde_json::to_vec(events)
        .map_err(|error| ClientError::Config(format!("the events cannot be written as JSON: {error}")))?;
    Ok(NewEvents::from_array(&array)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_is_one_line() {
        let raw: Box<RawValue> = serde_json::from_str("{\"type\":\n \"A\",\"s\":\"x\\ny\"}").expect("JSON");
        let EventBody::Ndjson(lines) = EventBody::from_raw([raw.as_ref(), raw.as_ref()]) else { panic!("an array") };
        assert_eq!(lines, "{\"type\":  \"A\",\"s\":\"x\\ny\"}\n".repeat(2));
    }
}
