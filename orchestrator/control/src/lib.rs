//! rhumb-control
