//! rhumb-provision
