"""Flow-control policies: values that are declared on a workflow, stamped on its runs and kept by the
store."""

from pyrula.policies.collect import Collect
from pyrula.policies.debounce import Debounce
from pyrula.policies.fairness import Fairness
from pyrula.policies.limit import Limit
from pyrula.policies.rate import Rate
from pyrula.policies.retry import Retry
from pyrula.policies.schedule import Cron, Every

__all__ = ["Collect", "Cron", "Debounce", "Every", "Fairness", "Limit", "Rate", "Retry"]
