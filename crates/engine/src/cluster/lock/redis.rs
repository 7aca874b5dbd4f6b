//! The lock in Redis: one key a thread, whose value is the id of the run that holds it.
//!
//! Acquire is `SET NX PX`; compare-and-set, compare-and-renew and compare-and-delete are scripts. Each command touches
//! one key, and all commands of a call go out at once.

use async_trait::async_trait;
use redis::{Cmd, cmd, pipe};
use threadline_core::RunId;

use super::{Acquired, Claim, Lock, LockError, LockName, LockResult, LockState};
use crate::cluster::{redis_connection::RedisConnection, redis_error::RedisConnectionError, redis_sentinels::MASTER};

const TAKE_OVER: &str = "\
local holder = redis.call('GET', KEYS[1])
if holder == false or holder == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
  return 1
end
return 0";
const RENEW: &str = "\
local holder = redis.call('GET', KEYS[1])
if holder == false or holder == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
return 0";
const RELEASE: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0";

/// Number of keys written to check whether locks can be taken: enough that a node of a cluster, which takes only the
/// keys of its own slots, refuses some of them.
const PROBES: usize = 16;
/// Time to live of such a key, in milliseconds.
const PROBE_MILLIS: u64 = 5_000;

/// Locks as keys in Redis. Cheap to clone; the clones share one connection.
#[derive(Clone)]
pub struct RedisLock {
    link: RedisConnection,
    prefix: String,
}

impl From<RedisConnectionError> for LockError {
    fn from(error: RedisConnectionError) -> Self {
        Self(error.to_string())
    }
}

impl RedisLock {
    /// Locks under keys that begin with `prefix`.
    pub fn new(link: RedisConnection, prefix: &str) -> Self {
        Self { link, prefix: prefix.to_owned() }
    }

    fn key(&self, name: &LockName) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Checks that Redis is a master and accepts writes; else the state and the text of Redis' answer.
    pub async fn examine(&self) -> Result<(), (LockState, String)> {
        match self.link.role().await {
            Ok(Some(role)) if role != MASTER => {
                // After a failover another server is the master.
                self.link.reconnect().await;
                return Err((LockState::NoMaster, format!("Redis calls itself {role:?}")));
            }
            Err(error) if !error.is_refusal() => return Err((LockState::Unreachable, error.to_string())),
            // A user without permission for ROLE may still take locks.
            Ok(_) | Err(_) => {}
        }
        let probe = |number: usize| {
            // No lock has such a name: no project begins with a bare `%`.
            let key = format!("{}%probe:{number}", self.prefix);
            cmd("SET").arg(key).arg("probe").arg("PX").arg(PROBE_MILLIS).take()
        };
        let probes: Vec<_> = (0..PROBES).map(probe).collect();
        let written = self.link.ask_each::<()>(&probes).await.map(drop);
        written.map_err(|error| {
            let state = if error.is_refusal() { LockState::TakesNoLocks } else { LockState::Unreachable };
            (state, error.to_string())
        })
    }
}

fn script(text: &str, key: String) -> Cmd {
    cmd("EVAL").arg(text).arg(1).arg(key).take()
}

fn millis(claim: &Claim) -> u64 {
    u64::try_from(claim.ttl.as_millis()).unwrap_or(u64::MAX).max(1)
}

#[async_trait]
impl Lock for RedisLock {
    async fn acquire(&self, claim: &Claim) -> LockResult<Acquired> {
        let (key, run) = (self.key(&claim.name), claim.run.as_str());
        let mut commands = pipe();
        commands.cmd("SET").arg(&key).arg(run).arg("NX").arg("PX").arg(millis(claim)).cmd("GET").arg(&key);
        let (set, holder): (Option<String>, Option<String>) = self.link.ask(&commands).await?;
        Ok(match (set, holder) {
            (Some(_), _) => Acquired::Taken,
            (None, Some(holder)) if holder == run => Acquired::Mine,
            // The key expired between the two commands: its holder no longer has the lock, and the store knows the
            // same.
            (None, holder) => Acquired::Held(holder.unwrap_or_default()),
        })
    }

    async fn take_over(&self, claim: &Claim, holder: &str) -> LockResult<bool> {
        let mut command = script(TAKE_OVER, self.key(&claim.name));
        command.arg(holder).arg(claim.run.as_str()).arg(millis(claim));
        Ok(self.link.ask_each::<bool>(&[command]).await? == [true])
    }

    async fn renew(&self, claims: &[Claim]) -> LockResult<Vec<bool>> {
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        let renewal =
            |claim: &Claim| script(RENEW, self.key(&claim.name)).arg(claim.run.as_str()).arg(millis(claim)).take();
        let renewals: Vec<_> = claims.iter().map(renewal).collect();
        Ok(self.link.ask_each(&renewals).await?)
    }

    async fn check(&self) -> Option<LockState> {
        Some(self.examine().await.map_or_else(|(state, _)| state, |()| LockState::Good))
    }

    async fn release(&self, locks: &[(LockName, RunId)]) -> LockResult<()> {
        if locks.is_empty() {
            return Ok(());
        }
        let release = |(name, run): &(LockName, RunId)| script(RELEASE, self.key(name)).arg(run.as_str()).take();
        let releases: Vec<_> = locks.iter().map(release).collect();
        Ok(self.link.ask_each::<bool>(&releases).await.map(drop)?)
    }
}
