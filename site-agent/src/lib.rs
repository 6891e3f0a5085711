//! rhumb-agent
