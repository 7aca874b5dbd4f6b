//! Bugs on purpose: the proof that the fault run would find them (`make chaos PLANT=name`).
//!
//! They are only in builds with the feature `planted`, which no release has. There the variable `THREADLINE_PLANT` names the
//! one that is alive; elsewhere [`planted`] is never true, and nothing of them is left.

/// A bug that can be planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "planted"), allow(dead_code))]
pub(crate) enum Bug {
    /// An append is acknowledged while it is on its way to the disk.
    AckBeforeCommit,
    /// The database says that it has committed before the disk does.
    AsynchronousCommit,
    /// An append does not compare the fence.
    NoFenceCheck,
    /// Whoever has the lock in Redis may begin, whatever the store says.
    FenceFromRedis,
    /// What an append needs to hold is read and not compared in the change of the head; the log's key is to do the rest.
    LogKey,
    /// An append is not compared with what its run has appended.
    RetryWithoutNumber,
    /// The fence is compared before it is looked whether the append is there already.
    FenceBeforeDuplicate,
    /// A follower that has fallen out of the ring goes on where the ring begins.
    DropOnLag,
    /// A follower reads to the tail first, and then begins to listen.
    SubscribeAfterRead,
    /// A cursor is taken for the next event instead of the last one.
    ResumeAtCursor,
    /// Nobody ends runs whose producers are gone.
    MissingReap,
    /// A segment takes the place of everything behind its first event.
    SealUnderWriter,
    /// What another node tells is believed.
    HintSetsTail,
}

/// Whether this bug is alive.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub(crate) const fn planted(_: Bug) -> bool {
    false
}

/// The text of a statement, as the bug that is alive would have it.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub(crate) fn statement(text: sqlx::SqlStr) -> sqlx::SqlStr {
    text
}

#[cfg(all(test, feature = "planted"))]
pub(crate) use alive::TEXTS;
#[cfg(feature = "planted")]
pub(crate) use alive::{planted, statement};

#[cfg(feature = "planted")]
mod alive {
    use std::sync::OnceLock;

    use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

    use crate::planted::Bug;

    const VARIABLE: &str = "THREADLINE_PLANT";

    const NAMES: [(&str, Bug); 13] = [
        ("ack-before-commit", Bug::AckBeforeCommit),
        ("asynchronous-commit", Bug::AsynchronousCommit),
        ("no-fence-check", Bug::NoFenceCheck),
        ("fence-from-redis", Bug::FenceFromRedis),
        ("log-key", Bug::LogKey),
        ("retry-without-number", Bug::RetryWithoutNumber),
        ("fence-before-duplicate", Bug::FenceBeforeDuplicate),
        ("drop-on-lag", Bug::DropOnLag),
        ("subscribe-after-read", Bug::SubscribeAfterRead),
        ("resume-at-cursor", Bug::ResumeAtCursor),
        ("missing-reap", Bug::MissingReap),
        ("seal-under-writer", Bug::SealUnderWriter),
        ("hint-sets-tail", Bug::HintSetsTail),
    ];

    /// What a bug changes in the statements of Postgres.
    pub(crate) const TEXTS: &[(Bug, &str, &str)] = &[
        (Bug::NoFenceCheck, "h.fence = $3::bigint AND h.active", "$3::bigint IS NOT NULL AND h.active"),
        (Bug::NoFenceCheck, "h.fence = l.fence AND h.active", "h.active"),
        (Bug::FenceFromRedis, "WHEN $11::bigint IS NULL THEN NOT h.active", "WHEN $11::bigint IS NULL THEN TRUE"),
        (
            Bug::LogKey,
            "h.fence = $3::bigint AND h.active AND h.producer_seq + 1 = coalesce($4::bigint, h.producer_seq + 1)",
            "EXISTS (SELECT 1 FROM heads s WHERE s.key = h.key AND s.fence = $3::bigint AND s.active
               AND s.producer_seq + 1 = coalesce($4::bigint, s.producer_seq + 1))",
        ),
        (
            Bug::LogKey,
            "h.fence = l.fence AND h.active AND h.producer_seq + 1 = coalesce(l.pseq, h.producer_seq + 1)",
            "EXISTS (SELECT 1 FROM heads s WHERE s.key = h.key AND s.fence = l.fence AND s.active
               AND s.producer_seq + 1 = coalesce(l.pseq, s.producer_seq + 1))",
        ),
        (
            Bug::RetryWithoutNumber,
            "h.producer_seq + 1 = coalesce($4::bigint, h.producer_seq + 1)",
            "coalesce($4::bigint, 1) > 0",
        ),
        (Bug::RetryWithoutNumber, "h.producer_seq + 1 = coalesce(l.pseq, h.producer_seq + 1)", "TRUE"),
        (Bug::SealUnderWriter, "log.first_seq BETWEEN w.first_seq AND w.last_seq", "log.first_seq >= w.first_seq"),
        (Bug::SealUnderWriter, "AND (SELECT count(*) FROM taken) = $7::bigint", "AND $7::bigint > 0"),
        (Bug::SealUnderWriter, "WHERE (SELECT count(*) FROM gone) = $7", "WHERE (SELECT count(*) FROM gone) > 0"),
    ];

    /// The bug that is alive. A name that nobody knows ends the program: a run without the bug would prove nothing.
    fn alive() -> Option<Bug> {
        static ALIVE: OnceLock<Option<Bug>> = OnceLock::new();
        *ALIVE.get_or_init(|| {
            let name = std::env::var(VARIABLE).ok()?;
            let found = NAMES.iter().find(|(known, _)| *known == name).map(|(_, bug)| *bug);
            if found.is_none() {
                let known = NAMES.map(|(known, _)| known).join(", ");
                eprintln!("error: {VARIABLE}={name} names no bug; there are: {known}");
                std::process::exit(2);
            }
            found
        })
    }

    pub(crate) fn planted(bug: Bug) -> bool {
        alive() == Some(bug)
    }

    pub(crate) fn statement(text: SqlStr) -> SqlStr {
        let Some(alive) = alive() else { return text };
        let mut changed = text.as_str().to_owned();
        for (_, from, to) in TEXTS.iter().filter(|(bug, ..)| *bug == alive) {
            changed = changed.replace(from, to);
        }
        if changed == text.as_str() { text } else { AssertSqlSafe(changed).into_sql_str() }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn every_bug_has_a_name_of_its_own() {
            for (at, (name, bug)) in NAMES.iter().enumerate() {
                assert!(NAMES[at + 1..].iter().all(|(other, same)| other != name && same != bug), "{name}");
            }
        }
    }
}
