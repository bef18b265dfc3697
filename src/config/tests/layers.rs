//! Which layer wins.

use super::super::{Layer, Settings};
use super::{Machine, trusting};

/// Sets `orphan_grace` in one layer.
fn set(machine: &mut Machine, layer: Layer, value: &str) {
    let line = format!("orphan_grace = {value:?}\n");
    match layer {
        Layer::BuiltIn => {}
        Layer::System => drop(machine.write("system.toml", &line)),
        Layer::User => {
            let text = trusting(&machine.path("project")) + &line;
            machine.write("user.toml", &text);
        }
        Layer::Named => machine.around.named = Some(machine.write("named.toml", &line)),
        Layer::Project => drop(machine.write("project/.ostler.toml", &line)),
        Layer::Environment => machine.variable("OSTLER_ORPHAN_GRACE", value),
        Layer::Flag => machine.around.set.push(format!("orphan_grace={value}")),
    }
}

#[test]
fn of_every_pair_of_layers_the_upper_one_wins_and_is_named() {
    let layers = [
        (Layer::BuiltIn, "built in"),
        (Layer::System, "system.toml:1"),
        (Layer::User, "user.toml:2"),
        (Layer::Project, "project/.ostler.toml:1"),
        (Layer::Environment, "OSTLER_ORPHAN_GRACE"),
        (Layer::Flag, "--set"),
    ];
    for (lower, _) in layers {
        for (upper, place) in layers.into_iter().filter(|(upper, _)| *upper > lower) {
            let mut machine = Machine::new();
            // Who trusts a project is said in the user's file.
            let trust = trusting(&machine.path("project"));
            machine.write("user.toml", &trust);
            set(&mut machine, lower, "11s");
            set(&mut machine, upper, "22s");
            assert_eq!(machine.value("orphan_grace"), ("\"22s\"".into(), place.into()), "{lower} and {upper}");
            assert_eq!(machine.settings().orphan_grace.as_secs(), 22);
        }
    }
}

#[test]
fn a_named_file_stands_for_those_of_the_system_the_user_and_the_project() {
    let mut machine = Machine::new();
    for layer in [Layer::System, Layer::User, Layer::Project] {
        set(&mut machine, layer, "11s");
    }
    machine.write("lower.toml", "this is wrong");
    machine.around.named = Some(machine.write("named.toml", "[limits]\nspare_keepers = 7\n"));
    assert_eq!(machine.value("orphan_grace"), ("\"2m\"".into(), "built in".into()));
    assert_eq!(machine.value("limits.spare_keepers"), ("7".into(), "named.toml:2".into()));
    set(&mut machine, Layer::Environment, "22s");
    assert_eq!(machine.value("orphan_grace").1, "OSTLER_ORPHAN_GRACE");
}

#[test]
fn of_two_files_of_the_system_the_earlier_folder_wins() {
    let machine = Machine::new();
    machine.write("lower.toml", "orphan_grace = \"1s\"\n[limits]\nspare_keepers = 1\n");
    machine.write("system.toml", "orphan_grace = \"2s\"\n");
    assert_eq!(machine.value("orphan_grace").1, "system.toml:1");
    assert_eq!(machine.value("limits.spare_keepers").1, "lower.toml:3");
}

#[test]
fn keys_are_laid_over_each_other_one_by_one_down_to_single_variables() {
    let mut machine = Machine::new();
    machine.write(
        "system.toml",
        "[harness.mine]\nadapter = \"oneshot\"\ncommand = [\"a\"]\nenvironment = { A = \"1\", B = \"1\" }\n",
    );
    machine.write("user.toml", "[harness.mine]\nenvironment.B = \"2\"\n[harness.codex.deadlines]\nkill = \"9s\"\n");
    machine.around.set.push("harness.codex.sandbox=read-only".into());
    let settings = machine.settings();
    let mine = &settings.harnesses[&"mine".parse().expect("an id")];
    let variables: Vec<_> = mine.environment.iter().flatten().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(variables, [("A", "1"), ("B", "2")]);
    assert_eq!(machine.value("harness.codex.deadlines.kill"), ("\"9s\"".into(), "user.toml:4".into()));
    assert_eq!(machine.value("harness.codex.sandbox"), ("\"read-only\"".into(), "--set".into()));
    assert!(machine.value("harness.codex.command").1.starts_with("config/harness/codex.toml:"));
    assert_eq!(machine.value("harness.mine.deadlines.kill"), ("\"5s\"".into(), "built in".into()));
}

#[test]
fn every_key_but_those_of_harnesses_has_a_variable() {
    let mut machine = Machine::new();
    for (name, value) in [
        ("OSTLER_STATE", "somewhere"),
        ("OSTLER_HARNESS", "scripted"),
        ("OSTLER_OPERATIONS", "[::1]:99"),
        ("OSTLER_CONTROL_GROUPS", "never"),
        ("OSTLER_TRUSTED_PROJECTS", "[\"/a\", \"b\"]"),
        ("OSTLER_LIMITS_START_CONCURRENCY", "3"),
        ("OSTLER_LIMITS_START_QUEUE", ""),
        ("OSTLER_LEDGER_BUSY_TIMEOUT", "7s"),
        ("OSTLER_LEDGER_MAX_MIB", "100"),
    ] {
        machine.variable(name, value);
    }
    let settings = machine.settings();
    let directory = machine.path("project/deep/below");
    assert_eq!(settings.state, directory.join("somewhere"));
    assert_eq!(settings.default_harness, "scripted".parse().ok());
    assert_eq!((settings.operations.as_str(), settings.ledger_mib), ("[::1]:99", Some(100)));
    assert_eq!((settings.limits.start_concurrency, settings.busy_timeout.as_secs()), (3, 7));
    // An empty one sets nothing.
    assert_eq!(machine.value("limits.start_queue"), ("4096".into(), "built in".into()));
    assert!(machine.value("trusted_projects").0.contains(&format!("{}", directory.join("b").display())));
}

#[test]
fn a_flag_takes_texts_with_and_without_quotes_and_the_last_one_counts() {
    let mut machine = Machine::new();
    for word in ["orphan_grace=1s", "orphan_grace=\"2s\"", "limits.spare_keepers = 0", "harness.\"a b\".command=[]"] {
        machine.around.set.push(word.into());
    }
    assert!(machine.wrong().starts_with("--set: harness.\"a b\": "), "{}", machine.wrong());
    machine.around.set.pop();
    assert_eq!(machine.value("orphan_grace").0, "\"2s\"");
    assert_eq!(machine.value("limits.spare_keepers").0, "0");
}

#[test]
fn the_files_that_were_looked_for_are_told() {
    let machine = Machine::new();
    machine.write("user.toml", "");
    let files = Settings::check(&machine.around).files;
    let told: Vec<_> = files.iter().map(|file| (file.layer, format!("{:?}", file.state))).collect();
    let expected = [(Layer::System, "Absent"), (Layer::System, "Absent"), (Layer::User, "Read")];
    assert_eq!(told, expected.map(|(layer, state)| (layer, state.to_owned())));
}
