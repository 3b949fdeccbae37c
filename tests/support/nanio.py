"""nanio on loopback: a store that takes every conditional header and heeds none.

    python tests/support/nanio.py -- cargo test

What must be refused. See local_store.py for how it is handed over, and requirements-stores.txt for
its version.
"""

from __future__ import annotations

import sys
from pathlib import Path

from local_store import LocalStore, main, program


class Nanio(LocalStore):
    """One running store."""

    name = "nanio"

    def command(self, port: int, folder: Path) -> tuple[list[str], dict[str, str]]:
        data = folder / "data"
        data.mkdir()
        command = [
            program("nanio"), "serve", "--host", "127.0.0.1", "--port", str(port),
            "--data-dir", str(data), "--no-access-log",
        ]
        return command, {"NANIO_ACCESS_KEY": self.access_key, "NANIO_SECRET_KEY": self.secret_key}


if __name__ == "__main__":
    sys.exit(main(Nanio, sys.argv[1:]))
