//! rhumb-replay
