//! Which operations of a store can be fenced, found out by trying (F11).

pub mod report;
