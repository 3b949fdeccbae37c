"""Starts and stops the proxy under test and reads its metrics.

The binary is FENCEPOST_BIN, else target/debug/fencepost. Every proxy listens on free loopback
ports, writes its output to a file that a failing test can show, and dies with the test run.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from seaweedfs import die_with_parent
from tls import Authority

REPOSITORY = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("FENCEPOST_BIN", REPOSITORY / "target" / "debug" / "fencepost"))

REGION = "us-east-1"
START_TIMEOUT_SECONDS = 30
STOP_TIMEOUT_SECONDS = 20

_ANY_PORT = "127.0.0.1:0"


@dataclass(frozen=True)
class Site:
    """An S3 endpoint and a key pair for it: all that a client has to know."""

    endpoint: str
    access_key: str
    secret_key: str
    # Who vouches for an https endpoint.
    ca_file: Path | None = None

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.endpoint.split("//")[1].split(":")
        return host, int(port)


class ProxyDidNotStart(RuntimeError):
    """The proxy ended, or did not say where it listens; the message holds its output."""


class Proxy:
    """One running `fencepost`; start it with `dev` or `serve`."""

    site: Site
    admin: str

    def __init__(self, arguments: list[str], log: Path, environment: dict[str, str] | None = None) -> None:
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [str(BINARY), *arguments],
                env=clean_environment(environment),
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )

    @classmethod
    def dev(
        cls, log: Path, *, data: Path | None = None, tls: Authority | None = None, settings: tuple[str, ...] = (),
    ) -> Proxy:
        """`fencepost dev`: the proxy and the embedded store in one process."""
        where = [] if data is None else ["--data", str(data)]
        where += [f"--set={setting}" for setting in settings]
        secured = [] if tls is None else tls.settings()
        proxy = cls(["dev", "--listen", _ANY_PORT, "--admin", _ANY_PORT, *where, *secured], log)
        # The last line that it prints.
        proxy.admin = proxy._wait_for(r"(http://\S+?:\d+)/metrics \| grep \S+\n")[1]
        proxy.site = Site(*(
            proxy._wait_for(rf"export {name}=(\S+)")[1]
            for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        ), tls and tls.ca_file)
        return proxy

    @classmethod
    def serve(cls, log: Path, store: Site, *extra: str, clients_sign: bool = True) -> Proxy:
        """`fencepost serve` in front of `store`; clients sign with the store's own key pair."""
        proxy = cls(
            [
                "serve", "--backend", store.endpoint, "--region", REGION, "--create-ledger",
                "--listen", _ANY_PORT, "--admin", _ANY_PORT,
                *([] if clients_sign else ["--auth", "none"]), *extra,
            ],
            log,
            {"AWS_ACCESS_KEY_ID": store.access_key, "AWS_SECRET_ACCESS_KEY": store.secret_key},
        )
        heard = proxy._wait_for(r"listening\b.*?data=\"?(\S+?:\d+)\"?.*?admin=\"?(\S+?:\d+)")
        proxy.site = Site(f"http://{heard[1]}", store.access_key, store.secret_key)
        proxy.admin = f"http://{heard[2]}"
        return proxy

    def output(self) -> str:
        """All it has printed and logged so far, without colours."""
        return re.sub(r"\x1b\[[0-9;]*m", "", self.log.read_text(errors="replace"))

    def stop(self) -> int:
        """SIGTERM, then the exit code."""
        self.process.terminate()
        return self.process.wait(STOP_TIMEOUT_SECONDS)

    def kill(self) -> None:
        """kill -9: no drain, no last words."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def admin_get(self, path: str) -> tuple[int, str]:
        """Status and body of a GET on the admin listener."""
        request = urllib.request.Request(self.admin + path)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples of `name` whose labels include `labels`; 0 if there are none."""
        total = 0.0
        for line in self.admin_get("/metrics")[1].splitlines():
            sample = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if sample is None or sample[1] != name:
                continue
            present = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', sample[2] or ""))
            if labels.items() <= present.items():
                total += float(sample[3])
        return total

    def rejected(self, bucket: str, reason: str) -> float:
        """`fence_rejected_total` of one bucket and reason."""
        return self.metric("fence_rejected_total", bucket=bucket, reason=reason)

    def _wait_for(self, pattern: str) -> re.Match[str]:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            ended = self.process.poll() is not None
            found = re.search(pattern, self.output())
            if found:
                return found
            if ended:
                break
            time.sleep(0.02)
        if self.process.poll() is None:
            self.kill()
        raise ProxyDidNotStart(f"no {pattern!r} in the output of {self.process.args}:\n{self.output()}")


def clean_environment(extra: dict[str, str] | None = None) -> dict[str, str]:
    """This environment without what would steer an S3 client, a proxy or Fencepost itself."""
    kept = {
        name: value for name, value in os.environ.items()
        if not name.startswith(("AWS_", "FENCEPOST_")) and not name.lower().endswith("_proxy")
    }
    # Nothing is to be looked up outside: no instance metadata, no file in a home directory.
    return {
        **kept,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        **(extra or {}),
    }


def run(*arguments: str, timeout: float = 30, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs `fencepost` with these arguments to its end."""
    return subprocess.run(
        [str(BINARY), *arguments], env=clean_environment(environment),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout,
    )
