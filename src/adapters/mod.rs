//! One folder or file per foreign language. Each adapter is a machine without I/O.

pub mod acp;
pub mod claude;
pub mod codex;
mod frames;
pub mod oneshot;
pub mod pi;
mod snapshot;

pub use acp::{Acp, AcpOptions};
pub use claude::Claude;
pub use codex::{Codex, CodexApproval, CodexOptions, CodexSandbox};
pub use oneshot::{Oneshot, OutputFormat, PromptBy};
pub use pi::Pi;
