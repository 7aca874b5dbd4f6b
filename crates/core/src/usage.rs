//! Amounts of data that users and projects have stored.

use std::ops::{Add, AddAssign, Neg, Sub};

use super::{ProjectId, UserId};

/// Amount of stored data, or a change of it. A sum may be below zero for a moment: of two nodes, one may count what goes before
/// the other one counts what came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Bytes of events, uncompressed.
    pub bytes: i64,
    /// Threads, those in the trash included.
    pub threads: i64,
}

/// Owner of counted data: a user, or a project with all its users.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UsageOwner {
    /// Project of the data.
    pub project: ProjectId,
    /// User of the data; `None` for the whole project.
    pub user: Option<UserId>,
}

impl Usage {
    /// Usage of an owner who has stored nothing.
    pub const NONE: Self = Self { bytes: 0, threads: 0 };

    /// Bytes that are stored, never below zero.
    pub fn stored_bytes(self) -> u64 {
        u64::try_from(self.bytes).unwrap_or(0)
    }

    /// Threads that are stored, never below zero.
    pub fn stored_threads(self) -> u64 {
        u64::try_from(self.threads).unwrap_or(0)
    }
}

impl UsageOwner {
    /// Owner of the data of one user.
    pub fn user(project: &ProjectId, user: &UserId) -> Self {
        Self { project: project.clone(), user: Some(user.clone()) }
    }

    /// Owner of the data of all users of a project.
    pub fn project(project: &ProjectId) -> Self {
        Self { project: project.clone(), user: None }
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_add(other.bytes), threads: self.threads.saturating_add(other.threads) }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Neg for Usage {
    type Output = Self;

    fn neg(self) -> Self {
        Self { bytes: self.bytes.saturating_neg(), threads: self.threads.saturating_neg() }
    }
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}
