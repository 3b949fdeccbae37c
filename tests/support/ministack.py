"""MiniStack on loopback: an emulator of AWS that keeps AWS's rules for conditional writes.

    python tests/support/ministack.py -- cargo test

Its conditions hold in every race that was tried, and absent keys are answered as AWS answers them.
It is no oracle for authentication: it checks no signature, and so takes expired ones as well (F9);
with AUTH=true it evaluates policies, still without checking signatures. Everything is in memory.
See local_store.py for how it is handed over, and requirements-stores.txt for its version.
"""

from __future__ import annotations

import sys
from pathlib import Path

from local_store import LocalStore, main, program


class MiniStack(LocalStore):
    """One running store, of one account."""

    name = "ministack"

    def __init__(self, *, policies: bool = False) -> None:
        self._policies = policies
        super().__init__()

    def command(self, port: int, folder: Path) -> tuple[list[str], dict[str, str]]:
        # Its own command listens on every interface. No worker: it would outlive the server's end.
        command = [program("hypercorn"), "--workers", "0", "--bind", f"127.0.0.1:{port}", "ministack.app:app"]
        variables = {
            "SERVICES": "s3,iam,sts" if self._policies else "s3",
            "AUTH": "true" if self._policies else "false",
            "GATEWAY_PORT": str(port),
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
        }
        return command, variables


if __name__ == "__main__":
    sys.exit(main(MiniStack, sys.argv[1:]))
