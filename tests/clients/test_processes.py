"""The proxy as a process: restarts, two of them at once, start-up, shut-down and the CLI."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from botocore import UNSIGNED

import fencepost
from fencepost import Proxy, Site
from raw_http import RawConnection
from s3_clients import Boto3, boto_answer, boto_client
from stack import BUCKET, Stack

DEMO_SECONDS_MAX = 30


@pytest.fixture
def started() -> Iterator[Callable[[Proxy], Proxy]]:
    """Registers a proxy of a test's own, so that it ends with the test."""
    proxies: list[Proxy] = []

    def register(proxy: Proxy) -> Proxy:
        proxies.append(proxy)
        return proxy

    yield register
    for proxy in proxies:
        if proxy.process.poll() is None:
            proxy.kill()


def test_the_fence_outlives_a_kill_9(
    started: Callable[[Proxy], Proxy], logs: Callable[[], Path], seaweedfs: Site, tmp_path: Path, key: str,
) -> None:
    first = started(Proxy.serve(logs(), seaweedfs))
    assert Boto3(first.site, tmp_path).put(BUCKET, key, b"by 42", "42").ok
    first.kill()
    boto = Boto3(started(Proxy.serve(logs(), seaweedfs)).site, tmp_path)
    assert boto.put(BUCKET, key, b"by 41", "41").code == "StaleFenceToken"
    assert boto.get(BUCKET, key).body == b"by 42"
    assert boto.put(BUCKET, key, b"by 43", "43").ok


def test_two_proxies_share_one_fence(
    started: Callable[[Proxy], Proxy], logs: Callable[[], Path], seaweedfs: Site, tmp_path: Path, key: str,
) -> None:
    one, two = (Boto3(started(Proxy.serve(logs(), seaweedfs)).site, tmp_path) for _ in range(2))
    assert one.put(BUCKET, key, b"by 42", "42").ok
    assert two.put(BUCKET, key, b"by 41", "41").code == "StaleFenceToken"
    assert two.put(BUCKET, key, b"by 43", "43").ok
    # The first proxy's own memory of this key is out of date now.
    assert one.put(BUCKET, key, b"by 42 again", "42").code == "StaleFenceToken"
    assert one.put(BUCKET, key, b"no token").code == "FenceTokenRequired"
    assert one.get(BUCKET, key).body == b"by 43"


