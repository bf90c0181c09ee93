"""What a call refuses before anything is stored."""

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from pyrula.errors import ConfigurationError, InvalidPayload, NotJson
from pyrula.testing import Environment
from pyrula.workflows import Context, Registry, prepare, workflow
from pyrula.workflows.client import steering

HALF_SECOND = 500_000


def test_durations_are_seconds_or_timedeltas():
    assert prepare.options(delay=0.5).delay == HALF_SECOND
    assert prepare.options(delay=timedelta(milliseconds=500)).delay == HALF_SECOND
    assert prepare.options(delay=0) == prepare.options()
    assert prepare.options(expires_in=timedelta(minutes=1)).expires_in == 60_000_000


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), "5", True])
def test_a_bad_delay_is_named_with_its_value(delay):
    with pytest.raises(InvalidPayload, match="delay is "):
        prepare.options(delay=delay)


def test_an_expiry_of_nothing_is_refused():
    with pytest.raises(InvalidPayload, match="expires_in is 0"):
        prepare.options(expires_in=0)


def test_a_delay_beside_run_at_is_refused():
    with pytest.raises(InvalidPayload, match="one of them"):
        prepare.options(delay=1, run_at=datetime(2026, 1, 1, tzinfo=UTC))


def test_run_at_is_an_instant_whatever_its_zone():
    here = datetime(2026, 1, 1, 12, tzinfo=UTC)
    there = here.astimezone(tz=None)
    assert (
        prepare.options(run_at=here).run_at == prepare.options(run_at=there).run_at == 1_767_268_800_000_000
    )


def test_a_naive_datetime_is_refused_and_told_why():
    with pytest.raises(InvalidPayload, match="no time zone") as caught:
        prepare.options(run_at=datetime(2026, 1, 1))
    assert "replace(tzinfo=UTC)" in str(caught.value)


@pytest.mark.parametrize("run_id", ["", "a\nb", "x" * 501, 7, "\x00"])
def test_a_run_id_is_text_that_people_can_read(run_id):
    with pytest.raises(InvalidPayload, match="run_id is "):
        prepare.named("submit: run_id", run_id)


def test_params_must_be_a_json_object():
    assert prepare.json_object(None, "params") == {}
    with pytest.raises(NotJson, match="params: list"):
        prepare.json_object([1], "params")


def test_a_key_of_a_number_is_the_key_of_its_text():
    assert prepare.stored_key(1) == prepare.stored_key("1") == "1"
    assert prepare.stored_key(None) is None
    assert prepare.stored_key("") == ""


def test_a_pause_until_a_moment_that_has_passed_is_refused():
    wall = 1_000_000_000_000_000
    assert prepare.moment("pause: until", 5, wall) == 5_000_000
    assert prepare.moment("pause: until", datetime.fromtimestamp(1_000_000_007, UTC), wall) == 7_000_000
    with pytest.raises(InvalidPayload, match="has passed"):
        prepare.moment("pause: until", datetime(1999, 1, 1, tzinfo=UTC), wall)


@pytest.mark.parametrize("number", [0, -1, 1.5, True, "2"])
def test_an_override_is_checked_as_a_declaration_is(number):
    with pytest.raises(ConfigurationError, match=r"sync\.limit"):
        steering.limit_number("sync.limit", number)


def test_an_override_of_a_rate_keeps_fractions_exact():
    assert steering.rate_number("sync.rate", 7.3, 13) == (73, 10, 13)
    assert steering.rate_number("sync.rate", 5, None) == (5, 1, 5)
    with pytest.raises(ConfigurationError, match=r"sync\.rate.*per_second"):
        steering.rate_number("sync.rate", 0, None)


def test_a_listing_of_a_state_that_does_not_exist_names_those_that_do():
    with pytest.raises(ValueError, match="executing"):
        steering.check_listing("running", 10)
    with pytest.raises(ValueError, match="limit is 0"):
        steering.check_listing(None, 0)


