//! Framing, encodings, pipes.

use std::time::{Duration, Instant};

use crate::support::shell::{Containment, Shell};

fn json(shell: &Shell, script: &str) -> serde_json::Value {
    shell.ostler(&["run", "--harness", "json", "--json", script]).json()
}

#[test]
fn case_e1_a_line_of_ten_mebibytes_is_a_line() {
    let shell = Shell::new();
    let done = json(&shell, "long-line 10485760");
    assert_eq!(done["output"].as_str().map(str::len), Some(10 << 20));
}

#[test]
fn case_e4_a_prompt_of_five_mebibytes_arrives_whole() {
    use std::io::Write;
    let shell = Shell::with(
        Containment::Descent,
        "[harness.hash]\nadapter = \"oneshot\"\ncommand = [\"sha256sum\"]\nprompt = \"stdin\"\n",
    );
    let prompt: String =
        (0..5 << 20).map(|index: u32| char::from(b'a' + (index.wrapping_mul(31) >> 3) as u8 % 26)).collect();
    let mut child =
        shell.command(&["run", "--harness", "hash", "-"]).stdin(std::process::Stdio::piped()).spawn().expect("runs");
    child.stdin.take().expect("piped").write_all(prompt.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("ends");
    let mut expected = std::process::Command::new("sha256sum")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("sha256sum");
    expected.stdin.take().expect("piped").write_all(prompt.as_bytes()).expect("written");
    assert_eq!(output.stdout, expected.wait_with_output().expect("ends").stdout);
}

#[test]
fn case_e5_ten_thousand_lines_of_ten_kibibytes() {
    let shell = Shell::new();
    let done = json(&shell, "stream 2000 10240");
    assert_eq!(done["output"].as_str().map(str::len), Some(2000 * 10240));
}

#[test]
fn case_e10_a_cut_last_line_is_never_read_as_a_whole_one() {
    let shell = Shell::new();
    let done =
        json(&shell, &format!("say whole ;; half {{\"type\":\"message.delta\",\"text\":\"{}", "x".repeat(100_000)));
    assert_eq!(done["output"], "whole");
    let events = shell.events(done["session"].as_str().expect("id"));
    assert!(events.iter().any(|event| {
        event["data"]["what"].as_str().is_some_and(|what| what.starts_with("an incomplete line of 100"))
    }));
}

#[test]
fn case_e12_invalid_utf8_is_a_reported_fact() {
    let shell = Shell::new();
    let done = json(&shell, "hex ff fe 0a ;; say after");
    assert_eq!((done["outcome"]["verdict"].as_str(), done["output"].as_str()), (Some("completed"), Some("after")));
}

#[test]
fn case_e18_an_end_is_seen_although_a_grandchild_holds_the_pipes() {
    for containment in Containment::all() {
        let shell = Shell::with(containment, "");
        let asked = Instant::now();
        let done = shell.run("spawn hold-pipes ;; say done ;; exit 0");
        assert_eq!(done.json()["outcome"]["verdict"], "completed", "{done:?}");
        assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
        assert!(done.json()["timings"]["total_ms"].as_u64().is_some_and(|ms| ms < 1500), "{done:?}");
        shell.assert_nothing_left();
    }
}

#[test]
fn case_e22_exit_0_without_a_word_is_unresolved() {
    let shell = Shell::new();
    assert_eq!(shell.run("exit 0").code, 4);
}

#[test]
fn case_e23_ten_mebibytes_of_stderr_do_not_block_the_agent() {
    let shell = Shell::new();
    assert_eq!(json(&shell, "stderr 10485760 ;; say done")["output"], "done");
}
