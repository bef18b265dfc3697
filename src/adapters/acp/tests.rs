//! The machine against captures of real agents, and against what none of them happened to do.

mod captures;
mod edges;

use ostler_supervisors::adapter::{EndReport, Fact, MAX_SNAPSHOT};
use ostler_supervisors::contract::{ApprovalDecision, ApprovalPolicy, Delegation, InteractionResponse, SessionSpec};
use serde_json::{Value, json};

use super::*;

fn delegation(prompt: &str, approval: ApprovalPolicy) -> Delegation {
    Delegation { prompt: prompt.into(), approval, model: None, timeout: None }
}

fn spec(model: Option<&str>) -> SessionSpec {
    SessionSpec { directory: "/home/user/project".into(), model: model.map(str::to_owned) }
}

fn opening(resume: Option<&str>, mode: Option<&str>, model: Option<&str>) -> Machine {
    let resume = resume.map(|id| id.parse().expect("an id"));
    let context = OpenContext { spec: &spec(model), resume: resume.as_ref(), task: None };
    Machine::new(Setup::new(context, mode.map(str::to_owned)))
}

/// A machine, all that it found out, and all that it sent.
struct Driven {
    machine: Machine,
    facts: Vec<Fact>,
    sent: Vec<Value>,
}

impl Driven {
    fn new(machine: Machine) -> Self {
        Self { machine, facts: Vec::new(), sent: Vec::new() }
    }

    /// In a session that takes tasks.
    fn ready() -> Self {
        let mut machine = opening(None, None, None);
        machine.phase = Phase::Ready;
        machine.session = Some("s".parse().expect("an id"));
        machine.spoken = Some("s".into());
        Self::new(machine)
    }

    /// In its first turn, whose request is number 1.
    fn in_a_turn() -> Self {
        let mut driven = Self::ready();
        driven.submit("hi", ApprovalPolicy::Ask);
        driven
    }

    /// Each step goes through a snapshot, as if the daemon had died after it.
    fn tell(&mut self, told: Told<'_>) {
        let mut answer = Answer::default();
        self.machine.tell(told, &mut answer);
        let snapshot = self.machine.snapshot();
        assert!(snapshot.len() <= MAX_SNAPSHOT, "{} bytes", snapshot.len());
        let restored = snapshot::restore(SNAPSHOT, &snapshot).expect("restores");
        self.machine = Machine { counts: self.machine.counts, ..restored };
        self.facts.extend(answer.facts);
        let json =
            |message: &ostler_supervisors::adapter::Message| serde_json::from_slice(&message.bytes).expect("JSON");
        self.sent.extend(answer.messages.iter().map(json));
    }

    fn submit(&mut self, prompt: &str, approval: ApprovalPolicy) {
        let task = "t".parse().expect("an id");
        self.tell(Told::Submit { task: &task, delegation: &delegation(prompt, approval) });
    }

    fn says(&mut self, message: &Value) {
        self.tell(Told::Frame(Frame::Line(&message.to_string())));
    }

    fn update(&mut self, update: Value) {
        self.says(
            &json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s", "update": update } }),
        );
    }

    fn result(&mut self, id: u64, result: Value) {
        self.says(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    fn fails(&mut self, id: u64, code: i32, message: &str) {
        self.says(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } }));
    }

    /// A request for permission with these options, by id and kind.
    fn asks(&mut self, id: Value, options: &[(&str, &str)]) {
        let options: Vec<_> =
            options.iter().map(|(id, kind)| json!({ "optionId": id, "name": id, "kind": kind })).collect();
        let call = json!({ "toolCallId": "call-1", "title": "rm -rf x", "kind": "execute", "status": "pending" });
        let params = json!({ "sessionId": "s", "toolCall": call, "options": options });
        self.says(&json!({ "jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params }));
    }

    fn respond(&mut self, interaction: &InteractionId, decision: ApprovalDecision) {
        self.tell(Told::Respond { interaction, response: &InteractionResponse::Approval { decision } });
    }

    fn asked(&self) -> Vec<&ostler_supervisors::contract::InteractionRequest> {
        self.facts
            .iter()
            .filter_map(|fact| if let Fact::Asked(request) = fact { Some(request) } else { None })
            .collect()
    }

    fn ends(&self) -> Vec<&EndReport> {
        self.facts.iter().filter_map(|fact| if let Fact::End(report) = fact { Some(report) } else { None }).collect()
    }

    /// What was answered to permissions: an option, or that there is none.
    fn outcomes(&self) -> Vec<&str> {
        let outcomes = self.sent.iter().map(|sent| &sent["result"]["outcome"]).filter(|outcome| outcome.is_object());
        outcomes.map(|outcome| outcome["optionId"].as_str().or(outcome["outcome"].as_str()).expect("a word")).collect()
    }

    fn methods(&self) -> Vec<&str> {
        self.sent.iter().filter_map(|sent| sent["method"].as_str()).collect()
    }

    fn text(&self) -> String {
        let text = |fact: &Fact| match fact {
            Fact::MessageDelta { role: ostler_supervisors::contract::MessageRole::Unknown, text, .. } => text.clone(),
            _ => String::new(),
        };
        self.facts.iter().map(text).collect()
    }

    fn position(&self, wanted: impl Fn(&Fact) -> bool) -> usize {
        self.facts.iter().position(wanted).unwrap_or_else(|| panic!("not among {:#?}", self.facts))
    }

    fn has(&self, wanted: impl Fn(&Fact) -> bool) -> bool {
        self.facts.iter().any(wanted)
    }
}
