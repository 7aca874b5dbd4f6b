//! Channels: the kinds of events that a stream has.

use std::collections::BTreeSet;

/// Channels of the protocol, in the order of its text. `updates` and `tasks` have no events here: a thread has no nodes.
const NAMES: [&str; 9] =
    ["values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "tasks", "custom"];
/// Prefix of a channel of custom events with one name.
const CUSTOM: &str = "custom:";

/// Channels that a reader has asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Channels {
    names: BTreeSet<&'static str>,
    /// Names of custom events.
    custom: BTreeSet<String>,
}

impl Channels {
    /// Channels with these names. `Err` with the first name that no channel has.
    pub fn of(names: &[String]) -> Result<Self, &str> {
        let mut channels = Self::default();
        for name in names {
            if let Some(known) = NAMES.iter().find(|known| *known == name) {
                channels.names.insert(known);
            } else if let Some(custom) = name.strip_prefix(CUSTOM).filter(|custom| !custom.is_empty()) {
                channels.custom.insert(custom.to_owned());
            } else {
                return Err(name);
            }
        }
        Ok(channels)
    }

    /// All channels of the protocol.
    pub fn all() -> Self {
        Self { names: NAMES.into(), custom: BTreeSet::new() }
    }

    /// Adds the channels of another reader.
    pub fn extend(&mut self, other: &Self) {
        self.names.extend(&other.names);
        self.custom.extend(other.custom.iter().cloned());
    }

    /// True if the reader has asked for this channel.
    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// True if the reader has asked for custom events of this name.
    pub fn has_custom(&self, name: &str) -> bool {
        self.has("custom") || self.custom.contains(name)
    }

    /// Names of all channels, for the text of a refusal.
    pub fn names() -> String {
        format!("{} and custom:NAME", NAMES.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_channels_are_named() {
        let of = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            Channels::of(&names).map_err(str::to_owned)
        };
        let some = of(&["values", "custom:a2a"]).expect("channels");
        assert!(some.has("values") && !some.has("messages"));
        assert!(some.has_custom("a2a") && !some.has_custom("b"));
        assert!(of(&["custom"]).expect("a channel").has_custom("b"));
        let mut both = some;
        both.extend(&of(&["messages", "custom:b"]).expect("channels"));
        assert_eq!(both, of(&["custom:b", "messages", "custom:a2a", "values"]).expect("channels"));
        for bad in ["nope", "custom:", "Values", ""] {
            assert_eq!(of(&["values", bad]), Err(bad.to_owned()));
        }
        for name in NAMES {
            assert!(Channels::all().has(name) && Channels::names().contains(name));
        }
    }
}
