//! Against stamp-suite, another implementation of STAMP, in both roles. Looks for its program in `STAMP_SUITE`, then in the
//! path; `tests/interop.sh` installs it. Says that it is skipped where there is none.

#![allow(clippy::unwrap_used, reason = "a failed step of a test ends the test")]

mod far;
mod near;
mod peer;
mod relay;
