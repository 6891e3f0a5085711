//! rhumb-naas
