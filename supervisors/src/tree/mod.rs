//! Supervision as Erlang/OTP defines it, without processes: child specs, strategies, restart intensity, backoff, and
//! the order of a shutdown. Actors carry out what is decided here.

pub mod backoff;
pub mod intensity;
pub mod spec;
pub mod supervisor;

pub use backoff::Backoff;
pub use intensity::Intensity;
pub use spec::{ChildSpec, ExitReason, RestartType, Strategy};
pub use supervisor::{Decision, Supervisor};
