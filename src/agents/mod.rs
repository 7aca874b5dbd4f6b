//! Running agents: each kind is a source of AG-UI events.
//!
//! [`agui`], [`openai`] and [`demo`] turn a [`source::RunInput`] into a [`source::EventStream`]. A stream does nothing
//! before it is polled and reads no further than it is polled, so a slow reader slows the agent down; dropping it ends
//! the request. Warnings are logged without saying which agent: poll it within a span that does.

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
