//! Requests of one credential per second.

use crate::problem::Problem;
use axum::http::StatusCode;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use rhumb_control::config::Limits;
use std::{fmt, num::NonZeroU32};

pub struct RateLimits(DefaultKeyedRateLimiter<[u8; 32]>);

impl fmt::Debug for RateLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RateLimits")
    }
}

impl RateLimits {
    pub fn new(limits: &Limits) -> Self {
        let at_least_one = |n: u32| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        let quota =
            Quota::per_second(at_least_one(limits.requests_per_second)).allow_burst(at_least_one(limits.request_burst));
        Self(RateLimiter::keyed(quota))
    }

    pub fn check(&self, credential: [u8; 32]) -> Result<(), Problem> {
        self.0.check_key(&credential).map_err(|_| {
            let detail = "too many requests with this credential: slow down";
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many", "A limit is reached", detail).retry_after(1)
        })
    }

    /// Forgets credentials that have been idle.
    pub fn tidy(&self) {
        self.0.retain_recent();
    }
}
