//! Pure folds over events. Knows no runtime, no database and no transport.

pub mod closing;
pub mod conversation;
pub mod resuming;
pub mod spacing;
