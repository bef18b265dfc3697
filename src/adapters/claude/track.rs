//! What is open at the agent, within bounds: a snapshot has to hold it.

use std::collections::{BTreeMap, BTreeSet};

use ostler_supervisors::contract::{InteractionId, WorkId};
use serde::{Deserialize, Serialize};

const MOST_TOOLS: usize = 24;
const MOST_APPROVALS: usize = 16;
const MOST_BACKGROUND: usize = 16;
const LONGEST_ID: usize = 64;
const LONGEST_NAME: usize = 24;

/// Whether an id is as short and plain as those that are kept.
fn is_plain(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(plain)
}

/// Tool runs without a result, with their names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct OpenTools(BTreeMap<WorkId, OpenTool>);

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OpenTool {
    pub(super) name: String,
    pub(super) refused: bool,
}

impl OpenTools {
    pub(super) fn open(&mut self, work: &WorkId, name: &str) {
        if self.0.len() < MOST_TOOLS && is_plain(work.as_str()) && name.len() <= LONGEST_NAME && name.is_ascii() {
            self.0.insert(work.clone(), OpenTool { name: name.to_owned(), refused: false });
        }
    }

    pub(super) fn refuse(&mut self, work: Option<&WorkId>) {
        if let Some(tool) = work.and_then(|work| self.0.get_mut(work)) {
            tool.refused = true;
        }
    }

    pub(super) fn close(&mut self, work: &WorkId) -> Option<OpenTool> {
        self.0.remove(work)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// How far an answer to a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Given {
    Nothing,
    Answer,
}

/// One open request for permission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OpenApproval {
    pub(super) work: Option<WorkId>,
    pub(super) given: Given,
}

/// Those that are open; the agent's own id of a request is the interaction's.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct OpenApprovals(BTreeMap<InteractionId, OpenApproval>);

impl OpenApprovals {
    /// Whether it could be kept.
    pub(super) fn open(&mut self, id: &InteractionId, work: Option<WorkId>) -> bool {
        let work = work.filter(|work| is_plain(work.as_str()));
        let kept = self.0.len() < MOST_APPROVALS && is_plain(id.as_str());
        if kept {
            self.0.insert(id.clone(), OpenApproval { work, given: Given::Nothing });
        }
        kept
    }

    /// The request, if it has no answer yet; it has one now.
    pub(super) fn answer(&mut self, id: &InteractionId) -> Option<OpenApproval> {
        let open = self.0.get_mut(id).filter(|open| open.given == Given::Nothing)?;
        open.given = Given::Answer;
        Some(open.clone())
    }

    pub(super) fn close(&mut self, id: &InteractionId) -> Option<OpenApproval> {
        self.0.remove(id)
    }

    /// Those whose answer the agent has taken, as far as this says so.
    pub(super) fn taken(&mut self, is_shown: impl Fn(&OpenApproval) -> bool) -> Vec<InteractionId> {
        let taken = self.0.iter().filter(|(_, open)| open.given == Given::Answer && is_shown(open));
        let taken: Vec<_> = taken.map(|(id, _)| id.clone()).collect();
        self.0.retain(|id, _| !taken.contains(id));
        taken
    }

    /// All of them; none is open any more.
    pub(super) fn drain(&mut self) -> Vec<(InteractionId, OpenApproval)> {
        std::mem::take(&mut self.0).into_iter().collect()
    }
}

/// How the last of the work in the background ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) enum Waking {
    /// By itself: the agent is told of it, and takes a turn.
    #[default]
    Follows,
    /// It was stopped, and nothing follows.
    No,
}

/// Subagents and commands that work while no turn waits for them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Background {
    names: BTreeSet<String>,
    /// How many there are; more than there are names where one could not be kept.
    count: usize,
    pub(super) waking: Waking,
}

impl Background {
    pub(super) fn set<'a>(&mut self, ids: impl Iterator<Item = &'a str>) {
        self.names.clear();
        self.count = 0;
        for id in ids {
            self.count += 1;
            if is_plain(id) && self.names.len() < MOST_BACKGROUND {
                self.names.insert(id.to_owned());
            }
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.names.iter().cloned().collect()
    }
}
