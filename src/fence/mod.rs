//! The fence protocol, pure.
