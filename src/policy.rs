//! Which scope a key belongs to.
