//! Closing.
