//! The client towards the store.
