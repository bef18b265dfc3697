//! The keeper alone, driven without Ostler.

mod a_folder_appears_whole;
mod a_keeper_rests;
mod a_leader_that_ends_during_a_kill_has_its_exit_told;
mod an_owner_may_die_and_return;
mod ends_of_the_disk;
mod every_kind_of_child_is_ended;
mod extremes_are_survived;
mod frames_of_version_one_are_frozen;
mod input_is_taken_whole_and_once;
mod many_processes_are_ended_alone;
mod one_process_is_ended_alone;
mod output_is_kept_until_acknowledged;
mod setup_failures_are_named;
mod slow_owners_and_outsiders_cost_no_memory;
mod strangers_hinder_nobody;
mod ten_thousand_cycles_leave_nothing;
mod the_keeper_itself_is_killed;
mod the_kernels_odd_answers_are_understood;
mod what_was_gathered_is_sent;