HALF = "half of a pair: \ud83d"


@pytest.mark.parametrize("wrong", [None, 7, True, b"run", ["run"], ("run",), 2**70, object(), HALF])
async def test_what_is_no_name_is_refused_at_the_call_and_disturbs_nobody_who_waits(wrong):
    async with Environment(workflows=Registry(), worker=False) as env:
        client = env.client
        calls = [
            client.get(wrong),
            client.why(wrong),
            client.result(wrong),
            client.cancel(wrong),
            client.cancel_many([wrong]),
            client.retry(wrong),
            client.send_event(wrong, "go"),
            client.submit(wrong),
            client.restamp(wrong),
            client.flush(wrong),
            client.override_limit(wrong, max=1),
            client.override_rate(wrong, per_second=1),
            client.clear_override(wrong),
            client.pause(wrong),
            client.resume(wrong),
            client.get_limiter_config(wrong),
            *([] if wrong is None else [client.gates(wrong), client.buffers(wrong), client.runs(wrong)]),
        ]
        for call in calls:
            with pytest.raises(InvalidPayload):
                await call


class Name(str):
    """Text of a class of the caller's own, as pathlib's or an enum's members are."""

    def __str__(self) -> str:
        return "something else"


async def test_a_name_of_a_class_of_its_own_is_its_text_and_disturbs_nobody_who_waits():
    registry = Registry()

    @workflow(registry=registry)
    async def work(ctx: Context) -> str:
        await env.sleep(5)
        return str(ctx.run_id)

    async with Environment(workflows=registry) as env:
        for run_id in ("other", Name("named")):
            answered = await env.client.submit("work", run_id=run_id)
            assert (type(answered), answered) == (str, str.__str__(run_id))
        results = asyncio.gather(*(env.client.result(run_id) for run_id in ("other", Name("named"))))
        assert await env.until(results) == ["other", "named"]


@pytest.mark.parametrize("timeout", [-1, True, "5", float("nan")])
async def test_a_run_is_not_submitted_whose_result_cannot_be_waited_for(timeout):
    registry = Registry()

    @workflow(registry=registry)
    async def work(ctx: Context) -> None: ...

    async with Environment(workflows=registry) as env:
        with pytest.raises(InvalidPayload, match="execute: timeout is"):
            await env.client.execute("work", timeout=timeout)
        assert await env.client.runs() == []


def test_an_override_that_is_no_number_is_refused_whatever_its_comparisons_raise():
    with pytest.raises(ConfigurationError, match=r"override of Limit\.max is Decimal\('sNaN'\)"):
        steering.limit_number("gate", Decimal("sNaN"))


async def test_one_value_where_several_belong_is_refused():
    async with Environment(workflows=Registry(), worker=False) as env:
        for one in ("ab", b"ab", 7, {"a": 1}, None):
            with pytest.raises(InvalidPayload, match=r"cancel_many: run_ids .* must be a list"):
                await env.client.cancel_many(one)


def test_a_cursor_that_no_page_gave_is_refused():
    for cursor in ("17", "17.4.", ""):
        steering.check_listing(None, 1, cursor)
    for cursor in (17, "x", "-1", "9" * 19, "1.5e3", "\u0663", HALF, ["1"]):
        with pytest.raises(InvalidPayload, match="cursor"):
            steering.check_listing(None, 1, cursor)


async def test_a_page_of_gates_is_as_long_as_an_int_says():
    async with Environment(workflows=Registry(), worker=False) as env:
        for limit in (0, -1, True, 1.5, "10", None, 2**70):
            with pytest.raises(InvalidPayload, match="gates: limit"):
                await env.client.gates(limit=limit)


async def test_a_cursor_of_a_store_of_other_shards_is_refused():
    async with Environment(workflows=Registry(), worker=False) as env:
        for cursor in ("17.4", "..", "17."):
            with pytest.raises(InvalidPayload, match="cursor"):
                await env.client.runs(cursor=cursor)
