//! The race of a stale lock holder, played with real processes.
