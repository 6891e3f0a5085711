//! rhumb-placement
