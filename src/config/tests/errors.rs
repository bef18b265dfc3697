//! What is wrong is named with its file, its line and what may have been meant.

use super::Machine;

#[test]
fn everything_wrong_with_every_layer_is_in_one_message() {
    let mut machine = Machine::new();
    machine.write("system.toml", "orphan_grace = 5\n");
    machine.write(
        "user.toml",
        "control_groups = \"nevr\"\n\n[limits]\nstart_concurency = 3\nmax_live_runtimes = 0\n\
         [harness.mine]\nadapter = \"oneshot\"\ncommand = [\n  \"a\",\n  3,\n]\nkill = \"1s\"\n[xyzzy]\n",
    );
    machine.variable("OSTLER_LEDGER_BUSY_TIMEOUT", "5");
    machine.around.set.push("limits.start_queue=many".into());
    machine.around.set.push("nonsense".into());
    assert_eq!(
        machine.wrong().lines().collect::<Vec<_>>(),
        [
            "the configuration is wrong in 10 places",
            "  system.toml:1: orphan_grace: invalid type: integer `5`, expected a string",
            "  user.toml:1: control_groups: \"nevr\" is none of \"try\", \"never\"; the nearest is \"never\"",
            "  user.toml:4: there is no key limits.start_concurency; the nearest is limits.start_concurrency",
            "  user.toml:5: limits.max_live_runtimes: invalid value: integer `0`, expected a nonzero usize",
            "  user.toml:10: harness.mine.command: invalid type: integer `3`, expected a string",
            "  user.toml:12: there is no key harness.mine.kill; the nearest is harness.mine.deadlines.kill",
            "  user.toml:13: there is no key xyzzy; there are control_groups, default_harness, harness, ledger, limits, \
             operations, orphan_grace, state, trusted_projects",
            "  OSTLER_LEDGER_BUSY_TIMEOUT: ledger.busy_timeout: \"5\" is no time span; write 500ms, 2s, 5m or 1h",
            "  --set: limits.start_queue: invalid type: string \"many\", expected usize",
            "  --set: \"nonsense\" is not KEY=VALUE",
        ]
    );
}

#[test]
fn one_problem_is_one_line() {
    let machine = Machine::new();
    machine.write("user.toml", "\n\ndefault_harnes = \"codex\"\n");
    assert_eq!(machine.wrong(), "user.toml:3: there is no key default_harnes; the nearest is default_harness");
}

#[test]
fn a_table_in_the_place_of_a_value_and_a_value_in_the_place_of_a_table_are_wrong() {
    let machine = Machine::new();
    for (text, told) in [
        ("limits = 3", "user.toml:1: limits: it must be a table"),
        ("[state]\nx = 1", "user.toml:1: state: invalid type: map, expected path string"),
        ("[[limits]]\nspare_keepers = 1", "user.toml:1: limits: it must be a table"),
        ("harness = []", "user.toml:1: harness: it must be a table"),
        ("harness.codex.sandbox = \"read-olny\"", "user.toml:1: harness.codex.sandbox: \"read-olny\" is none of"),
        ("state = \"here\"", "user.toml:1: state: it must be an absolute path"),
        ("operations = \"0.0.0.0:80\"", "user.toml:1: operations: \"0.0.0.0:80\" is no loopback address"),
    ] {
        machine.write("user.toml", text);
        assert!(machine.wrong().starts_with(told), "{text}: {}", machine.wrong());
    }
}

#[test]
fn every_error_of_syntax_is_told_and_nothing_is_guessed_from_the_rest() {
    let machine = Machine::new();
    machine.write("user.toml", "frobnicate = 1\norphan_grace = \n[limits\nspare_keepers = = 2\n");
    let told = machine.wrong();
    assert!(!told.contains("frobnicate"), "{told}");
    for line in ["user.toml:2: ", "user.toml:3: ", "user.toml:4: "] {
        assert!(told.contains(line), "{told}");
    }
}

#[test]
fn a_harness_that_lacks_something_is_named_with_the_place_where_it_begins() {
    let machine = Machine::new();
    machine.write("system.toml", "[harness.one]\ninstall = \"x\"\n[harness.two]\n");
    machine.write("user.toml", "\n[harness.one]\nhelpers = []\nadapter = \"oneshot\"\n[harness.codex]\ncommand = []\n");
    let told = machine.wrong();
    for line in [
        "  user.toml:6: harness.codex has no command",
        "  user.toml:3: harness.one has no command",
        "two has no adapter",
    ] {
        assert!(told.contains(line), "{told}");
    }
}

