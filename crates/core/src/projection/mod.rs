//! Pure folds over events.

pub mod beginning;
pub mod begun_calls;
pub mod closing;
pub mod conversation;
pub mod langgraph;
pub mod resuming;
pub mod spacing;
pub mod superseding;
pub mod ui_message;
pub mod validating;
