//! Limits of a harness, from the configuration to the kernel, and what is said of them.

use serde_json::Value;

use crate::support::shell::{Containment, Shell};

const LIMITED: &str = "[harness.limited]\nadapter = \"oneshot\"\ncommand = [\"/bin/sh\", \"-c\"]\n\
     environment = { MARK = \"@MARK@\" }\n\
     [harness.limited.limits]\nmemory_mib = 64\nprocesses = 32\nopen_files = 77\nfile_size_mib = 1\ncore_size_mib = 0\n";

fn run(shell: &Shell, text: &str) -> (i32, Value) {
    let done = shell.ostler(&["run", "--harness", "limited", "--json", text]);
    (done.code, done.json())
}

/// What was told of each limit, by its name.
fn told(shell: &Shell) -> Vec<(String, String)> {
    let session = shell.ostler(&["session", "list", "--json"]).json()[0]["id"].as_str().expect("id").to_owned();
    let events = shell.events(&session);
    let mut of_limits = events.iter().filter(|event| event["type"] == "ostler.runtime.limited");
    let event = of_limits.next().unwrap_or_else(|| panic!("none told: {events:#?}"));
    assert_eq!(of_limits.next(), None, "once per runtime");
    let limits = event["data"]["limits"].as_array().expect("a list");
    let word = |limit: &Value, key: &str| limit[key].as_str().expect("a word").to_owned();
    limits.iter().map(|limit| (word(limit, "limit"), word(limit, "standing"))).collect()
}

#[test]
fn each_limit_of_a_harness_is_told_with_its_standing() {
    for containment in Containment::all() {
        let shell = Shell::with(containment, LIMITED);
        let (code, json) = run(&shell, "ulimit -Hn; ulimit -Hc");
        assert_eq!((code, &json["output"]), (0, &Value::from("77\n0\n")), "{json}");
        let told = told(&shell);
        let names: Vec<&str> = told.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["memory", "swap", "processes", "open_files", "file_size", "core_size"]);
        assert!(told[3..].iter().all(|(_, standing)| standing == "in_force"), "{told:?}");
        let of_the_tree = |standing: &str| match containment {
            Containment::Descent => standing == "no_leaf",
            Containment::Leaf => ["in_force", "not_delegated", "refused"].contains(&standing),
        };
        assert!(told[..3].iter().all(|(_, standing)| of_the_tree(standing)), "{told:?}");
        shell.assert_nothing_left();
    }
}

#[test]
fn an_agent_that_passes_a_limit_fails_by_what_the_kernel_did() {
    let shell = Shell::with(Containment::Descent, LIMITED);
    let (code, json) = run(&shell, "echo begun; exec head -c 9000000 /dev/zero > large");
    assert_eq!((code, &json["outcome"]["verdict"]), (1, &Value::from("failed")), "{json}");
    assert_eq!(json["evidence"]["exit"]["signal"], nix::libc::SIGXFSZ, "{json}");
    assert_eq!(std::fs::metadata(shell.work().join("large")).expect("written").len(), 1 << 20);
    shell.assert_nothing_left();
}

/// Without a leaf nobody knows why a process was killed, so the word for a lack of memory is not used.
#[test]
fn another_kill_is_not_called_a_lack_of_memory() {
    let shell = Shell::with(Containment::Descent, LIMITED);
    let (code, json) = run(&shell, "echo begun; kill -KILL $$");
    assert_eq!((code, &json["evidence"]["exit"]["signal"]), (1, &Value::from(9)), "{json}");
    assert_eq!(json["evidence"]["note"], Value::Null, "{json}");
    shell.assert_nothing_left();
}

/// Where the memory controller can be had, the tree alone dies and its end has a name; elsewhere the limit is said not to
/// hold, and the agent ends by itself.
#[test]
fn case_h3_too_much_memory_is_the_agents_own_end_where_the_kernel_can_hold_it_to_less() {
    for containment in Containment::all() {
        let shell = Shell::with(containment, LIMITED);
        let (code, json) = run(&shell, "echo begun; exec head -c 128m /dev/zero | tail -c 1 > last");
        let memory = told(&shell).swap_remove(0);
        let holds = memory == ("memory".to_owned(), "in_force".to_owned());
        let expected = if holds { (1, Value::from("oom")) } else { (0, Value::Null) };
        assert_eq!((code, json["evidence"]["note"].clone()), expected, "{memory:?}: {json}");
        shell.assert_nothing_left();
    }
}

#[test]
fn doctor_says_which_limits_can_be_in_force_and_why_not_the_others() {
    for containment in Containment::all() {
        let shell = Shell::with(containment, "");
        let checks = shell.ostler(&["doctor", "--json"]).json();
        let checks = checks.as_array().expect("a list");
        let limits = checks.iter().find(|check| check["name"] == "limits").expect("a check");
        let found = limits["found"].as_str().expect("a text");
        let (held, not) = found.split_once("; not: ").unwrap_or((found, ""));
        for always in ["address_space", "open_files", "file_size", "core_size", "cpu_seconds"] {
            assert!(held.contains(always) && !not.contains(always), "{found}");
        }
        let memory = if containment == Containment::Descent { "memory (no control group leaf)" } else { "memory" };
        assert!(found.contains(memory), "{found}");
        assert_eq!(limits["ok"].as_bool(), Some(!["memory", "swap"].iter().any(|name| not.contains(name))), "{found}");
    }
}
