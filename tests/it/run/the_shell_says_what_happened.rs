//! Words, help, and wrong usage.

use crate::support::shell::{Done, Shell};

#[test]
fn the_answer_is_on_stdout_and_progress_is_not() {
    let shell = Shell::new();
    let done = shell.ostler(&["run", "--harness", "scripted", "say the answer"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "the answer\n"), "{done:?}");
}

fn from_stdin(shell: &Shell, prompt: &str) -> Done {
    use std::io::Write;
    let mut command = shell.command(&["run", "--harness", "scripted", "-"]);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().expect("runs");
    child.stdin.take().expect("piped").write_all(prompt.as_bytes()).expect("written");
    child.wait_with_output().expect("ends").into()
}

#[test]
fn a_prompt_comes_from_standard_input_byte_for_byte() {
    assert_eq!(from_stdin(&Shell::new(), "  hällo  ").stdout, "You said:   hällo  \n");
}

#[test]
fn wrong_usage_is_two_and_changes_nothing() {
    let shell = Shell::new();
    for arguments in [
        &["run"][..],
        &["run", "--harness", "scripted", ""],
        &["run", "--harness", "scripted", "--timeout", "5", "x"],
        &["run", "--harness", "a b", "x"],
        &["run", "--harness", "scripted", "--cwd", "/no/such/directory", "x"],
        &["run", "--harness", "scripted", "--cwd", "/etc/passwd", "x"],
        &["run", "--harness", "scripted", "--log", "debgu", "x"],
        &["run", "--harness", "scripted", "--log", "a=b=c", "x"],
        &["frobnicate"],
    ] {
        let done = shell.ostler(arguments);
        assert_eq!(done.code, 2, "{arguments:?}: {done:?}");
    }
    let listed = shell.ostler(&["session", "list", "--json"]);
    assert!(listed.code == 3 || listed.json().as_array().is_some_and(Vec::is_empty), "{listed:?}");
}

#[test]
fn what_is_not_known_is_named_and_three() {
    let shell = Shell::new();
    shell.run("say hi");
    for (arguments, what) in [
        (&["run", "--harness", "nobody", "x"][..], "no harness nobody is configured; there are"),
        (&["run", "--session", "sess_none", "x"], "session sess_none is not known"),
        (&["task", "show", "task_none"], "task task_none is not known"),
        (&["task", "cancel", "task_none"], "task task_none is not known"),
        (&["task", "list", "--session", "sess_none"], "session sess_none is not known"),
        (&["session", "close", "sess_none"], "session sess_none is not known"),
    ] {
        let done = shell.ostler(arguments);
        assert_eq!(done.code, 3, "{arguments:?}: {done:?}");
        assert!(done.stderr.contains(what), "{arguments:?}: {done:?}");
    }
}

#[test]
fn a_shown_task_says_why() {
    let shell = Shell::with(
        crate::support::shell::Containment::Descent,
        "[harness.missing]\nadapter = \"oneshot\"\ncommand = [\"no-such-agent\"]\n",
    );
    for (arguments, said) in [
        (&["run", "--harness", "missing", "--json", "x"][..], "\nverdict   failed: no-such-agent"),
        (&["run", "--harness", "scripted", "--json", "exit 0"], "\nverdict   unresolved (PARTIAL_EVIDENCE): "),
        (
            &["run", "--harness", "scripted", "--json", "--timeout", "300ms", "say up ;; hang"],
            "\nverdict   cancelled (timeout)\n",
        ),
    ] {
        let task = shell.ostler(arguments).json()["task"].as_str().expect("an id").to_owned();
        let shown = shell.ostler(&["task", "show", &task]);
        assert!(shown.stdout.contains(said), "{arguments:?}: {shown:?}");
    }
    let task = shell.run("say hi").json()["task"].as_str().expect("an id").to_owned();
    let shown = shell.ostler(&["task", "show", &task]);
    assert!(!shown.stdout.contains("verdict"), "the answer says it: {shown:?}");
    let done = shell.ostler(&["run", "--harness", "scripted", "exit 0"]);
    assert!(done.stderr.starts_with("ostler: unresolved (PARTIAL_EVIDENCE): "), "{done:?}");
}

/// Where this user may mount.
#[test]
fn the_doctor_tries_to_write() {
    let shell = Shell::new();
    std::fs::create_dir(shell.state()).expect("made");
    let mount = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "ro,size=1m", "tmpfs"])
        .arg(shell.state())
        .output()
        .expect("runs");
    if !mount.status.success() {
        return;
    }
    let done = shell.ostler(&["doctor", "--json"]);
    let _left = std::process::Command::new("umount").arg("-l").arg(shell.state()).status();
    let checks = done.json();
    let state = checks.as_array().and_then(|all| all.iter().find(|check| check["name"] == "state")).expect("checked");
    assert_eq!(state["ok"], false, "{state}");
    let said = format!("nothing can be written to {}: ", shell.state().display());
    assert!(state["found"].as_str().is_some_and(|found| found.starts_with(&said)), "{state}");
}

