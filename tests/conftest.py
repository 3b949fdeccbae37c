"""What every Python test shares: a binary to test, and an environment that steers no client."""

from __future__ import annotations

import os

import pytest

from fencepost import BINARY, clean_environment


def pytest_configure() -> None:
    if not BINARY.exists():
        pytest.exit(f"no binary at {BINARY}: run `cargo build`, or `bash .ci/run clients`", returncode=2)
    # boto3 runs inside this process: it must not see this machine's AWS settings or proxies.
    clean = clean_environment()
    os.environ.clear()
    os.environ.update(clean)
    # For the processes that pytest-xdist starts from here.
    os.environ["FENCEPOST_BIN"] = str(BINARY)
