//! Problems of the operations of the engine.

use serde_json::json;
use threadline_core::{
    EventErrorKind as EventKind,
    event::Flaw,
    limits::{COMPLETE_RUN_WAIT, DRAIN_RETRY_AFTER},
    projection::conversation::MessageError,
};
use threadline_engine::{ServiceError, subscription::ReplacedLog};

use super::{Problem, ProblemType};
use crate::{etag::etag, view::problem_run};

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Self {
        use ProblemType as Type;
        let detail = error.to_string();
        match error {
            ServiceError::ThreadNotFound => Self::new(Type::ThreadNotFound, detail),
            ServiceError::ThreadAmbiguous => Self::new(Type::ThreadAmbiguous, detail),
            // No facts: the owner of the thread must not be disclosed.
            ServiceError::ThreadExists => Self::new(Type::ThreadExists, detail),
            ServiceError::ThreadDeleted => Self::new(Type::ThreadDeleted, detail),
            ServiceError::RetentionNotHeld => Self::new(Type::RetentionNotHeld, detail),
            ServiceError::ConversationTooLarge => Self::new(Type::ConversationTooLarge, detail),
            ServiceError::ConversationChanged { version } => {
                Self::new(Type::ConversationChanged, detail).with(json!({ "etag": version.map(etag) }))
            }
            ServiceError::ConversationDiverged { stored, common, version } => {
                Self::new(Type::ConversationDiverged, detail)
                    .with(json!({ "stored": stored, "common": common, "etag": etag(version) }))
            }
            ServiceError::ReplacementTooLarge => Self::new(Type::TooLarge, detail),
            ServiceError::InvalidMessage(flawed) => {
                let kind = match flawed.flaw {
                    MessageError::TooLarge | MessageError::TooMany | MessageError::TooManyValues => Type::TooLarge,
                    MessageError::NotList
                    | MessageError::NotObject
                    | MessageError::NoRole
                    | MessageError::BadId
                    | MessageError::SameId
                    | MessageError::BadCalls
                    | MessageError::TooDeep
                    | MessageError::NotKept => Type::InvalidMessage,
                };
                Self::new(kind, detail).with(json!({ "index": flawed.index, "reason": flawed.flaw.to_string() }))
            }
            ServiceError::RunNotFound => Self::new(Type::RunNotFound, detail),
            ServiceError::RunActive(active) => {
                let wait = u64::try_from(COMPLETE_RUN_WAIT.as_millis()).unwrap_or(u64::MAX) / 10;
                Self::new(Type::RunActive, detail)
                    .with(json!({
                        "run": problem_run(&active.run),
                        "epoch": active.epoch.to_string(),
                        "cursor": active.cursor,
                        "tail": active.tail,
                    }))
                    .retry_after(wait)
            }
            ServiceError::TurnQueued(_) => Self::new(Type::RunExists, detail),
            ServiceError::QueueFull(_) => Self::new(Type::QueueFull, detail),
            ServiceError::QueueChanged { version: v } => {
                Self::new(Type::QueueChanged, detail).with(json!({ "version": v }))
            }
            ServiceError::TooManyBranches => Self::new(Type::TooManyBranches, detail),
            ServiceError::BranchNotFound(thread) => {
                Self::new(Type::BranchNotFound, detail).with(json!({ "threadId": thread.as_str() }))
            }
            ServiceError::MessageNotFound(id) => {
                Self::new(Type::MessageNotFound, detail).with(json!({ "messageId": id }))
            }
            ServiceError::TurnNotFound => Self::new(Type::TurnNotFound, detail),
            ServiceError::RunFenced(run) => {
                Self::new(Type::RunFenced, detail).with(json!({ "run": problem_run(&run), "attempt": run.attempt }))
            }
            ServiceError::RecoveryUnsafe { run, .. } => Self::of_run(Type::RecoveryUnsafe, detail, &run),
            ServiceError::RecoveryTooLarge(run) => Self::of_run(Type::RecoveryTooLarge, detail, &run),
            ServiceError::TurnBegun(run) => Self::of_run(Type::TurnBegun, detail, &run),
            ServiceError::Forbidden(scope) => {
                Self::new(Type::Forbidden, detail).with(json!({ "scope": scope.as_str() }))
            }
            ServiceError::RunNotYours => Self::new(Type::RunNotYours, detail),
            ServiceError::InterruptNotYours => Self::new(Type::InterruptNotYours, detail),
            ServiceError::ToolCallClaimed { call, until } => {
                Self::new(Type::Claimed, detail).with(json!({ "toolCallId": call.as_str(), "until": until }))
            }
            ServiceError::ToolCallNotPending(call) => {
                Self::new(Type::ToolCallNotPending, detail).with(json!({ "toolCallId": call.as_str() }))
            }
            ServiceError::MessageExists(id) => Self::new(Type::MessageExists, detail).with(json!({ "messageId": id })),
            ServiceError::KvChanged { index } => Self::new(Type::KvChanged, detail).with(json!({ "index": index })),
            ServiceError::AnswerTooLarge | ServiceError::DataFull(_) => Self::new(Type::TooLarge, detail),
            ServiceError::BlobMissing { channel, version } => {
                Self::new(Type::BlobMissing, detail).with(json!({ "channel": channel, "version": version }))
            }
            ServiceError::CheckpointNotFound(_) => Self::new(Type::CheckpointNotFound, detail),
            ServiceError::ItemsConflict => Self::new(Type::ItemsConflict, detail),
            ServiceError::ItemsChanged => Self::new(Type::ItemsChanged, detail),
            ServiceError::RunDriven { thread, run } => {
                let agent = run.agent.as_ref().map(|agent| agent.as_str());
                Self::new(Type::RunDriven, detail)
                    .with(json!({ "threadId": thread.as_str(), "agentId": agent, "run": problem_run(&run) }))
            }
            ServiceError::ProducerSeqGap { expected } => {
                Self::new(Type::ProducerSeqGap, detail).with(json!({ "expected": expected }))
            }
            ServiceError::ProducerSeqConflict { producer_seq } => {
                Self::new(Type::ProducerSeqConflict, detail).with(json!({ "producerSeq": producer_seq }))
            }
            ServiceError::LogReplaced(ReplacedLog { epoch, tail, common_up_to: common }) => {
                Self::new(Type::LogReplaced, detail)
                    .with(json!({ "epoch": epoch.map(|epoch| epoch.to_string()), "tail": tail, "commonUpTo": common }))
            }
            ServiceError::CursorAhead { epoch, tail } => Self::new(Type::CursorAhead, detail)
                .with(json!({ "epoch": epoch.map(|epoch| epoch.to_string()), "tail": tail })),
            ServiceError::InvalidEvent(error) => match error.kind {
                EventKind::EventTooLarge | EventKind::BatchTooLarge | EventKind::TooMany | EventKind::TooManyValues => {
                    Self::new(Type::TooLarge, detail).with(json!({ "index": error.index }))
                }
                EventKind::NotAgUi(Flaw { path, expected }) => Self::new(Type::InvalidEvent, detail)
                    .with(json!({ "index": error.index, "path": path, "expected": expected })),
                EventKind::NotUtf8
                | EventKind::NotJson(_)
                | EventKind::NotArray
                | EventKind::NotObject
                | EventKind::NoType
                | EventKind::TooDeep
                | EventKind::Empty
                | EventKind::AfterTerminal
                | EventKind::ReservedMember => Self::new(Type::InvalidEvent, detail)
                    .with(json!({ "index": error.index, "reason": error.kind.to_string() })),
            },
            ServiceError::InvalidRequest(detail) => Self::invalid(detail),
            ServiceError::Limited(limited) => limited.into(),
            ServiceError::Draining => {
                let wait = u64::try_from(DRAIN_RETRY_AFTER.as_millis()).unwrap_or(u64::MAX);
                Self::new(Type::Draining, detail).retry_after(wait)
            }
            ServiceError::OutcomeUnknown => Self::outcome_unknown(detail),
            ServiceError::Store(error) => Self::of_store(error),
        }
    }
}
