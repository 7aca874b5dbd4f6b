//! Trail of credentials: tokens that were made, requests that were refused, and last uses of keys. A request notes them in
//! memory, and a task writes them later; a crash loses what was noted since the last write.

use std::{
    collections::BTreeMap,
    mem,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::{Value, json};
use threadline_core::{
    AuditEntry, KeyId, KeyUse, NodeId, Principal, ProjectId, Scopes, Timestamp, UserId, hex,
    limits::{KEY_USE_NOTE, TRAIL_ENTRIES_KEPT, TRAIL_FLUSH, TRAIL_GROUPS, TRAIL_GROUPS_KEPT, TRAIL_SUM, TRAIL_TOKENS},
};
use threadline_store::{DynStore, StoreClock, StoreResult};
use tokio::time::Instant;

use crate::lifecycle::Lifecycle;

/// A token that was made.
#[derive(Debug, Clone, Copy)]
pub struct MadeToken<'a> {
    /// User of the token.
    pub user: &'a UserId,
    /// Scopes of the token.
    pub scopes: Scopes,
    /// End of its validity.
    pub expires_at: Timestamp,
}

/// Caller whose request was refused, as precisely as the audit names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refused {
    /// Key of the project, valid or not.
    Key(KeyId),
    /// The network of an address: the first 24 bits, of IPv6 the first 64.
    Network(IpAddr),
    /// Neither key nor address is known.
    Unknown,
}

impl Refused {
    /// Caller at this address.
    pub fn at(address: Option<IpAddr>) -> Self {
        match address.map(|address| address.to_canonical()) {
            Some(IpAddr::V4(address)) => {
                let [a, b, c, _] = address.octets();
                Self::Network(IpAddr::from([a, b, c, 0]))
            }
            Some(IpAddr::V6(address)) => {
                let [a, b, c, d, ..] = address.segments();
                Self::Network(IpAddr::from([a, b, c, d, 0, 0, 0, 0]))
            }
            None => Self::Unknown,
        }
    }

    fn facts(&self) -> Value {
        match self {
            Self::Key(key) => json!({ "keyId": key.as_str() }),
            Self::Network(network) => {
                let bits = if network.is_ipv4() { 24 } else { 64 };
                json!({ "network": format!("{network}/{bits}") })
            }
            Self::Unknown => json!({}),
        }
    }
}

