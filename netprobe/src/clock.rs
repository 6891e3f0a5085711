//! The two clocks of this machine, read together.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rhumb_probe_session::{ErrorEstimate, Now, NtpTime};
use rtime_clock::adjtime::{Timex, adjtimex};

/// Both clocks are read within this time of each other, or once more.
const TOGETHER: Duration = Duration::from_micros(10);
const TRIES: usize = 4;
/// The kernel's time of a packet is not older than this when it is read: else the time of day was set meanwhile.
const MOST_WAIT_NS: u128 = 5_000_000_000;

/// Of threads that measure: they do little, and must not wait.
const NICENESS: i32 = -15;

/// Both clocks, from one zero.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    zero: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { zero: Instant::now() }
    }

    pub(crate) fn monotonic_ns(self) -> u64 {
        self.zero.elapsed().as_nanos() as u64
    }

    pub(crate) fn now(self) -> Now {
        let (monotonic_ns, unix_ns) = self.both();
        Now { monotonic_ns, wall: NtpTime::from_unix_ns(unix_ns) }
    }

    /// Both clocks at a moment the kernel told by the time of day: as long ago on the one as on the other. Only the short time
    /// since then rests on the time of day, so that a step of it moves no delay.
    pub(crate) fn at(self, kernel_unix_ns: u128) -> Now {
        let (monotonic_ns, unix_ns) = self.both();
        place(monotonic_ns, unix_ns, kernel_unix_ns)
    }

    /// Time of day, in milliseconds since 1970, of what was noted on the monotonic clock.
    pub(crate) fn unix_ms_of(self, monotonic_ns: u64) -> u64 {
        let (now_ns, unix_ns) = self.both();
        let ago_ns = u128::from(now_ns.saturating_sub(monotonic_ns));
        (unix_ns.saturating_sub(ago_ns) / 1_000_000) as u64
    }

    fn both(self) -> (u64, u128) {
        let mut read = (0, 0);
        for _ in 0..TRIES {
            let before = self.zero.elapsed();
            let unix_ns = unix_ns();
            let between = self.zero.elapsed().saturating_sub(before);
            read = ((before + between / 2).as_nanos() as u64, unix_ns);
            if between < TOGETHER {
                break;
            }
        }
        read
    }
}

fn place(monotonic_ns: u64, unix_ns: u128, kernel_unix_ns: u128) -> Now {
    match unix_ns.checked_sub(kernel_unix_ns).filter(|ago_ns| *ago_ns < MOST_WAIT_NS) {
        Some(ago_ns) => Now {
            monotonic_ns: monotonic_ns.saturating_sub(ago_ns as u64),
            wall: NtpTime::from_unix_ns(kernel_unix_ns),
        },
        None => Now { monotonic_ns, wall: NtpTime::from_unix_ns(unix_ns) },
    }
}

/// How often the kernel is asked how good its clock is.
const LOOK_NS: u64 = 16_000_000_000;
/// Status of `adjtimex(2)`: nobody keeps the clock in step.
const STA_UNSYNC: i32 = 0x40;

/// Looks at the clock's synchronisation now and then.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    next_ns: u64,
}

impl Watch {
    /// What the kernel says, if it is time to ask it.
    pub(crate) fn look(&mut self, now_ns: u64) -> Option<ErrorEstimate> {
        (now_ns >= self.next_ns).then(|| {
            self.next_ns = now_ns + LOOK_NS;
            synchronisation()
        })
    }
}

/// How far the kernel says that its clock is from UTC at most. One that is not kept in step, or cannot be asked about, is
/// unsynchronised.
pub(crate) fn synchronisation() -> ErrorEstimate {
    // no mode bit is set: nothing is changed
    let mut state = Timex::new();
    match adjtimex(&mut state) {
        Ok(_) => estimate(state.0.status, state.0.maxerror),
        Err(error) => {
            tracing::debug!(%error, "the kernel does not tell how good its clock is");
            ErrorEstimate::UNSYNCHRONISED
        }
    }
}

/// `most_us` is in microseconds, whatever the unit of the kernel's other figures.
fn estimate(status: i32, most_us: i64) -> ErrorEstimate {
    match u64::try_from(most_us) {
        Ok(us) if status & STA_UNSYNC == 0 => ErrorEstimate::synchronised_within(us.saturating_mul(1_000)),
        _ => ErrorEstimate::UNSYNCHRONISED,
    }
}

/// Time of day.
pub(crate) fn wall() -> NtpTime {
    NtpTime::from_unix_ns(unix_ns())
}

/// A clock set before 1970 gives 1970, which the far end sees as an absurd sample and refuses.
fn unix_ns() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

/// Asks the kernel to wake this thread when it is due: not gathered with others' wake-ups (by default up to 50 us late), and ahead
/// of other work where the system allows it. A refusal costs exactness only.
pub(crate) fn wake_on_time() {
    if let Err(error) = nix::sys::prctl::set_timerslack(1) {
        tracing::debug!(%error, "probes are sent as late as the system's timer slack allows");
    }
    let this_thread = rustix::process::Pid::from_raw(nix::unistd::gettid().as_raw());
    if let Err(error) = rustix::process::setpriority_process(this_thread, NICENESS) {
        tracing::debug!(%error, "probes wait their turn behind other work");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_time_is_as_long_ago_on_both_clocks() {
        let (monotonic_ns, unix_ns) = (60_000_000_000, 1_790_000_000_000_000_000);
        let then = place(monotonic_ns, unix_ns, unix_ns - 7_000_000);
        assert_eq!(then.monotonic_ns, monotonic_ns - 7_000_000);
        assert_eq!(then.wall, NtpTime::from_unix_ns(unix_ns - 7_000_000));
        for set_meanwhile in [unix_ns + 3_600_000_000_000, unix_ns - 3_600_000_000_000] {
            let now = place(monotonic_ns, unix_ns, set_meanwhile);
            assert_eq!((now.monotonic_ns, now.wall), (monotonic_ns, NtpTime::from_unix_ns(unix_ns)));
        }
    }

    #[test]
    fn the_kernels_word_is_taken_for_the_clock() {
        let kept = estimate(0x2001, 1_500);
        assert!(kept.is_synchronised() && kept.error_ns().is_some_and(|ns| (1_500_000..1_520_000).contains(&ns)));
        for (status, most_us) in [(STA_UNSYNC, 1_500), (0x2041, 16_000_000), (0, -1)] {
            assert_eq!(estimate(status, most_us), ErrorEstimate::UNSYNCHRONISED);
        }
        // of this machine, as the kernel told another call
        let mut state = Timex::new();
        let told = adjtimex(&mut state).is_ok() && state.0.status & STA_UNSYNC == 0;
        assert_eq!(synchronisation().is_synchronised(), told);
        let mut watch = Watch::default();
        assert!(watch.look(5).is_some() && watch.look(6).is_none() && watch.look(6 + LOOK_NS).is_some());
    }

    #[test]
    fn the_clocks_run_together() {
        let clock = Clock::new();
        let (first, second) = (clock.now(), clock.now());
        assert!(second.monotonic_ns >= first.monotonic_ns);
        assert!(clock.unix_ms_of(first.monotonic_ns) > 1_700_000_000_000);
    }
}
