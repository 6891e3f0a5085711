//! Harness of the system tests: starts real processes and waits for conditions.
