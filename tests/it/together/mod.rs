//! Real agents of three kinds under one daemon, each with its own session: cancelled and closed in any order, none
//! disturbs another, and nothing is left of any.

mod what_is_declared_is_so;

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::agents;
use crate::support::kernel::wait_until;
use crate::support::model::Model;
use crate::support::shell::{Containment, Done, Shell, assert_whole};

/// A tool and a speech that last longer than any round. Claude Code's Bash tool refuses a plain `sleep`; Codex goes on
/// without a tool that takes more than ten seconds; Gemini CLI ends a turn in which the same is said again and again.
fn rules() -> String {
    let speech: String = (1..=1000).map(|number| format!("number {number} ")).collect();
    format!(
        r#"[
  {{ "contains": "work long", "after_tool": false, "tool": "python3 -c 'import time; time.sleep(1000)'" }},
  {{ "contains": "work long", "after_tool": true, "text": "{speech}", "every_ms": 200 }},
  {{ "contains": "slow", "text": "{speech}", "every_ms": 200 }},
  {{ "text": "reply number {{n}}" }}
]"#
    )
}

/// Ten of three kinds; starts of these are bound by the processor, so few are admitted at once.
const KINDS: [&str; 10] =
    ["codex", "claude", "gemini", "codex", "claude", "codex", "claude", "gemini", "codex", "claude"];
const STARTS: usize = 2;

/// What becomes of one agent in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It answers.
    Answers,
    /// It is cancelled while it speaks.
    CancelledSpeaking,
    /// It is cancelled while its tool runs.
    CancelledWorking,
    /// Its session is closed while its tool runs.
    Closed,
}

const FATES: [Fate; 4] = [Fate::Answers, Fate::CancelledSpeaking, Fate::CancelledWorking, Fate::Closed];

impl Fate {
    fn prompt(self) -> &'static str {
        match self {
            Self::Answers => "hello",
            Self::CancelledSpeaking => "slow please",
            Self::CancelledWorking | Self::Closed => "work long",
        }
    }

    fn verdict(self) -> &'static str {
        if self == Self::Answers { "completed" } else { "cancelled" }
    }
}

/// The same schedule for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        (1..count).rev().for_each(|last| order.swap(last, self.below(last + 1)));
        order
    }
}

fn rounds() -> u64 {
    std::env::var("OSTLER_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3)
}

#[test]
fn ten_real_agents_are_cancelled_and_closed_in_any_order() {
    let shell = Shell::with(Containment::Descent, &format!("[limits]\nstart_concurrency = {STARTS}\n"));
    let model = Model::start(shell.path(), &rules());
    let kinds = [agents::codex, agents::claude, agents::gemini];
    agents::add(&shell, &kinds.map(|kind| kind(&shell, &model.address)));
    let daemon = shell.serve();
    for seed in 0..rounds() {
        round(&shell, &mut Random(seed));
    }
    assert_eq!(at_once(&starts(&shell)), STARTS, "as many as may, and never more: {:?}", starts(&shell));
    shell.end(daemon);
    shell.assert_nothing_left();
}

fn round(shell: &Shell, random: &mut Random) {
    let before = shell.tasks().len();
    let fates = KINDS.map(|_| FATES[random.below(FATES.len())]);
    let run = |(kind, fate): (&str, Fate)| {
        shell.spawn(&["run", "--harness", kind, "--json", "--approve", "allow", fate.prompt()])
    };
    let runs: Vec<_> = KINDS.into_iter().zip(fates).map(run).collect();
    let tasks = wait_until(Duration::from_secs(60), "all are accepted", || {
        let tasks = shell.tasks();
        if tasks.len() == before + KINDS.len() {
            Ok(tasks[..KINDS.len()].to_vec())
        } else {
            Err(tasks.len().to_string())
        }
    });
    // Each is found by its own words; those of one kind and one prompt are alike.
    let mut left: Vec<(usize, Fate)> = fates.into_iter().enumerate().collect();
    for index in random.shuffled(tasks.len()) {
        let task = &tasks[index];
        let of_task = |(kind, fate): &(usize, Fate)| {
            KINDS[*kind] == harness(shell, task) && task["delegation"]["prompt"] == fate.prompt()
        };
        let place = left.iter().position(of_task).expect("a fate");
        let (_, fate) = left.swap_remove(place);
        meet(shell, task, fate);
    }
    let ends: Vec<Done> = runs.into_iter().map(|run| run.wait_with_output().expect("ends").into()).collect();
    for (end, fate) in ends.iter().zip(fates) {
        assert_eq!(end.json()["outcome"]["verdict"], fate.verdict(), "{fate:?}: {end:?}");
    }
    for index in random.shuffled(tasks.len()) {
        let session = tasks[index]["session"].as_str().expect("an id");
        assert_whole(&shell.events(session));
        assert_eq!(shell.ostler(&["session", "close", session]).code, 0);
    }
    assert_eq!(shell.marker.alive(), vec![], "every session is closed");
}

/// From when to when each runtime was starting, in milliseconds.
fn starts(shell: &Shell) -> Vec<(u64, u64)> {
    let of_task = |task: &Value| {
        let events = shell.events(task["session"].as_str().expect("an id"));
        let of_kinds = |kinds: &[&str]| {
            let found = events.iter().find(|event| kinds.contains(&event["type"].as_str().expect("a type")));
            found.map(|event| (event["timestamp"].as_f64().expect("seconds") * 1000.0).round() as u64)
        };
        let over = of_kinds(&["ostler.runtime.ready", "ostler.runtime.closed"]);
        Some((of_kinds(&["ostler.runtime.opened"])?, over.expect("a start is over")))
    };
    shell.tasks().iter().filter_map(of_task).collect()
}

/// The most starts at one time; one that is over makes place for one in the same millisecond.
fn at_once(starts: &[(u64, u64)]) -> usize {
    let under_way = |at: u64| starts.iter().filter(|(from, to)| (*from..*to).contains(&at)).count();
    starts.iter().map(|(from, _)| under_way(*from)).max().unwrap_or(0)
}

fn harness(shell: &Shell, task: &Value) -> String {
    let session = task["session"].as_str().expect("an id");
    let shown = shell.ostler(&["session", "show", session, "--json"]).json();
    shown["session"]["harness"].as_str().expect("a harness").to_owned()
}

/// Waits until the agent is where its fate meets it.
fn meet(shell: &Shell, task: &Value, fate: Fate) {
    let (id, session) = (task["id"].as_str().expect("an id"), task["session"].as_str().expect("an id"));
    let awaited = match fate {
        Fate::Answers => return,
        Fate::CancelledSpeaking => "message.delta",
        Fate::CancelledWorking | Fate::Closed => "tool.requested",
    };
    let since = Instant::now();
    wait_until(Duration::from_secs(90), awaited, || {
        let events = shell.events(session);
        let is_there = events.iter().any(|event| event["type"] == awaited);
        if is_there { Ok(()) } else { Err(format!("{fate:?} after {:?}: {events:#?}", since.elapsed())) }
    });
    let done = match fate {
        Fate::Closed => shell.ostler(&["session", "close", session]),
        _ => shell.ostler(&["task", "cancel", id]),
    };
    assert_eq!(done.code, 0, "{fate:?}: {done:?}");
}
