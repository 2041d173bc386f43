"""Ranges in doubt, windows, dead letters and replays of a job that fills Replicated tables: the tests of plain ones."""

from __future__ import annotations

import pytest

from tests.integration.job.test_crash_points import (
    job,
    test_a_function_of_foreach_batch_settles_too,
    test_negative_control_without_tokens_records_are_doubled,
)
from tests.integration.job.test_dead_letters import (
    test_dead_letters_are_delivered_once,
    test_offsets_that_kafka_deleted_while_they_were_in_doubt_are_listed_once,
)
from tests.integration.job.test_disagreements import (
    test_compaction_in_a_range_in_doubt,
    test_offsets_rewound,
    test_rows_of_another_sink_are_not_taken_for_its_own,
    test_state_lost_beside_a_checkpoint_that_has_history,
    test_unread_records_are_removed_while_the_job_is_down,
)
from tests.integration.job.test_fan_out import test_each_table_has_its_records_whatever_ends_the_job
from tests.integration.job.test_lost_and_odd import (
    test_a_topic_recreated_between_before_and_the_read,
    test_answer_lost,
    test_lost_checkpoint_other_batch_size_and_a_doubtful_partition_without_new_records,
    test_markers_and_aborted_records_in_a_doubtful_range,
    test_older_driver_is_fenced_and_names_the_owner,
    test_settles_through_the_users_transform,
    test_state_lost_between_the_checks_and_the_claim,
)
from tests.integration.job.test_replay import (
    make_kept,
    test_a_person_decides_where_nothing_can_be_known,
    test_a_reset_and_a_replay_do_not_meet,
    test_forgotten_tokens_are_looked_for,
)
from tests.integration.job.test_rounds import test_a_batch_larger_than_the_window_lands_in_rounds
from tests.integration.test_state_commands import (
    doubtful,
    test_a_partition_without_rows_is_read_with_a_new_checkpoint,
    test_a_running_driver_is_fenced,
    test_all_partitions_of_a_topic_are_resolved_at_once,
    test_resend_after_the_table_changed,
    test_resend_is_refused_while_rows_are_there_in_any_incarnation,
    test_resend_waits_for_an_insert_whose_sender_is_gone,
    test_reset_begins_a_new_incarnation,
    test_rows_that_a_delete_is_about_to_remove_are_not_counted,
    test_rows_that_a_delete_is_about_to_remove_prove_nothing,
    test_rows_that_were_removed_by_hand_are_sent_again,
    test_state_and_checkpoint_are_gone,
    test_the_old_checkpoint_after_a_reset,
    test_what_is_given_up_is_counted,
)

pytestmark = [pytest.mark.slow, pytest.mark.soak]
__all__ = [
    "doubtful",
    "job",
    "make_kept",
    "test_a_batch_larger_than_the_window_lands_in_rounds",
    "test_a_function_of_foreach_batch_settles_too",
    "test_a_partition_without_rows_is_read_with_a_new_checkpoint",
    "test_a_person_decides_where_nothing_can_be_known",
    "test_a_reset_and_a_replay_do_not_meet",
    "test_a_running_driver_is_fenced",
    "test_a_topic_recreated_between_before_and_the_read",
    "test_all_partitions_of_a_topic_are_resolved_at_once",
    "test_answer_lost",
    "test_compaction_in_a_range_in_doubt",
    "test_dead_letters_are_delivered_once",
    "test_each_table_has_its_records_whatever_ends_the_job",
    "test_forgotten_tokens_are_looked_for",
    "test_lost_checkpoint_other_batch_size_and_a_doubtful_partition_without_new_records",
    "test_markers_and_aborted_records_in_a_doubtful_range",
    "test_negative_control_without_tokens_records_are_doubled",
    "test_offsets_rewound",
    "test_offsets_that_kafka_deleted_while_they_were_in_doubt_are_listed_once",
    "test_older_driver_is_fenced_and_names_the_owner",
    "test_resend_after_the_table_changed",
    "test_resend_is_refused_while_rows_are_there_in_any_incarnation",
    "test_resend_waits_for_an_insert_whose_sender_is_gone",
    "test_reset_begins_a_new_incarnation",
    "test_rows_of_another_sink_are_not_taken_for_its_own",
    "test_rows_that_a_delete_is_about_to_remove_are_not_counted",
    "test_rows_that_a_delete_is_about_to_remove_prove_nothing",
    "test_rows_that_were_removed_by_hand_are_sent_again",
    "test_settles_through_the_users_transform",
    "test_state_and_checkpoint_are_gone",
    "test_state_lost_beside_a_checkpoint_that_has_history",
    "test_state_lost_between_the_checks_and_the_claim",
    "test_the_old_checkpoint_after_a_reset",
    "test_unread_records_are_removed_while_the_job_is_down",
    "test_what_is_given_up_is_counted",
]
