"""What the client tests share: one proxy over each store for the whole session.

`stack` is the proxy over the embedded store (`fencepost dev`) and over SeaweedFS
(`fencepost serve`); a test that takes it runs on both. Tests share a stack and a bucket and
keep out of each other's way by fresh keys, since a fence belongs to a key.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fencepost import Proxy, Site
from s3_clients import CLIENTS, Boto3, boto_client
from seaweedfs import SeaweedFS
from stack import BUCKET, EMBEDDED, SEAWEEDFS, STORES, Stack, site_of


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Gives a new file for a proxy's output on every call."""
    directory = tmp_path_factory.mktemp("logs")
    numbers = itertools.count()
    return lambda: directory / f"proxy-{next(numbers)}.log"


@pytest.fixture(scope="session")
def seaweedfs() -> Iterator[Site]:
    """The bare store, past every proxy, with the shared bucket in it."""
    with SeaweedFS() as store:
        site = Site(store.endpoint, store.access_key, store.secret_key)
        boto_client(site).create_bucket(Bucket=BUCKET)
        yield site


@pytest.fixture(scope="session")
def embedded_stack(logs: Callable[[], Path]) -> Iterator[Stack]:
    proxy = Proxy.dev(logs())
    boto_client(proxy.site).create_bucket(Bucket=BUCKET)
    yield from shared_stack(EMBEDDED, proxy)


@pytest.fixture(scope="session")
def seaweedfs_stack(logs: Callable[[], Path], seaweedfs: Site) -> Iterator[Stack]:
    yield from shared_stack(SEAWEEDFS, Proxy.serve(logs(), seaweedfs))


def shared_stack(name: str, proxy: Proxy) -> Iterator[Stack]:
    yield Stack(name, proxy)
    # A proxy that a whole session of clients used still ends cleanly.
    assert proxy.stop() == 0, proxy.output()


@pytest.fixture(params=[EMBEDDED, SEAWEEDFS])
def stack(request: pytest.FixtureRequest) -> Stack:
    return request.getfixturevalue(f"{request.param}_stack")


@pytest.fixture(params=STORES)
def any_site(request: pytest.FixtureRequest) -> Site:
    """Both stacks and the bare store."""
    return site_of(request, request.param)


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client_type(request: pytest.FixtureRequest) -> type:
    return request.param


@pytest.fixture
def client(client_type: type, stack: Stack, tmp_path: Path) -> object:
    """One of the three clients, at the stack."""
    return client_type(stack.site, tmp_path)


@pytest.fixture
def boto(stack: Stack, tmp_path: Path) -> Boto3:
    """boto3 at the stack, for tests that are not about clients."""
    return Boto3(stack.site, tmp_path)


@pytest.fixture
def key() -> str:
    """A key that no other test uses and that has seen no token."""
    return f"jobs/{uuid.uuid4()}"
