//! `ostler run` with the scripted agent.

mod a_cancel_is_heard_at_any_moment;
mod a_stalled_ledger_holds_up_no_end;
mod each_end_has_its_verdict_and_exit_code;
mod hostile_output_costs_bounded_memory;
mod keepers_wait_ready;
mod limits_are_kept_or_said_not_to_be;
mod the_configuration_has_layers;
mod the_daemon_may_end_or_stall;
mod the_demo_keeps_its_word;
mod the_shell_fits_its_terminal;
mod the_shell_says_what_happened;
mod the_tree_heals_itself;
