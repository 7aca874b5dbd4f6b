//! Vercel AI SDK's view of a conversation: the chunks of a UI message stream, and the UI messages that they build.
//!
//! [`UiStream`] folds the events of a message's runs into chunks, and [`UiMessage`] folds chunks into the parts of the
//! message, as `readUIMessageStream` of `ai` 6 and 7 does. Both are pure: the same events give the same chunks on every
//! node, live and in every replay.
//!
//! One run is one assistant message, whose id is that of the run. A run that brings results of tools or answers to
//! interrupts, and no message of the user, continues the message before it.
//! Protocol: <https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol>.

mod calls;
mod chunk;
mod fold;
mod spoken;
mod stream;
#[cfg(test)]
mod tests;
mod texts;
mod user;

pub use chunk::{Chunk, FinishReason};
pub use fold::UiMessage;
pub use spoken::Spoken;
pub use stream::UiStream;
pub use user::{continues, of_client, said};
