//! Effect of MESSAGES_SNAPSHOT on the messages that were there.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::message::Message;

/// Activities for which a snapshot is authoritative.
enum Authority {
    /// The snapshot declares no authority.
    Unsaid,
    /// Activities of all types: those that the snapshot leaves out are removed.
    All,
    /// Activities of these types only.
    Types(Vec<String>),
}

/// Reads the declaration that `@ag-ui/client` puts into a snapshot's metadata; a malformed one covers no type.
fn authority(metadata: Option<&Map<String, Value>>) -> Authority {
    let Some(said) = metadata.and_then(|metadata| metadata.get("@ag-ui/client")) else { return Authority::Unsaid };
    let Value::Object(said) = said else { return Authority::Types(Vec::new()) };
    match said.get("authoritativeActivityTypes") {
        None => Authority::Unsaid,
        Some(Value::Null) => Authority::All,
        Some(Value::Array(types)) => {
            let types: Option<Vec<_>> = types.iter().map(|name| name.as_str().map(str::to_owned)).collect();
            Authority::Types(types.unwrap_or_default())
        }
        Some(_) => Authority::Types(Vec::new()),
    }
}

/// Messages after a snapshot: those it repeats, in the places that they had, then its new ones. Activities and
/// reasoning that it leaves out stay, unless it has some of its own (or declares that it owns them), since many agents
/// keep none.
pub(super) fn merge(old: Vec<Message>, new: Vec<Message>, metadata: Option<&Map<String, Value>>) -> Vec<Message> {
    let authority = authority(metadata);
    let has = |role: &str| new.iter().any(|message| message.role() == role);
    let (has_activity, has_reasoning) = (has("activity"), has("reasoning"));
    let kept = |message: &Message| match message.role() {
        "activity" => match &authority {
            Authority::Unsaid => !has_activity,
            Authority::All => false,
            Authority::Types(types) => !types.iter().any(|name| message.member("activityType") == Some(name)),
        },
        "reasoning" => !has_reasoning,
        _ => false,
    };
    // Of an id that occurs twice the last message counts.
    let by_id: HashMap<&str, &Message> = new.iter().map(|message| (message.id(), message)).collect();
    let mut merged: Vec<Message> = Vec::with_capacity(new.len());
    for message in old {
        match by_id.get(message.id()) {
            Some(message) => merged.push((*message).clone()),
            None if kept(&message) => merged.push(message),
            None => {}
        }
    }
    drop(by_id);
    let known: HashSet<Box<str>> = merged.iter().map(|message| message.id.clone()).collect();
    merged.extend(new.into_iter().filter(|message| !known.contains(message.id())));
    merged
}
