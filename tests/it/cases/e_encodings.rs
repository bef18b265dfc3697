//! Characters, noise, colours: what an agent writes is kept as it is, and what is not of its protocol is told apart.

use std::time::Duration;

use serde_json::{Value, json};

use super::{app_server, finish, kill, received, settled, text};
use crate::support::kernel::wait_until;
use crate::support::shell::{Containment, Done, Shell, assert_whole};

fn run(shell: &Shell, harness: &str, prompt: &str) -> Done {
    shell.ostler(&["run", "--harness", harness, "--json", prompt])
}

/// What a harness of JSON lines makes of these bytes, and its events.
fn of_bytes(bytes: &[u8]) -> (Value, Vec<Value>) {
    let shell = Shell::with(
        Containment::Descent,
        "[harness.cat]\nadapter = \"oneshot\"\ncommand = [\"sh\", \"-c\", \"cat said\"]\noutput = \"json_lines\"\n",
    );
    std::fs::write(shell.work().join("said"), bytes).expect("written");
    let done = run(&shell, "cat", "x").json();
    let events = shell.events(text(&done, "session"));
    assert_whole(&events);
    shell.assert_nothing_left();
    (done, events)
}

fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

fn delta(text: &str) -> String {
    format!("{}\n", json!({ "type": "message.delta", "text": text }))
}

/// The answer as its fragments have it.
fn said(events: &[Value]) -> String {
    of_type(events, "message.delta").iter().map(|event| text(&event["data"], "text")).collect()
}

#[test]
fn case_e2_an_image_of_five_mebibytes_in_one_line_arrives_whole() {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let image: String =
        (0..5u32 << 20).map(|at| char::from(alphabet[(at.wrapping_mul(2_654_435_761) >> 26) as usize])).collect();
    let result = json!({ "type": "tool.completed", "tool_name": "screenshot", "image": { "data": image } });
    let (done, events) = of_bytes(format!("{result}\n{}", delta("after")).as_bytes());
    assert_eq!((&done["outcome"]["verdict"], &done["output"]), (&"completed".into(), &"after".into()));
    let kept = of_type(&events, "tool.completed");
    assert!(kept.len() == 1 && kept[0]["data"]["image"]["data"] == image.as_str(), "the image is not whole");
    assert_eq!(of_type(&events, "ostler.frame.rejected").len(), 0);
}

#[test]
fn case_e3_a_first_line_of_more_than_256_kibibytes_is_a_line() {
    let tools: Vec<String> = (0..40_000).map(|number| format!("tool-{number}")).collect();
    let init = json!({ "type": "adapter.init", "tools": tools });
    let line = format!("{init}\n{}", delta("ready"));
    assert!(line.len() > 256 << 10);
    let (done, events) = of_bytes(line.as_bytes());
    assert_eq!(done["output"], "ready");
    assert_eq!(of_type(&events, "adapter.init")[0]["data"]["tools"], json!(tools));
}

#[test]
fn case_e6_bad_lines_between_good_ones_are_told_in_their_place() {
    let bad = ["not json", "[1]", "{\"no\":\"type\"}", "{\"type\":", "\u{0}", "\"text\""];
    let lines: String = bad.iter().enumerate().map(|(at, bad)| format!("{}{bad}\n", delta(&at.to_string()))).collect();
    let (done, events) = of_bytes(format!("{lines}{}", delta("end")).as_bytes());
    assert_eq!((&done["outcome"]["verdict"], &done["output"]), (&"completed".into(), &"012345end".into()));
    let kinds = events.iter().map(|event| text(event, "type"));
    let kinds: Vec<_> = kinds.filter(|kind| matches!(*kind, "message.delta" | "ostler.frame.rejected")).collect();
    let expected: Vec<_> =
        (0..13).map(|at| if at % 2 == 0 { "message.delta" } else { "ostler.frame.rejected" }).collect();
    assert_eq!(kinds, expected);
}

