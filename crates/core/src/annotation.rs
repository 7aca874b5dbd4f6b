//! Annotations: notes about a thread, kept next to its log. An annotation is no event and no part of the conversation.

use serde_json::value::RawValue;

use super::{
    AnnotationId, Timestamp, json,
    limits::{MAX_ANNOTATION_BYTES, MAX_ANNOTATION_TYPE_BYTES, MAX_JSON_DEPTH},
};

/// Reason for which an annotation is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationError {
    /// The type is empty, longer than [`MAX_ANNOTATION_TYPE_BYTES`], or holds U+0000, which not every store can keep.
    #[error("the type of an annotation must have 1 to {MAX_ANNOTATION_TYPE_BYTES} bytes and no U+0000")]
    Type,
    /// The payload is larger than [`MAX_ANNOTATION_BYTES`].
    #[error("the payload of an annotation exceeds {MAX_ANNOTATION_BYTES} bytes of JSON")]
    TooLarge,
    /// The payload is nested deeper than [`MAX_JSON_DEPTH`].
    #[error("the payload of an annotation is nested deeper than {MAX_JSON_DEPTH} levels")]
    TooDeep,
}

/// Annotation of a thread, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation {
    /// Id of the annotation, unique in its thread. The same annotation sent again is recognised by it.
    pub id: AnnotationId,
    /// Type of the annotation, chosen by the client that makes it.
    pub kind: String,
    /// Payload: a JSON text on one line, `null` if there is none.
    pub payload: String,
    /// Time of what the annotation reports, as its client states it; `None` if the client states none.
    pub occurred_at: Option<Timestamp>,
    /// Time at which the annotation was stored.
    pub at: Timestamp,
}

/// An annotation that is to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAnnotation {
    /// Id of the annotation; see [`Annotation::id`].
    pub id: AnnotationId,
    /// Type of the annotation; see [`Annotation::kind`].
    pub kind: String,
    /// Payload as JSON text; see [`Annotation::payload`].
    pub payload: String,
    /// Time that the client states; see [`Annotation::occurred_at`].
    pub occurred_at: Option<Timestamp>,
    /// Time at which another store stored the annotation, if it is moved from there; `None` for a new annotation.
    pub at: Option<Timestamp>,
}

impl NewAnnotation {
    /// Checks an annotation that is to be stored for the first time. The payload is kept byte for byte; only CR and LF
    /// outside strings become spaces. Fails with an [`AnnotationError`] if type or payload exceed their limits.
    pub fn new(
        id: AnnotationId,
        kind: String,
        payload: Option<&RawValue>,
        occurred_at: Option<Timestamp>,
    ) -> Result<Self, AnnotationError> {
        if kind.is_empty() || kind.len() > MAX_ANNOTATION_TYPE_BYTES || kind.contains('\0') {
            return Err(AnnotationError::Type);
        }
        let payload = payload.map_or("null", RawValue::get);
        if payload.len() > MAX_ANNOTATION_BYTES {
            return Err(AnnotationError::TooLarge);
        }
        if json::depth(payload.as_bytes(), MAX_JSON_DEPTH) > MAX_JSON_DEPTH {
            return Err(AnnotationError::TooDeep);
        }
        // Valid JSON has CR and LF only between tokens, so no string is changed.
        Ok(Self { id, kind, payload: payload.replace(['\r', '\n'], " "), occurred_at, at: None })
    }

    /// Annotation as it is stored at `now`; a moved one keeps the time at which it was stored first.
    pub fn made(self, now: Timestamp) -> Annotation {
        let Self { id, kind, payload, occurred_at, at } = self;
        Annotation { id, kind, payload, occurred_at, at: at.unwrap_or(now) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(kind: &str, payload: Option<&str>) -> Result<NewAnnotation, AnnotationError> {
        let payload = payload.map(|text| serde_json::from_str::<Box<RawValue>>(text).expect("JSON"));
        NewAnnotation::new(AnnotationId::new("a").expect("id"), kind.to_owned(), payload.as_deref(), None)
    }

    #[test]
    fn a_payload_is_kept_byte_for_byte_on_one_line() {
        let kept = |payload| new("t", payload).expect("an annotation").payload;
        assert_eq!(
            kept(Some("{\"a\" :\r\n1.0,\"a\":2, \"s\":\"\\ud800\\u0000\\n\"}")),
            "{\"a\" :  1.0,\"a\":2, \"s\":\"\\ud800\\u0000\\n\"}"
        );
        assert_eq!(kept(None), "null");
    }

    #[test]
    fn oversized_annotations_are_refused() {
        let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let cases = [
            (new("", None), Err(AnnotationError::Type)),
            (new("a\0b", None), Err(AnnotationError::Type)),
            (new(&"x".repeat(MAX_ANNOTATION_TYPE_BYTES + 1), None), Err(AnnotationError::Type)),
            (new(&"x".repeat(MAX_ANNOTATION_TYPE_BYTES), None), Ok(())),
            (new("t", Some(&text(MAX_ANNOTATION_BYTES + 1))), Err(AnnotationError::TooLarge)),
            (new("t", Some(&text(MAX_ANNOTATION_BYTES))), Ok(())),
            (new("t", Some(&deep(MAX_JSON_DEPTH))), Ok(())),
            (new("t", Some(&deep(MAX_JSON_DEPTH + 1))), Err(AnnotationError::TooDeep)),
        ];
        for (made, wanted) in cases {
            assert_eq!(made.map(drop), wanted);
        }
    }
}
