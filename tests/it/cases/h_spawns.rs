//! Programs that cannot be started: told at once, with what was looked for and where.

use std::os::unix::fs::PermissionsExt;

use super::configure;
use crate::support::shell::{Done, Shell};

/// A harness of each kind that starts this command.
fn add(shell: &Shell, command: &str, environment: &str) {
    configure(shell, |config| {
        let harness = |name: &str, adapter: &str| {
            format!(
                "[harness.{name}]\nadapter = {adapter:?}\ncommand = [{command:?}]\nenvironment = {{ {environment} }}\n"
            )
        };
        config + &harness("program", "oneshot") + &harness("spoken", "acp")
    });
}

/// What the start of both kinds fails with, and that nothing of it is left.
fn failures(shell: &Shell) -> Vec<String> {
    let failure = |harness: &&str| {
        // Longer than anybody waits here: the error does not come of a deadline.
        let done: Done = shell.ostler(&["run", "--harness", harness, "--json", "--timeout", "1h", "hi"]);
        let json = done.json();
        assert_eq!((done.code, &json["evidence"]["proof"]), (3, &"never_started".into()), "{done:?}");
        json["outcome"]["message"].as_str().expect("a text").to_owned()
    };
    let failures = ["program", "spoken"].iter().map(failure).collect();
    shell.assert_nothing_left();
    failures
}

#[test]
fn case_h8_a_missing_program_is_named_with_the_path() {
    let shell = Shell::new();
    add(&shell, "no-such-agent", "PATH = \"/nowhere:/usr/bin\"");
    for failure in failures(&shell) {
        assert_eq!(failure, "no-such-agent (looked for in /nowhere:/usr/bin): no such file or directory");
    }
}

#[test]
fn case_h8_what_is_no_program_is_named_with_what_is_wrong() {
    let not_found = "no such file or directory";
    for (name, mode, flaw, reason) in [
        ("folder", None, "it is a directory", "permission denied"),
        ("plain", Some(0o644), "it is not executable", "permission denied"),
        ("script", Some(0o755), "its interpreter is missing", not_found),
    ] {
        let shell = Shell::new();
        let place = shell.path().join(name);
        match mode {
            None => std::fs::create_dir(&place).expect("made"),
            Some(mode) => {
                std::fs::write(&place, "#!/no/such/interpreter\n").expect("written");
                std::fs::set_permissions(&place, PermissionsExt::from_mode(mode)).expect("set");
            }
        }
        let place = place.display().to_string();
        add(&shell, &place, "");
        for failure in failures(&shell) {
            assert_eq!(failure, format!("{place} ({flaw}): {reason}"));
        }
    }
}

/// The one in the path is found, and is none.
#[test]
fn case_h8_a_flawed_program_in_the_path_is_named_with_its_place() {
    let shell = Shell::new();
    let folder = shell.path().join("bin");
    std::fs::create_dir(&folder).expect("made");
    let place = folder.join("flawed-agent");
    std::fs::write(&place, "#!/no/such/interpreter\n").expect("written");
    std::fs::set_permissions(&place, PermissionsExt::from_mode(0o755)).expect("set");
    let path = format!("/usr/bin:{}", folder.display());
    add(&shell, "flawed-agent", &format!("PATH = {path:?}"));
    for failure in failures(&shell) {
        let expected = format!("flawed-agent (looked for in {path}; {}: its interpreter is missing)", place.display());
        assert_eq!(failure, format!("{expected}: no such file or directory"));
    }
}