#[test]
fn without_any_agent_it_says_what_was_looked_for() {
    let shell = Shell::new();
    let empty = shell.path().join("empty.toml");
    std::fs::write(&empty, "").expect("written");
    let mut command = shell.command(&["run", "hi"]);
    let done = command.env("PATH", "/nowhere").env("OSTLER_CONFIG", empty).output().expect("runs");
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(3), "{text}");
    assert!(text.contains("no agent is installed") && text.contains("npm install -g @openai/codex"), "{text}");
}

#[test]
fn every_verb_has_help_and_json() {
    let shell = Shell::new();
    shell.run("say hi");
    for verb in [
        &["tree"][..],
        &["task", "list"],
        &["session", "list"],
        &["harness", "list"],
        &["harness", "show", "scripted"],
        &["doctor"],
        &["config", "check"],
        &["config", "show"],
    ] {
        let done = shell.ostler(&[verb, &["--json"]].concat());
        assert_eq!(done.code, 0, "{verb:?}: {done:?}");
        done.json();
        assert_eq!(shell.ostler(&[verb, &["--help"]].concat()).code, 0);
        assert_eq!(shell.ostler(verb).code, 0);
    }
}

#[test]
fn a_secret_of_the_configuration_is_nowhere() {
    let shell = Shell::with(
        crate::support::shell::Containment::Descent,
        "[harness.secretive]\nadapter = \"oneshot\"\ncommand = [\"sh\", \"-c\", \"exit 3\"]\nenvironment = { TOKEN = \"hunter2-planted\" }\n",
    );
    let mut seen = String::new();
    for arguments in [
        &["--log", "trace", "run", "--harness", "secretive", "--events", "x"][..],
        &["harness", "show", "secretive"],
        &["config", "show", "--json"],
        &["tree", "--json"],
        &["task", "list", "--json"],
        &["--log", "trace", "doctor"],
    ] {
        let done = shell.ostler(arguments);
        seen += &format!("{done:?}");
    }
    assert!(seen.contains("secretive") && !seen.contains("hunter2-planted"));
    let stored = std::fs::read(shell.state().join("ledger.sqlite")).expect("readable");
    assert!(!String::from_utf8_lossy(&stored).contains("hunter2-planted"));
}

#[test]
fn a_task_that_is_refused_leaves_no_open_session() {
    let shell = Shell::new();
    shell.run("say hi");
    let long = "x".repeat(131_072);
    for (prompt, told) in [("--help me", "it begins with '-'"), (&long, "more than 131071 bytes")] {
        let done = from_stdin(&shell, prompt);
        assert_eq!((done.code, done.stderr.contains(told)), (2, true), "{done:?}");
    }
    let sessions = shell.ostler(&["session", "list", "--json"]).json();
    let open = sessions.as_array().expect("sessions").iter().filter(|session| session["state"] == "open");
    assert_eq!((open.count(), shell.tasks().len()), (1, 1), "{sessions}");
}

#[test]
fn the_cancel_of_a_task_that_is_over_is_not_said_to_be_requested() {
    let shell = Shell::new();
    let task = shell.run("say hi").json()["task"].as_str().expect("an id").to_owned();
    let asked = shell.ostler(&["task", "cancel", &task, "--json"]);
    assert_eq!((asked.code, &asked.json()["cancel_requested"]), (0, &false.into()), "{asked:?}");
}

#[test]
fn a_disk_that_takes_no_output_is_named() {
    let shell = Shell::new();
    for arguments in [&["run", "--harness", "scripted", "say hi"][..], &["harness", "list"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("a device");
        let output = shell.command(arguments).stdout(full).output().expect("runs");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("standard output cannot be written: No space left on device"), "{arguments:?}: {told}");
    }
}

#[test]
fn without_a_home_nothing_is_made_anywhere() {
    let shell = Shell::new();
    let empty = shell.path().join("empty.toml");
    std::fs::write(&empty, "").expect("written");
    let mut command = shell.command(&["run", "--harness", "scripted", "say hi"]);
    command.env("OSTLER_CONFIG", empty);
    ["HOME", "XDG_STATE_HOME", "OSTLER_STATE"].into_iter().for_each(|name| _ = command.env_remove(name));
    let output = command.output().expect("runs");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("neither $XDG_STATE_HOME nor $HOME is an absolute path; set `state`"), "{told}");
    assert_eq!(std::fs::read_dir(shell.work()).expect("readable").count(), 0);
}
