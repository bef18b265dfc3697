//! One user with real Codex, whose model is on loopback.

use serde_json::Value;

use crate::support::agents;
use crate::support::model::Model;
use crate::support::shell::{Containment, Shell};

const RULES: &str = r#"[
  { "contains": "run it", "after_tool": false, "tool": "echo hi > out.txt && cat out.txt" },
  { "contains": "run it", "after_tool": true, "text": "the tool said {tool}" },
  { "contains": "sleep", "after_tool": false, "tool": "sleep 1000" },
  { "contains": "leave", "after_tool": false, "tool": "setsid -f sleep 1000; sleep 1000" },
  { "contains": "beat", "after_tool": false, "tool": "(setsid sh -c 'trap \"\" TERM HUP; while :; do date +%N > background; sleep 0.02; done' &) ; while :; do date +%N > foreground; sleep 0.02; done" },
  { "contains": "slow", "text": "one two three four five six seven eight nine ten", "every_ms": 200 },
  { "contains": "overload", "status": 500 },
  { "text": "reply number {n}" }
]"#;

/// A user with Codex.
pub struct User {
    pub shell: Shell,
    model: Model,
}

/// A process with so many pages of memory, none of them huge, that it takes a while to give them back when it is killed.
const HASTY: &str = "
import ctypes, time
PR_SET_THP_DISABLE = 41
ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
x = b'x' * (2 << 30)
print('up', flush=True)
time.sleep(1000)
";

impl User {
    pub fn new() -> Self {
        Self::with(Containment::Descent)
    }

    pub fn with(containment: Containment) -> Self {
        let shell = Shell::with(containment, "");
        let model = Model::start(shell.path(), RULES);
        let hasty = format!(
            "[harness.hasty]\nadapter = \"oneshot\"\ncommand = {:?}\n\
             environment = {{ MARK = {:?}, OSTLER_AGENT_ROLE = \"play-agent\" }}\n\
             [harness.hasty.deadlines]\nend_of_input = \"0ms\"\nterminate = \"0ms\"\nkill = \"0ms\"\n",
            ["python3", "-c", HASTY],
            shell.marker.text(),
        );
        agents::add(&shell, &[agents::codex(&shell, &model.address), hasty]);
        Self { shell, model }
    }

    /// The requests that reached the model, in order; hang-ups apart.
    pub fn requests(&self) -> Vec<Value> {
        self.model.requests()
    }

    /// Every process of this user whose command line has this text.
    pub fn processes(&self, text: &str) -> Vec<i32> {
        self.shell.marker.alive().into_iter().filter(|(_, line)| line.contains(text)).map(|(pid, _)| pid).collect()
    }

    /// Those whose command line begins with it.
    pub fn running(&self, command: &str) -> usize {
        self.shell.marker.alive().iter().filter(|(_, line)| line.starts_with(command)).count()
    }
}

/// The gate for starts has nothing in hand that could fail or would have to be cleaned up: these are for opens that a
/// caller awaits.
const UNREACHED: [&str; 3] = ["DeliverFailure", "CleanUp", "LeaveToReaper"];

/// One of the names the list has, in its parts.
#[derive(Debug)]
pub struct Boundary<'a> {
    pub name: &'a str,
    pub machine: &'a str,
    pub effect: &'a str,
}

impl<'a> Boundary<'a> {
    fn of(name: &'a str, side: &str) -> Option<Self> {
        let (machine, effect) = name.strip_prefix(side)?.split_once('.')?;
        Some(Self { name, machine, effect })
    }
}

/// The effects on this side (`before:`, `after:`) that can be reached.
pub fn boundaries<'a>(all: &'a [String], side: &str) -> impl Iterator<Item = Boundary<'a>> {
    let found = all.iter().filter_map(move |name| Boundary::of(name, side));
    found.filter(|boundary| !UNREACHED.contains(&boundary.effect))
}
