"""A proxy and the store behind it, as the tests of clients and locks name them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from fencepost import Proxy, Site

EMBEDDED = "embedded"
SEAWEEDFS = "seaweedfs"
# As a control, the store without a proxy: what passes must pass there as well.
BARE_SEAWEEDFS = "bare-seaweedfs"
STORES = (EMBEDDED, SEAWEEDFS, BARE_SEAWEEDFS)

# Shared by all tests; each keeps to keys of its own, since a fence belongs to a key.
BUCKET = "client-tests"

# The values of the label `reason` of fence_rejected_total that a client can bring about.
STALE = "stale"
MISSING = "missing_token"
INVALID = "invalid_token"
CONFLICTING = "conflicting_tokens"
UNSUPPORTED = "unsupported_operation"
REASONS = (STALE, MISSING, INVALID, CONFLICTING, UNSUPPORTED)


def site_of(request: pytest.FixtureRequest, store: str) -> Site:
    """Where `store`, one of STORES, is reached: through its proxy if it has one."""
    if store == BARE_SEAWEEDFS:
        return request.getfixturevalue("seaweedfs")
    return request.getfixturevalue(f"{store}_stack").site


@dataclass(frozen=True)
class Stack:
    """One proxy over one store; `name` is EMBEDDED or SEAWEEDFS."""

    name: str
    proxy: Proxy

    @property
    def site(self) -> Site:
        return self.proxy.site

    @contextmanager
    def refused_once(self, reason: str) -> Iterator[None]:
        """Expects exactly one more refusal for `reason`, and none for another.

        That is the proxy's own count of requests, so it also shows that the client did not
        take the answer for something to try again.
        """
        before = self._refusals()
        yield
        assert self._refusals() == {**before, reason: before[reason] + 1}

    def _refusals(self) -> dict[str, float]:
        return {reason: self.proxy.rejected(BUCKET, reason) for reason in REASONS}


def shared_stack(name: str, proxy: Proxy) -> Iterator[Stack]:
    yield Stack(name, proxy)
    # A proxy that a whole session of clients used still ends cleanly.
    assert proxy.stop() == 0, proxy.output()
