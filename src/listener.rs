//! Accepts connections.
