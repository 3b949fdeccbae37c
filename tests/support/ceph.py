"""Ceph RGW on loopback: the second real store, for `.ci/run ceph`.

    python tests/support/ceph.py -- cargo test

starts one monitor, one OSD in memory and one gateway, hands the store over in
FENCEPOST_TEST_CEPH (its S3 endpoint), …_ACCESS_KEY and …_SECRET_KEY, runs the command, and exits
with the command's own status. It wants Debian's packages radosgw, ceph-mon, ceph-osd and
ceph-common.
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
import uuid
from pathlib import Path

ACCESS_KEY = "fencepost-test-access"
SECRET_KEY = "fencepost-test-secret-0123456789"
START_TIMEOUT_SECONDS = 90

CONFIG = """\
[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{mon_v2},v1:127.0.0.1:{mon_v1}]
mon initial members = a
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind ipv6 = false
keyring = {folder}/keyring
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
auth allow insecure global id reclaim = false
mon data = {folder}/mon
mon allow pool size one = true
mon max pg per osd = 1000
mon data avail warn = 1
mon data avail crit = 1
osd data = {folder}/osd
osd objectstore = memstore
memstore device bytes = 2147483648
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
rgw rados pool autoscale bias = 1
rgw rados pool pg num min = 1
rgw frontends = beast endpoint=127.0.0.1:{port}
rgw data = {folder}/rgw
run dir = {folder}
log file = {folder}/$name.log
admin socket = {folder}/$name.asok
setuser match path = /none
"""

# Who may do what.
KEYS = [
    ("mon.", ["mon", "allow *"]),
    ("client.admin", ["mon", "allow *", "osd", "allow *", "mgr", "allow *"]),
    ("osd.0", ["mon", "allow profile osd", "osd", "allow *"]),
    ("client.rgw.a", ["mon", "allow rwx", "osd", "allow rwx"]),
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Ceph:
    """One store, which runs within `with`."""

    access_key = ACCESS_KEY
    secret_key = SECRET_KEY

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ceph-"))
        self.processes: list[subprocess.Popen[bytes]] = []
        self.port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.config = self.folder / "ceph.conf"
        self.fsid = str(uuid.uuid4())
        self.monitor_port = free_port()
        text = CONFIG.format(
            fsid=self.fsid,
            folder=self.folder,
            mon_v2=self.monitor_port,
            mon_v1=free_port(),
            port=self.port,
        )
        self.config.write_text(text)
        for name in ("mon", "osd", "rgw"):
            (self.folder / name).mkdir()

    def run(self, *command: str) -> str:
        environment = {**os.environ, "CEPH_CONF": str(self.config)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise RuntimeError(f"{command}: {done.stderr}")
        return done.stdout.strip()

    def spawn(self, *command: str) -> None:
        log = (self.folder / f"{command[0]}.out").open("wb")
        environment = {**os.environ, "CEPH_CONF": str(self.config)}
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        self.processes.append(process)

    def start(self) -> None:
        keyring, monmap = str(self.folder / "keyring"), str(self.folder / "monmap")
        create = ["--create-keyring"]
        for name, caps in KEYS:
            pairs = zip(caps[::2], caps[1::2], strict=True)
            flags = [flag for kind, cap in pairs for flag in ("--cap", kind, cap)]
            self.run("ceph-authtool", keyring, *create, "--gen-key", "-n", name, *flags)
            create = []
        address = f"[v2:127.0.0.1:{self.monitor_port}]"
        self.run("monmaptool", "--create", "--addv", "a", address, "--fsid", self.fsid, monmap)
        self.run("ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap, "--keyring", keyring)
        self.spawn("ceph-mon", "-i", "a", "-f")
        self.until("the monitor", lambda: bool(self.run("timeout", "5", "ceph", "-s")))
        disk = str(uuid.uuid4())
        number = self.run("ceph", "osd", "new", disk)
        self.run("ceph-osd", "-i", number, "--mkfs", "--osd-uuid", disk)
        self.spawn("ceph-osd", "-i", number, "-f")
        self.until("the OSD", lambda: "1 up" in self.run("ceph", "osd", "stat"))
        self.spawn("radosgw", "-n", "client.rgw.a", "-f")
        self.until("the gateway", self.answers)
        self.add_user("test", (ACCESS_KEY, SECRET_KEY))

    def add_user(self, uid: str, pair: tuple[str, str]) -> None:
        self.run(
            *("radosgw-admin", "user", "create", f"--uid={uid}", f"--display-name=Name of {uid}"),
            *(f"--access-key={pair[0]}", f"--secret-key={pair[1]}"),
        )

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(self.endpoint, timeout=5):
                return True
        except urllib.error.URLError:
            return False

    def until(self, what: str, ready) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            try:
                if ready():
                    return
            except (RuntimeError, subprocess.TimeoutExpired):
                pass
            time.sleep(0.2)
        raise RuntimeError(f"{what} did not come up; see {self.folder}")

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


    def __enter__(self) -> Ceph:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def environment(self) -> dict[str, str]:
        """What the tests read to find the store."""
        return {
            "FENCEPOST_TEST_CEPH": self.endpoint,
            "FENCEPOST_TEST_CEPH_ACCESS_KEY": ACCESS_KEY,
            "FENCEPOST_TEST_CEPH_SECRET_KEY": SECRET_KEY,
        }


def main() -> int:
    if len(sys.argv) < 3 or sys.argv[1] != "--":
        print(__doc__, file=sys.stderr)
        return 2
    with Ceph() as store:
        return subprocess.run(sys.argv[2:], env={**os.environ, **store.environment()}).returncode


if __name__ == "__main__":
    sys.exit(main())
