//! What a runtime's folder says of its keeper.

use std::path::Path;

use ostler_keeper::folder::{Identity, LastWord};

use super::sweep::is_alive;

pub(in crate::actors) enum Look {
    /// A keeper listens; this secret makes an owner of who shows it.
    Living(Vec<u8>),
    /// It has ended as it should, and left this.
    LastWord(Box<LastWord>),
    /// It was killed.
    Gone(Option<Identity>),
}

/// One look at a folder that is there.
pub(in crate::actors) fn look(folder: &Path) -> Look {
    // In this order: a keeper writes its last word before it ends, so one that is dead by now has written it, or never
    // does.
    let identity = Identity::read(folder).ok().flatten();
    let living = identity.as_ref().is_some_and(|identity| is_alive(identity.keeper));
    match (LastWord::read(folder), identity) {
        (Ok(Some(word)), _) => Look::LastWord(Box::new(word)),
        (_, Some(identity)) if living => Look::Living(identity.secret),
        (_, identity) => Look::Gone(identity),
    }
}
