//! The end of real Pi, whose RPC mode has no command for it.

use std::time::{Duration, Instant};

use super::{end, finish, session_of};
use crate::pi::support::{User, of_type};
use crate::support::kernel::is_alive;
use crate::support::shell::Containment;

/// The end of its input ends it, with its own exit code; what that leaves is ended by the signals after it.
#[test]
fn case_c5_without_a_shutdown_command_the_end_of_input_ends_it_and_signals_what_it_leaves() {
    for containment in Containment::all() {
        let user = User::with(containment);
        let daemon = user.shell.serve();
        let idle = session_of(&user.run(&["hello"]));
        let run = user.start("work long");
        let tool = user.tool();
        let busy = user.shell.tasks()[0]["session"].as_str().expect("an id").to_owned();
        for session in [&idle, &busy] {
            let began = Instant::now();
            assert_eq!(user.shell.ostler(&["session", "close", session]).code, 0);
            assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
            let events = user.shell.events(session);
            let closed = of_type(&events, "ostler.runtime.closed");
            assert_eq!(
                closed[0]["data"]["exit"]["code"], 0,
                "by a signal, and not by the end of its input: {closed:?}"
            );
            assert_eq!(closed[0]["data"]["tree_empty"], true);
        }
        assert_eq!(finish(run).json()["outcome"]["verdict"], "cancelled");
        assert!(!is_alive(tool), "the tool lives on");
        end(daemon);
        user.shell.assert_nothing_left();
    }
}
