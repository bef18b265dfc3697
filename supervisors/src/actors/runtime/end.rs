//! The end of a runtime: what the kernel said, then what has to be stored, then the folder, then this actor.

use std::path::Path;

use actix::prelude::*;
use ostler_keeper::{Emptiness, Exit, Order as KeeperOrder, Process, folder, remove_leaf};
use serde_json::json;

use super::super::journal::Draft;
use super::super::render;
use super::super::session::RuntimeNews;
use super::{Phase, Runtime, Serving, Ticket, TreeEnd, exit_fact};
use crate::contract::event::kinds;
use crate::ledger::{Change, Urgency};
use crate::machines::settlement::Loss;
use crate::machines::task::Input;
use crate::tree::ExitReason;

/// Characters of its standard error that are part of the message of an agent that ended too early.
const LAST_WORDS: usize = 500;

/// The actor may go.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct LetGo;

impl Runtime {
    pub(super) fn exited(&mut self, exit: Exit) {
        self.exit = Some(exit_fact(exit));
        self.to_task(Input::Exited(exit_fact(exit)));
        self.news(RuntimeNews::Exited);
    }

    pub(super) fn tree_emptied(&mut self, emptiness: Emptiness) {
        self.tree = TreeEnd::Proven;
        self.live = None;
        self.oom_kills = emptiness.oom_kills;
        if emptiness.oom_kills.is_some_and(|count| count > 0) {
            self.to_task(Input::OutOfMemory);
        }
        self.to_task(Input::Emptied);
    }

    /// The keeper reads to the end of it once the tree is gone.
    pub(super) fn errors_ended(&mut self) {
        let said = last_words(&tail_of(self.stderr.make_contiguous()));
        self.to_task(Input::ErrorsEnded(said));
    }

    /// Processes outlived SIGKILL. The keeper watches on, and so does the reaper; the task is told the truth.
    pub(super) fn leaked(&mut self, left: &[Process]) {
        let pids: Vec<i32> = left.iter().map(|process| process.pid).collect();
        tracing::error!(runtime = %self.row.id, ?pids, "processes outlived SIGKILL's deadline");
        self.start = None;
        self.news(RuntimeNews::Leaked);
        let data = json!({ "runtime_id": self.row.id, "pids": pids });
        let draft = Draft { events: vec![render::outside(kinds::RUNTIME_LEAKED, data)], ..Draft::default() };
        self.dispatch(Default::default(), vec![Input::Lost(Loss::Leaked)], draft, 0);
    }

    /// Once everything of it is known and the task it served is stored, its row goes.
    pub(super) fn finish_if_over(&mut self) {
        let known = self.tree != TreeEnd::Open && self.output_ended && matches!(self.task, Serving::Nobody);
        if !known || self.phase == Phase::Prepared || std::mem::replace(&mut self.gone, true) {
            return;
        }
        self.phase = Phase::Over;
        let stderr = tail_of(self.stderr.make_contiguous());
        let counts = self.adapter.as_ref().map(|adapter| adapter.counts()).unwrap_or_default();
        let data = json!({
            "runtime_id": self.row.id, "exit": self.exit, "tree_empty": self.tree == TreeEnd::Proven, "stderr": stderr,
            "oom_kills": self.oom_kills, "frames": counts,
        });
        let draft = Draft {
            events: vec![render::outside(kinds::RUNTIME_CLOSED, data)],
            changes: vec![Change::RuntimeGone(self.row.id.clone())],
            // A full ledger does not keep what is gone.
            urgency: Urgency::Settlement,
        };
        self.store(draft, Ticket { gone: true, ..Ticket::default() });
    }

    /// Its row is gone: so is what it left on the disk. Only then is it over for its session.
    pub(super) fn let_go(&mut self, ctx: &mut Context<Self>) {
        if self.link.is_some() {
            // The keeper removes its folder and ends; its connection ends with it.
            self.released = true;
            return self.keeper_order(KeeperOrder::Release);
        }
        let folder = self.row.folder.clone();
        let remove = async move { tokio::task::spawn_blocking(move || remove_folder(&folder)).await };
        ctx.spawn(remove.into_actor(self).map(|_, runtime, ctx| runtime.over(ctx)));
    }

    fn over(&mut self, ctx: &mut Context<Self>) {
        self.news(RuntimeNews::Over(self.tree));
        self.guard.ends(ExitReason::Normal);
        ctx.stop();
    }

    /// The connection ended. After a release that is the end; before one, the keeper may be gone or only cut off.
    pub(super) fn connection_lost(&mut self, ctx: &mut Context<Self>) {
        if self.phase == Phase::Over {
            let released = self.link.take().is_some() && self.released;
            if released {
                self.over(ctx);
            }
            return;
        }
        tracing::warn!(runtime = %self.row.id, "the connection to the keeper broke");
        self.link = None;
        self.reattach(ctx);
    }
}

/// A tail is cut anywhere; it begins with a whole character.
fn tail_of(bytes: &[u8]) -> String {
    let is_rest = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
    let rest = bytes.iter().take(3).take_while(is_rest).count();
    String::from_utf8_lossy(&bytes[rest..]).into_owned()
}

/// The end of what was said, on one line and fit for a terminal.
fn last_words(said: &str) -> String {
    let printable: String = said.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let words: Vec<&str> = printable.split_whitespace().collect();
    let line = words.join(" ");
    let begin = line.char_indices().rev().take(LAST_WORDS).last().map_or(0, |(at, _)| at);
    match begin {
        0 => line,
        _ => format!("…{}", &line[begin..]),
    }
}

/// For a runtime whose keeper is gone: nobody else removes the folder and the leaf.
fn remove_folder(path: &Path) {
    match folder::Identity::read(path) {
        Ok(identity) => {
            if let Some(leaf) = identity.and_then(|identity| identity.leaf)
                && let Err(error) = remove_leaf(&leaf)
            {
                tracing::warn!(%error, "a leaf is left to the next start");
            }
        }
        // Nobody else knows where its leaf is.
        Err(error @ folder::FolderError::Read { .. }) => {
            return tracing::warn!(%error, "a runtime's folder is left to the next start");
        }
        Err(error) => tracing::warn!(%error, "whether a runtime had a leaf is not known"),
    }
    if let Err(error) = folder::remove(path) {
        tracing::warn!(%error, "a runtime's folder is left to the next start");
    }
}

impl Runtime {
    /// Another connection took the keeper over: whoever made it goes on with it.
    pub(super) fn superseded(&mut self, ctx: &mut Context<Self>) {
        tracing::warn!(runtime = %self.row.id, "another owner attached to the keeper");
        self.link = None;
        self.guard.ends(ExitReason::Normal);
        ctx.stop();
    }
}

impl Handler<LetGo> for Runtime {
    type Result = ();

    fn handle(&mut self, _: LetGo, ctx: &mut Self::Context) {
        self.guard.ends(ExitReason::Normal);
        ctx.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::{LAST_WORDS, last_words};

    #[test]
    fn last_words_are_one_bounded_line_without_control_characters() {
        assert_eq!(last_words(" oops\n\x1bnot\tlogged\r\nin\n"), "oops not logged in");
        assert_eq!(last_words(""), "");
        let exact = "ä".repeat(LAST_WORDS);
        assert_eq!(last_words(&exact), exact);
        let longer = last_words(&format!("first {exact}"));
        assert_eq!((longer.chars().count(), longer.starts_with('…')), (LAST_WORDS + 1, true));
    }
}
