//! Colours: agents on pipes are asked for none; what they print all the same is kept, and not shown to a person.

use super::text;
use crate::support::shell::{Containment, Done, Shell};

#[test]
fn case_e16_agents_on_pipes_are_told_to_use_no_colours() {
    let shell = Shell::with(
        Containment::Descent,
        "[harness.environment]\nadapter = \"oneshot\"\ncommand = [\"sh\", \"-c\", \"echo $NO_COLOR $TERM\"]\n\
         [harness.chosen]\nadapter = \"oneshot\"\ncommand = [\"sh\", \"-c\", \"echo $TERM\"]\n\
         environment = { TERM = \"xterm\" }\n",
    );
    let mut command = shell.command(&["run", "--harness", "environment", "x"]);
    let done: Done = command.env("TERM", "xterm-256color").output().expect("runs").into();
    assert_eq!(done.stdout, "1 dumb\n", "{done:?}");
    // What a harness is configured with wins.
    assert_eq!(shell.ostler(&["run", "--harness", "chosen", "x"]).stdout, "xterm\n");
}

/// A red word, as a script of the agent.
const RED: &str = "hex 1b 5b 33 31 6d 72 65 64 1b 5b 30 6d 0a";

#[test]
fn case_e16_colours_of_an_agent_are_kept_in_the_ledger() {
    let shell = Shell::new();
    let done = shell.run(RED).json();
    assert_eq!(done["output"], "\u{1b}[31mred\u{1b}[0m\n");
    let events = shell.events(text(&done, "session"));
    assert!(events.iter().any(|event| event["data"]["text"] == "\u{1b}[31mred\u{1b}[0m\n"), "{events:#?}");
}

#[test]
fn case_e16_what_is_shown_to_a_person_has_no_control_sequences() {
    let shell = Shell::new();
    // A tool's output goes to the progress, an answer and a prompt to the tables.
    let script = format!("tool printf '\\033[31mred\\033[0m' ;; {RED} ;; say \u{1b}[2Jcleared");
    let done = shell.ostler(&["run", "--harness", "json", &format!("noise x ;; {script}")]);
    assert!(done.stderr.contains("red") && !done.stderr.contains('\u{1b}'), "{done:?}");
    let task = text(&shell.tasks()[0], "id").to_owned();
    for verb in [&["task", "show", &task][..], &["task", "list"]] {
        let shown = shell.ostler(verb);
        assert!(shown.code == 0 && !shown.stdout.contains('\u{1b}'), "{verb:?}: {shown:?}");
    }
}
