//! Problems of plain streams.

use serde_json::json;
use threadline_core::streams::AppendRefusal;
use threadline_engine::StreamError;

use super::{Problem, ProblemType};

impl From<StreamError> for Problem {
    fn from(error: StreamError) -> Self {
        use ProblemType as Type;
        let detail = error.to_string();
        match error {
            StreamError::NotFound(_) => Self::new(Type::StreamNotFound, detail),
            StreamError::Gone(_) | StreamError::Replaced(_) => Self::new(Type::StreamGone, detail),
            StreamError::Conflict(_) => Self::new(Type::StreamConflict, detail),
            StreamError::Refused(refusal, _) => match refusal {
                AppendRefusal::Closed | AppendRefusal::ContentType | AppendRefusal::Seq => {
                    Self::new(Type::StreamConflict, detail)
                }
                AppendRefusal::StaleEpoch { .. } => Self::new(Type::StaleProducer, detail),
                AppendRefusal::EpochNotFromZero => Self::invalid(detail),
                AppendRefusal::Gap { expected } => {
                    Self::new(Type::ProducerSeqGap, detail).with(json!({ "expected": expected }))
                }
            },
            StreamError::Content(_) | StreamError::ForkOffset(_) => Self::invalid(detail),
            StreamError::Service(error) => error.into(),
        }
    }
}
