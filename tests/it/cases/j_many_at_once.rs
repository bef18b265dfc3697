//! Many sessions whose agents were killed at once, and that all want another one.

use std::time::Duration;

use ostler::door::{Door, Remote};
use ostler_supervisors::contract::{SessionId, Verdict};

use super::socket::{block_on, delegate, door, open_session};
use super::{configure, sigkill};
use crate::support::kernel::wait_until;
use crate::support::shell::Shell;

const SESSIONS: usize = 100;

/// An agent that costs almost nothing but a little time: it notes when it is starting and when it has started.
const AGENT: &str = r#"
echo + >> gauge
while read -r line; do
    id=${line#*'"id":'}; id=${id%%,*}
    case $line in
    *'"initialize"'*) echo "{\"id\":$id,\"result\":{}}" ;;
    *'"thread/start"'* | *'"thread/resume"'*)
        sleep 0.05
        echo - >> gauge
        echo "{\"id\":$id,\"result\":{\"thread\":{\"id\":\"thread-$$\"}}}" ;;
    *'"turn/start"'*)
        echo "{\"id\":$id,\"result\":{\"turn\":{\"id\":\"turn-$id\"}}}"
        echo "{\"method\":\"turn/completed\",\"params\":{\"turn\":{\"id\":\"turn-$id\",\"status\":\"completed\"}}}" ;;
    esac
done
"#;

fn add(shell: &Shell) {
    let program = shell.path().join("agent.sh");
    std::fs::write(&program, AGENT).expect("written");
    let harness = format!(
        "[harness.small]\nadapter = \"codex\"\ncommand = [\"sh\", {program:?}]\nenvironment = {{ MARK = {:?} }}\n",
        shell.marker.text()
    );
    configure(shell, |config| config + &harness);
}

/// How many were starting at once at most, and how many started, by their own notes.
fn gauge(shell: &Shell) -> (i32, usize) {
    let notes = std::fs::read_to_string(shell.work().join("gauge")).expect("notes");
    let mut starting = 0;
    let counts = notes.lines().map(|note| {
        starting += if note == "+" { 1 } else { -1 };
        starting
    });
    (counts.max().unwrap_or(0), notes.lines().filter(|note| *note == "+").count())
}

/// One task in each session, all of them asked for before the first is waited for.
async fn one_task_each(door: &Remote, sessions: &[SessionId]) {
    let mut tasks = Vec::new();
    for session in sessions {
        tasks.push(delegate(door, session, "x").await);
    }
    for task in tasks {
        let row = tokio::time::timeout(Duration::from_secs(60), door.wait(&task)).await.expect("in time");
        let verdict = row.expect("known").outcome.expect("settled").verdict;
        assert!(matches!(verdict, Verdict::Completed { .. }), "{verdict:?}");
    }
}

#[test]
fn case_j6_a_hundred_sessions_that_restart_at_once_start_four_at_a_time() {
    let shell = Shell::new();
    add(&shell);
    let daemon = shell.serve();
    block_on(async {
        let door = door(&shell).await;
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            sessions.push(open_session(&shell, "small").await);
        }
        one_task_each(&door, &sessions).await;
        assert_eq!(gauge(&shell).1, SESSIONS, "one agent each");
        shell.marker.alive().into_iter().for_each(|(pid, _)| sigkill(pid));
        wait_until(Duration::from_secs(30), "each exit is seen", || {
            let opened = shell.marker.alive().len();
            if opened == 0 { Ok(()) } else { Err(format!("{opened} live")) }
        });
        one_task_each(&door, &sessions).await;
    });
    let (at_once, starts) = gauge(&shell);
    assert!(at_once <= 4 && starts == 2 * SESSIONS, "{at_once} at once, {starts} in all");
    shell.end(daemon);
}
