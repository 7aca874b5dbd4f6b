//! Following a log. A subscriber is a cursor; live is replay that has caught up.
//!
//! ```text
//!   append ──commit──► log (truth)
//!              │
//!              └─ then: ring.offer(batch), state.advance(head)      hints from elsewhere: advance only
//!                                      │ wakes
//!   Subscription { cursor } ───────────┴─► next page: from the ring, else from the store ─► deliver
//! ```
//!
//! Events reach a reader only as a contiguous page after its cursor. Wake-ups may be lost, doubled, reordered or late:
//! that costs time until the next recheck, never an event. A subscriber has no queue: a slow one falls out of the ring
//! and reads the store again.

mod feed;
mod follower;
mod hub;
mod registry;
mod ring;
mod state;
mod stream;
mod topic;

pub use feed::{FeedDelivery, FeedRefusal, FeedSubscription};
pub use follower::{FollowMethod, Follower, Reader};
pub use hub::{FeedKey, Hub};
pub use state::TopicState;
pub use stream::{Delivery, EndReason, FollowError, ReplacedLog, Subscription};
pub use topic::{Topic, TopicRef};