/// Refusals of one project.
#[derive(Default)]
struct Refusals {
    groups: BTreeMap<(&'static str, Refused), u64>,
    other: u64,
}

impl Refusals {
    /// Facts of the entry: the largest groups, and the sum of the others.
    fn facts(self, node: NodeId) -> Value {
        let mut groups: Vec<_> = self.groups.into_iter().collect();
        groups.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let small = groups.split_off(groups.len().min(TRAIL_GROUPS));
        let other = small.into_iter().fold(self.other, |sum, (_, count)| sum.saturating_add(count));
        let groups = groups.into_iter().map(|((reason, who), count)| {
            let mut facts = who.facts();
            (facts["reason"], facts["count"]) = (json!(reason), json!(count));
            facts
        });
        json!({ "node": node.to_string(), "refused": groups.collect::<Vec<_>>(), "other": other })
    }
}

/// Tokens of one actor since the last sum.
struct Made {
    count: u64,
    /// Entry of a sum, without its facts.
    last: AuditEntry,
}

#[derive(Default)]
struct Noted {
    entries: Vec<AuditEntry>,
    made: BTreeMap<(ProjectId, String), Made>,
    refused: BTreeMap<ProjectId, Refusals>,
    uses: BTreeMap<ProjectId, BTreeMap<KeyId, KeyUse>>,
}

/// Notes of this node that are not yet written.
pub struct Trail {
    store: DynStore,
    clock: StoreClock,
    node: NodeId,
    noted: Mutex<Noted>,
}

impl Trail {
    pub(crate) fn new(store: DynStore, node: NodeId) -> Self {
        let clock = store.clock().clone();
        Self { store, clock, node, noted: Mutex::default() }
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a token. The first ones of an actor within [`TRAIL_SUM`] have an entry each, and the others are counted.
    pub fn made(&self, principal: &Principal, token: MadeToken<'_>) -> StoreResult<()> {
        let MadeToken { user, scopes, expires_at } = token;
        let (project, now) = (&principal.project, self.clock.now());
        let digest = self.store.digest_key("erasure")?.digest(&[project.as_str(), user.as_str()]);
        let seconds = expires_at.0.saturating_sub(now.0).div_euclid(1_000);
        let facts = json!({ "userDigest": hex(&digest), "scopes": scopes.to_string(), "seconds": seconds });
        let entry = AuditEntry::by(principal, project, now, "token.created", &facts);
        let mut noted = self.noted();
        let actor = (project.clone(), entry.actor.clone());
        let made = noted.made.entry(actor).or_insert_with(|| Made { count: 0, last: entry.clone() });
        made.count += 1;
        if made.count <= TRAIL_TOKENS && noted.entries.len() < TRAIL_ENTRIES_KEPT {
            noted.entries.push(entry);
        }
        Ok(())
    }

    /// Notes a refused request.
    pub fn refused(&self, project: &ProjectId, reason: &'static str, who: Refused) {
        let mut noted = self.noted();
        let kept: usize = noted.refused.values().map(|refusals| refusals.groups.len()).sum();
        let refusals = match noted.refused.get_mut(project) {
            Some(refusals) => refusals,
            None => noted.refused.entry(project.clone()).or_default(),
        };
        match refusals.groups.get_mut(&(reason, who.clone())) {
            Some(count) => *count += 1,
            None if kept < TRAIL_GROUPS_KEPT => drop(refusals.groups.insert((reason, who), 1)),
            None => refusals.other += 1,
        }
    }

    /// Notes the use of a key.
    pub fn used(&self, project: &ProjectId, key: &KeyId, from: Option<IpAddr>) {
        let used = KeyUse { at: self.clock.now(), from: from.map(|address| address.to_canonical().to_string()) };
        let mut noted = self.noted();
        // Most requests find their key, and copy no id.
        match noted.uses.get_mut(project).and_then(|keys| keys.get_mut(key)) {
            Some(last) => *last = used,
            None => drop(noted.uses.entry(project.clone()).or_default().insert(key.clone(), used)),
        }
    }

    /// Writes the entries of tokens.
    pub(crate) async fn flush(&self) -> StoreResult<()> {
        let entries = mem::take(&mut self.noted().entries);
        let mut entries = entries.into_iter();
        while let Some(entry) = entries.next() {
            if let Err(error) = self.store.record(&entry).await {
                let mut noted = self.noted();
                let later = mem::take(&mut noted.entries);
                noted.entries = std::iter::once(entry).chain(entries).chain(later).take(TRAIL_ENTRIES_KEPT).collect();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Turns what was counted into entries, and writes all entries.
    pub async fn sum(&self) -> StoreResult<()> {
        {
            let mut noted = self.noted();
            let (made, refused) = (mem::take(&mut noted.made), mem::take(&mut noted.refused));
            let at = self.clock.now();
            let more = made.into_values().filter(|made| made.count > TRAIL_TOKENS).map(|made| {
                let facts = json!({ "count": made.count - TRAIL_TOKENS }).to_string();
                AuditEntry { at, action: "tokens.created".to_owned(), facts, ..made.last }
            });
            let refused = refused.into_iter().map(|(project, refusals)| {
                let (actor, action) = ("node".to_owned(), "requests.refused".to_owned());
                AuditEntry { project, at, actor, action, facts: refusals.facts(self.node).to_string() }
            });
            let room = TRAIL_ENTRIES_KEPT.saturating_sub(noted.entries.len());
            let sums: Vec<_> = more.chain(refused).take(room).collect();
            noted.entries.extend(sums);
        }
        self.flush().await
    }

    /// Writes the last uses of keys.
    pub async fn note_uses(&self) -> StoreResult<()> {
        let uses = mem::take(&mut self.noted().uses);
        let uses: Vec<_> = uses
            .into_iter()
            .flat_map(|(project, keys)| keys.into_iter().map(move |(key, used)| (project.clone(), key, used)))
            .collect();
        if uses.is_empty() { Ok(()) } else { self.store.note_uses(&uses).await }
    }
}

/// Loop that writes what was noted.
pub(crate) async fn run(trail: Arc<Trail>, lifecycle: Lifecycle) {
    let mut ticks = lifecycle.every(TRAIL_FLUSH);
    let (mut summed, mut noted) = (Instant::now(), Instant::now());
    let told = |done: StoreResult<()>| {
        if let Err(error) = done {
            tracing::warn!(%error, "cannot write the trail of credentials; retrying");
        }
    };
    while ticks.next().await {
        if summed.elapsed() >= TRAIL_SUM {
            summed = Instant::now();
            told(trail.sum().await);
        } else {
            told(trail.flush().await);
        }
        if noted.elapsed() >= KEY_USE_NOTE {
            noted = Instant::now();
            told(trail.note_uses().await);
        }
    }
    told(trail.sum().await);
    told(trail.note_uses().await);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_by_their_network() {
        let network = |text: &str| Refused::at(Some(text.parse().expect("an address"))).facts();
        assert_eq!(network("192.0.2.77"), json!({ "network": "192.0.2.0/24" }));
        assert_eq!(network("::ffff:192.0.2.77"), json!({ "network": "192.0.2.0/24" }));
        assert_eq!(network("2001:db8:1:2:3::4"), json!({ "network": "2001:db8:1:2::/64" }));
        assert_eq!(Refused::at(None).facts(), json!({}));
    }

    #[test]
    fn the_largest_groups_are_named_and_the_others_are_one_sum() {
        let mut refusals = Refusals { other: 5, ..Refusals::default() };
        for n in 0..=TRAIL_GROUPS as u64 {
            let address = IpAddr::from([10, 0, n as u8, 1]);
            refusals.groups.insert(("wrong-key", Refused::at(Some(address))), n + 1);
        }
        let facts = refusals.facts(NodeId::generate());
        let groups = facts["refused"].as_array().expect("groups");
        assert_eq!((groups.len(), &groups[0]["count"], &facts["other"]), (TRAIL_GROUPS, &json!(101), &json!(6)));
        assert_eq!(groups[0]["network"], "10.0.100.0/24");
    }
}