/// Each byte by itself, with a pause after it.
fn byte_by_byte(line: &str) -> String {
    line.bytes().map(|byte| format!("hex {byte:02x} ;; sleep 8 ;; ")).collect()
}

#[test]
fn case_e7_characters_written_byte_by_byte_arrive_whole() {
    let shell = Shell::new();
    let words = "\u{1F600}\u{e9}\u{20ac}";
    let line = format!("{{\"type\":\"message.delta\",\"text\":\"{words}\"}}\n");
    for (harness, line, expected) in
        [("json", line, words.to_owned()), ("scripted", format!("{words}\n"), format!("{words}\n"))]
    {
        let done = run(&shell, harness, &byte_by_byte(&line)).json();
        assert_eq!(done["output"], expected.as_str(), "{harness}: {done}");
        let events = shell.events(text(&done, "session"));
        assert_eq!(said(&events), expected, "{harness}");
        assert_eq!(of_type(&events, "ostler.frame.rejected").len(), 0, "{harness}");
    }
    shell.assert_nothing_left();
}

#[test]
fn case_e7_a_character_that_is_cut_by_a_kill_of_the_daemon_arrives_whole() {
    let shell = Shell::new();
    let daemon = shell.serve();
    let client =
        shell.spawn(&["run", "--harness", "scripted", "say x ;; hex f0 9f ;; sleep 1000 ;; hex 98 80 0a ;; say end"]);
    received(&shell, 1);
    let session = text(&shell.tasks()[0], "session").to_owned();
    wait_until(Duration::from_secs(20), "the first line is stored", || {
        if said(&shell.events(&session)) == "x\n" { Ok(()) } else { Err(String::new()) }
    });
    kill(daemon);
    finish(client);
    let daemon = shell.serve();
    assert_eq!(settled(&shell)[0]["outcome"]["output"]["text"], "x\n\u{1F600}\nend\n");
    assert_eq!(said(&shell.events(&session)), "x\n\u{1F600}\nend\n");
    shell.end(daemon);
}

#[test]
fn case_e8_noise_before_and_between_goes_to_the_diagnostics() {
    let banner = "npm warn deprecated\n\n\u{1b}[33mWelcome!\u{1b}[0m\r\n";
    let (done, events) = of_bytes(format!("{banner}{}{banner}{}", delta("one"), delta("two")).as_bytes());
    assert_eq!((&done["outcome"]["verdict"], &done["output"]), (&"completed".into(), &"onetwo".into()));
    assert_eq!(of_type(&events, "ostler.frame.rejected").len(), 6, "{events:#?}");

    let shell = Shell::new();
    app_server::add(&shell, &[]);
    let noisy = "line npm warn deprecated ;; accept ;; line [1] ;; say one ;; hex ff 0a ;; line { ;; say two ;; finish";
    let done = run(&shell, "protocol", noisy);
    assert_eq!((done.code, &done.json()["output"]), (0, &"onetwo".into()), "{done:?}");
    let events = shell.events(text(&done.json(), "session"));
    assert_eq!(of_type(&events, "ostler.frame.rejected").len(), 4, "{events:#?}");
    shell.assert_nothing_left();
}

#[test]
fn case_e11_exit_0_of_a_protocol_without_its_end_report_is_unresolved() {
    let shell = Shell::new();
    app_server::add(&shell, &[]);
    for prompt in ["accept ;; say half ;; exit 0", "accept ;; say half ;; line {\"method\":\"turn/comp ;; exit 0"] {
        let done = run(&shell, "protocol", prompt);
        let json = done.json();
        assert_eq!((done.code, &json["outcome"]["verdict"]), (4, &"unresolved".into()), "{prompt}: {done:?}");
        assert_eq!(
            (&json["outcome"]["reason"], &json["output"]),
            (&"PARTIAL_EVIDENCE".into(), &"half".into()),
            "{prompt}: {done:?}"
        );
    }
    shell.assert_nothing_left();
}

