//! rhumb-probe-session
