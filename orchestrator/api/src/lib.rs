//! rhumb-api
