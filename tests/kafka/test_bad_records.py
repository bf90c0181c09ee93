"""Records that fail for good: a dead letter that says why, or one partition that stops and says why."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from urllib.parse import quote

from pyrula.kafka import KafkaRecord
from pyrula.web import create_app
from pyrula.web.access import Tokens
from pyrula.workflows import Registry
from tests.kafka.scene import Scene, at, stats
from tests.web.conftest import asking, bearer


class Poisoned(Exception):
    pass


async def orders(ctx, record):
    if record["value"] == "poison":
        raise Poisoned("it can't be eaten")


async def test_a_poison_record_goes_to_the_dead_letter_topic_with_the_reason(broker, topic, caplog):
    async with Scene(broker, topic(2), 2) as scene:
        letters = topic(1)
        scene.declare(orders, dead_letter_topic=letters)
        values = ["good", "good", "poison", b"{no json", *["good"] * 6]
        scene.send(values, key=lambda n: f"key-{n % 2}")
        worker = await scene.work()
        await scene.until(lambda: stats(worker).finished == len(values))
        assert stats(worker).dead_letters == 2
        await worker.stop()
        assert scene.committed() == [5, 5]
        found = {}
        for message in broker.all_of(letters, 1, 2):
            headers = {name: value.decode() for name, value in message.headers()}
            found[headers["pyrula.error.code"]] = (message.key(), message.value(), headers)
        assert set(found) == {"Poisoned", "not_json"}
        logged = [each.getMessage() for each in caplog.records if each.name == "pyrula.kafka"]
        for n, partition, why in ((1, 0, "Poisoned: it can't be eaten"), (1, 1, "not_json: ")):
            at_it = [text for text in logged if scene.id(partition, n) in text and why in text]
            assert len(at_it) == 1 and f"is in {letters}" in at_it[0], logged
        key, value, headers = found["Poisoned"]
        assert (key, value) == (b"key-0", b'"poison"')
        assert headers["pyrula.error.message"] == "it can't be eaten"
        assert headers["pyrula.run-id"] == scene.id(0, 1)
        where = (headers["pyrula.topic"], headers["pyrula.partition"], headers["pyrula.offset"])
        assert where == (scene.topic, "0", "1")
        assert found["not_json"][:2] == (b"key-1", b"{no json")
        assert await scene.states([scene.id(1, 1)]) == [None]


async def test_without_one_a_poison_record_stops_its_partition_alone_until_it_is_retried(broker, topic):
    async with Scene(broker, topic(2), 2) as scene:
        cured = False

        async def orders(ctx, record):
            if record["value"] == "poison" and not cured:
                raise Poisoned("it can't be eaten")

        scene.declare(orders, max_concurrency=2)
        scene.send(["good", "good", "poison", *["good"] * 17])
        worker = await scene.work()
        poison = scene.id(0, 1)
        await scene.until(lambda: at(worker, 1).committed == 10)
        await scene.until_state(poison, "failed")
        await scene.until(lambda: at(worker, 0).stopped is not None)
        assert at(worker, 1).stopped is None
        assert stats(worker).in_flight == 0

        async def told() -> str:
            return (await scene.client.why(poison))["text"]

        while "has stopped" not in (text := await told()):
            await scene.store.clock.sleep(20_000)
        assert f"Partition {scene.topic}/0 has stopped at it, on worker one" in text
        assert "Poisoned: it can't be eaten; retry run" in text
        (facts,) = (await scene.store.workers())[0]["facts"]["streams"]
        assert [one["run_id"] for one in facts["stopped"]] == [poison]
        cured = True
        await scene.client.retry(poison)
        await scene.until(lambda: at(worker, 0).committed == 10)
        assert at(worker, 0).stopped is None


async def test_a_record_that_no_run_can_be_made_of_stops_its_partition_and_why_knows_it_by_its_id(
    broker, topic
):
    async with Scene(broker, topic(2), 2) as scene:
        scene.declare(orders)
        scene.send(["good", "good", "good", b"\xff", "good", "good"])
        worker = await scene.work()
        await scene.until(lambda: at(worker, 0).committed == 3)
        await scene.until(lambda: at(worker, 1).committed == 1)
        bad = scene.id(1, 1)
        while await scene.store.why(bad) is None:
            await scene.store.clock.sleep(20_000)
        answer = await scene.client.why(bad)
        assert answer["state"] == "refused"
        assert "not_json" in answer["text"] and "declare a dead_letter_topic" in answer["text"]
        await worker.stop()
        assert scene.committed() == [3, 1]


async def test_the_command_line_and_http_know_such_a_record_too(broker, topic, tmp_path):
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Scene(broker, topic(1), 1, store=url) as scene:
        scene.declare(orders)
        scene.send([b"{no json"])
        await scene.work()
        bad = scene.id(0, 0)
        while await scene.store.why(bad) is None:
            await scene.store.clock.sleep(20_000)
        command = [sys.executable, "-m", "pyrula", "why", bad, "--store", url]
        told = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
        assert told.returncode == 0, told.stderr
        assert "No run could be made of it" in told.stdout
        assert f"partition {scene.topic}/0 has stopped at it" in told.stdout and "not_json" in told.stdout
        tokens = Tokens(
            lines=["a full " + "a" * 16, "b submit:orders " + "b" * 16, "c submit:other " + "c" * 16]
        )
        app = create_app(scene.store, registry=scene.registry, tokens=tokens)
        where = f"/runs/{quote(bad, safe='')}/why"
        for letter, status in (("a", 200), ("b", 200), ("c", 404)):
            async with asking(app, bearer(letter * 16)) as http:
                answer = await http.get(where)
                assert answer.status_code == status, answer.text
                assert ("declare a dead_letter_topic" in answer.text) is (status == 200)


async def test_a_stopped_partition_goes_on_with_a_worker_that_has_a_dead_letter_topic(broker, topic):
    async with Scene(broker, topic(1), 1) as scene:
        scene.declare(orders)
        scene.send(["good", "poison", b"{", "good"])
        worker = await scene.work()
        await scene.until(lambda: at(worker, 0).stopped is not None and at(worker, 0).committed == 1)
        await worker.stop()
        letters = topic(1)
        scene.registry = Registry()
        scene.declare(orders, dead_letter_topic=letters)
        again = await scene.work("again")
        await scene.until(lambda: at(again, 0).committed == 4)
        assert stats(again).dead_letters == 2
        assert {message.value() for message in broker.all_of(letters, 1, 2)} == {b'"poison"', b"{"}


def read_order(value: bytes | None) -> object:
    if value == b"not json":
        return {"when": {1, 2}}
    return json.loads(value or b"null")["order"]


async def test_a_value_function_makes_the_params_and_a_record_it_fails_for_is_a_dead_letter(broker, topic):
    async with Scene(broker, topic(1), 1) as scene:
        letters, seen = topic(1), []

        async def orders(ctx, record):
            seen.append(record["value"])

        scene.declare(orders, dead_letter_topic=letters, value=read_order)
        scene.send([{"order": 7}, {"parcel": 8}, b"not json", {"order": {"id": 9}}])
        worker = await scene.work()
        await scene.until(lambda: stats(worker).finished == 4)
        await worker.stop()
        assert scene.committed() == [4]
        assert sorted(seen, key=str) == [7, {"id": 9}]
        assert await scene.states([scene.id(0, 1), scene.id(0, 2)]) == [None, None]
        found = {}
        for message in broker.all_of(letters, 1, 2):
            headers = {name: value.decode() for name, value in message.headers()}
            found[message.value()] = (headers["pyrula.error.code"], headers["pyrula.error.message"])
        name = f"value function {__name__}.read_order"
        assert found[b'{"parcel": 8}'] == (
            "invalid_payload",
            f"record.value: {name} raised KeyError: 'order'",
        )
        code, message = found[b"not json"]
        assert code == "not_json"
        assert message.startswith(f"{name} answered what is no JSON value: record.value.when: set ")


async def test_without_a_dead_letter_topic_it_stops_its_partition_and_says_which_function_failed(
    broker, topic
):
    async with Scene(broker, topic(1), 1) as scene:
        scene.declare(orders, value=read_order)
        scene.send([{"order": 7}, {"parcel": 8}, {"order": 9}])
        worker = await scene.work()
        await scene.until(lambda: at(worker, 0).stopped is not None and at(worker, 0).committed == 1)
        assert "read_order raised KeyError: 'order'" in at(worker, 0).stopped


async def test_a_body_that_takes_a_record_is_handed_bytes_that_no_text_could_be(broker, topic):
    async with Scene(broker, topic(1), 1) as scene:
        seen = []

        async def orders(ctx, record: KafkaRecord):
            seen.append(record.value)

        scene.declare(orders, value="bytes")
        scene.send([b"\xff\x00", b"{no json", b"x"])
        worker = await scene.work()
        await scene.until(lambda: at(worker, 0).committed == 3)
        assert sorted(seen) == [b"x", b"{no json", b"\xff\x00"]
        kept = await scene.store.get(scene.id(0, 0))
        assert (kept.params["record"]["value"], kept.params["record"]["encoding"]) == ("/wA=", "base64")
