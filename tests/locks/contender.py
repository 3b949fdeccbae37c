"""One contender, run as a process: takes a lock again and again, and notes each token while it holds it.

    python contender.py with_etcd LOCK ROUNDS LOG
"""

from __future__ import annotations

import importlib
import os
import sys

# Far longer than a round takes: nobody is to lose the lock here.
TTL_SECONDS = 30


def main(program: str, lock: str, rounds: str, log: str) -> None:
    hold = importlib.import_module(program).hold
    for _ in range(int(rounds)):
        with hold(lock, TTL_SECONDS) as token, open(log, "a") as notes:
            notes.write(f"{token} {os.getpid()}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
