//! What looks at a harness is owned like what works with it.

use super::everywhere_with;
use crate::support::shell::Shell;

/// A program whose version comes from a shell, which leaves this behind.
fn probed(left: &str) -> String {
    let script = format!("export MARK=@MARK@; {left}; echo version 1.0");
    format!("[harness.probed]\nadapter = \"oneshot\"\ncommand = [\"sh\"]\nversion = [\"-c\", {script:?}]\n")
}

fn look(shell: &Shell) {
    for verb in [&["doctor"][..], &["harness", "show", "probed"]] {
        let done = shell.ostler(verb);
        assert!(done.code == 0 && done.stdout.contains("probed"), "{done:?}");
        assert_eq!(shell.marker.alive(), vec![], "left by {verb:?}");
    }
}

#[test]
fn case_a4_a_probe_that_answers_leaves_nothing() {
    let deaf = "trap '' TERM HUP INT; (setsid sleep 1000 >/dev/null 2>&1 </dev/null &)";
    everywhere_with(&probed(deaf), look);
}

#[test]
fn case_a4_a_probe_whose_child_holds_its_output_leaves_nothing() {
    everywhere_with(&probed("trap '' TERM HUP INT; setsid -f sleep 1000"), look);
}

#[test]
fn case_a4_a_probe_that_never_answers_leaves_nothing() {
    everywhere_with(&probed("trap '' TERM HUP INT; setsid -f sleep 1000; sleep 1000"), look);
}
