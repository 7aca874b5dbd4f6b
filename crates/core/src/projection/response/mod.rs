//! OpenAI's view of a run: the events of a Responses stream, the Response object that they build, and items of conversations.
//!
//! [`ResponseStream`] folds the events of one run into stream events with numbers from 0, and holds the Response object as of each
//! event. Numbers have gaps only where a later attempt has superseded events. The fold is pure: the same events give the same bytes
//! on every node, live and in every replay.
//! [`items()`] gives the items of a message of a conversation, and [`read_input`] reads items that a client sends.
//!
//! - Texts and reasoning of the assistant are `message` and `reasoning` items. Other messages, state, activities and CUSTOM events
//!   give no item.
//! - A call of a tool that the client supplied is a `function_call`: the client executes it. Any other call is the agent's own, and
//!   is an `mcp_call`, with its result: clients look for a function of their own behind every `function_call`. In conversations,
//!   all calls and their results are `function_call` and `function_call_output` items.
//! - An item begins with its first piece: a message that stays empty gives none.
//! - A run that ends with interrupts is `completed`, and each interrupt is an `mcp_approval_request`.
//! - A run that was stopped is `cancelled`. OpenAI's protocol has no event for it, and its clients refuse events that they do not
//!   know, so the stream ends with `response.incomplete`.
//! - A half of a character waits for the other half. U+FFFD replaces a half that stays alone.
//! - A response of more than [`MAX_RESPONSE_BYTES`](crate::limits::MAX_RESPONSE_BYTES) is cut, and `incomplete`.
//!
//! Protocol: <https://platform.openai.com/docs/api-reference/responses-streaming>.

mod event;
mod halves;
mod header;
mod ids;
mod input;
mod item;
mod items;
mod object;
mod output;
mod stream;
#[cfg(test)]
mod tests;
mod usage;

pub use event::ResponseEvent;
pub use header::{Echo, Header, Misfit};
pub use ids::ItemId;
pub use input::{Input, InputError, InputErrorKind, read_input};
pub use items::items;
pub use stream::ResponseStream;
