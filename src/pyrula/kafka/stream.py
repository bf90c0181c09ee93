"""KafkaStream: the topic that feeds a workflow. A declaration only; the consumer reads it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

from pyrula.errors import ConfigurationError
from pyrula.policies.check import check_count, check_name, refusal
from pyrula.policies.key import Key, check_key, name_of

RESERVED: Final = frozenset(
    {"bootstrap.servers", "metadata.broker.list", "group.id", "enable.auto.commit",
     "enable.auto.offset.store", "auto.offset.reset"}
)  # fmt: skip
"""Client settings that this declaration has fields for, or that the promise about offsets rests on."""

ValueFunction = Callable[[bytes | None], object]
"""Makes a JSON value of a record's value as it came; None is a tombstone's."""

_VALUES: Final = ("json", "text", "bytes", "base64")
_TOPIC_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


@dataclass(frozen=True)
class KafkaStream:
    """Process each record of `topic` as one durable run, whose params are `record`.

    group: the consumer group. servers: `host:port`, several by commas or as a sequence. max_concurrency:
    records in flight per worker, parked ones included. key: whose order is kept within a partition; None: the
    record's key, else a field of the value or a function of the record. dead_letter_topic: where a record
    that keeps failing goes; without one it stops its partition. value: how record values are read; "json",
    "text", "bytes" (which a `KafkaRecord` holds; in JSON they are base64), "base64" (text for every body), or a
    function of the bytes (None: a tombstone) that answers with a JSON value: the consumer calls it before the
    run is submitted, and a record for which it raises is a bad one. start: where a new group begins. config:
    further settings of the client library (librdkafka's names).

    A bad value raises `ConfigurationError` where the workflow is declared, not here.
    """

    CONSUMER: ClassVar[str] = "pyrula.kafka.consumer"
    """The module that consumes it: named, not imported, since a declaration needs no client library."""
    EXTRA: ClassVar[str] = "kafka"

    topic: str
    group: str
    servers: str | Sequence[str]
    max_concurrency: int = 16
    key: Key = None
    dead_letter_topic: str | None = None
    value: Literal["json", "text", "bytes", "base64"] | ValueFunction = "json"
    start: Literal["earliest", "latest"] = "earliest"
    config: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def check(self, workflow: str) -> None:
        """Raise `ConfigurationError` unless this can be kept."""
        _check_topic(workflow, "KafkaStream.topic", self.topic)
        check_name(workflow, "KafkaStream.group", self.group)
        if not _are_servers(self.servers):
            raise refusal(workflow, "KafkaStream.servers", self.servers, '"host:port", or a sequence of them')
        check_count(workflow, "KafkaStream.max_concurrency", self.max_concurrency, 100_000)
        check_key(workflow, "KafkaStream.key", self.key)
        if self.dead_letter_topic is not None:
            _check_topic(workflow, "KafkaStream.dead_letter_topic", self.dead_letter_topic)
            if self.dead_letter_topic == self.topic:
                must = "another topic than the one that is read, or its records would fail for ever"
                raise refusal(workflow, "KafkaStream.dead_letter_topic", self.dead_letter_topic, must)
        _check_value(workflow, self.value)
        if self.start not in ("earliest", "latest"):
            raise refusal(workflow, "KafkaStream.start", self.start, '"earliest" or "latest"')
        self._check_config(workflow)

    def _check_config(self, workflow: str) -> None:
        if not _are_settings(self.config):
            raise refusal(
                workflow, "KafkaStream.config", self.config, "a dict of the client library's settings"
            )
        taken = sorted(RESERVED & set(self.config))
        if taken:
            raise ConfigurationError(
                f"workflow {workflow!r}: KafkaStream.config sets {', '.join(taken)}; pyrula sets these from "
                "servers=, group= and start=, and commits offsets by its own rule; leave them out"
            )

    @property
    def bootstrap_servers(self) -> str:
        """The servers as the client library takes them: `host:port,host:port`."""
        servers = self.servers.split(",") if isinstance(self.servers, str) else self.servers
        return ",".join(server.strip() for server in servers)

    def declaration(self) -> dict[str, Any]:
        """This stream as JSON; without `config`, which may hold credentials."""
        return {
            "topic": self.topic,
            "group": self.group,
            "servers": self.bootstrap_servers,
            "max_concurrency": self.max_concurrency,
            "key": {"function": name_of(self.key)} if callable(self.key) else self.key,
            "dead_letter_topic": self.dead_letter_topic,
            "value": {"function": name_of(self.value)} if callable(self.value) else self.value,
            "start": self.start,
        }


def _are_servers(servers: object) -> bool:
    items = servers.split(",") if isinstance(servers, str) else servers
    if not isinstance(items, (list, tuple)) or not items:
        return False
    return all(isinstance(item, str) and item.strip() for item in items)


def _are_settings(config: object) -> bool:
    return isinstance(config, Mapping) and all(isinstance(name, str) for name in config)


def _check_value(workflow: str, value: object) -> None:
    argument = "KafkaStream.value"
    if not callable(value):
        if value not in _VALUES:
            must = '"json", "text", "bytes", "base64", or a function of the value\'s bytes'
            raise refusal(workflow, argument, value, must)
        return
    if inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(type(value).__call__):
        must = "a plain function: a value is read inside the consumer, not awaited"
        raise refusal(workflow, argument, value, must)
    try:
        signature = inspect.signature(value)
    except (ValueError, TypeError):  # one of C may not tell what it takes
        return
    try:
        signature.bind(b"")
    except TypeError as error:
        must = f"callable with the value's bytes alone: {error}"
        raise refusal(workflow, argument, value, must) from None


def _check_topic(workflow: str, argument: str, topic: object) -> None:
    if not isinstance(topic, str) or not 0 < len(topic) <= 249 or not _TOPIC_CHARACTERS.issuperset(topic):
        raise refusal(workflow, argument, topic, "a topic's name: 1 to 249 letters, digits, '.', '_' and '-'")
