//! rhumb-store
