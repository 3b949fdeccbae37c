"""Holds a lock of ZooKeeper while it makes one object, and writes it with the lock's token.

    make-report | python with_zookeeper.py jobs/report s3://demo/report

ZOOKEEPER_HOSTS says where ZooKeeper is (127.0.0.1:2181).

The lock is kazoo's: whoever wants it makes an ephemeral sequence node, and the lowest one there is
holds it. The token is the *czxid* of that node, the number of the transaction that made it. Nodes
below one parent are numbered in the order of these transactions, so the lock goes round in the
order of the tokens.

It is not the number at the end of the node's name. The parent counts that one, in 32 bits with a
sign: it begins again at 0 with a new parent, and goes on below zero after 2147483647.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient, KazooState

from worker import LockLost, arguments, say, write

HOSTS = os.environ.get("ZOOKEEPER_HOSTS", "127.0.0.1:2181")


@contextmanager
def hold(lock: str, ttl_seconds: int) -> Iterator[int]:
    """Waits for the lock, holds it during the block, and gives its token."""
    # The session's node vanishes with the session, after so long a silence. kazoo sends the
    # heartbeats, from a thread of its own: they show that the process lives, not that the work goes on.
    client = KazooClient(hosts=HOSTS, timeout=ttl_seconds)
    client.add_listener(watch)
    client.start()
    try:
        recipe = client.Lock(f"/locks/{lock}")
        with recipe:
            made = client.exists(f"{recipe.path}/{recipe.node}")
            # kazoo opens a new session when one has expired. The node does not come back with it.
            if made is None:
                raise LockLost(lock)
            yield made.czxid
    finally:
        client.stop()
        client.close()


def watch(state: str) -> None:
    if state == KazooState.LOST:
        # A courtesy to whoever reads along. It comes too late for a write that is under way.
        say("the session is over, and the lock with it")


def main() -> None:
    job = arguments(__doc__)
    with hold(job.lock, job.ttl) as token:
        say(f"holds {job.lock} with token {token}")
        made = sys.stdin.buffer.read()  # The work. It may take long, and be paused for longer.
        write(job.target, token, made)


if __name__ == "__main__":
    main()
