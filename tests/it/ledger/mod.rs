//! One suite for every store, and what only a store on a disk can suffer.

mod a_foreign_newer_or_damaged_file_is_refused;
mod a_full_disk_stops_new_work_and_lets_running_work_settle;
mod a_lock_of_another_process_is_waited_for;
mod a_writer_killed_at_any_instant_loses_nothing_it_acknowledged;
mod every_store_keeps_the_same_promises;
mod support;
mod the_cost_of_an_append_does_not_depend_on_size;