def test_serve_without_credentials_says_so(seaweedfs: Site) -> None:
    done = fencepost.run("serve", "--backend", seaweedfs.endpoint, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    assert done.returncode != 0
    assert "credential" in done.stderr.lower()


def test_a_missing_ledger_bucket_is_explained(seaweedfs: Site, tmp_path: Path) -> None:
    settings = tmp_path / "fencepost.toml"
    settings.write_text(f'[ledger]\nbucket = "absent-{uuid.uuid4()}"\n')
    done = fencepost.run(
        "serve", "--backend", seaweedfs.endpoint, "--config", str(settings),
        "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
        environment={"AWS_ACCESS_KEY_ID": seaweedfs.access_key, "AWS_SECRET_ACCESS_KEY": seaweedfs.secret_key},
    )
    assert done.returncode != 0
    assert "absent-" in done.stderr and "--create-ledger" in done.stderr


@pytest.mark.parametrize("profile", ["liar", "racy"])
def test_a_store_that_cannot_be_fenced_on_is_refused(profile: str) -> None:
    """`liar` ignores conditions, `racy` checks them and acts afterwards."""
    done = fencepost.run("dev", "--profile", profile, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    assert done.returncode == 1
    assert "PutObject: put." in done.stderr, "it names the check that failed"
    assert "fails: " in done.stderr, done.stderr


def test_auth_none_serves_a_sidecar_on_loopback(
    started: Callable[[Proxy], Proxy], logs: Callable[[], Path], seaweedfs: Site, tmp_path: Path, key: str,
) -> None:
    proxy = started(Proxy.serve(logs(), seaweedfs, clients_sign=False))
    stranger = Boto3(Site(proxy.site.endpoint, "anyone", "anything"), tmp_path)
    assert stranger.put(BUCKET, key, b"by 42", "42").ok
    assert stranger.put(BUCKET, key, b"by 41", "41").code == "StaleFenceToken"
    unsigned = boto_client(proxy.site, signature_version=UNSIGNED)
    assert boto_answer(unsigned.get_object, Bucket=BUCKET, Key=key).body == b"by 42"
    assert boto_answer(unsigned.put_object, Bucket=BUCKET, Key=key, Body=b"").code == "FenceTokenRequired"


def test_auth_none_is_refused_off_loopback(seaweedfs: Site) -> None:
    done = fencepost.run(
        "serve", "--backend", seaweedfs.endpoint, "--auth", "none", "--listen", "0.0.0.0:0", "--admin", "127.0.0.1:0",
        environment={"AWS_ACCESS_KEY_ID": seaweedfs.access_key, "AWS_SECRET_ACCESS_KEY": seaweedfs.secret_key},
    )
    assert done.returncode != 0
    assert "loopback" in done.stderr and "0.0.0.0" in done.stderr


def test_health_and_metrics(stack: Stack) -> None:
    assert stack.proxy.admin_get("/livez")[0] == 200
    assert stack.proxy.admin_get("/readyz")[0] == 200
    assert stack.proxy.admin_get("/absent")[0] == 404
    names = set(re.findall(r"^# TYPE (\w+)", stack.proxy.admin_get("/metrics")[1], re.M))
    assert {"fence_rejected_total", "fence_admitted_total"} <= names
    assert stack.proxy.metric("fence_admitted_total") >= 0


def test_no_key_is_in_a_label(stack: Stack, boto: Boto3, key: str) -> None:
    boto.put(BUCKET, key, b"", "42")
    boto.put(BUCKET, key, b"", "41")
    assert key.rsplit("/", 1)[1] not in stack.proxy.admin_get("/metrics")[1]


def test_healthcheck_asks_the_admin_listener(stack: Stack) -> None:
    address = stack.proxy.admin.removeprefix("http://")
    assert fencepost.run("healthcheck", "--admin", address).returncode == 0
    assert fencepost.run("healthcheck", environment={"FENCEPOST_ADMIN_LISTEN": address}).returncode == 0
    assert fencepost.run("healthcheck", "--admin", "127.0.0.1:1").returncode == 1


def test_sigterm_lets_a_running_upload_end(
    started: Callable[[Proxy], Proxy], logs: Callable[[], Path], seaweedfs: Site, tmp_path: Path, key: str,
) -> None:
    proxy = started(Proxy.serve(logs(), seaweedfs))
    with RawConnection(proxy.site) as upload:
        upload.send_head("PUT", BUCKET, key, length=10, token="42", unsigned=[("Expect", "100-continue")])
        assert upload.line().startswith(b"HTTP/1.1 100 ")
        upload.line()
        upload.send(b"first")
        proxy.process.terminate()
        wait_until_refused(proxy)
        upload.send(b"-half")
        assert upload.answer().status == 200
    assert proxy.process.wait(fencepost.STOP_TIMEOUT_SECONDS) == 0
    assert Boto3(seaweedfs, tmp_path).get(BUCKET, key).body == b"first-half"


def wait_until_refused(proxy: Proxy) -> None:
    """Returns when the data listener takes no new connection."""
    for _ in range(200):
        try:
            RawConnection(proxy.site).__exit__()
        except ConnectionRefusedError:
            return
        time.sleep(0.02)
    pytest.fail("still accepting connections after SIGTERM")


def test_unknown_keys_in_the_configuration_are_named(tmp_path: Path) -> None:
    settings = tmp_path / "fencepost.toml"
    settings.write_text("lisen = \"127.0.0.1:1\"\n")
    done = fencepost.run("config", "check", str(settings))
    assert done.returncode != 0 and "lisen" in done.stderr
    done = fencepost.run("serve", "--backend", "http://127.0.0.1:1", "--config", str(settings))
    assert done.returncode == 2 and "lisen" in done.stderr, "nothing was begun"
    done = fencepost.run("config", "check", str(fencepost.REPOSITORY / "config" / "fencepost.toml"))
    assert done.returncode == 0, done.stderr


def test_the_printed_examples_of_dev_work_as_printed(started: Callable[[Proxy], Proxy], logs: Callable[[], Path]) -> None:
    """Pastes everything that `fencepost dev` prints for a shell into a shell, twice."""
    proxy = started(Proxy.dev(logs()))
    # The tools of the virtual environment, under the names that the examples use; and a shell
    # that has been used for something else.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**fencepost.clean_environment(), "PATH": path, "AWS_SESSION_TOKEN": "of another store"}
    _, paste = proxy.output().split("Paste into another shell:\n")
    for times in (1, 2):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", paste], env=environment, cwd=logs().parent,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
        # Each says what its comment promises, in this order.
        places = [done.stdout.find(said) for said in (
            "HTTP/1.1 409 ", "<Code>StaleFenceToken</Code>", "\nby 34\n", "b'by 34 again'",
            f'fence_rejected_total{{bucket="demo",reason="stale"}} {times}\n',
        )]
        assert -1 not in places and places == sorted(places), done.stdout
    assert "in memory" in proxy.output()


def test_dev_keeps_its_data_and_its_fences(started: Callable[[Proxy], Proxy], logs: Callable[[], Path], tmp_path: Path) -> None:
    """Stopped, killed and started again on one directory."""
    data = tmp_path / "data"
    first = started(Proxy.dev(logs(), data=data))
    assert str(data) in first.output()
    assert Boto3(first.site, tmp_path).put("demo", "state", b"by 42", "42").ok
    assert first.stop() == 0, first.output()
    second = started(Proxy.dev(logs(), data=data))
    boto = Boto3(second.site, tmp_path)
    assert boto.put("demo", "state", b"by 41", "41").code == "StaleFenceToken"
    assert boto.put("demo", "state", b"by 43", "43").ok
    second.kill()
    boto = Boto3(started(Proxy.dev(logs(), data=data)).site, tmp_path)
    assert boto.put("demo", "state", b"by 42", "42").code == "StaleFenceToken"
    assert boto.get("demo", "state").body == b"by 43"


def test_a_second_dev_on_one_directory_is_refused(
    started: Callable[[Proxy], Proxy], logs: Callable[[], Path], tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    first = started(Proxy.dev(logs(), data=data))
    done = fencepost.run("dev", "--data", str(data), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    assert done.returncode == 1 and done.stdout == ""
    assert str(data) in done.stderr and "in use" in done.stderr
    assert Boto3(first.site, tmp_path).put("demo", "state", b"", "1").ok, "the first one is not disturbed"
    file = tmp_path / "file"
    file.touch()
    done = fencepost.run("dev", "--data", str(file), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    assert done.returncode == 1 and str(file) in done.stderr


def test_a_port_that_is_taken_is_named(stack: Stack) -> None:
    taken = stack.site.endpoint.removeprefix("http://")
    done = fencepost.run("dev", "--listen", taken, "--admin", "127.0.0.1:0")
    assert done.returncode == 1 and taken in done.stderr and "--listen" in done.stderr, done.stderr


def test_the_demo_plays_right_and_leaves_nothing_running(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    began = time.monotonic()
    done = fencepost.run("demo", timeout=DEMO_SECONDS_MAX, environment={"DEMO_TEST_MARK": mark, "TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stdout + done.stderr
    assert time.monotonic() - began < DEMO_SECONDS_MAX
    assert "409" in done.stdout and "fence_rejected_total" in done.stdout
    # Its workers are processes of their own; the mark is in the environment of each.
    assert processes_with(mark) == []
    assert list(tmp_path.iterdir()) == []


def processes_with(mark: str) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue  # ended meanwhile
    return found
