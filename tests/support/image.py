"""Builds docker/Dockerfile with buildah, without an engine, a daemon or a registry.

The base is made from Debian's packages: what distroless' `cc` image holds in essence (the C
library, libgcc, the certificates), unpacked into an empty root. The compiled binary takes the
place of the builder stage, as the Dockerfile describes. All of it happens in one temporary
directory, so no image is left on the machine. It needs root and `apt-get`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from fencepost import BINARY, REPOSITORY

BASE = "localhost/fencepost-base"
IMAGE = "localhost/fencepost"
BASE_PACKAGES = ("base-files", "libc6", "libgcc-s1", "ca-certificates")

# The one built without the embedded store, where the caller has it.
IMAGE_BINARY = Path(os.environ.get("FENCEPOST_IMAGE_BIN", BINARY))

BUILD_TIMEOUT_SECONDS = 300


def why_not() -> str | None:
    """The reason why no image can be built here, if there is one."""
    if os.geteuid() != 0:
        return "building an image with chroot isolation needs root"
    for needed in ("buildah", "apt-get", "dpkg-deb", "unshare"):
        if shutil.which(needed) is None:
            return f"no {needed} here"
    return None


class Image:
    """The built image, and a container of it whose root file system can be entered."""

    def __init__(self, binary: Path) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="fencepost-image-"))
        self._directory.chmod(0o755)
        self._make_base()
        prebuilt = self._directory / "prebuilt" / "out"
        prebuilt.mkdir(parents=True)
        shutil.copy2(binary, prebuilt / "fencepost")
        self._buildah(
            "build", "--isolation", "chroot", "--format", "docker", "--pull-never",
            "--file", str(REPOSITORY / "docker" / "Dockerfile"),
            "--build-arg", f"BUILDER_IMAGE={BASE}", "--build-arg", f"RUNTIME_IMAGE={BASE}",
            "--build-context", f"builder={prebuilt.parent}",
            "--tag", IMAGE, str(REPOSITORY),
        )
        self.config: dict = json.loads(self._buildah("inspect", "--type", "image", IMAGE))["Docker"]["config"]
        self.container = self._buildah("from", "--pull-never", IMAGE).strip()
        self.root = Path(self._buildah("mount", self.container).strip())

    def command(self, *words: str, environment: dict[str, str] | None = None, read_only: bool = False) -> list[str]:
        """How to run `words` in the container: as the image's user, in the image's environment
        and what `environment` adds to it, on the host's network."""
        added = environment or {}
        if not read_only:
            settings = [word for name, value in added.items() for word in ("--env", f"{name}={value}")]
            return [*self._tool, "run", "--isolation", "chroot", *settings, self.container, "--", *words]
        # buildah has no switch for a read-only root, so: a mount namespace of its own.
        enter = (
            'set -eu; root=$1; user=$2; shift 2; '
            'mount --make-rprivate /; mount --bind "$root" "$root"; mount -o remount,bind,ro "$root"; '
            'exec chroot --userspec="$user" "$root" "$@"'
        )
        settings = [*self.config["Env"], *(f"{name}={value}" for name, value in added.items())]
        return [
            "unshare", "--mount", "--", "env", "--ignore-environment", *settings,
            "sh", "-c", enter, "sh", str(self.root), self.config["User"], *words,
        ]

    def remove(self) -> None:
        self._buildah("umount", self.container)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _make_base(self) -> None:
        packages = self._directory / "packages"
        packages.mkdir()
        shutil.chown(packages, "_apt")  # who does the downloading
        call(["apt-get", "download", "-qq", *BASE_PACKAGES], cwd=packages)
        root = self._directory / "root"
        for package in sorted(packages.glob("*.deb")):
            call(["dpkg-deb", "--extract", str(package), str(root)])
        # What the package's own script would have put together.
        certificates = root / "etc/ssl/certs"
        certificates.mkdir(parents=True, exist_ok=True)
        authorities = sorted((root / "usr/share/ca-certificates/mozilla").glob("*.crt"))
        (certificates / "ca-certificates.crt").write_bytes(b"".join(file.read_bytes() for file in authorities))
        scratch = self._buildah("from", "scratch").strip()
        self._buildah("add", "--quiet", scratch, str(root), "/")
        self._buildah("commit", "--quiet", "--rm", scratch, BASE)

    @property
    def _tool(self) -> list[str]:
        return [
            "buildah", "--storage-driver", "vfs",
            "--root", str(self._directory / "storage"), "--runroot", str(self._directory / "run"),
        ]

    def _buildah(self, *arguments: str) -> str:
        return call([*self._tool, *arguments])


def call(command: list[str], cwd: Path | None = None) -> str:
    """Runs a command and gives its output; a failure shows what it said."""
    done = subprocess.run(
        command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BUILD_TIMEOUT_SECONDS,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed ({done.returncode}):\n{done.stdout}{done.stderr}")
    return done.stdout
