//! Ostler as a library.
