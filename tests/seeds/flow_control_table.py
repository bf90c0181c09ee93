"""The seed of flow control: its text cut into units, and for each unit the tests that prove it.

A unit is a sentence, a row of the table, an example, or a comment in an example. Headings are no promises.
test_flow_control_table.py fails if a unit has no row here, or a row names a test that does not exist.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

SEED: Final = Path(__file__).with_name("flow_control.txt")
HEADINGS: Final = ("Flow control", "Keys", "Batching and debouncing events")
_CODE: Final = ("from ", "@", "Limit(", "client = ", "async def ")


def blocks(text: str) -> list[str]:
    """Paragraphs of the seed; the code of one example is one of them."""
    found: list[str] = []
    for paragraph in text.strip().split("\n\n"):
        if found and is_code(paragraph) and is_code(found[-1]):
            found[-1] += "\n\n" + paragraph
        else:
            found.append(paragraph)
    return found


def is_code(paragraph: str) -> bool:
    """Whether a paragraph is code."""
    return paragraph.startswith(_CODE)


def examples(text: str) -> list[str]:
    """The examples, as they stand."""
    return [block for block in blocks(text) if is_code(block)]


def units(text: str) -> list[str]:
    """Everything the seed says, a unit at a time, in its order."""
    found: list[str] = []
    for block in blocks(text):
        if block in HEADINGS:
            continue
        if is_code(block):
            found.append(block.splitlines()[0])
            found += re.findall(r"# .+", block)
        elif "\t" in block:
            found += block.splitlines()
        else:
            found += re.split(r"(?<=[.:])\s+(?=[A-Z])", block.replace("\n", " "))
    return found


_HERE: Final = "tests/seeds/test_flow_control.py::"
_EXAMPLES: Final = "tests/seeds/test_flow_control_examples.py::"
_HTTP: Final = "tests/seeds/test_http_paths.py::"

TABLE: Final[dict[str, tuple[str, ...]]] = {
    "Flow control is declared on the workflow and enforced by the store when a worker claims a run.": (
        _EXAMPLES + "test_example_1_is_a_workflow_with_two_gates",
        _HERE + "test_the_store_enforces_at_the_claim_over_all_workers",
    ),
    "Nothing in the body changes.": (
        _EXAMPLES + "test_example_1_is_a_workflow_with_two_gates",
        "tests/workflows/test_declaration.py::test_a_declared_workflow_is_still_the_function_it_was",
    ),
    "from pyrula.workflows import Limit, Rate, workflow": (
        _EXAMPLES + "test_example_1_is_a_workflow_with_two_gates",
        _EXAMPLES + "test_example_1_starts_ten_then_five_a_second",
    ),
    "Here at most two sync_account runs per tenant execute at once, and each tenant starts at most 5 per second "
    "(bursts of 10).": (
        _HERE + "test_at_most_two_runs_per_tenant_execute_at_once",
        _HERE + "test_each_tenant_starts_at_most_five_per_second_in_bursts_of_ten",
        _EXAMPLES + "test_example_1_starts_ten_then_five_a_second",
    ),
    "A run over the limit stays queued until a slot or token frees up; it is never dropped.": (
        _HERE + "test_a_run_over_the_limit_stays_queued_until_a_slot_frees_up",
        _HERE + "test_a_run_over_the_rate_stays_queued_until_a_token_frees_up",
        "tests/conformance/test_histories.py::test_no_history_leaks_a_slot_or_strands_a_run",
    ),
    "Policy\tArguments\tGate": (_HERE + "test_policies_take_the_arguments_of_the_table",),
    "Limit\tkey, max\tat most max runs per key executing at once": (
        _HERE + "test_policies_take_the_arguments_of_the_table",
        _HERE + "test_at_most_two_runs_per_tenant_execute_at_once",
    ),
    "Rate\tkey, per_second, burst=None\ttoken bucket per key; burst defaults to ceil(per_second)": (
        _HERE + "test_policies_take_the_arguments_of_the_table",
        _HERE + "test_each_tenant_starts_at_most_five_per_second_in_bursts_of_ten",
        _HERE + "test_the_burst_defaults_to_per_second_rounded_up",
        "tests/policies/test_policies.py::test_burst_defaults_to_per_second_rounded_up",
    ),
    "Collect\tkey, max_events, window_seconds\tbuffer events per key; start one run at max_events or after "
    "window_seconds": (
        _HERE + "test_policies_take_the_arguments_of_the_table",
        _HERE + "test_collect_starts_one_run_at_max_events",
        _HERE + "test_collect_starts_one_run_after_its_window",
    ),
    "Debounce\tkey, window_seconds\tbuffer events per key; start one run once they’ve been quiet for "
    "window_seconds": (
        _HERE + "test_policies_take_the_arguments_of_the_table",
        _HERE + "test_debounce_starts_one_run_once_events_have_been_quiet",
    ),
    "key is a parameter name or a function of the params:": (
        _EXAMPLES + "test_example_2_keys_on_a_parameter_and_on_a_computed_value",
        _HERE + "test_a_computed_key_is_a_key",
    ),
    'Limit(key="tenant_id", max=2)                               # params["tenant_id"]': (
        _EXAMPLES + "test_example_2_keys_on_a_parameter_and_on_a_computed_value",
    ),
    '# params["tenant_id"]': (_EXAMPLES + "test_example_2_keys_on_a_parameter_and_on_a_computed_value",),
    "# computed": (
        _EXAMPLES + "test_example_2_keys_on_a_parameter_and_on_a_computed_value",
        _HERE + "test_a_computed_key_is_a_key",
    ),
    'A missing parameter resolves to "", so every run without it shares one bucket.': (
        _HERE + "test_runs_without_the_parameter_share_one_bucket",
        "tests/policies/test_keys.py::test_a_missing_parameter_none_and_empty_text_share_one_bucket",
    ),
    "Runs that share a Limit or Rate key always land on the same shard, so the counter is exact.": (
        _HERE + "test_runs_that_share_a_key_land_on_the_same_shard",
        "tests/policies/test_stamps.py::test_runs_that_share_a_key_are_routed_together",
    ),
    "The flip side: a tenant that gates everything on one key gets one shard’s worth of throughput for that "
    "gate.": (_HERE + "test_runs_that_share_a_key_land_on_the_same_shard",),
    "See Fairness across tenants for how claims are shared between tenants.": (
        _HERE + "test_tenants_with_waiting_runs_take_turns",
        "tests/admission/test_fairness.py::test_busy_units_behind_one_gate_share_it_by_weight",
    ),
    "The policy is stamped when the run is submitted, by whichever path submits it: a WorkflowClient, HTTP, "
    "ctx.run_child, a schedule or a trigger.": (
        _HERE + "test_the_policy_is_stamped_whichever_path_submits",
        _HTTP + "test_a_run_submitted_by_http_is_stamped_like_the_clients",
    ),
    "Changing the decorator affects new runs, not queued ones.": (
        _HERE + "test_changing_the_decorator_affects_new_runs_and_not_queued_ones",
        "tests/conformance/test_steering.py::test_a_new_declaration_changes_queued_runs_only_by_restamp",
    ),
    "Collect and Debounce turn a stream of events into fewer runs.": (
        _HERE + "test_collect_starts_one_run_at_max_events",
        _HERE + "test_debounce_starts_one_run_once_events_have_been_quiet",
    ),
    "Send events with client.trigger or POST /{name}/events; the run receives key, events and count:": (
        _HERE + "test_the_run_of_a_batch_receives_key_events_and_count",
        _EXAMPLES + "test_example_3_buffers_the_event_until_the_batch_fires",
        _HTTP + "test_an_event_sent_by_http_goes_where_the_clients_goes",
    ),
    "from pyrula.workflows import Collect, WorkflowClient, workflow": (
        _EXAMPLES + "test_example_3_buffers_the_event_until_the_batch_fires",
    ),
    "# None until the batch fires": (
        _EXAMPLES + "test_example_3_buffers_the_event_until_the_batch_fires",
        _HERE + "test_trigger_answers_the_run_id_only_to_the_event_that_completes_a_batch",
    ),
    "trigger returns the new run’s id when an event completes a Collect batch, else None.": (
        _HERE + "test_trigger_answers_the_run_id_only_to_the_event_that_completes_a_batch",
    ),
    "Time-based fires (a Collect window, any Debounce) are submitted by the worker’s trigger loop.": (
        _HERE + "test_time_based_fires_are_submitted_by_the_worker",
    ),
    "A triggered workflow can also take concurrency= and rate_limit=.": (
        _HERE + "test_a_triggered_workflow_takes_concurrency_and_rate_limit",
    ),
    'Key those on "key", the batch key, since the run’s params are the batch and not the raw event.': (
        _HERE + "test_gates_of_a_triggered_workflow_are_keyed_on_the_batch_key",
    ),
    "A Kafka-bound workflow can’t take concurrency, rate_limit or trigger: records are processed as they’re "
    "consumed, so binding one raises ConfigurationError.": (
        _HERE + "test_a_kafka_bound_workflow_takes_no_store_policy",
        "tests/workflows/test_declaration.py::test_a_kafka_bound_workflow_takes_no_flow_control",
    ),
    "Throttle a stream with max_concurrency and the partition count.": (
        _HERE + "test_a_kafka_bound_workflow_takes_no_store_policy",
        "tests/kafka/test_stream_declaration.py::test_a_stream_of_three_names_is_enough",
    ),
}
"""Unit → the tests that prove it, as pytest names them."""
