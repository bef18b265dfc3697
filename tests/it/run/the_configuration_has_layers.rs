//! The configuration from the shell: layers, places, messages.

use std::process::Command;

use serde_json::json;

use crate::support::shell::{Done, Shell};

/// Ostler without a named file: its own home, its own system.
fn layered(shell: &Shell, arguments: &[&str]) -> Done {
    let mut command: Command = shell.command(arguments);
    command
        .env_remove("OSTLER_CONFIG")
        .env("XDG_CONFIG_HOME", shell.path().join("home"))
        .env("XDG_CONFIG_DIRS", shell.path().join("system"));
    command.output().expect("runs").into()
}

/// A shell with a repository as its working directory, and folders for the other layers.
fn machine() -> Shell {
    let shell = Shell::new();
    for folder in ["home/ostler", "system/ostler", "work/.git", "work/deep"] {
        std::fs::create_dir_all(shell.path().join(folder)).expect("made");
    }
    shell
}

fn write(shell: &Shell, name: &str, text: &str) {
    std::fs::write(shell.path().join(name), text).expect("written");
}

#[test]
fn each_value_is_shown_with_its_layer_its_file_and_its_line() {
    let shell = machine();
    write(&shell, "system/ostler/ostler.toml", "orphan_grace = \"5s\"\ncontrol_groups = \"never\"\n");
    write(&shell, "home/ostler/ostler.toml", "\norphan_grace = \"6s\"\n");
    write(&shell, "work/.ostler.toml", "default_harness = \"scripted\"\n");
    let shown = layered(&shell, &["config", "show", "--json", "--set", "limits.spare_keepers=0"]);
    let values = &shown.json()["values"];
    for (key, value, layer, line) in [
        ("control_groups", json!("never"), "system", json!(2)),
        ("orphan_grace", json!("6s"), "user", json!(2)),
        ("default_harness", json!("scripted"), "project", json!(1)),
        ("state", json!(shell.state()), "environment", json!(null)),
        ("limits.spare_keepers", json!(0), "flag", json!(null)),
        ("limits.start_queue", json!(4096), "built_in", json!(null)),
    ] {
        assert_eq!(values[key]["value"], value, "{key}: {values}");
        assert_eq!(values[key]["origin"]["layer"], layer, "{key}: {values}");
        assert_eq!(values[key]["origin"]["line"], line, "{key}: {values}");
    }
    let shown = layered(&shell, &["config", "show", "orphan_grace"]).stdout;
    let place = format!("user, {}:2", shell.path().join("home/ostler/ostler.toml").display());
    let row = shown.lines().last().expect("a row");
    assert_eq!(row, format!("orphan_grace  {place}  \"6s\""));
    for (key, code, told) in [
        ("orphan_grce", 2, "there is no key orphan_grce; the nearest is orphan_grace"),
        ("ledger.max_mib", 3, "ledger.max_mib is not set"),
    ] {
        let done = layered(&shell, &["config", "show", key]);
        assert_eq!((done.code, done.stderr.trim_end()), (code, &*format!("ostler: {told}")));
    }
}

#[test]
fn the_project_s_harness_is_the_one_that_runs() {
    let shell = machine();
    write(&shell, "work/ostler.toml", "default_harness = \"scripted\"\n");
    let done = layered(&shell, &["run", "say by the project"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "by the project\n"), "{done:?}");
}

#[test]
fn a_project_runs_no_program_of_its_own_until_it_is_trusted() {
    let shell = machine();
    let trap = shell.path().join("trap");
    write(
        &shell,
        "work/ostler.toml",
        &format!(
            "default_harness = \"evil\"\n[harness.evil]\nadapter = \"oneshot\"\ncommand = [\"touch\", {:?}]\n",
            trap.display().to_string()
        ),
    );
    let done = layered(&shell, &["run", "hi"]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.stderr.contains("ostler.toml:4: harness.evil.command may not be set by a project's file"), "{done:?}");
    assert!(!trap.exists());
    let trust = format!("trusted_projects = [{:?}]\n", shell.work().display().to_string());
    write(&shell, "home/ostler/ostler.toml", &trust);
    layered(&shell, &["run", "hi"]);
    assert!(trap.exists());
}

#[test]
fn everything_wrong_is_told_at_once_also_to_a_program_and_nothing_is_started() {
    let shell = machine();
    write(&shell, "home/ostler/ostler.toml", "orphan_grace = 5\n\n[limits]\nstart_concurency = 3\n");
    let done = layered(&shell, &["run", "--harness", "scripted", "hi"]);
    assert_eq!(done.code, 2, "{done:?}");
    let path = shell.path().join("home/ostler/ostler.toml").display().to_string();
    for line in [
        format!("  {path}:1: orphan_grace: "),
        format!("  {path}:4: there is no key limits.start_concurency; the nearest is limits.start_concurrency"),
    ] {
        assert!(done.stderr.contains(&line), "{line}: {done:?}");
    }
    assert!(!shell.state().exists());
    let done = layered(&shell, &["config", "check", "--json"]);
    let checked = done.json();
    assert_eq!((done.code, &checked["ok"]), (2, &json!(false)), "{checked}");
    assert_eq!(checked["problems"][1]["line"], 4, "{checked}");
    assert_eq!(checked["problems"][1]["nearest"], "limits.start_concurrency", "{checked}");
}

#[test]
fn a_default_harness_that_is_not_configured_is_found_by_the_check() {
    let shell = machine();
    write(&shell, "home/ostler/ostler.toml", "default_harness = \"codx\"\n");
    let done = layered(&shell, &["config", "check"]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(
        done.stderr.contains(":1: default_harness: no harness codx is configured; the nearest is codex"),
        "{done:?}"
    );
}
