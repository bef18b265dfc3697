//! SIGKILL on the owner.
