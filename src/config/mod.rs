//! The typed configuration and the command line.
