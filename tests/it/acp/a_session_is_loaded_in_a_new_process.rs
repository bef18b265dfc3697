//! Resume by the agent's own store, and never by a session that only looks the same.

use super::{everywhere, is, output, run, session, verdict};
use crate::support::shell::Shell;

fn pids(shell: &Shell) -> Vec<String> {
    let log = std::fs::read_to_string(&shell.log).expect("a log");
    log.lines().filter_map(|line| line.split(' ').next().map(str::to_owned)).collect()
}

#[test]
fn where_the_agent_stored_it() {
    everywhere(|shell| {
        let first = run(shell, "deny", "say one");
        let next = shell.ostler(&["run", "--session", &session(&first), "--json", "say two"]);
        assert_eq!((verdict(&next), output(&next)), (is(0, "completed", "end_report"), "two".to_owned()), "{next:?}");
        let pids = pids(shell);
        assert_ne!(pids[0], pids[1], "it was another process");
        let stored = std::fs::read_dir(shell.path().join("history")).expect("a folder").count();
        assert_eq!(stored, 1, "one session, and not a second one");
    });
}

fn lose_everything(shell: &Shell) {
    for file in std::fs::read_dir(shell.path().join("history")).expect("a folder") {
        std::fs::remove_file(file.expect("an entry").path()).expect("removed");
    }
}

#[test]
fn where_the_agent_lost_it_nothing_is_run() {
    everywhere(|shell| {
        let first = run(shell, "deny", "say one");
        lose_everything(shell);
        let next = shell.ostler(&["run", "--session", &session(&first), "--json", "say two"]);
        let (code, verdict, _) = verdict(&next);
        assert_eq!((code, verdict.as_str(), shell.received()), (3, "failed", 1), "{next:?}");
    });
}

#[test]
fn where_the_agent_lost_it_and_the_configuration_allows_it_a_new_one_is_begun_and_told() {
    everywhere(|shell| {
        let path = shell.path().join("ostler.toml");
        let config = std::fs::read_to_string(&path).expect("readable");
        let fresh = config.replace("[harness.acp]\n", "[harness.acp]\non_lost_session = \"fresh\"\n");
        std::fs::write(path, fresh).expect("written");
        let first = run(shell, "deny", "say one");
        lose_everything(shell);
        let next = shell.ostler(&["run", "--session", &session(&first), "--json", "say two"]);
        assert_eq!((verdict(&next), output(&next)), (is(0, "completed", "end_report"), "two".to_owned()), "{next:?}");
        let events = shell.events(&session(&first));
        let resumes: Vec<_> = events
            .iter()
            .filter(|event| event["type"] == "ostler.runtime.opened")
            .map(|event| event["data"]["resume"].as_str().unwrap_or("-"))
            .collect();
        assert_eq!(resumes.last(), Some(&"fresh-session"), "{resumes:?}");
    });
}
