//! Waiting for what must come true.

use std::{
    thread,
    time::{Duration, Instant},
};

/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(150);

pub const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// The value of `condition` once it has one.
///
/// # Panics
/// When it has none after `limit`: with `what` and the last reason that the condition gave.
pub fn wait_until<T>(limit: Duration, what: &str, mut condition: impl FnMut() -> Result<T, String>) -> T {
    let begun = Instant::now();
    loop {
        match condition() {
            Ok(value) => return value,
            Err(reason) if begun.elapsed() >= limit => {
                panic!("waited {} s in vain: {what}; at last: {reason}", limit.as_secs())
            }
            Err(_) => thread::sleep(LOOK),
        }
    }
}

/// Lets a moment come.
pub fn until_moment(moment: Instant) {
    thread::sleep(moment.saturating_duration_since(Instant::now()));
}
