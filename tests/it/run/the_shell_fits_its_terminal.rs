//! What is printed on a terminal, and what a pipe gets.

use std::process::Command;

use crate::support::shell::Shell;
use crate::support::terminal;

fn on_terminal(shell: &Shell, columns: u16, environment: &[(&str, &str)], arguments: &[&str]) -> String {
    let (_, shown) = terminal::end(terminal::start(&shell.command(arguments), columns, &[], environment));
    shown.replace("\r\n", "\n")
}

#[test]
fn a_table_fits_its_terminal_and_a_pipe_gets_all_of_it_without_escapes() {
    let shell = Shell::new();
    let prompt = format!("say 漢字 {}", "and so on ".repeat(9));
    shell.run(&prompt);
    for columns in [40, 80, 200] {
        let shown = on_terminal(&shell, columns, &[("NO_COLOR", "1")], &["task", "list"]);
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines.len(), 2, "{shown}");
        assert!(lines.iter().all(|line| line.chars().count() <= usize::from(columns)), "{columns}: {shown}");
        assert_eq!(lines[1].ends_with('…'), columns < 200, "{columns}: {shown}");
        assert!(!shown.contains('\u{1b}'), "{shown:?}");
    }
    let piped = shell.ostler(&["task", "list"]).stdout;
    assert!(piped.contains(prompt.trim_end()) && !piped.contains('\u{1b}'), "{piped}");
}

#[test]
fn colour_is_on_a_terminal_unless_it_is_not_wanted() {
    let shell = Shell::new();
    let list = ["harness", "list"];
    let coloured = |environment: &[(&str, &str)], more: &[&str]| {
        on_terminal(&shell, 100, environment, &[&list, more].concat()).contains("\u{1b}[1m")
    };
    assert!(coloured(&[], &[]));
    assert!(coloured(&[("NO_COLOR", "")], &[]));
    assert!(!coloured(&[("NO_COLOR", "1")], &[]));
    assert!(!coloured(&[("TERM", "dumb")], &[]));
    assert!(!coloured(&[("TERM", "dumb"), ("CI", "true")], &[]));
    assert!(!coloured(&[], &["--color", "never"]));
    assert!(coloured(&[("NO_COLOR", "1")], &["--color", "always"]));
    let piped = |more: &[&str]| shell.ostler(&[&list, more].concat()).stdout.contains('\u{1b}');
    assert!(!piped(&[]) && piped(&["--color", "always"]));
}

#[test]
fn a_live_line_stays_one_line_of_its_terminal() {
    let shell = Shell::new();
    let script = format!("think {} ;; say done", "漢字 and more ".repeat(20));
    let shown = on_terminal(&shell, 50, &[], &["run", "--harness", "json", &script]);
    let live: Vec<_> = shown.split("\r\u{1b}[2K").filter(|line| line.starts_with("thinking: ")).collect();
    assert!(!live.is_empty() && live.iter().all(|line| line.trim_end().chars().count() <= 50), "{shown:?}");
    let dumb = on_terminal(&shell, 50, &[("TERM", "dumb")], &["run", "--harness", "json", &script]);
    assert!(dumb.contains("done") && !dumb.contains('\u{1b}'), "{dumb:?}");
}

#[test]
fn a_name_with_control_characters_breaks_no_table() {
    let shell = Shell::new();
    let odd = shell.path().join("odd \u{1b}[31m\nname");
    std::fs::create_dir(&odd).expect("made");
    let done = shell.ostler(&["run", "--harness", "scripted", "--cwd", odd.to_str().expect("UTF-8"), "say hi"]);
    assert_eq!(done.code, 0, "{done:?}");
    let listed = shell.ostler(&["session", "list"]).stdout;
    assert!(listed.lines().count() == 2 && !listed.contains('\u{1b}'), "{listed:?}");
}

#[test]
fn every_shell_gets_a_script_and_the_one_of_bash_completes() {
    let shell = Shell::new();
    for name in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let done = shell.ostler(&["completions", name]);
        let complete = ["ostler", "respond", "approve"].into_iter().all(|word| done.stdout.contains(word));
        assert!(done.code == 0 && complete && done.stderr.is_empty(), "{name}: {}", done.stderr);
    }
    assert_eq!(shell.ostler(&["completions", "cmd"]).code, 2);
    let script = shell.ostler(&["completions", "bash"]).stdout;
    let ask = "\nCOMP_WORDS=(ostler task ca); COMP_CWORD=2; _ostler ostler ca task; echo \"${COMPREPLY[@]}\"";
    let output = Command::new("bash").args(["-c", &(script + ask)]).output().expect("bash runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "cancel\n", "{output:?}");
}

#[test]
fn the_manual_is_printed_or_written_page_by_page() {
    let shell = Shell::new();
    let page = shell.ostler(&["man"]);
    assert!(page.code == 0 && page.stdout.contains(".SH NAME") && page.stdout.contains(".SH FILES"), "{page:?}");
    let folder = shell.path().join("man1");
    let to = ["man", "--to", folder.to_str().expect("UTF-8")];
    let done = shell.ostler(&to);
    assert!(done.code == 2 && done.stderr.contains("man1/ostler.1 cannot be written"), "{done:?}");
    std::fs::create_dir(&folder).expect("made");
    assert_eq!(shell.ostler(&to).code, 0);
    for (name, word) in [("ostler", "130 cancelled"), ("ostler-run", "approve"), ("ostler-task-cancel", "by force")] {
        let page = std::fs::read_to_string(folder.join(format!("{name}.1"))).expect("readable");
        assert!(page.contains(word), "{name}: {page}");
    }
    assert!(!folder.join("ostler-help.1").exists());
}
