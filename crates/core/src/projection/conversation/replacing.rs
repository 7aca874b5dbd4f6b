//! Replacing the messages of a conversation by others, with standard events.

use super::Conversation;
use crate::json::quoted;

/// Events that give a conversation other messages: `list` is their JSON without the brackets, `first` the id of the first
/// one, and `is_reached` tells whether a conversation has them.
///
/// One MESSAGES_SNAPSHOT is enough in most cases. But a snapshot keeps repeated messages at their place, and reasoning as long as
/// the snapshot has none. Then snapshots before it remove all but one message, with the id of the first new message,
/// which is replaced in place.
pub fn message_snapshots(
    now: &Conversation,
    list: &str,
    first: Option<&str>,
    is_reached: impl Fn(&Conversation) -> bool,
) -> Vec<String> {
    let whole = snapshot(list);
    let mut conversation = now.clone();
    conversation.observe(whole.as_bytes());
    if is_reached(&conversation) {
        return vec![whole];
    }
    let first = first.unwrap_or("-");
    let only = |role: &str| snapshot(&format!("{{\"id\":{},\"role\":\"{role}\",\"content\":\"\"}}", quoted(first)));
    vec![only("reasoning"), only("system"), whole]
}

fn snapshot(messages: &str) -> String {
    // The snapshot is authoritative for all activities: those that are absent are removed.
    format!(
        "{{\"type\":\"MESSAGES_SNAPSHOT\",\"messages\":[{messages}],\
         \"metadata\":{{\"@ag-ui/client\":{{\"authoritativeActivityTypes\":null}}}}}}"
    )
}
