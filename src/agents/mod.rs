//! Running agents: each kind is a source of AG-UI events.

pub mod agui;
pub mod demo;
mod events;
pub mod http;
pub mod openai;
mod reading;
pub mod source;
mod sse;

#[cfg(test)]
mod tests;
