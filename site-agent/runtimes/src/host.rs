//! The clock and identity of the host since it was started.

use serde::{Deserialize, Serialize};
use std::{fs, sync::OnceLock};

/// Microseconds since the host was started, time asleep included (`CLOCK_BOOTTIME`): all processes of the host agree on it,
/// and nobody can set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BootTime(pub(crate) u64);

impl BootTime {
    pub fn now() -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Self(now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000)
    }

    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(1_000)))
    }
}

/// What the kernel calls this start of the host; process numbers and boot times of another one mean nothing.
pub fn boot_id() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| {
        fs::read_to_string("/proc/sys/kernel/random/boot_id").map_or_else(|_| "unknown".into(), |id| id.trim().into())
    })
}

/// Wall clock in microseconds since 1970; informative only.
pub fn wall_us() -> i64 {
    jiff::Timestamp::now().as_microsecond()
}
