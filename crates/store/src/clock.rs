//! The store's clock as a process knows it between two answers of the store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use threadline_core::{Clock, Timestamp, limits::CLOCK_ERROR};

/// Reading of a clock that nobody can set: milliseconds since an unknown moment. On Linux the clock runs on while the
/// machine is suspended. A manual [`Clock`] is its own steady clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Steady(i64);

impl Steady {
    /// Time from an earlier reading to this one; zero if that one is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Middle between this reading and a later one.
    pub fn middle(self, later: Self) -> Self {
        Self(self.0 + later.0.saturating_sub(self.0) / 2)
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn machine_time() -> i64 {
    use nix::time::{ClockId, clock_gettime};
    // The kernel has this clock since 2.6.39.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(0, |time| time.tv_sec() * 1_000 + time.tv_nsec() / 1_000_000)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn machine_time() -> i64 {
    static ORIGIN: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    i64::try_from(ORIGIN.elapsed().as_millis()).unwrap_or(i64::MAX)
}

/// The store's clock: the time that the store named last, plus the steady time since. A step of this machine's wall
/// clock does not move it. Cheap to clone; the clones share one state.
#[derive(Debug, Clone)]
pub struct StoreClock {
    machine: Clock,
    /// Milliseconds by which the store's time is ahead of the steady clock.
    ahead: Arc<AtomicI64>,
}

impl StoreClock {
    /// Clock that shows the machine's time until [`StoreClock::anchor`] is called.
    pub fn new(machine: Clock) -> Self {
        let clock = Self { machine, ahead: Arc::default() };
        clock.anchor(clock.machine.now(), clock.steady());
        clock
    }

    /// Reading of the steady clock.
    pub fn steady(&self) -> Steady {
        Steady(self.machine.fixed().map_or_else(machine_time, |manual| manual.0))
    }

    /// The store's time at this moment.
    pub fn now(&self) -> Timestamp {
        self.at(self.steady())
    }

    /// The store's time at the moment of a reading.
    pub fn at(&self, reading: Steady) -> Timestamp {
        Timestamp(reading.0.saturating_add(self.ahead.load(Ordering::Relaxed)))
    }

    /// Latest moment that the store's clock can show now. A clock that shows more has been set forward, so no lease is judged
    /// by it.
    pub fn bound(&self) -> Timestamp {
        self.now().plus(CLOCK_ERROR)
    }

    /// Notes that the store's clock showed `time` at the moment of a reading.
    pub fn anchor(&self, time: Timestamp, reading: Steady) {
        self.ahead.store(time.0.saturating_sub(reading.0), Ordering::Relaxed);
    }

    /// The wall clock of this machine.
    pub fn wall(&self) -> Timestamp {
        self.machine.now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_time_of_the_store_goes_on_from_its_last_answer() {
        let machine = Clock::manual(Timestamp(1_000_000));
        let clock = StoreClock::new(machine.clone());
        assert_eq!(clock.now(), Timestamp(1_000_000));
        let asked = clock.steady();
        machine.advance(2 * SECOND);
        let answered = clock.steady();
        assert_eq!(answered.since(asked), 2 * SECOND);
        assert_eq!(asked.since(answered), Duration::ZERO);
        clock.anchor(Timestamp(5_000_000), asked.middle(answered));
        assert_eq!(clock.now(), Timestamp(5_001_000));
        machine.advance(SECOND);
        assert_eq!((clock.now(), clock.bound()), (Timestamp(5_002_000), Timestamp(5_002_000).plus(CLOCK_ERROR)));
    }

    #[test]
    fn the_clock_of_the_machine_runs() {
        let clock = StoreClock::new(Clock::system());
        let (before, apart) = (clock.steady(), clock.now().0.abs_diff(Clock::system().now().0));
        assert!(apart < 10_000, "{apart} ms");
        while clock.steady() == before {
            std::thread::yield_now();
        }
    }
}
