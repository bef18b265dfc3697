//! What a person does with Pi, and what is true afterwards.

use super::support::{User, long_answer, of_type, verdict, word};
use crate::support::shell::assert_whole;

#[test]
fn a_text_turn() {
    let user = User::new();
    let done = user.run(&["hello there"]);
    assert_eq!(verdict(&done), (0, "completed".into(), "end_report".into()), "{done:?}");
    let json = done.json();
    assert_eq!((word(&json, "/output"), &json["usage"]["total_tokens"]), ("reply number 1", &21.into()), "{json}");
    let events = user.shell.events(word(&json, "/session"));
    assert_whole(&events);
    let rejected = of_type(&events, "ostler.frame.rejected");
    assert!(rejected.is_empty(), "{rejected:?}");
    assert_eq!(user.requests().len(), 1);
    user.shell.assert_nothing_left();
}

#[test]
fn what_it_thinks_is_no_part_of_the_answer() {
    let user = User::new();
    let done = user.run(&["ponder this"]);
    assert_eq!(word(&done.json(), "/output"), "done", "{done:?}");
    let events = user.shell.events(word(&done.json(), "/session"));
    let thought = of_type(&events, "model.thinking");
    let thought: String = thought.iter().filter_map(|event| event["data"]["text"].as_str()).collect();
    assert_eq!(thought, "let me see");
}

#[test]
fn a_tool_turn_with_a_command_and_one_that_writes() {
    let user = User::new();
    let done = user.run(&["please run it"]);
    assert_eq!(verdict(&done).1, "completed", "{done:?}");
    assert_eq!(word(&done.json(), "/output").trim_end(), "the tool said hi", "{done:?}");
    assert_eq!(std::fs::read_to_string(user.shell.work().join("out.txt")).expect("the tool ran"), "hi\n");
    let events = user.shell.events(word(&done.json(), "/session"));
    let ran = of_type(&events, "tool.completed");
    assert!(ran.len() == 1 && ran[0]["data"]["status"] == "completed" && ran[0]["data"]["output"] == "hi\n", "{ran:?}");

    let done = user.run(&["please write it"]);
    assert_eq!(word(&done.json(), "/output"), "written", "{done:?}");
    let events = user.shell.events(word(&done.json(), "/session"));
    let wrote = of_type(&events, "tool.completed");
    assert_eq!(wrote[0]["data"]["paths"], serde_json::json!(["note.txt"]), "{wrote:?}");
    assert_eq!(std::fs::read_to_string(user.shell.work().join("note.txt")).expect("written"), "kept");
    user.shell.assert_nothing_left();
}

/// Rules 7: it never asks, so it is given nothing that somebody would have to be asked about.
#[test]
fn a_task_that_could_be_asked_about_or_declined_is_refused_before_work() {
    let user = User::new();
    for approval in [&["--approve", "ask"][..], &["--approve", "deny"], &[]] {
        let prompt = ["please run it"];
        let refused = user.shell.ostler(&[&["run", "--harness", "pi", "--json"], approval, &prompt].concat());
        assert_eq!(refused.code, 3, "{refused:?}");
        let said = refused.stdout.clone() + &refused.stderr;
        assert!(said.contains("asks for nothing") && said.contains("--approve allow"), "{refused:?}");
    }
    assert_eq!((user.shell.tasks().len(), user.requests().len()), (0, 0));
    user.shell.assert_nothing_left();
}

#[test]
fn a_failing_model_is_a_failure_of_its_kind() {
    let user = User::new();
    for (prompt, kind, retries) in [("overload", "TRANSIENT", 3), ("malformed", "PROVIDER", 0)] {
        let before = user.requests().len();
        let done = user.run(&[prompt]);
        assert_eq!(verdict(&done), (1, "failed".into(), "end_report".into()), "{done:?}");
        assert_eq!(word(&done.json(), "/outcome/kind"), kind);
        let events = user.shell.events(word(&done.json(), "/session"));
        assert_eq!(of_type(&events, "ostler.warning").len(), retries, "{events:#?}");
        assert_eq!(user.requests().len() - before, retries + 1);
    }
    user.shell.assert_nothing_left();
}

