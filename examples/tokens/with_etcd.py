"""Holds a lock of etcd while it makes one object, and writes it with the lock's token.

    make-report | python with_etcd.py jobs/report s3://demo/report

ETCD_ENDPOINT says where etcd is (http://127.0.0.1:2379). It speaks etcd's own JSON over HTTP, so it
needs no client library: numbers of 64 bits are strings in it, and keys are base64.

The token is the *create revision* of the key that holds the lock. etcd counts one revision up for
every change of anything in the cluster and agrees on it by Raft, so it outlives restarts and the
loss of a minority. Whoever waits for the lock has put a key under its name already, and the one
with the lowest create revision holds it: the lock goes round in the order of these numbers.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from worker import LockLost, arguments, renewing, say, write

ETCD = os.environ.get("ETCD_ENDPOINT", "http://127.0.0.1:2379")


def call(method: str, *, timeout: float | None = 5, **fields: object) -> dict:
    request = urllib.request.Request(
        f"{ETCD}/v3/{method}", json.dumps(fields).encode(), {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.load(answer)


@contextmanager
def hold(lock: str, ttl_seconds: int) -> Iterator[int]:
    """Waits for the lock, holds it during the block, and gives its token."""
    # Everything that is put under this lease vanishes with it, the lock's key first of all.
    lease = call("lease/grant", TTL=ttl_seconds)["ID"]

    def renew() -> bool:
        return int(call("lease/keepalive", ID=lease)["result"].get("TTL", 0)) > 0

    try:
        # While it waits as well: its place in the queue is a key under the same lease.
        with renewing(renew, ttl_seconds / 3):
            name = base64.b64encode(lock.encode()).decode()
            key = call("lock/lock", name=name, lease=lease, timeout=None)["key"]
            # Not the revision in the answer's header, which is only that of some moment. And the
            # lease may have run out while we waited: then there is no such key any more, though
            # etcd may have answered as if we held the lock.
            found = call("kv/range", key=key).get("kvs")
            if not found:
                raise LockLost(lock)
            yield int(found[0]["create_revision"])
    finally:
        try:
            # Takes away our own key only: a newer holder's is under its own lease.
            call("lease/revoke", ID=lease)
        except OSError as error:  # It has run out already, or will.
            say(f"not released: {error}")


def main() -> None:
    job = arguments(__doc__)
    with hold(job.lock, job.ttl) as token:
        say(f"holds {job.lock} with token {token}")
        made = sys.stdin.buffer.read()  # The work. It may take long, and be paused for longer.
        write(job.target, token, made)


if __name__ == "__main__":
    main()
