"""The image, built and run: as its user, over a read-only root, fencing a write on a real store."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost import REGION, STOP_TIMEOUT_SECONDS, Site
from image import Image
from s3_clients import Boto3, boto_client
from seaweedfs import SeaweedFS, die_with_parent, free_ports


@pytest.fixture(scope="module")
def store() -> Iterator[Site]:
    with SeaweedFS() as running:
        yield Site(running.endpoint, running.access_key, running.secret_key)


def test_the_image_says_how_it_runs(image: Image) -> None:
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", image.config["User"]), "numeric, so that Kubernetes can tell it from root"
    assert image.config["Entrypoint"] == ["/usr/local/bin/fencepost"]
    assert image.config["Cmd"] == ["serve"]
    assert set(image.config["ExposedPorts"]) == {"9000/tcp", "9001/tcp"}
    assert image.config["Healthcheck"]["Test"] == ["CMD", "/usr/local/bin/fencepost", "healthcheck"]
    assert image.config["Labels"]["org.opencontainers.image.title"] == "fencepost"


def test_the_image_holds_one_program_and_no_shell(image: Image) -> None:
    added = {path.name for path in (image.root / "usr/local/bin").iterdir()}
    assert added == {"fencepost"}
    assert not (image.root / "src").exists(), "no source"


def test_the_image_is_without_the_embedded_store(image: Image) -> None:
    done = subprocess.run(
        image.command("/usr/local/bin/fencepost", "--help"),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^\s+serve\b", done.stdout, re.M)
    assert not re.search(r"^\s+(dev|demo)\b", done.stdout, re.M)


@pytest.mark.parametrize("read_only", [False, True], ids=["by-buildah", "read-only-root"])
def test_a_container_fences_a_write(image: Image, store: Site, tmp_path: Path, read_only: bool) -> None:
    listen, admin = (f"127.0.0.1:{port}" for port in free_ports(2))
    environment = {
        "AWS_ACCESS_KEY_ID": store.access_key, "AWS_SECRET_ACCESS_KEY": store.secret_key,
        "FENCEPOST_BACKEND_URL": store.endpoint, "FENCEPOST_BACKEND_REGION": REGION,
        "FENCEPOST_LISTEN": listen, "FENCEPOST_ADMIN_LISTEN": admin,
    }
    how = {"environment": environment, "read_only": read_only}
    start = image.command(*image.config["Entrypoint"], *image.config["Cmd"], "--create-ledger", **how)
    check = image.command(*image.config["Healthcheck"]["Test"][1:], **how)
    log = tmp_path / "container.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            start, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, preexec_fn=die_with_parent,
        )
    try:
        wait_until_healthy(process, check, log)
        boto = Boto3(Site(f"http://{listen}", store.access_key, store.secret_key), tmp_path)
        bucket = f"container-{'read-only' if read_only else 'by-buildah'}"
        boto.client().create_bucket(Bucket=bucket)
        assert boto.put(bucket, "state", b"by 42", "42").ok
        assert boto.put(bucket, "state", b"by 41", "41").code == "StaleFenceToken"
        assert boto_client(store).get_object(Bucket=bucket, Key="state")["Body"].read() == b"by 42"
        inside = process_inside(listen)
        assert user_of(inside) == image.config["User"]
        # To the proxy itself, as an engine sends it: buildah would kill what it runs.
        os.kill(inside, signal.SIGTERM)
        assert process.wait(STOP_TIMEOUT_SECONDS) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def process_inside(listen: str) -> int:
    """The id of the proxy's own process, which whatever started the container stands before."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            started_with = (process / "environ").read_bytes().split(b"\0")
            runs = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # ended meanwhile
        if f"FENCEPOST_LISTEN={listen}".encode() in started_with and runs[:2] == [b"/usr/local/bin/fencepost", b"serve"]:
            return int(process.name)
    pytest.fail("the container's process is not there")


def user_of(process: int) -> str:
    """Its effective `user:group`, in numbers."""
    status = Path(f"/proc/{process}/status").read_text()
    ids = [re.search(rf"^{kind}:\t\d+\t(\d+)", status, re.M) for kind in ("Uid", "Gid")]
    return ":".join(found[1] for found in ids if found)


def wait_until_healthy(process: subprocess.Popen, check: list[str], log: Path) -> None:
    """Polls the image's own health check, as a container engine would."""
    for _ in range(60):
        if process.poll() is not None:
            break
        if subprocess.run(check, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0:
            return
        time.sleep(0.25)
    process.kill()
    pytest.fail(f"the container did not get healthy:\n{log.read_text()}")
