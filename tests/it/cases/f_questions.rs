//! A question of one agent: whom it holds up, who decides it, how it closes, and who sees that it waits.

use std::time::Duration;

use ostler::door::Door;
use ostler_supervisors::contract::{ApprovalPolicy, CancelCause, SessionId, TaskId};
use serde_json::Value;

use super::socket::{block_on, delegate_with, door, open_session};
use super::{app_server, settled, text};
use crate::acp;
use crate::support::kernel::wait_until;
use crate::support::shell::{Shell, assert_whole};

/// A request of the app-server for approval.
const APPROVAL: &str = "item/commandExecution/requestApproval";

/// A daemon's user, with an agent that speaks ACP and one that speaks the app-server protocol.
fn user() -> Shell {
    let shell = Shell::new();
    acp::configure(&shell, &[]);
    app_server::add(&shell, &[]);
    shell
}

/// A task that the caller wants to be asked about, and then goes away.
fn ask(shell: &Shell, harness: &str, prompt: &str) -> (SessionId, TaskId) {
    decided_by(shell, harness, prompt, ApprovalPolicy::Ask)
}

fn decided_by(shell: &Shell, harness: &str, prompt: &str, policy: ApprovalPolicy) -> (SessionId, TaskId) {
    block_on(async {
        let session = open_session(shell, harness).await;
        let task = delegate_with(&door(shell).await, &session, prompt, policy).await;
        (session, task)
    })
}

fn open_requests(shell: &Shell, task: &TaskId) -> Vec<String> {
    let shown = shell.ostler(&["task", "show", task.as_str(), "--json"]).json();
    let open = shown["open_interactions"].as_array().expect("a list");
    open.iter().map(|request| text(request, "id").to_owned()).collect()
}

fn asked(shell: &Shell, task: &TaskId) -> String {
    wait_until(Duration::from_secs(30), "it asks", || {
        open_requests(shell, task).pop().ok_or_else(|| format!("{:?}", shell.tasks()))
    })
}

fn verdict(shell: &Shell, task: &TaskId) -> (String, String) {
    wait_until(Duration::from_secs(30), "it has its verdict", || {
        let shown = shell.ostler(&["task", "show", task.as_str(), "--json"]).json();
        let outcome = &shown["task"]["outcome"];
        let word = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(|| shown.to_string());
        Ok((word(&outcome["verdict"])?, word(&outcome["evidence"]["proof"])?))
    })
}

fn is(verdict: &str, proof: &str) -> (String, String) {
    (verdict.to_owned(), proof.to_owned())
}

fn place(events: &[Value], wanted: impl Fn(&Value) -> bool) -> usize {
    events.iter().position(wanted).unwrap_or_else(|| panic!("not among {events:#?}"))
}

fn of_type(kind: &str) -> impl Fn(&Value) -> bool {
    move |event| event["type"] == kind
}

#[test]
fn case_f2_a_question_that_nobody_answers_holds_up_no_other_session() {
    let shell = user();
    let daemon = shell.serve();
    for (harness, question, word) in [
        ("acp", "ask may I".to_owned(), "say on"),
        ("protocol", format!("accept ;; ask {APPROVAL} ;; await ;; finish"), "accept ;; say on ;; finish"),
    ] {
        let (_, asking) = ask(&shell, harness, &question);
        let open = asked(&shell, &asking);
        let first = shell.ostler(&["run", "--harness", harness, "--json", word]);
        let other = text(&first.json(), "session").to_owned();
        for _ in 0..3 {
            let next = shell.ostler(&["run", "--session", &other, "--json", word]);
            assert_eq!((next.code, text(&next.json(), "output")), (0, "on"), "{next:?}");
        }
        // Others may ask too, and are answered while the first one waits.
        let (_, second) = ask(&shell, harness, &question);
        let its = asked(&shell, &second);
        assert_eq!(shell.ostler(&["task", "respond", second.as_str(), &its, "allow"]).code, 0);
        assert_eq!(verdict(&shell, &second), is("completed", "end_report"));
        assert_eq!(open_requests(&shell, &asking), [open.as_str()], "it still waits");
        assert_eq!(shell.ostler(&["task", "respond", asking.as_str(), &open, "deny"]).code, 0);
        assert_eq!(verdict(&shell, &asking), is("completed", "end_report"));
    }
    shell.end(daemon);
}

#[test]
fn case_f2_an_open_question_does_not_hold_what_its_own_agent_says() {
    let shell = user();
    let daemon = shell.serve();
    let (session, task) =
        ask(&shell, "protocol", &format!("accept ;; ask {APPROVAL} ;; say still here ;; await ;; finish"));
    let open = asked(&shell, &task);
    wait_until(Duration::from_secs(30), "what it says is read", || {
        let events = shell.events(session.as_str());
        let said = events.iter().any(|event| event["data"]["text"] == "still here");
        if said { Ok(()) } else { Err(format!("{events:#?}")) }
    });
    assert_eq!(open_requests(&shell, &task), [open.as_str()]);
    assert_eq!(shell.ostler(&["task", "respond", task.as_str(), &open, "allow"]).code, 0);
    assert_eq!(verdict(&shell, &task), is("completed", "end_report"));
    shell.end(daemon);
}

