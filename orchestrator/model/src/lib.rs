//! rhumb-model
