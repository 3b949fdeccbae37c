"""What the stores have in common that are one Python program: a process on loopback, and an end.

A subclass says which command line starts it. As a command, its module runs another command with
the store beside it, as `seaweedfs.py` does: the store is handed over in FENCEPOST_TEST_<NAME> (its
S3 endpoint), …_ACCESS_KEY and …_SECRET_KEY, and the command's own status is the exit status.
Without a command these variables are printed as `export` lines, and the store is kept until it is
interrupted.

The programs come from requirements-stores.txt, whose pins do not agree with those of
requirements.txt: they have a virtual environment of their own. FENCEPOST_TEST_STORES_PYTHON names
its Python; without it, the programs are looked for beside the running one.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from seaweedfs import ACCESS_KEY, SECRET_KEY, StoreDidNotStart, die_with_parent, main

__all__ = ["LocalStore", "main", "program"]

START_TIMEOUT_SECONDS = 60
START_ATTEMPTS_MAX = 3


class LocalStore:
    """One running store. `endpoint` is its S3 address, as in http://127.0.0.1:18333."""

    name = ""
    access_key = ACCESS_KEY
    secret_key = SECRET_KEY

    def __init__(self) -> None:
        for attempt in range(1, START_ATTEMPTS_MAX + 1):
            try:
                self._start()
                return
            except StoreDidNotStart:
                # Another process may have taken the port between the look and the start.
                self.stop()
                if attempt == START_ATTEMPTS_MAX:
                    raise

    def command(self, port: int, folder: Path) -> tuple[list[str], dict[str, str]]:
        """What starts it on `port` of 127.0.0.1, and the variables that it wants."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """What the tests read to find the store."""
        variable = f"FENCEPOST_TEST_{self.name.upper()}"
        return {
            variable: self.endpoint,
            f"{variable}_ACCESS_KEY": self.access_key,
            f"{variable}_SECRET_KEY": self.secret_key,
        }

    def stop(self) -> None:
        """Ends the store and removes its data. Nothing is kept, so nothing need be flushed."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> LocalStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{port}"
        self._folder = Path(tempfile.mkdtemp(prefix=f"fencepost-{self.name}-"))
        command, variables = self.command(port, self._folder)
        # Nothing of this machine's AWS settings or proxies.
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        self._log = self._folder / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self._folder, env={**kept, **variables},
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            if self._answers():
                return
            time.sleep(0.1)
        tail = self._log.read_text(errors="replace")[-4000:]
        raise StoreDidNotStart(f"{self.name} on {self.endpoint} did not get ready; its log ends:\n{tail}")

    def _answers(self) -> bool:
        """Whether anybody speaks HTTP there; a refusal of the request will do."""
        try:
            with urllib.request.urlopen(self.endpoint, timeout=2):
                return True
        except urllib.error.HTTPError:
            return True
        except (urllib.error.URLError, OSError):
            return False


def program(name: str) -> str:
    """A program of requirements-stores.txt."""
    python = os.environ.get("FENCEPOST_TEST_STORES_PYTHON", sys.executable)
    beside = Path(python).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise FileNotFoundError(
            f"no `{name}` here: pip install -r tests/support/requirements-stores.txt, and set "
            "FENCEPOST_TEST_STORES_PYTHON to the Python of that environment"
        )
    return found