#[test]
fn a_broken_answer_is_asked_for_again_within_the_task() {
    let user = User::new();
    let done = user.run(&["fragile as it is"]);
    assert_eq!(verdict(&done), (0, "completed".into(), "end_report".into()), "{done:?}");
    assert_eq!((word(&done.json(), "/output"), user.requests().len()), ("reply number 1", 2));
    let events = user.shell.events(word(&done.json(), "/session"));
    let warned = of_type(&events, "ostler.warning");
    assert!(warned.len() == 1 && warned[0]["data"]["kind"] == "recoverable", "{warned:?}");
    assert_whole(&events);
    user.shell.assert_nothing_left();
}

/// Each of its fragments comes with the whole answer so far, twice.
#[test]
fn a_long_answer_is_kept_once() {
    let user = User::new();
    let done = user.run(&["speak at length"]);
    assert_eq!(verdict(&done).1, "completed", "{done:?}");
    assert_eq!(word(&done.json(), "/output"), long_answer());
    let events = user.shell.events(word(&done.json(), "/session"));
    let said: String =
        of_type(&events, "message.delta").iter().filter_map(|event| event["data"]["text"].as_str()).collect();
    assert_eq!(said, long_answer());
    let kept: usize = events.iter().map(|event| event["data"].to_string().len()).sum();
    assert!(kept < 40 * said.len(), "{kept} bytes of events for {} of answer", said.len());
    user.shell.assert_nothing_left();
}

#[test]
fn the_model_is_the_one_that_was_chosen_and_an_unknown_one_is_a_failure() {
    let user = User::new();
    let done = user.run(&["--model", "local/other", "hello"]);
    assert_eq!(verdict(&done).1, "completed", "{done:?}");
    assert_eq!(user.requests()[0]["request"]["model"], "other");
    let done = user.run(&["--model", "unheard-of", "hello"]);
    // It ends with it at its start: nothing was given to it, and it is quoted.
    assert_eq!(verdict(&done), (3, "failed".into(), "never_submitted".into()), "{done:?}");
    assert!(word(&done.json(), "/outcome/message").contains("unheard-of"), "{done:?}");
    assert_eq!(user.requests().len(), 1);
    user.shell.assert_nothing_left();
}

#[test]
fn a_resume_in_a_new_process_knows_the_earlier_text() {
    let user = User::new();
    let first = user.run(&["remember the word walnut"]);
    let session = word(&first.json(), "/session").to_owned();
    user.shell.assert_nothing_left();
    let second = user.next(&session, "what was it");
    assert_eq!(word(&second.json(), "/output"), "reply number 2", "{second:?}");
    let requests = user.requests();
    let last = requests.last().expect("two requests")["request"]["messages"].to_string();
    assert!(last.contains("walnut"), "the earlier text is not in the second request");
    let events = user.shell.events(&session);
    let opened = of_type(&events, "ostler.runtime.opened");
    assert_eq!(opened[1]["data"]["resume"], "exact-resume");
    assert_whole(&events);
    user.shell.assert_nothing_left();
}

#[test]
fn a_session_that_it_has_lost_is_said_to_be_lost() {
    let user = User::new();
    let first = user.run(&["remember the word walnut"]);
    let session = word(&first.json(), "/session").to_owned();
    std::fs::remove_dir_all(user.shell.path().join("pi-home/sessions")).expect("removed");
    let second = user.next(&session, "what was it");
    let said = second.stdout.clone() + &second.stderr;
    assert!(second.code == 3 && said.contains("has lost its session"), "{second:?}");
    assert!(said.contains("pi has no session"), "{second:?}");
    assert_eq!(user.requests().len(), 1, "nothing was asked of the model");
    user.shell.assert_nothing_left();
}
