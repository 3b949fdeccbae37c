"""Waiting for what comes by itself."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(holds: Callable[[], bool], what: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)
