"""What every Python test shares: a binary to test, an environment that steers no client, a proxy."""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fencepost import BINARY, Proxy, clean_environment
from s3_clients import boto_client
from stack import BUCKET, EMBEDDED, Stack, shared_stack


def pytest_configure() -> None:
    if not BINARY.exists():
        pytest.exit(f"no binary at {BINARY}: run `cargo build`, or `bash .ci/run clients`", returncode=2)
    # boto3 runs inside this process: it must not see this machine's AWS settings or proxies.
    own = {name: value for name, value in os.environ.items() if name.startswith("FENCEPOST_TEST_")}
    clean = clean_environment(own)
    os.environ.clear()
    os.environ.update(clean)
    # For the processes that pytest-xdist starts from here.
    os.environ["FENCEPOST_BIN"] = str(BINARY)


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Gives a new file for a proxy's output on every call."""
    directory = tmp_path_factory.mktemp("logs")
    numbers = itertools.count()
    return lambda: directory / f"proxy-{next(numbers)}.log"


@pytest.fixture(scope="session")
def embedded_stack(logs: Callable[[], Path]) -> Iterator[Stack]:
    proxy = Proxy.dev(logs())
    boto_client(proxy.site).create_bucket(Bucket=BUCKET)
    yield from shared_stack(EMBEDDED, proxy)


@pytest.fixture
def key() -> str:
    """A key that no other test uses and that has seen no token."""
    return f"jobs/{uuid.uuid4()}"
