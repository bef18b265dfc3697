//! Cases from the field, by their numbers in the project's catalogue; each is one of a kind.

mod a_orphans;
mod b_cancel;
mod c_crashes;
mod e_framing;
mod g_double_execution;
