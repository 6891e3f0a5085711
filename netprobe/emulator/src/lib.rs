//! rhumb-emulator
