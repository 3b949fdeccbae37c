"""What the client tests share: one proxy over each store for the whole session.

`stack` is the proxy over the embedded store (`fencepost dev`) and over SeaweedFS
(`fencepost serve`); a test that takes it runs on both. Tests share a stack and a bucket and
keep out of each other's way by fresh keys, since a fence belongs to a key.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fencepost import Proxy, Site
from field import WRITTEN
from programs import Surroundings
from s3_clients import CLIENTS, Boto3, boto_client
from seaweedfs import SeaweedFS
from stack import BUCKET, EMBEDDED, SEAWEEDFS, STORES, Stack, shared_stack, site_of
from tls import Authority

LARGE_LINES = (30 << 20) // 64


@pytest.fixture(scope="session")
def seaweedfs() -> Iterator[Site]:
    """The bare store, past every proxy, with the shared bucket in it."""
    with SeaweedFS() as store:
        site = Site(store.endpoint, store.access_key, store.secret_key)
        boto_client(site).create_bucket(Bucket=BUCKET)
        yield site


@pytest.fixture(scope="session")
def seaweedfs_stack(logs: Callable[[], Path], seaweedfs: Site) -> Iterator[Stack]:
    yield from shared_stack(SEAWEEDFS, Proxy.serve(logs(), seaweedfs))


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


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A small file and one of 30 MiB, both of text lines: DuckDB has to be able to write them."""
    directory = tmp_path_factory.mktemp("files")
    small, large = directory / "small", directory / "large"
    small.write_text(WRITTEN)
    large.write_text("".join(f"{number:063x}\n" for number in range(LARGE_LINES)))
    return small, large


@pytest.fixture(scope="session")
def https_stack(logs: Callable[[], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The proxy over the embedded store, by https."""
    proxy = Proxy.dev(logs(), tls=Authority(tmp_path_factory.mktemp("authority")))
    boto_client(proxy.site).create_bucket(Bucket=BUCKET)
    yield from shared_stack(EMBEDDED, proxy)


@pytest.fixture
def surroundings(stack: Stack, tmp_path: Path, files: tuple[Path, Path]) -> Surroundings:
    """For a program without a token, at objects of its own."""
    return Surroundings(stack.site, BUCKET, f"matrix/{uuid.uuid4()}", *files, scratch=tmp_path)
