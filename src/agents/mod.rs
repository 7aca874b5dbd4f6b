//! Running agents: each kind is a source of AG-UI events.

pub mod agui;
pub mod http;
pub mod source;
mod sse;

#[cfg(test)]
mod tests;
