//! From the start to readiness: which session it has, and the one that is resumed.

use std::path::{Path, PathBuf};

use ostler_supervisors::adapter::{Answer, Fact};
use ostler_supervisors::contract::NativeId;
use serde::{Deserialize, Serialize};

use super::wire::{Asked, Command, Line, State, is_true, read, short, text};
use super::{Machine, Storage};

/// How far the way to tasks has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) enum Phase {
    #[default]
    Opening,
    Ready,
    /// It will take no task.
    Refused,
}

impl Machine {
    /// It says nothing by itself, and this is answered once it can take a prompt.
    pub(super) fn ask_session(&mut self, answer: &mut Answer) {
        self.request(Asked::Session, Command::GetState, answer);
    }

    pub(super) fn opening_answered(&mut self, what: Asked, line: &Line<'_>, answer: &mut Answer) {
        let state: State<'_> = read(line.data).unwrap_or_default();
        if !is_true(line.success) {
            let said = short(&text(line.error).unwrap_or_default());
            return self
                .refuse(Fact::NotReady { message: format!("pi cannot be brought to take tasks: {said}") }, answer);
        }
        match (what, self.resume.clone()) {
            (Asked::Session, Some(resume)) => self.switch(&resume, &state, answer),
            (Asked::Switch, _) if is_true(state.cancelled) => {
                let message = "an extension of pi keeps it from going on with another session".to_owned();
                self.refuse(Fact::NotReady { message }, answer);
            }
            (Asked::Switch, _) => self.request(Asked::Switched, Command::GetState, answer),
            (Asked::Switched, Some(resume)) => self.switched(&resume, &state, answer),
            _ => {
                self.session = name(&state);
                self.is_ready(answer);
            }
        }
    }

    /// An extension may have taken it to another session meanwhile.
    pub(super) fn follow_session(&mut self, state: &State<'_>, answer: &mut Answer) {
        if let Some(now) = name(state).filter(|now| self.session.as_ref() != Some(now)) {
            (self.session, self.storage) = (Some(now), Storage::Empty);
            self.tell_session(answer);
        }
    }

    /// Beside the session it has begun with, under the name that it gave the other.
    fn switch(&mut self, resume: &NativeId, state: &State<'_>, answer: &mut Answer) {
        let beside = file(state).and_then(|file| Some(file.parent()?.join(format!("{resume}.jsonl"))));
        match beside.as_deref().and_then(Path::to_str) {
            Some(path) => self.request(Asked::Switch, Command::SwitchSession { session_path: path }, answer),
            None => {
                let message = format!("pi keeps no sessions here, so {resume} is not to be had");
                self.refuse(Fact::NativeLost { message }, answer);
            }
        }
    }

    /// What it does not find it begins anew under the same name; the id in the name is then not the session's.
    fn switched(&mut self, resume: &NativeId, state: &State<'_>, answer: &mut Answer) {
        let is_own = |id: String| resume.as_str().strip_suffix(&id).is_some_and(|time| time.ends_with('_'));
        if name(state).as_ref() == Some(resume) && text(state.session_id).is_some_and(is_own) {
            (self.session, self.storage) = (Some(resume.clone()), Storage::Shown);
            return self.is_ready(answer);
        }
        let message = format!("pi has no session {resume} any more");
        self.refuse(Fact::NativeLost { message }, answer);
    }

    fn is_ready(&mut self, answer: &mut Answer) {
        self.phase = Phase::Ready;
        self.tell_session(answer);
        answer.fact(Fact::Ready);
    }

    fn refuse(&mut self, why: Fact, answer: &mut Answer) {
        self.phase = Phase::Refused;
        answer.fact(why);
    }
}

fn file(state: &State<'_>) -> Option<PathBuf> {
    text(state.session_file).map(PathBuf::from)
}

/// A session is named as its file is; its id alone would have to be looked for in every file.
fn name(state: &State<'_>) -> Option<NativeId> {
    file(state)?.file_stem()?.to_str()?.parse().ok()
}
