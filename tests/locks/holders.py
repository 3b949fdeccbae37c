"""The programs of examples/tokens as processes: holders that can be paused, and crowds of contenders."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

from fencepost import REGION, REPOSITORY, Site, clean_environment
from seaweedfs import die_with_parent
from servers import Server
from stack import BUCKET

EXAMPLES = REPOSITORY / "examples" / "tokens"
TTL_SECONDS = 3
# Far above what any of it takes.
PATIENCE_SECONDS = 60


class Holder:
    """One run of `examples/tokens/with_….py`: it takes the lock, waits for its input, and writes that."""

    def __init__(self, server: Server, site: Site, lock: str, key: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, EXAMPLES / f"with_{server.name}.py", lock, f"s3://{BUCKET}/{key}", "--ttl", str(TTL_SECONDS)],
            env=clean_environment({
                **server.environment(),
                "AWS_ENDPOINT_URL": site.endpoint, "AWS_DEFAULT_REGION": REGION,
                "AWS_ACCESS_KEY_ID": site.access_key, "AWS_SECRET_ACCESS_KEY": site.secret_key,
            }),
            stdin=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=die_with_parent,
        )
        # It ends whatever happens, so that no read of its output waits for ever.
        self._end = threading.Timer(PATIENCE_SECONDS, self._process.kill)
        self._end.start()
        self._said = ""

    def token(self) -> int:
        """Waits until it holds the lock."""
        for line in self._process.stderr:
            self._said += line.decode()
            holds = re.search(r"holds .* with token (\d+)$", line.decode().rstrip())
            if holds:
                return int(holds[1])
        raise AssertionError(f"it did not get the lock:\n{self._said}")

    def pause(self) -> None:
        """SIGSTOP: the whole process, with every thread that renews or sends heartbeats."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def finish(self, report: bytes) -> tuple[int, str]:
        """Gives it what it writes, wakes it, and waits for its end: its status, and all it said."""
        # The input first: a process that wakes goes on at once where it was.
        self._process.stdin.write(report)
        self._process.stdin.close()
        self.resume()
        return self.outcome()

    def outcome(self) -> tuple[int, str]:
        """Waits for the end of one that ends by itself."""
        self._said += self._process.stderr.read().decode()
        self._end.cancel()
        return self._process.wait(), self._said

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._end.cancel()


def contend(server: Server, lock: str, contenders: int, rounds: int, log: Path) -> list[int]:
    """Many processes take the lock again and again. All tokens in `log`, in the order of acquisition.

    Each line is appended by a holder, so the order of the lines is that of the holders.
    """
    contender = Path(__file__).with_name("contender.py")
    running = [
        subprocess.Popen(
            [sys.executable, contender, f"with_{server.name}", lock, str(rounds), log],
            env={**clean_environment(server.environment()), "PYTHONPATH": str(EXAMPLES)},
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=die_with_parent,
        )
        for _ in range(contenders)
    ]
    for process in running:
        said = process.communicate(timeout=PATIENCE_SECONDS)[1].decode()
        assert process.returncode == 0, said
    return [int(line.split()[0]) for line in log.read_text().splitlines()]
