//! Readiness after sequences of beats.

use super::*;

const MEASURE: BeatMeasure = BeatMeasure { took: Duration::ZERO, skew_ms: None };

struct Course {
    pulse: Pulse,
    base: Instant,
}

impl Course {
    fn new() -> Self {
        Self { pulse: Pulse::NEW, base: Instant::now() }
    }

    fn at(&self, seconds: u64) -> Instant {
        self.base + Duration::from_secs(seconds)
    }

    fn succeeds(&mut self, seconds: u64) -> StoreState {
        let now = self.at(seconds);
        self.pulse.succeed(now, MEASURE);
        self.pulse.state(now)
    }

    /// Beats of which each comes a second after the one before.
    fn beats(&mut self, seconds: std::ops::RangeInclusive<u64>) {
        for second in seconds {
            self.succeeds(second);
        }
    }

    fn may_judge(&self, seconds: u64) -> bool {
        self.pulse.may_judge(self.at(seconds))
    }

    fn state(&self, seconds: u64) -> StoreState {
        self.pulse.state(self.at(seconds))
    }
}

#[test]
fn a_node_is_ready_from_its_first_beat_until_a_beat_is_five_seconds_old() {
    let mut course = Course::new();
    assert_eq!(course.state(0), StoreState::Starting);
    assert_eq!(course.succeeds(0), StoreState::Good);
    course.pulse.fail(StoreState::Unreachable);
    assert_eq!(course.state(4), StoreState::Good);
    assert_eq!(course.state(5), StoreState::Unreachable);
}

#[test]
fn a_node_that_lost_its_store_is_ready_after_two_beats_in_a_row() {
    let mut course = Course::new();
    course.succeeds(0);
    course.pulse.fail(StoreState::CommitsNothing);
    assert_eq!(course.succeeds(10), StoreState::CommitsNothing);
    course.pulse.fail(StoreState::CommitsNothing);
    assert_eq!(course.succeeds(11), StoreState::CommitsNothing);
    assert_eq!(course.succeeds(12), StoreState::Good);
}

#[test]
fn a_node_that_stood_still_is_ready_after_two_beats() {
    let mut course = Course::new();
    for seconds in 0..9 {
        assert_eq!(course.succeeds(seconds), StoreState::Good);
    }
    assert_eq!(course.succeeds(60), StoreState::CommitsNothing);
    assert_eq!(course.succeeds(61), StoreState::Good);
}

#[test]
fn a_first_beat_that_failed_counts_as_a_loss() {
    let mut course = Course::new();
    course.pulse.fail(StoreState::Unreachable);
    assert_eq!(course.state(0), StoreState::Unreachable);
    assert_eq!(course.succeeds(1), StoreState::Unreachable);
    assert_eq!(course.succeeds(2), StoreState::Good);
}

#[test]
fn slow_beats_keep_a_node_ready_if_they_come_within_five_seconds() {
    let mut course = Course::new();
    course.succeeds(0);
    for seconds in [3, 6, 9] {
        course.pulse.delay(StoreState::CommitsNothing);
        assert_eq!(course.state(seconds), StoreState::Good);
        assert_eq!(course.succeeds(seconds), StoreState::Good);
    }
    // Beats that come later never make the node ready, in whatever number.
    for seconds in [15, 21, 27] {
        course.pulse.delay(StoreState::CommitsNothing);
        assert_eq!(course.succeeds(seconds), StoreState::CommitsNothing);
    }
    // A store that was lost and needs two seconds for a beat is there again.
    course.pulse.delay(StoreState::CommitsNothing);
    assert_eq!(course.succeeds(29), StoreState::Good);
}

#[test]
fn a_store_that_refuses_writes_makes_a_node_unready_at_once() {
    for why in [StoreState::ReadOnly, StoreState::Corrupt] {
        let mut course = Course::new();
        course.succeeds(0);
        course.pulse.fail(why);
        assert_eq!(course.state(0), why);
        assert_eq!(course.succeeds(1), why);
        assert_eq!(course.succeeds(2), StoreState::Good);
    }
}

#[test]
fn a_node_judges_others_once_its_own_beats_were_in_time_as_long_as_theirs_must_be() {
    let ttl = DRIVER_TTL.as_secs();
    let mut course = Course::new();
    assert!(!course.may_judge(0));
    course.beats(0..=ttl - 1);
    assert!(!course.may_judge(ttl - 1));
    course.beats(ttl..=ttl);
    assert!(course.may_judge(ttl));
    // The store refuses a beat: others may have met the same.
    course.pulse.fail(StoreState::Unreachable);
    assert!(!course.may_judge(ttl));
    course.beats(ttl + 1..=2 * ttl);
    assert!(!course.may_judge(2 * ttl));
    course.beats(2 * ttl + 1..=2 * ttl + 1);
    assert!(course.may_judge(2 * ttl + 1));
}

#[test]
fn a_node_judges_nobody_by_an_outage_that_it_shared() {
    let ttl = DRIVER_TTL.as_secs();
    for outage in [3, 4, 6, 60] {
        let mut course = Course::new();
        course.beats(0..=20);
        assert!(course.may_judge(20));
        // The store neither commits nor refuses the next beat.
        assert!(!course.may_judge(20 + outage), "{outage}");
        course.pulse.delay(StoreState::CommitsNothing);
        let back = 20 + outage;
        // The answer to that beat makes the node ready after a short outage; other nodes may get theirs later.
        for seconds in back..back + ttl {
            course.succeeds(seconds);
            assert!(!course.may_judge(seconds), "{outage} {seconds}");
        }
        course.succeeds(back + ttl);
        assert!(course.may_judge(back + ttl), "{outage}");
    }
}

#[test]
fn the_state_of_a_node_follows_from_its_last_beat() {
    let now = Timestamp(1_000_000);
    let node = |leaving, at| Node {
        id: NodeId(1),
        name: String::new(),
        version: String::new(),
        started_at: Timestamp(0),
        beat: 1,
        at: Timestamp(at),
        leaving,
        skew_ms: None,
        rtt_us: None,
        step_ms: None,
    };
    for (leaving, at, state) in [
        (false, 999_000, NodeState::Live),
        (false, 900_000, NodeState::Lost),
        // The store's clock was set back.
        (false, 1_100_000, NodeState::Lost),
        (true, 999_000, NodeState::Leaving),
        (true, 900_000, NodeState::Ended),
    ] {
        assert_eq!(NodeState::of(&node(leaving, at), now), state, "{leaving} {at}");
    }
}
