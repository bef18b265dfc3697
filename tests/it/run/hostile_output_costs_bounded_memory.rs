//! Long lines, floods, invalid bytes, an agent that reads nothing: bounded memory, and the right verdict.

use std::time::Duration;

use crate::support::kernel::resident_kib;
use crate::support::shell::Shell;

/// The largest resident memory of a command while it ran, in KiB, and what it printed.
fn peak(shell: &Shell, arguments: &[&str]) -> (u64, crate::support::shell::Done) {
    let child = shell.spawn(arguments);
    let pid = child.id() as i32;
    let watch = std::thread::spawn(move || {
        let mut peak = 0;
        while let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) {
            if !status.contains("VmRSS") {
                break;
            }
            peak = peak.max(resident_kib(pid));
            std::thread::sleep(Duration::from_millis(5));
        }
        peak
    });
    let done = child.wait_with_output().expect("ends").into();
    (watch.join().expect("watched"), done)
}

#[test]
fn a_line_of_a_hundred_megabytes_is_a_reported_fact() {
    let shell = Shell::new();
    let arguments = ["run", "--harness", "json", "--json", "long-line 104857600 ;; say after"];
    let (kib, done) = peak(&shell, &arguments);
    let json = done.json();
    assert_eq!((json["outcome"]["verdict"].as_str(), json["output"].as_str()), (Some("completed"), Some("after")));
    assert!(kib < 256 << 10, "{kib} KiB");
    let events = shell.events(json["session"].as_str().expect("id"));
    let rejected: Vec<_> = events.iter().filter(|event| event["type"] == "ostler.frame.rejected").collect();
    assert_eq!(rejected.len(), 1, "{rejected:?}");
    shell.assert_nothing_left();
}

#[test]
fn a_million_short_lines_are_all_there_and_in_order() {
    let shell = Shell::new();
    let arguments = ["run", "--harness", "json", "--json", "--quiet", "flood 1000000"];
    let (kib, done) = peak(&shell, &arguments);
    let json = done.json();
    assert_eq!(json["outcome"]["verdict"], "completed");
    let output = json["output"].as_str().expect("text");
    let numbers: Vec<u32> = output.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    assert!(numbers.iter().enumerate().all(|(index, number)| index as u32 == *number));
    assert_eq!(numbers.len(), 1_000_000);
    assert!(kib < 512 << 10, "{kib} KiB");
    shell.assert_nothing_left();
}

#[test]
fn invalid_bytes_and_noise_between_good_lines_lose_none_of_them() {
    let shell = Shell::new();
    let script = "say one ;; hex ff fe 0a ;; noise npm warn deprecated ;; noise {broken ;; say two ;; half {\"type\"";
    let json = shell.ostler(&["run", "--harness", "json", "--json", script]).json();
    assert_eq!(json["output"], "onetwo");
    let events = shell.events(json["session"].as_str().expect("id"));
    let rejected = events.iter().filter(|event| event["type"] == "ostler.frame.rejected").count();
    assert_eq!(rejected, 4);
    shell.assert_nothing_left();
}

#[test]
fn an_agent_that_reads_nothing_can_be_cancelled() {
    let shell = Shell::new();
    let done = shell.ostler(&["run", "--harness", "scripted", "--json", "--timeout", "1s", "read-nothing"]);
    assert_eq!(done.json()["outcome"]["verdict"], "cancelled", "{done:?}");
    shell.assert_nothing_left();
}
