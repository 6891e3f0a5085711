//! rhumb-wire
