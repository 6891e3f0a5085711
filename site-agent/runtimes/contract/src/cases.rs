//! The cases, by what they are about.

pub(crate) mod ends;
pub(crate) mod environment;
pub(crate) mod leases;
pub(crate) mod many;
pub(crate) mod once;
pub(crate) mod others;
pub(crate) mod output;
pub(crate) mod stops;
