//! Our side of the control protocol: the handshake, interrupts, and their answers.

use ostler_supervisors::adapter::{Answer, Fact};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Machine, Stop};

/// What a request of ours was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Asked {
    Initialize,
    Interrupt,
    StopWork,
}

/// This many of our requests may be without an answer; what an older one was is forgotten.
const MOST_ASKED: usize = 8;

impl Machine {
    pub(super) fn request(&mut self, what: Asked, request: Value, answer: &mut Answer) {
        let id = format!("ostler-{}", self.next_request);
        self.next_request += 1;
        if self.asked.len() == MOST_ASKED {
            self.asked.pop_first();
        }
        self.asked.insert(id.clone(), what);
        answer.json(&json!({ "type": "control_request", "request_id": id, "request": request }));
    }

    /// An interrupt ends the turn and its tool; work in the background is not part of it.
    pub(super) fn interrupt(&mut self, answer: &mut Answer) {
        let open = self.background.names();
        let Some(turn) = &mut self.turn else { return };
        turn.stop = turn.stop.max(Stop::Ours);
        for work in open {
            self.request(Asked::StopWork, json!({ "subtype": "stop_task", "task_id": work }), answer);
        }
        self.request(Asked::Interrupt, json!({ "subtype": "interrupt" }), answer);
    }

    pub(super) fn answered(&mut self, response: &Value, answer: &mut Answer) {
        let Some(what) = response["request_id"].as_str().and_then(|id| self.asked.remove(id)) else {
            self.counts.mapped -= 1;
            return self.noise("an answer to nothing that was asked".to_owned(), answer);
        };
        let refused = (response["subtype"] == "error").then(|| response["error"].as_str().unwrap_or("no reason given"));
        match (what, refused) {
            (Asked::Initialize, None) => self.initialized(answer),
            (Asked::Initialize, Some(reason)) => {
                answer.fact(Fact::NotReady { message: format!("claude refused the handshake: {reason}") });
            }
            (Asked::Interrupt, None) => self.settle_if_over(answer),
            // The turn's own end, and the end of the work, say what became of them.
            (Asked::StopWork, None) | (Asked::Interrupt | Asked::StopWork, Some(_)) => {}
        }
    }

    /// It has read its session from its store, if it was to resume one.
    fn initialized(&mut self, answer: &mut Answer) {
        self.ready = true;
        if let Some(id) = self.resume.clone() {
            self.stored = true;
            self.session = Some(id.clone());
            answer.fact(Fact::NativeSession { id, stored: true });
        }
        answer.fact(Fact::Ready);
    }
}
