"""s3s-fs on loopback: a store that looks at a condition, and writes later.

    python tests/support/s3s_fs.py -- cargo test

What must be refused. It is built by cargo from the folder s3s-fs beside this file, into
.ci/cache/s3s-fs, which takes a few minutes once. See local_store.py for how it is handed over.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from local_store import LocalStore, main

PACKAGE = Path(__file__).resolve().parent / "s3s-fs"
TARGET = PACKAGE.parents[2] / ".ci" / "cache" / "s3s-fs"


class S3sFs(LocalStore):
    """One running store."""

    name = "s3s_fs"

    def command(self, port: int, folder: Path) -> tuple[list[str], dict[str, str]]:
        subprocess.run(
            ["cargo", "build", "--quiet", "--locked", "--manifest-path", PACKAGE / "Cargo.toml", "--target-dir", TARGET],
            check=True,
        )
        data = folder / "data"
        data.mkdir()
        command = [str(TARGET / "debug" / "s3s-fs-server"), str(port), str(data)]
        return command, {"ACCESS_KEY": self.access_key, "SECRET_KEY": self.secret_key}


if __name__ == "__main__":
    sys.exit(main(S3sFs, sys.argv[1:]))
