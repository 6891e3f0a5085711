//! rhumb-probe
