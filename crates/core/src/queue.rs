//! Queue of a thread: turns that wait for the active run to end.

/// Reason why the queue of a thread rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hold {
    /// A run was stopped while others were queued.
    Stop,
    /// A run failed while others were queued.
    Error,
    /// A person holds the queue.
    Hand,
}

impl Hold {
    /// All reasons, in the order of their stored numbers from 1.
    pub const ALL: [Self; 3] = [Self::Stop, Self::Error, Self::Hand];

    /// Number that the store keeps for this reason.
    pub fn to_i64(self) -> i64 {
        self as i64 + 1
    }

    /// Reason with this stored number; `None` if there is none.
    pub fn from_i64(number: i64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?.checked_sub(1)?).copied()
    }

    /// Name of the reason on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Error => "error",
            Self::Hand => "hand",
        }
    }

    /// Hold of a queue with this many turns: only a person holds an empty one.
    pub fn over(held: Option<Self>, queued: u64) -> Option<Self> {
        held.filter(|held| queued > 0 || *held == Self::Hand)
    }
}

/// State of a queue, as the head of its thread has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct QueueState {
    /// Number that grows with every change of the queue.
    pub version: u64,
    /// Number of queued turns.
    pub queued: u64,
    /// Reason why the queue rests; `None` if it moves.
    pub held: Option<Hold>,
}

impl QueueState {
    /// True if turns are queued and nothing holds them. While interrupts of the thread are open, such a queue rests too.
    pub fn moves(&self) -> bool {
        self.queued > 0 && self.held.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_name_the_reasons() {
        for held in Hold::ALL {
            assert_eq!(Hold::from_i64(held.to_i64()), Some(held));
        }
        assert_eq!([Hold::from_i64(0), Hold::from_i64(4), Hold::from_i64(-1)], [None; 3]);
    }

    #[test]
    fn only_a_person_holds_an_empty_queue() {
        assert_eq!(Hold::ALL.map(|held| Hold::over(Some(held), 0)), [None, None, Some(Hold::Hand)]);
        assert_eq!(Hold::ALL.map(|held| Hold::over(Some(held), 1)), Hold::ALL.map(Some));
    }
}
