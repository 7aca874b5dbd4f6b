//! Replacing the messages of a conversation by others, with standard events.

use super::Conversation;

/// Events that give a conversation other messages: `list` is their JSON without the brackets, and `is_reached` tells whether
/// a conversation has them.
///
/// One MESSAGES_SNAPSHOT is enough in most cases. But a snapshot keeps repeated messages at their place, and reasoning as long as
/// the snapshot has none. Clients before 1.0 keep activities in the same way, and both of them unchanged even if the
/// snapshot has other messages with their ids. Then snapshots before it leave one message, which stands for none: one makes it,
/// and the next has activity and reasoning of its own under its id, of which the last message counts.
pub fn message_snapshots(now: &Conversation, list: &str, is_reached: impl Fn(&Conversation) -> bool) -> Vec<String> {
    let whole = snapshot(list);
    let mut conversation = now.clone();
    conversation.observe(whole.as_bytes());
    let has = |conversation: &Conversation, role| conversation.messages().any(|message| message.role() == role);
    let keeps = |role| has(now, role) && !has(&conversation, role);
    if is_reached(&conversation) && !CLIENT_ONLY.into_iter().any(keeps) {
        return vec![whole];
    }
    let mut id = "-".to_owned();
    while conversation.messages().any(|message| message.id() == id) {
        id.push('-');
    }
    let only = |role: &str| format!("{{\"id\":\"{id}\",\"role\":\"{role}\",\"content\":\"\"}}");
    let activity = format!("{{\"id\":\"{id}\",\"role\":\"activity\",\"activityType\":\"none\",\"content\":{{}}}}");
    let (reasoning, system) = (only("reasoning"), only("system"));
    vec![snapshot(&system), snapshot(&format!("{activity},{reasoning},{system}")), whole]
}

/// Roles of messages that a snapshot may leave out without removing them.
const CLIENT_ONLY: [&str; 2] = ["activity", "reasoning"];

fn snapshot(messages: &str) -> String {
    // The snapshot is authoritative for all activities: those that are absent are removed.
    format!(
        "{{\"type\":\"MESSAGES_SNAPSHOT\",\"messages\":[{messages}],\
         \"metadata\":{{\"@ag-ui/client\":{{\"authoritativeActivityTypes\":null}}}}}}"
    )
}
