//! The S3 request model.
