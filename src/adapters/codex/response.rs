//! Answers to our requests.

use ostler_supervisors::adapter::{Answer, Fact};
use serde_json::{Value, json};

use super::{Asked, Machine};

/// How it says that it has no thread of this id; its code is that of many other refusals.
const NO_SUCH_THREAD: &str = "no rollout found";

impl Machine {
    pub(super) fn answered(&mut self, id: Option<u64>, message: &Value, answer: &mut Answer) {
        let Some(what) = id.and_then(|id| self.asked.remove(&id)) else {
            return self.noise("an answer to nothing that was asked".to_owned(), answer);
        };
        self.counts.mapped += 1;
        let result = match message.get("error") {
            Some(error) => Err(error["message"].as_str().unwrap_or("no reason given").to_owned()),
            None => Ok(&message["result"]),
        };
        match (what, result) {
            (Asked::Initialize, Ok(_)) => self.open_thread(answer),
            (Asked::Initialize, Err(message)) => not_ready(format!("codex refused the handshake: {message}"), answer),
            (Asked::StartThread | Asked::ResumeThread, Ok(result)) => self.thread_opened(what, result, answer),
            (Asked::StartThread, Err(message)) => not_ready(format!("codex opened no thread: {message}"), answer),
            (Asked::ResumeThread, Err(message)) if message.contains(NO_SUCH_THREAD) => {
                answer.fact(Fact::NativeLost { message: format!("codex says: {message}") });
            }
            (Asked::ResumeThread, Err(message)) => {
                not_ready(format!("codex cannot resume the session: {message}; start a new one"), answer);
            }
            (Asked::StartTurn, Ok(result)) => self.turn_accepted(result, answer),
            (Asked::StartTurn, Err(message)) => {
                self.turn = None;
                answer.fact(Fact::NotAccepted { message: format!("codex did not take the task: {message}") });
            }
            // The turn's own end says whether it was interrupted; one that ended before has nothing to interrupt.
            (Asked::Interrupt | Asked::CleanTerminals, _) => {}
        }
    }

    fn thread_opened(&mut self, what: Asked, result: &Value, answer: &mut Answer) {
        let Some(thread) = result["thread"]["id"].as_str().map(str::to_owned) else {
            return not_ready("codex named no thread; is this a version that Ostler knows?".to_owned(), answer);
        };
        // A thread is on the disk once a turn of it ran, and for certain if it was read from there.
        self.stored = what == Asked::ResumeThread;
        self.thread = Some(thread.clone());
        match thread.parse() {
            Ok(id) => answer.fact(Fact::NativeSession { id, stored: self.stored }),
            Err(error) => return not_ready(format!("codex named a thread that is none: {error}"), answer),
        }
        answer.fact(Fact::Ready);
    }

    fn turn_accepted(&mut self, result: &Value, answer: &mut Answer) {
        let Some(turn) = &mut self.turn else { return };
        let Some(id) = result["turn"]["id"].as_str() else {
            return self.noise("a turn without an id".to_owned(), answer);
        };
        turn.id = Some(id.to_owned());
        let interrupt = std::mem::take(&mut turn.interrupt_when_known);
        answer.fact(Fact::Accepted);
        if interrupt {
            self.interrupt(answer);
        }
    }

    /// Commands of an interrupted turn go on running; this is the agent's own way to end them.
    pub(super) fn clean_terminals(&mut self, answer: &mut Answer) {
        let params = json!({ "threadId": self.thread });
        self.request(Asked::CleanTerminals, "thread/backgroundTerminals/clean", params, answer);
    }
}

fn not_ready(message: String, answer: &mut Answer) {
    answer.fact(Fact::NotReady { message });
}
