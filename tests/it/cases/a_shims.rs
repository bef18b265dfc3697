//! A small program that starts the real one, and does not pass a signal on.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::finish;
use crate::support::agents;
use crate::support::kernel::{is_alive, wait_until};
use crate::support::model::Model;
use crate::support::shell::{Containment, Shell};

const RULES: &str = r#"[
  { "contains": "work long", "after_tool": false, "tool": "python3 -c 'import time; time.sleep(1000)'" },
  { "text": "reply number {n}" }
]"#;

/// Those whose command line has this text.
fn processes(shell: &Shell, text: &str) -> Vec<i32> {
    shell.marker.alive().into_iter().filter(|(_, line)| line.contains(text)).map(|(pid, _)| pid).collect()
}

#[test]
fn case_a32_a_sigterm_to_the_shim_of_codex_acp_alone_ends_its_program_and_its_tool_too() {
    for containment in Containment::all() {
        let shell = Shell::with(containment, "");
        let model = Model::start(shell.path(), RULES);
        agents::add(&shell, &[agents::codex_acp(&shell, &model.address)]);
        let run = shell.spawn(&["run", "--harness", "codex-acp", "--json", "--approve", "allow", "work long"]);
        let tool = wait_until(Duration::from_secs(60), "the tool runs", || {
            processes(&shell, "-c import time; time.sleep(1000)").first().copied().ok_or_else(|| "not yet".to_owned())
        });
        let (shim, program) =
            (processes(&shell, "codex-acp/bin/codex-acp.js"), processes(&shell, "linux-x64/bin/codex-acp"));
        assert_eq!((shim.len(), program.len()), (1, 1), "{:?}", shell.marker.alive());
        kill(Pid::from_raw(shim[0]), Signal::SIGTERM).expect("sent");
        let done = finish(run);
        let json = done.json();
        assert_eq!((done.code, &json["outcome"]["verdict"]), (1, &"failed".into()), "{done:?}");
        assert_eq!(json["evidence"]["proof"], "tree_empty", "{done:?}");
        assert_eq!(json["evidence"]["exit"]["signal"], 15, "{done:?}");
        assert!(!is_alive(program[0]) && !is_alive(tool), "{:?}", shell.marker.alive());
        shell.assert_nothing_left();
    }
}
