//! Running agents: each kind is a source of AG-UI events.

pub mod source;
