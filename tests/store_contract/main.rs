//! The same tests for every backend of the store.

#![expect(clippy::unwrap_used, clippy::print_stdout, unreachable_pub, reason = "tests fail by panicking and print their seeds")]

mod adds;
mod changes;
mod copies;
mod cut;
mod damage;
mod disk;
mod harness;
mod history;
mod locked;
mod lost;
mod opened;
mod parts;
#[expect(dead_code, reason = "other tests ask it more")]
#[path = "../it/harness/postgres.rs"]
mod postgres;
#[expect(dead_code, reason = "other tests look at more of a process")]
#[path = "../it/harness/process.rs"]
mod process;
mod questions;
#[path = "../it/harness/random.rs"]
mod random;
mod renewal;
mod repaired;
mod room;
mod start;
mod tables;
mod walked;

use harness::{FaultyStore, MemoryStore, folder, in_database, open};
use opened::Twins;
use renewal::Renewed;

/// Runs each test once per backend, on its own store.
macro_rules! contract {
    ($($file:ident::$question:ident),* $(,)?) => {
        mod memory { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $question() { super::$file::$question(super::MemoryStore::new()).await; }
        )* }
        mod sled { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $question() {
                let folder = super::folder();
                super::$file::$question(super::open(&folder)).await;
            }
        )* }
        mod renewed { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $question() {
                let folder = super::folder();
                super::$file::$question(super::Renewed::open(&folder)).await;
            }
        )* }
        mod database { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $question() { super::$file::$question(super::in_database().await).await; }
        )* }
        mod faulty { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $question() { super::$file::$question(super::FaultyStore::new(super::MemoryStore::new())).await; }
        )* }
    };
}

contract! {
    questions::absent_key_has_no_value,
    questions::written_value_is_read_back,
    questions::values_of_every_size_are_read_back,
    questions::large_value_yields_to_a_small_one,
    questions::empty_key_and_value_are_a_key_and_a_value,
    questions::scan_is_in_key_order,
    questions::scan_keeps_to_its_limit_from_either_end,
    questions::scan_ends_with_the_pair_that_brings_it_to_its_bytes,
    questions::bounds_are_kept,
    questions::pages_follow_each_other,
    questions::prefix_of_0xff_reaches_the_end_of_its_space_only,
    questions::spaces_do_not_mix,
    questions::failed_check_leaves_nothing,
    questions::absent_check_wants_absence,
    questions::check_compares_whole_values,
    questions::checks_span_spaces,
    questions::many_writes_are_all_or_nothing,
    questions::deleted_key_is_gone,
    questions::same_key_twice_takes_the_last_write,
    questions::too_long_is_refused_and_nothing_written,
    questions::commit_without_writes_still_checks,
    questions::concurrent_increments_lose_nothing,
    questions::one_of_many_claims_wins,
    questions::scan_never_sees_half_a_commit,
    history::random_history_matches_a_map,
    questions::sizes_match_the_rows,
    questions::keys_of_every_byte_are_kept_up_to_the_limit,
    questions::count_is_of_what_a_range_has,
    questions::absent_checks_of_keys_not_written_exclude_each_other,
    questions::checks_of_other_keys_exclude_writes,
    questions::crossing_commits_do_not_wait_for_each_other,
    questions::one_failed_absent_check_leaves_the_others_absent,
    adds::additions_start_from_nothing_and_answer_their_sums,
    adds::additions_keep_to_their_limits,
    adds::additions_of_one_batch_are_decided_in_order,
    adds::additions_go_with_their_checks,
    adds::concurrent_additions_do_not_conflict_and_stop_at_the_limit,
    adds::sums_stop_at_the_limits_of_their_numbers,
    adds::value_that_is_not_a_sum_is_not_added_to,
    changes::changes_report_each_commit_once_and_whole,
    changes::failed_commits_report_no_changes,
    changes::changes_follow_in_pages,
    changes::expired_changes_are_reported_as_gone,
    changes::concurrent_changes_leave_no_gap,
    copies::a_copy_holds_every_row_and_fills_another_store,
    copies::a_store_is_filled_with_what_a_copy_holds_and_nothing_else,
    copies::copy_under_commits_is_consistent,
    copies::a_dump_is_read_as_it_was_written,
    tables::rows_are_read_as_they_were_put,
    tables::rows_that_do_not_read_are_reported,
    tables::ranges_are_of_one_table_and_start,
    tables::entries_of_an_index_go_with_their_rows,
    tables::a_row_that_changed_is_not_replaced,
    tables::concurrent_updates_lose_nothing,
    tables::updates_hold_what_they_read,
    tables::hopeless_update_gives_up,
    tables::an_update_that_refuses_writes_nothing,
    questions::faults_are_as_planned,
}

/// Runs each test on two stores in one database, as with two hosts; and again with serializable
/// transactions only.
macro_rules! contract_of_twins {
    ($($file:ident::$question:ident),* $(,)?) => {
        mod twins { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $question() { super::$file::$question(super::Twins::open().await).await; }
        )* }
        mod serializable { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $question() { super::$file::$question(super::Twins::serializable().await).await; }
        )* }
    };
}

contract_of_twins! {
    questions::absent_check_wants_absence,
    questions::many_writes_are_all_or_nothing,
    questions::concurrent_increments_lose_nothing,
    questions::one_of_many_claims_wins,
    questions::scan_never_sees_half_a_commit,
    questions::absent_checks_of_keys_not_written_exclude_each_other,
    questions::checks_of_other_keys_exclude_writes,
    questions::crossing_commits_do_not_wait_for_each_other,
    questions::one_failed_absent_check_leaves_the_others_absent,
    history::random_history_matches_a_map,
    adds::concurrent_additions_do_not_conflict_and_stop_at_the_limit,
    changes::changes_report_each_commit_once_and_whole,
    changes::concurrent_changes_leave_no_gap,
    tables::concurrent_updates_lose_nothing,
}