#[test]
fn no_secret_is_ever_in_a_message_nor_in_what_is_shown() {
    let mut machine = Machine::new();
    for text in [
        "[harness.codex]\nenvironment = \"hunter2\"",
        "[harness.codex]\nenvironment = [\"hunter2\"]",
        "[harness.codex.environment]\nTOKEN = [\"hunter2\"]",
        "[harness.codex.environment]\nTOKEN = { hunter2 = 2 }",
        "[harness.codex.enviroment]\nTOKEN = \"hunter2\"",
        "[harness.codex]\nTOKEN = \"hunter2\"",
        "[harness.codex.environment]\nTOKEN = \"hunter2",
        "[harness.codex.environment]\nTOKEN = hunter2",
    ] {
        machine.write("user.toml", text);
        let told = machine.wrong();
        assert!(told.starts_with("user.toml:") && !told.contains("hunter2"), "{text}: {told}");
    }
    machine.write("user.toml", "[harness.codex.environment]\nTOKEN = \"hunter2\"");
    assert!(machine.value("harness.codex.environment.TOKEN").0.is_empty());
    machine.around.set.push("harness.codex.environment.TOKEN=hunter2".into());
    let told = machine.wrong();
    assert!(told.contains("can be set in a file only") && !told.contains("hunter2"), "{told}");
}

#[test]
fn what_is_no_text_file_is_refused_by_name() {
    let machine = Machine::new();
    let user = machine.path("user.toml");
    std::fs::write(&user, [0xff, 0xfe]).expect("written");
    assert_eq!(machine.wrong(), "user.toml: it cannot be read: it is not UTF-8");
    std::fs::write(&user, vec![b'#'; (1 << 20) + 1]).expect("written");
    assert_eq!(machine.wrong(), "user.toml: it cannot be read: it is larger than 1024 KiB");
    std::fs::remove_file(&user).expect("removed");
    nix::unistd::mkfifo(&user, nix::sys::stat::Mode::S_IRWXU).expect("made");
    assert_eq!(machine.wrong(), "user.toml: it cannot be read: it is no regular file");
    std::fs::remove_file(&user).expect("removed");
    std::os::unix::fs::symlink("/dev/zero", &user).expect("linked");
    assert_eq!(machine.wrong(), "user.toml: it cannot be read: it is no regular file");
}

#[test]
fn a_hostile_file_makes_a_short_message_without_control_characters() {
    let machine = Machine::new();
    let long = "x".repeat(100_000);
    let mut text: String = (0..10_000).map(|n| format!("k{n} = 1\n")).collect();
    text += &format!("{long} = 1\n\"\\u001b[31m\" = 1\ncontrol_groups = \"\\u001b{long}\"\n");
    machine.write("user.toml", &text);
    let told = machine.wrong();
    assert!(told.len() < 20_000 && told.contains("more"), "{}", told.len());
    assert!(told.chars().all(|c| !c.is_control() || c == '\n'));
    machine.write("user.toml", &format!("control_groups = \"\\u001b[31m{long}\"\n"));
    let told = machine.wrong();
    assert!(told.len() < 1_000 && !told.contains('\u{1b}'), "{told}");
}

#[test]
fn a_key_of_another_adapter_is_wrong_where_somebody_set_it() {
    let machine = Machine::new();
    machine.write("user.toml", "[harness.claude]\nsandbox = \"read-only\"\n");
    let told = "user.toml:2: harness.claude.sandbox is one of the adapter codex, and this harness has claude";
    assert_eq!(machine.wrong(), told);
    // What is built in for the adapter that somebody replaced is no mistake of his.
    machine.write("user.toml", "[harness.codex]\nadapter = \"acp\"\ncommand = [\"codex-acp\"]\n");
    machine.settings();
}

#[test]
fn a_variable_that_is_almost_one_of_ours_is_named() {
    let mut machine = Machine::new();
    machine.variable("OSTLER_AGENT_LOG", "/x");
    machine.variable("OSTLER_RUNTIME", "rt_1");
    machine.settings();
    machine.variable("OSTLER_LIMITS_START_CONCURENCY", "3");
    let told = "no such variable is read; the nearest is OSTLER_LIMITS_START_CONCURRENCY";
    assert_eq!(machine.wrong(), format!("OSTLER_LIMITS_START_CONCURENCY: {told}"));
}

#[test]
fn a_variable_that_no_program_can_be_given_is_wrong_and_its_value_is_not_told() {
    let machine = Machine::new();
    for (variable, told) in [
        ("\"\" = \"x\"", "has a variable \"\"; a name is not empty"),
        ("\"A=B\" = \"x\"", "has a variable \"A=B\""),
        ("A = \"hunter2\\u0000\"", "sets A to a value with a NUL"),
    ] {
        machine.write("user.toml", &format!("[harness.scripted.environment]\n{variable}\n"));
        let wrong = machine.wrong();
        assert!(wrong.contains(told) && !wrong.contains("hunter2"), "{wrong}");
    }
}
