//! rhumb-federation
