"""Dead letters: records that keep failing, as they came, with headers that say why."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from pyrula.kafka.record import Raw
from pyrula.kafka.stream import KafkaStream

_log = logging.getLogger("pyrula.kafka")
_SHARED: Final = (
    "security.", "sasl.", "ssl.", "enable.ssl", "oauth", "socket.", "broker.", "metadata.", "reconnect.",
    "client.id", "client.dns", "api.version", "compression.", "message.max.bytes", "debug", "log",
)  # fmt: skip
"""Settings of the stream's `config` that a producer takes, too."""
_FLUSH_SECONDS: Final = 10.0
_LARGEST: Final = 100_000_000
_LONGEST_MESSAGE: Final = 4096


class Reason(NamedTuple):
    """Why a record can't be processed. code: stable; message: for people."""

    code: str
    message: str


class Refused(Exception):
    """The broker will not take a dead letter, however often it is sent."""


class DeadLetters:
    """Writes to a stream's dead-letter topic. A letter may be there twice if its writer was killed meanwhile."""

    def __init__(self, workflow: str, stream: KafkaStream, topic: str) -> None:
        self._workflow, self._stream, self._topic = workflow, stream, topic
        self._producer: Producer | None = None

    async def write(self, run_id: str, raw: Raw, reason: Reason) -> None:
        """Return when the broker has it. Raises `KafkaException` to be tried again, `Refused` if in vain."""
        await asyncio.to_thread(self._write, run_id, raw, reason)
        _log.warning("record %s is in %s: %s: %s", run_id, self._topic, reason.code, reason.message)

    def _write(self, run_id: str, raw: Raw, reason: Reason) -> None:
        producer = self._producer = self._producer or Producer(self._settings())
        delivered: list[KafkaError | None] = []
        try:
            producer.produce(
                self._topic,
                raw.value,
                raw.key,
                timestamp=raw.timestamp or 0,
                headers=[*raw.headers, *self._headers(run_id, raw, reason)],
                on_delivery=lambda error, message: _note(delivered, error, message),
            )
            producer.flush(_FLUSH_SECONDS)
        except KafkaException as error:
            raise _sorted(error.args[0]) from error
        except BufferError as error:
            raise KafkaException(KafkaError(KafkaError._QUEUE_FULL)) from error
        if not delivered:
            producer.purge()
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        if delivered[0] is not None:
            raise _sorted(delivered[0])

    def _headers(self, run_id: str, raw: Raw, reason: Reason) -> Sequence[tuple[str, bytes]]:
        told = {
            "pyrula.error.code": reason.code,
            "pyrula.error.message": reason.message[:_LONGEST_MESSAGE],
            "pyrula.workflow": self._workflow,
            "pyrula.run-id": run_id,
            "pyrula.topic": self._stream.topic,
            "pyrula.partition": str(raw.partition),
            "pyrula.offset": str(raw.offset),
        }
        return [(name, value.encode(errors="replace")) for name, value in told.items()]

    def _settings(self) -> dict[str, Any]:
        shared = {name: value for name, value in self._stream.config.items() if name.startswith(_SHARED)}
        return {
            "message.max.bytes": _LARGEST,
            "message.timeout.ms": 8000,
            "linger.ms": 0,
            **shared,
            "bootstrap.servers": self._stream.bootstrap_servers,
        }


def _note(delivered: list[KafkaError | None], error: KafkaError | None, message: Message) -> None:
    delivered.append(error)


_IN_VAIN: Final = frozenset(
    {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.INVALID_RECORD,
     KafkaError.TOPIC_EXCEPTION, KafkaError.POLICY_VIOLATION, KafkaError.RECORD_LIST_TOO_LARGE}
)  # fmt: skip


def _sorted(error: KafkaError) -> Exception:
    return Refused(error.str()) if error.code() in _IN_VAIN else KafkaException(error)
