//! A part of a test in namespaces of its own, where it may do what it may not do to the machine.

use std::process::{Command, Stdio};

/// The variable that tells a part that it is inside.
const INSIDE: &str = "INSIDE_NAMESPACE";

/// Plays this test, which is ignored elsewhere, in namespaces made by `unshare` with these arguments, after this script
/// for the shell. Where the machine allows none, that is said, and nothing is tested.
///
/// The first process of the namespaces is a shell, which waits for whatever comes to it.
pub fn play(test: &str, arguments: &[&str], prepare: &str) {
    let user: &[&str] = if nix::unistd::Uid::current().is_root() { &[] } else { &["-U", "-r"] };
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(user).args(arguments).args(["sh", "-c", script]);
        command
    };
    let probe = unshare(prepare).stdout(Stdio::null()).stderr(Stdio::piped()).output();
    match probe {
        Ok(probe) if probe.status.success() => {}
        other => return eprintln!("{test} is not played, no such namespace can be made here: {other:?}"),
    }
    let played = unshare(&format!("{prepare}; \"$0\" \"$@\"; exit $?"))
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(INSIDE, test)
        .output()
        .expect("unshare runs");
    let said = String::from_utf8_lossy(&played.stdout);
    assert!(
        played.status.success() && said.contains("1 passed"),
        "{said}\n{}",
        String::from_utf8_lossy(&played.stderr)
    );
}

/// Whoever plays a part outside harms the machine.
pub fn assert_inside(test: &str) {
    assert_eq!(std::env::var(INSIDE).as_deref(), Ok(test), "it is played by another test");
}