#[test]
fn case_e13_invalid_utf8_does_not_end_the_stream() {
    let shell = Shell::new();
    let bad = ["ff fe", "c3", "e2 82", "f0 9f 98", "ed a0 80", "c0 80", "80"];
    let script: String = bad.iter().enumerate().map(|(at, bad)| format!("hex {bad} 0a ;; say {at} ;; ")).collect();
    for (harness, expected) in [("json", "0123456"), ("scripted", "0\n1\n2\n3\n4\n5\n6\n")] {
        let done = run(&shell, harness, &script).json();
        assert_eq!((&done["outcome"]["verdict"], &done["output"]), (&"completed".into(), &expected.into()), "{done}");
        let rejected = shell.events(text(&done, "session"));
        assert_eq!(of_type(&rejected, "ostler.frame.rejected").len(), bad.len(), "{harness}");
    }
    shell.assert_nothing_left();
}

#[test]
fn case_e14_prompts_and_outputs_are_cut_between_characters_wherever_they_are_shown() {
    let shell = Shell::new();
    for number in 0..4 {
        // Places of every length from one to four bytes before the cuts at 48, 200 and 400 characters.
        let words = format!("{}{}", "x".repeat(number), "a\u{e9}\u{20ac}\u{1F600}".repeat(120));
        let done = run(&shell, "scripted", &format!("say {words}"));
        assert_eq!(done.json()["output"], format!("{words}\n"), "{done:?}");
        let shown = shell.ostler(&["task", "show", text(&done.json(), "task")]);
        assert!(shown.code == 0 && !shown.stdout.contains('\u{fffd}'), "{shown:?}");
    }
    let listed = shell.ostler(&["task", "list"]);
    assert!(
        listed.code == 0 && listed.stdout.contains('\u{1F600}') && !listed.stdout.contains('\u{fffd}'),
        "{listed:?}"
    );
}

#[test]
fn case_e15_an_over_long_line_is_a_typed_fact_and_no_crash() {
    let shell = Shell::new();
    app_server::add(&shell, &[]);
    super::configure(&shell, |config| {
        config.replace("[harness.protocol]\n", "[harness.protocol]\nframe_cap_mib = 1\n")
    });
    let long = format!("accept ;; say one ;; line {} ;; say two ;; finish", "x".repeat((1 << 20) + 1));
    let file = shell.work().join("prompt");
    std::fs::write(&file, long).expect("written");
    let mut command = shell.command(&["run", "--harness", "protocol", "--json", "-"]);
    let done: Done = command.stdin(std::fs::File::open(file).expect("opens")).output().expect("runs").into();
    assert_eq!((done.code, &done.json()["output"]), (0, &"onetwo".into()), "{}", done.stderr);
    let events = shell.events(text(&done.json(), "session"));
    let rejected = of_type(&events, "ostler.frame.rejected");
    assert_eq!(rejected.len(), 1, "{rejected:#?}");
    assert_eq!(rejected[0]["data"]["what"], "a line of 1048577 bytes, longer than allowed");
    shell.assert_nothing_left();
}

#[test]
fn case_e7_the_tail_of_standard_error_begins_with_a_whole_character() {
    let shell = Shell::with(
        Containment::Descent,
        "[harness.verbose]\nadapter = \"oneshot\"\n\
         command = [\"sh\", \"-c\", \"for i in $(seq 500); do printf '\u{1F600}\u{20ac}\u{e9}' >&2; done; echo x >&2; echo done\"]\n",
    );
    let done = run(&shell, "verbose", "x").json();
    let events = shell.events(text(&done, "session"));
    let tail = of_type(&events, "ostler.runtime.closed")[0]["data"]["stderr"].as_str().expect("a text").to_owned();
    assert!(tail.ends_with("\u{e9}x\n") && tail.len() > 4000, "{tail}");
    assert!(!tail.contains('\u{fffd}'), "{}", tail.chars().take(5).collect::<String>());
}
