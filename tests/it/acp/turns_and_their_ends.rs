//! Turns, tools, permissions, and how they end.

use super::{everywhere, is, output, run, session, verdict};
use crate::support::shell::assert_whole;

#[test]
fn a_text_turn() {
    everywhere(|shell| {
        let done = run(shell, "deny", "think hm ;; say hello ;; say  there");
        assert_eq!(verdict(&done), is(0, "completed", "end_report"), "{done:?}");
        assert_eq!(output(&done), "hello there");
        let events = shell.events(&session(&done));
        assert_whole(&events);
        assert!(events.iter().any(|event| event["type"] == "model.thinking" && event["data"]["text"] == "hm"));
    });
}

#[test]
fn a_tool_really_runs_and_what_is_said_after_it_is_the_answer() {
    everywhere(|shell| {
        let done = run(shell, "deny", "say first ;; tool echo hi | tee out.txt ;; say last");
        assert_eq!(verdict(&done), is(0, "completed", "end_report"), "{done:?}");
        assert_eq!(output(&done), "last");
        assert_eq!(std::fs::read_to_string(shell.work().join("out.txt")).expect("it ran"), "hi\n");
        let events = shell.events(&session(&done));
        let of = |kind: &str| events.iter().find(|event| event["type"] == kind).map(|event| event["data"].clone());
        assert_eq!(of("tool.requested").expect("announced")["arguments"], "echo hi | tee out.txt");
        let completed = of("tool.completed").expect("ended");
        assert_eq!((&completed["success"], &completed["output"]), (&true.into(), &"hi\n".into()));
    });
}

#[test]
fn permissions_allowed_and_denied_whatever_the_options_are_called() {
    everywhere(|shell| {
        for (script, count) in [("ask may I", 1), ("ask-foreign may I", 1), ("ask-twice may I", 2)] {
            for (approve, word) in [("allow", "allowed "), ("deny", "declined ")] {
                let done = run(shell, approve, script);
                assert_eq!(verdict(&done), is(0, "completed", "end_report"), "{script}, {approve}: {done:?}");
                assert_eq!(output(&done), word.repeat(count), "{script}, {approve}");
            }
        }
    });
}

#[test]
fn what_is_asked_and_how_it_was_answered_are_events() {
    everywhere(|shell| {
        let done = run(shell, "allow", "ask-twice may I");
        let events = shell.events(&session(&done));
        let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
        let (requested, resolved) = (of("approval.requested"), of("approval.resolved"));
        assert_eq!((requested.len(), resolved.len()), (2, 2), "{events:#?}");
        assert_eq!(requested[0]["data"]["prompt"], "may I");
        assert!(resolved.iter().all(|event| event["data"]["decision"]["decision"] == "approve_once"), "{resolved:#?}");
    });
}

#[test]
fn a_request_of_a_kind_that_nobody_knows_does_not_hold_the_agent() {
    everywhere(|shell| {
        let done = run(shell, "allow", "ask-unknown x ;; say on");
        assert_eq!(verdict(&done), is(0, "completed", "end_report"), "{done:?}");
        let events = shell.events(&session(&done));
        assert!(events.iter().any(|event| event["type"] == "ostler.warning"), "{events:#?}");
    });
}

#[test]
fn every_stop_reason_has_its_verdict_and_exit_code() {
    everywhere(|shell| {
        for (script, expected) in [
            ("say x ;; end end_turn", is(0, "completed", "end_report")),
            ("say x ;; end max_turn_requests", is(5, "completed", "end_report")),
            ("say x ;; end refusal", is(1, "failed", "end_report")),
            ("say x ;; end tired", is(4, "unresolved", "partial")),
        ] {
            let done = run(shell, "deny", script);
            assert_eq!(verdict(&done), expected, "{script}: {done:?}");
            assert_eq!(output(&done), "x");
        }
    });
}

#[test]
fn noise_between_messages_is_told_and_disturbs_nothing() {
    everywhere(|shell| {
        let done = run(shell, "deny", "noise npm warn ;; hex ff0a ;; say fine");
        assert_eq!((verdict(&done), output(&done)), (is(0, "completed", "end_report"), "fine".to_owned()), "{done:?}");
        let events = shell.events(&session(&done));
        let rejected = events.iter().filter(|event| event["type"] == "ostler.frame.rejected").count();
        assert_eq!(rejected, 2, "{events:#?}");
    });
}
