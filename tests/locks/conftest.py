"""One lock server of each kind for the whole session, and the proxy over the embedded store.

Tests keep out of each other's way by fresh keys and locks. All tests of one server run in one
process (`--dist loadgroup`), since some of them kill it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
import with_postgres

from holders import Holder
from s3_clients import Boto3
from servers import Etcd, Postgres, Redis, Server, ZooKeeper
from stack import Stack

SERVERS = (Etcd, Postgres, ZooKeeper, Redis)


def running(kind: type[Server]) -> Iterator[Server]:
    missing = kind.missing()
    if missing is not None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    server = kind()
    yield server
    server.end()


@pytest.fixture(scope="session")
def etcd() -> Iterator[Etcd]:
    yield from running(Etcd)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    for server in running(Postgres):
        with server.connect() as session:
            session.execute(with_postgres.SCHEMA)
        yield server


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeper]:
    yield from running(ZooKeeper)


@pytest.fixture(scope="session")
def redis() -> Iterator[Redis]:
    yield from running(Redis)


@pytest.fixture(params=[
    pytest.param(server.name, marks=pytest.mark.xdist_group(server.name)) for server in SERVERS
])
def server(request: pytest.FixtureRequest) -> Server:
    """Each of them in turn."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def stack(embedded_stack: Stack) -> Stack:
    return embedded_stack


@pytest.fixture
def boto(stack: Stack, tmp_path: object) -> Boto3:
    return Boto3(stack.site, tmp_path)


@pytest.fixture
def holder(stack: Stack, key: str) -> Iterator[Callable[[Server], Holder]]:
    """Starts a program that wants the lock of `key`, and ends it with the test."""
    started: list[Holder] = []

    def start(server: Server) -> Holder:
        started.append(Holder(server, stack.site, key, key))
        return started[-1]

    yield start
    for each in started:
        each.kill()