/// No client is there; what decides is when the events say that it was asked and that it was declined.
#[test]
fn case_f3_where_nobody_can_answer_the_policy_decides_at_once() {
    let shell = user();
    let daemon = shell.serve();
    for (harness, prompt) in [
        ("acp", "ask may I ;; say on".to_owned()),
        ("protocol", format!("accept ;; ask {APPROVAL} ;; await ;; finish")),
    ] {
        let (session, task) = decided_by(&shell, harness, &prompt, ApprovalPolicy::Deny);
        assert_eq!(verdict(&shell, &task), is("completed", "end_report"));
        let events = shell.events(session.as_str());
        let at = |index: usize| events[index]["timestamp"].as_f64().expect("a time");
        let declined = place(&events, |event| {
            event["type"] == "ostler.warning" && text(&event["data"], "message").starts_with("declined")
        });
        // Whatever was said last before it was heard with the question, or earlier.
        assert!(at(declined) - at(declined - 1) < 1.0, "{events:#?}");
        assert!(!events.iter().any(of_type("approval.requested")), "nobody was asked: {events:#?}");
    }
    let answer = std::fs::read_to_string(shell.work().join("answers")).expect("answered");
    assert!(answer.contains("\"decision\": \"decline\""), "{answer}");
    shell.end(daemon);
}

/// Without a terminal nobody can be asked, whatever the command line says.
#[test]
fn case_f3_a_run_without_a_terminal_declines_by_itself() {
    let shell = user();
    for more in [&[][..], &["--approve", "ask"]] {
        let done = shell.ostler(&[&["run", "--harness", "acp", "--json"], more, &["ask may I"]].concat());
        assert_eq!((done.code, text(&done.json(), "output")), (0, "declined "), "{done:?}");
        let events = shell.events(text(&done.json(), "session"));
        assert!(!events.iter().any(of_type("approval.requested")), "nobody was asked: {events:#?}");
    }
    shell.assert_nothing_left();
}

#[test]
fn case_f4_a_cancel_closes_the_question_and_wins_over_a_late_end_of_the_turn() {
    let shell = user();
    let daemon = shell.serve();
    // It takes the closed question for an answer, goes on, and calls its turn ended.
    let (session, task) = ask(&shell, "acp", "ignore-cancel ;; ask may I ;; say late");
    let open = asked(&shell, &task);
    assert_eq!(shell.ostler(&["task", "cancel", task.as_str()]).code, 0);
    assert_eq!(verdict(&shell, &task), is("cancelled", "end_report"));
    let events = shell.events(session.as_str());
    let requested = place(&events, of_type("ostler.cancel.requested"));
    let closed = place(&events, of_type("approval.resolved"));
    let late = place(&events, |event| event["data"]["text"] == "late");
    assert!(requested < closed && closed < late && late < place(&events, of_type("run.cancelled")), "{events:#?}");
    assert_eq!(events[closed]["data"]["cleared"], "CANCELLATION_REQUESTED", "{events:#?}");
    assert_eq!(events.iter().filter(|event| of_type("approval.resolved")(event)).count(), 1);
    assert_whole(&events);
    assert_eq!(open_requests(&shell, &task), Vec::<String>::new());
    assert_ne!(shell.ostler(&["task", "respond", task.as_str(), &open, "allow"]).code, 0, "it takes no answer");
    shell.end(daemon);
}

#[test]
fn case_f4_an_end_of_the_turn_before_the_cancel_stays_and_leaves_no_question() {
    let shell = user();
    let daemon = shell.serve();
    for (harness, prompt) in [
        ("acp", "ask-left may I ;; say done".to_owned()),
        ("protocol", format!("accept ;; ask {APPROVAL} ;; say done ;; finish")),
    ] {
        let (session, task) = ask(&shell, harness, &prompt);
        assert_eq!(verdict(&shell, &task), is("completed", "end_report"));
        block_on(async { door(&shell).await.cancel(&task, CancelCause::Requested).await.expect("nothing to do") });
        assert_eq!(verdict(&shell, &task), is("completed", "end_report"));
        assert_eq!(open_requests(&shell, &task), Vec::<String>::new());
        let events = shell.events(session.as_str());
        let closed = place(&events, of_type("approval.resolved"));
        assert!(closed < place(&events, of_type("run.completed")), "{events:#?}");
        assert_whole(&events);
    }
    shell.end(daemon);
}

/// How many tasks the daemon says to be in this state.
fn counted(shell: &Shell, state: &str) -> String {
    let metrics = shell.metrics();
    let name = format!("ostler_tasks{{state=\"{state}\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
    line.unwrap_or_else(|| panic!("{state}: {metrics}")).to_owned()
}

#[test]
fn case_f9_an_agent_that_waits_is_an_event_a_metric_and_a_state() {
    let shell = user();
    let daemon = shell.serve();
    assert_eq!(counted(&shell, "awaiting_response"), "0");
    let (session, task) = ask(&shell, "acp", "ask may I");
    let open = asked(&shell, &task);
    let events = shell.events(session.as_str());
    assert_eq!(events[place(&events, of_type("approval.requested"))]["data"]["interaction_id"], open.as_str());
    assert_eq!([counted(&shell, "awaiting_response"), counted(&shell, "running")], ["1", "0"]);
    assert_eq!(shell.tasks()[0]["state"], "awaiting_response");
    for command in [&["task", "list"][..], &["tree"]] {
        let shown = shell.ostler(command).stdout;
        assert!(shown.contains("awaiting_response"), "{command:?}: {shown}");
    }
    let tree = shell.ostler(&["tree", "--json"]).json();
    assert_eq!((text(&tree[0], "task"), text(&tree[0], "task_state")), (task.as_str(), "awaiting_response"), "{tree}");
    assert_eq!(shell.ostler(&["task", "respond", task.as_str(), &open, "allow"]).code, 0);
    settled(&shell);
    let states = ["accepted", "admitted", "submitted", "running", "awaiting_response"];
    assert!(states.into_iter().all(|state| counted(&shell, state) == "0"), "{}", shell.metrics());
    let tree = shell.ostler(&["tree", "--json"]).json();
    assert_eq!(tree[0]["task_state"], Value::Null, "{tree}");
    shell.end(daemon);
}
