"""The real lock servers, as Debian packages them: on loopback, each in a directory of its own.

A server can be killed and started again on the same port and data, and its data be put back to an
earlier state. It dies with the test run.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import psycopg
import redis
from kazoo.client import KazooClient

from seaweedfs import die_with_parent, free_ports
from wait import until

START_TIMEOUT_SECONDS = 60
START_ATTEMPTS_MAX = 3

HOST = "127.0.0.1"


class ServerDidNotStart(RuntimeError):
    """It ended or stayed silent; the message holds the end of its log."""


class Server:
    """One lock server. What the subclasses say: its name, its command, when it answers."""

    name: str
    # Of the Debian package, for whoever lacks it.
    package: str

    def __init__(self) -> None:
        # Not below pytest's own, which nobody else may enter: see `Postgres`.
        self.directory = Path(tempfile.mkdtemp(prefix=f"fencepost-{self.name}-"))
        self.data = self.directory / "data"
        self._log = self.directory / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        for attempt in range(1, START_ATTEMPTS_MAX + 1):
            # Another process may take a port between the look and the start.
            self.port, self._second_port = free_ports(2)
            try:
                self.start()
                return
            except ServerDidNotStart:
                self.kill()
                if attempt == START_ATTEMPTS_MAX:
                    raise

    def end(self) -> None:
        self.kill()
        shutil.rmtree(self.directory)

    @classmethod
    def missing(cls) -> str | None:
        """What has to be installed before it can run."""
        return None if cls.binary() else f"no {cls.name}: the Debian package {cls.package} has it"

    @classmethod
    def binary(cls) -> str | None:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """What tells a program of examples/tokens where the server is."""
        raise NotImplementedError

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(), cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent, start_new_session=True, **self._process_options(),
            )
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            if self._answers():
                return
            time.sleep(0.05)
        tail = self._log.read_text(errors="replace")[-4000:]
        raise ServerDidNotStart(f"{self.name} on port {self.port} did not get ready; its log ends:\n{tail}")

    def kill(self) -> None:
        """kill -9, and its children too: nothing is flushed that was not before."""
        if self._process is None or self._process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            # PostgreSQL does not start while one of them still has its memory.
            until(lambda: os.killpg(self._process.pid, 0), "the children are gone")

    def stop(self) -> None:
        """In order, as an administrator would before a cold backup."""
        self._process.terminate()
        self._process.wait(START_TIMEOUT_SECONDS)

    def back_up(self) -> Path:
        """A cold copy of the data."""
        self.stop()
        copy = self.directory / "backup"
        shutil.rmtree(copy, ignore_errors=True)
        # With its owner, which may not be ours.
        subprocess.run(["cp", "--archive", self.data, copy], check=True)
        self.start()
        return copy

    def restore(self, copy: Path) -> None:
        """All data as they were when the copy was made."""
        self.kill()
        shutil.rmtree(self.data)
        copy.rename(self.data)
        self.start()

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _answers(self) -> bool:
        raise NotImplementedError

    def _process_options(self) -> dict[str, object]:
        return {}


class Etcd(Server):
    name = "etcd"
    package = "etcd-server"

    @classmethod
    def binary(cls) -> str | None:
        return shutil.which("etcd")

    def environment(self) -> dict[str, str]:
        return {"ETCD_ENDPOINT": f"http://{HOST}:{self.port}"}

    def queue(self, lock: str) -> int:
        """How many hold or wait for the lock."""
        first, after = (base64.b64encode(f"{lock}{end}".encode()).decode() for end in "/0")
        question = json.dumps({"key": first, "range_end": after, "count_only": True}).encode()
        with urllib.request.urlopen(f"{self.environment()['ETCD_ENDPOINT']}/v3/kv/range", question, timeout=10) as answer:
            return int(json.load(answer).get("count", 0))

    def _command(self) -> list[str]:
        clients, peers = self.environment()["ETCD_ENDPOINT"], f"http://{HOST}:{self._second_port}"
        return [
            self.binary(), f"--data-dir={self.data}", "--name=only", f"--initial-cluster=only={peers}",
            f"--listen-client-urls={clients}", f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}",
        ]

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.environment()['ETCD_ENDPOINT']}/health", timeout=2) as answer:
                return json.load(answer)["health"] == "true"
        except (urllib.error.URLError, OSError):
            return False


class Postgres(Server):
    name = "postgres"
    package = "postgresql"

    @classmethod
    def binary(cls) -> str | None:
        # Debian keeps the servers of all versions apart, and off PATH.
        found = [path / "bin" / "postgres" for path in Path("/usr/lib/postgresql").glob("*")]
        found = sorted((path for path in found if path.exists()), key=lambda path: float(path.parts[-3]))
        return str(found[-1]) if found else shutil.which("postgres")

    def environment(self) -> dict[str, str]:
        return {"PGHOST": HOST, "PGPORT": str(self.port), "PGUSER": "fencepost", "PGDATABASE": "postgres"}

    def connect(self, **parameters: object) -> psycopg.Connection:
        return psycopg.connect(
            host=HOST, port=self.port, user="fencepost", dbname="postgres", autocommit=True, **parameters,
        )

    def start(self) -> None:
        if not self.data.exists():
            self._initialize()
        super().start()

    def _initialize(self) -> None:
        self._run("initdb", "--pgdata", self.data, "--username=fencepost", "--auth=trust")

    def _run(self, tool: str, *arguments: object) -> None:
        """One of the server's own tools, as the user who runs the server."""
        options = self._process_options()
        if options:
            shutil.chown(self.directory, **options)
        with self._log.open("ab") as log:
            subprocess.run(
                [Path(self.binary()).with_name(tool), *arguments],
                check=True, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=self.directory, **options,
            )

    def _command(self) -> list[str]:
        return [
            self.binary(), "-D", str(self.data), "-p", str(self.port), "-c", f"listen_addresses={HOST}",
            "-c", "unix_socket_directories=", "-c", "max_connections=30", "-c", "shared_buffers=16MB",
            # What reaches the disk then does so because a commit waited for it, and not by the way.
            "-c", "wal_writer_delay=10s",
        ]

    def _answers(self) -> bool:
        try:
            self.connect(connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _process_options(self) -> dict[str, object]:
        # It refuses to run as root; the package made a user for it.
        return {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}


class Standby(Postgres):
    """A copy that replays the primary's log as it comes: the primary does not wait for it."""

    def __init__(self, primary: Postgres) -> None:
        self._primary = primary
        super().__init__()

    def in_step(self) -> None:
        """Waits until it has replayed all that the primary has done."""
        with self._primary.connect() as primary, self.connect() as standby:
            written = primary.execute("SELECT pg_current_wal_insert_lsn()").fetchone()[0]
            until(
                lambda: standby.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", [written]).fetchone()[0],
                "the standby has caught up",
            )

    def promote(self) -> None:
        with self.connect() as session:
            assert session.execute("SELECT pg_promote()").fetchone()[0]

    def _initialize(self) -> None:
        self._run(
            "pg_basebackup", "--pgdata", self.data, "--host", HOST, "--port", str(self._primary.port), "--username=fencepost",
            "--checkpoint=fast", "--write-recovery-conf",
        )


class ZooKeeper(Server):
    name = "zookeeper"
    package = "zookeeper"
    JAR = Path("/usr/share/java/zookeeper.jar")
    # Sessions are counted in ticks, and the shortest is two.
    TICK_MILLISECONDS = 500

    @classmethod
    def binary(cls) -> str | None:
        return shutil.which("java") if cls.JAR.exists() else None

    def environment(self) -> dict[str, str]:
        return {"ZOOKEEPER_HOSTS": f"{HOST}:{self.port}"}

    def _command(self) -> list[str]:
        settings = self.directory / "zoo.cfg"
        settings.write_text("\n".join((
            f"dataDir={self.data}",
            f"clientPort={self.port}",
            f"clientPortAddress={HOST}",
            f"tickTime={self.TICK_MILLISECONDS}",
            "admin.enableServer=false",
            "4lw.commands.whitelist=ruok",
            "",
        )))
        logging = self.directory / "log4j.properties"
        logging.write_text("\n".join((
            "log4j.rootLogger=INFO, out",
            "log4j.appender.out=org.apache.log4j.ConsoleAppender",
            "log4j.appender.out.layout=org.apache.log4j.PatternLayout",
            "log4j.appender.out.layout.ConversionPattern=%d %p %m%n",
            "",
        )))
        return [
            self.binary(), "-Xmx256m", "-XX:TieredStopAtLevel=1", f"-Dlog4j.configuration={logging.as_uri()}",
            "-cp", str(self.JAR), "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(settings),
        ]

    def client(self) -> KazooClient:
        return KazooClient(hosts=self.environment()["ZOOKEEPER_HOSTS"])

    def _answers(self) -> bool:
        try:
            with socket.create_connection((HOST, self.port), timeout=2) as asked:
                asked.sendall(b"ruok")
                return asked.recv(8) == b"imok"
        except OSError:
            return False


class Redis(Server):
    name = "redis"
    package = "redis-server"
    # Every write is on the disk before it is answered: no default, and the only durable setting.
    DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
    # And a replica is served at once, not after the five seconds in which others may come.
    IN_MEMORY = ("--appendonly", "no", "--save", "", "--repl-diskless-sync-delay", "0")

    def __init__(self, settings: tuple[str, ...] = DURABLE) -> None:
        self._settings = settings
        super().__init__()

    @classmethod
    def binary(cls) -> str | None:
        return shutil.which("redis-server")

    def environment(self) -> dict[str, str]:
        return {"REDIS_URL": f"redis://{HOST}:{self.port}"}

    def client(self) -> redis.Redis:
        return redis.Redis(HOST, self.port, decode_responses=True)

    def _command(self) -> list[str]:
        self.data.mkdir(exist_ok=True)
        return [
            self.binary(), "--bind", HOST, "--port", str(self.port), "--dir", str(self.data),
            *self._settings,
        ]

    def _answers(self) -> bool:
        try:
            with self.client() as asked:
                return asked.ping()
        except redis.RedisError:
            return False
