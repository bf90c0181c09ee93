"""Lets Python remember the threads of the SDK's native part.

A thread that Python has not made is made known to it for one call and forgotten after it, and with it the memory of
its frames, which goes back to the machine: 8 µs for a call that does nothing, and a word to each core that the process
runs on. The SDK makes some six such calls for an activity, three of them to a slot supplier.
"""

from __future__ import annotations

import ctypes
import threading

_here = threading.local()


def remember() -> None:
    """Have this thread remembered until the program ends, as one that Python has made is until its own end."""
    try:
        _here.remembered  # noqa: B018 - whether it is there; a thread that is forgotten forgets this as well
    except AttributeError:
        # Whoever calls says PyGILState_Release once for what it has said itself; the count that this adds stays.
        ctypes.pythonapi.PyGILState_Ensure()
        _here.remembered = True
