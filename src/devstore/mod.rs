//! The embedded S3 store.
