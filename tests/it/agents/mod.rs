//! What each of the real agents does, over the local model server; all are installed or built by `scripts/test`. What only
//! one of them does is in a folder of its own.

/// Each scenario, once with each agent.
macro_rules! with_each_agent {
    ($($scenario:ident),+ $(,)?) => {
        with_each_agent!(@agent codex CODEX [$($scenario)+]);
        with_each_agent!(@agent claude CLAUDE [$($scenario)+]);
        with_each_agent!(@agent gemini GEMINI [$($scenario)+]);
        with_each_agent!(@agent claude_agent_acp CLAUDE_AGENT_ACP [$($scenario)+]);
    };
    (@agent $module:ident $agent:ident [$($scenario:ident)+]) => {
        mod $module {
            $(
                #[test]
                fn $scenario() {
                    super::$scenario(crate::support::user::User::of(crate::support::agents::$agent));
                }
            )+
        }
    };
}

mod a_killed_daemon_does_not_disturb_a_turn;
mod background;
mod failures;
mod lost_sessions;
mod turns;
