"""What is etcd's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holders import Holder
from servers import Etcd
from wait import until

pytestmark = pytest.mark.xdist_group("etcd")


def test_a_waiter_whose_lease_ran_out_does_not_take_the_lock_for_its_own(
    holder: Callable[[Etcd], Holder], etcd: Etcd, key: str,
) -> None:
    """etcd 3.4 tells it that it holds the lock (etcd issue 11456); the program looks for its key."""
    first = holder(etcd)
    first.token()
    waiter = holder(etcd)
    until(lambda: etcd.queue(key) == 2, "the second one waits")
    waiter.pause()
    until(lambda: etcd.queue(key) == 1, "the lease of the waiter runs out")
    assert first.finish(b"by the first")[0] == 0
    until(lambda: etcd.queue(key) == 0, "the first one has released the lock")
    waiter.resume()
    status, said = waiter.outcome()
    assert status == 1 and "LockLost" in said and "holds" not in said, said
