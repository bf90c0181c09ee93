"""The client's calls for code without an event loop. There is no logic here: each runs the client's own, and
waits.
"""

from __future__ import annotations

from pyrula.workflows.client.call import Call, Calls
from pyrula.workflows.client.client import WorkflowClient


class BlockingClient(Calls):
    """`WorkflowClient`'s calls, for code without an event loop; from any thread. `with client.blocking as
    calls:` closes it.
    """

    submit = Call(WorkflowClient.submit, "submit")
    submit_many = Call(WorkflowClient.submit_many, "submit_many")
    execute = Call(WorkflowClient.execute, "execute")
    result = Call(WorkflowClient.result, "result")
    trigger = Call(WorkflowClient.trigger, "trigger")
    trigger_many = Call(WorkflowClient.trigger_many, "trigger_many")
    send_event = Call(WorkflowClient.send_event, "send_event")
    flush = Call(WorkflowClient.flush, "flush")
    cancel = Call(WorkflowClient.cancel, "cancel")
    cancel_many = Call(WorkflowClient.cancel_many, "cancel_many")
    retry = Call(WorkflowClient.retry, "retry")
    get = Call(WorkflowClient.get, "get")
    runs = Call(WorkflowClient.runs, "runs")
    why = Call(WorkflowClient.why, "why")
    gates = Call(WorkflowClient.gates, "gates")
    buffers = Call(WorkflowClient.buffers, "buffers")
    override_limit = Call(WorkflowClient.override_limit, "override_limit")
    override_rate = Call(WorkflowClient.override_rate, "override_rate")
    clear_override = Call(WorkflowClient.clear_override, "clear_override")
    pause = Call(WorkflowClient.pause, "pause")
    resume = Call(WorkflowClient.resume, "resume")
    get_limiter_config = Call(WorkflowClient.get_limiter_config, "get_limiter_config")
    set_limiter_config = Call(WorkflowClient.set_limiter_config, "set_limiter_config")
    restamp = Call(WorkflowClient.restamp, "restamp")
