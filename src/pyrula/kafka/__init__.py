"""Workflows fed by Kafka: each record is processed as it is consumed, as one durable run."""

from pyrula.kafka.record import KafkaRecord
from pyrula.kafka.stream import KafkaStream

__all__ = ["KafkaRecord", "KafkaStream"]
