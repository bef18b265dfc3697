//! What a person does with an agent, and what is true afterwards.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::kernel::is_alive;
use crate::support::shell::{Done, assert_whole, signal};
use crate::support::user::{User, of_type, verdict, word};

with_each_agent!(
    a_text_turn,
    a_tool_turn_allowed_and_one_denied,
    a_cancel_in_mid_stream_and_one_in_mid_tool_keep_the_runtime_warm,
    a_resume_in_a_new_process_knows_the_earlier_text_and_says_none_of_it_again,
    a_sigkill_in_mid_stream_is_a_failure_with_its_signal,
    a_sigkill_in_mid_tool_takes_the_tool_along,
);

fn a_text_turn(user: User) {
    let done = user.run(&["hello there"]);
    assert_eq!(verdict(&done), (0, "completed".into(), "end_report".into()), "{done:?}");
    let json = done.json();
    assert_eq!(word(&json, "/output"), "reply number 1");
    assert_eq!((&json["usage"]["input_tokens"], &json["usage"]["output_tokens"]), (&12.into(), &9.into()), "{json}");
    assert_eq!(json["usage"]["total_tokens"].as_u64(), user.agent.total, "{json}");
    assert_whole(&user.shell.events(word(&json, "/session")));
    assert_eq!(user.requests().len(), 1);
    user.shell.assert_nothing_left();
}

fn a_tool_turn_allowed_and_one_denied(user: User) {
    let allowed = user.run(&["--approve", "allow", "please run it"]);
    assert_eq!(verdict(&allowed).1, "completed", "{allowed:?}");
    let json = allowed.json();
    let output = word(&json, "/output");
    assert!(output.starts_with("the tool said") && output.contains("hi"), "{allowed:?}");
    let file = user.shell.work().join("out.txt");
    assert_eq!(std::fs::read_to_string(&file).expect("the tool ran"), "hi\n");
    std::fs::remove_file(&file).expect("removed");
    let events = user.shell.events(word(&json, "/session"));
    let (asked, resolved) = (of_type(&events, "approval.requested"), of_type(&events, "approval.resolved"));
    assert_eq!((asked.len(), resolved.len()), (1, 1), "{events:#?}");
    // Codex asks for the shell around it.
    let commands = ["echo hi > out.txt && cat out.txt", "/bin/bash -lc 'echo hi > out.txt && cat out.txt'"];
    assert!(commands.contains(&word(asked[0], "/data/prompt")), "{asked:?}");
    assert_eq!(word(resolved[0], "/data/decision/decision"), "approve_once", "its answer was confirmed");
    let ran = of_type(&events, "tool.completed");
    assert_eq!((ran.len(), &ran[0]["data"]["success"], word(ran[0], "/data/status")), (1, &true.into(), "completed"));
    // Gemini CLI shows its user none of a command's output.
    assert!(ran[0]["data"]["output"].as_str().is_none_or(|output| output.trim_end() == "hi"), "{ran:?}");
    assert_eq!(user.requests().len(), 2, "its model was asked for the turn, and for nothing beside it");

    let denied = user.run(&["--approve", "deny", "please run it"]);
    assert_eq!(verdict(&denied).1, "completed", "{denied:?}");
    assert!(!file.exists(), "a denied tool ran");
    let events = user.shell.events(word(&denied.json(), "/session"));
    let declined = of_type(&events, "tool.completed");
    assert_eq!((declined.len(), word(declined[0], "/data/status")), (1, "declined"), "{events:#?}");
    user.shell.assert_nothing_left();
}

/// A daemon, so that what is left warm can be seen.
fn a_cancel_in_mid_stream_and_one_in_mid_tool_keep_the_runtime_warm(user: User) {
    let daemon = user.shell.serve();
    let first = user.start("slow please");
    user.speaks();
    signal(&first, Signal::SIGINT);
    let done: Done = first.wait_with_output().expect("ends").into();
    assert_eq!(verdict(&done), (130, "cancelled".into(), "end_report".into()), "{done:?}");
    assert!(word(&done.json(), "/output").starts_with("one "), "{done:?}");
    user.hangs_up();
    let session = word(&done.json(), "/session").to_owned();
    let warm = user.own();
    assert_eq!(warm.len(), user.agent.processes.len(), "the runtime is warm: {warm:?}");

    let second = user.shell.spawn(&["run", "--session", &session, "--json", "--approve", "allow", "leave one behind"]);
    let tools = user.tools(2);
    signal(&second, Signal::SIGINT);
    let done: Done = second.wait_with_output().expect("ends").into();
    assert_eq!(verdict(&done), (130, "cancelled".into(), "end_report".into()), "{done:?}");
    assert!(!tools.into_iter().any(is_alive), "a tool lives on");
    assert_eq!(user.own(), warm, "the runtime stayed warm");

    let third = user.shell.ostler(&["run", "--session", &session, "--json", "and now"]);
    assert_eq!(verdict(&third).1, "completed", "{third:?}");
    assert_eq!(user.own(), warm);
    assert_whole(&user.shell.events(&session));
    user.shell.end(daemon);
}

fn a_resume_in_a_new_process_knows_the_earlier_text_and_says_none_of_it_again(user: User) {
    let first = user.run(&["remember the word walnut"]);
    let session = word(&first.json(), "/session").to_owned();
    user.shell.assert_nothing_left();
    let second = user.shell.ostler(&["run", "--session", &session, "--json", "what was it"]);
    assert_eq!(word(&second.json(), "/output"), "reply number 2", "{second:?}");
    let requests = user.requests();
    let last = requests.last().expect("two requests")["request"][user.agent.past].to_string();
    assert!(last.contains("walnut"), "the earlier text is not in the second request");
    let events = user.shell.events(&session);
    let said = of_type(&events, "message.delta");
    let said: String = said.into_iter().filter_map(|event| event["data"]["text"].as_str()).collect();
    assert_eq!(said, "reply number 1reply number 2");
    let third = user.shell.ostler(&["run", "--session", &session, "--json", "and again"]);
    assert_eq!(word(&third.json(), "/output"), "reply number 3", "{third:?}");
    user.shell.assert_nothing_left();
}

fn a_sigkill_in_mid_stream_is_a_failure_with_its_signal(user: User) {
    let child = user.start("slow please");
    user.speaks();
    assert_killed(&user, child);
}

fn a_sigkill_in_mid_tool_takes_the_tool_along(user: User) {
    let child = user.start("work long");
    let tools = user.tools(1);
    assert_killed(&user, child);
    assert!(!tools.into_iter().any(is_alive), "its tool outlived it");
}

/// Kills the program that Ostler started, alone.
fn assert_killed(user: &User, child: std::process::Child) {
    kill(Pid::from_raw(user.own()[0]), Signal::SIGKILL).expect("killed");
    let done: Done = child.wait_with_output().expect("ends").into();
    assert_eq!(verdict(&done), (1, "failed".into(), "tree_empty".into()), "{done:?}");
    assert_eq!(done.json()["evidence"]["exit"]["signal"], 9);
    user.shell.assert_nothing_left();
}
