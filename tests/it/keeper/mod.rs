//! The keeper alone, driven without Ostler.

mod an_owner_may_die_and_return;
mod every_kind_of_child_is_ended;
mod frames_of_version_one_are_frozen;
mod input_is_taken_whole_and_once;
mod one_process_is_ended_alone;
mod output_is_kept_until_acknowledged;
mod setup_failures_are_named;
mod ten_thousand_cycles_leave_nothing;
mod the_keeper_itself_is_killed;
