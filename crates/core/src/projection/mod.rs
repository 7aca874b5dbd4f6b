//! Pure folds over events.

pub mod beginning;
pub mod begun_calls;
pub mod closing;
pub mod conversation;
mod lane;
pub mod langgraph;
mod media;
mod parts;
mod reading;
pub mod response;
pub mod resuming;
pub mod spacing;
pub mod superseding;
pub mod ui_message;
pub mod validating;
