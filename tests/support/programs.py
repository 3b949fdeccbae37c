"""The client programs of the matrix: where each is, what builds and starts it, what it cannot do.

    python tests/support/programs.py

builds those whose toolchain is here, into .ci/cache/clients. What is missing is said; with CI set
in the environment that is a failure, elsewhere the tests of that client are skipped with the same
words.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fencepost import BINARY, REGION, REPOSITORY, Site, clean_environment

PROGRAMS = REPOSITORY / "tests" / "clients" / "programs"
BUILDS = REPOSITORY / ".ci" / "cache" / "clients"
BUILD_TIMEOUT_SECONDS = 900
RUN_TIMEOUT_SECONDS = 110

SESSION = "session-token"
HEADER = "header"

WRITES = ("put", "copy", "multipart", "delete-batch")
OPERATIONS = ("get", "list", "presign", *WRITES)

NO_COPY = "it copies by reading and writing"
NO_BATCH = "it deletes one object at a time"
NO_LINKS = "it makes no links"


@dataclass(frozen=True)
class Surroundings:
    """All that a program is told."""

    site: Site
    bucket: str
    prefix: str
    small_file: Path
    large_file: Path
    scratch: Path
    token: str | None = None
    carrier: str = SESSION

    def environment(self) -> dict[str, str]:
        told = {
            "S3_ENDPOINT": self.site.endpoint,
            "S3_REGION": REGION,
            "S3_ACCESS_KEY": self.site.access_key,
            "S3_SECRET_KEY": self.site.secret_key,
            "S3_BUCKET": self.bucket,
            "S3_PREFIX": self.prefix,
            "FENCE_CARRIER": self.carrier,
            "SMALL_FILE": str(self.small_file),
            "LARGE_FILE": str(self.large_file),
            "SCRATCH": str(self.scratch),
            # The command line tools are those of the virtual environment that runs the tests.
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        if self.token is not None:
            told["FENCE_TOKEN"] = self.token
        if self.site.ca_file is not None:
            # The first is for programs that name the file, the others are read by runtimes: Go's and
            # OpenSSL's, Node.js's, Java's.
            told["S3_CA_FILE"] = told["SSL_CERT_FILE"] = told["NODE_EXTRA_CA_CERTS"] = str(self.site.ca_file)
            told["JAVA_TOOL_OPTIONS"] = f"-Djavax.net.ssl.trustStore={self.site.ca_file.with_suffix('.p12')}"
        return clean_environment(told)


@dataclass(frozen=True)
class Result:
    """What came of one operation, as far as the client shows it."""

    operation: str
    ok: bool
    status: int | None = None
    code: str | None = None
    said: str = ""
    body: str | None = None
    keys: list[str] | None = None
    # By method, URLs that work without the client.
    links: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Client:
    """One client; `name` is also its heading in docs/clients.md."""

    name: str
    # Below PROGRAMS.
    source: str
    command: tuple[str, ...]
    # What has to be on PATH, and the file that a build leaves.
    tool: str
    built: Path | None = None
    # A tool of the command line: started once for each operation, answers in its own words.
    is_tool: bool = False
    carriers: tuple[str, ...] = (SESSION,)
    lacks: Mapping[str, str] = field(default_factory=dict)
    # What it cannot do over SeaweedFS.
    lacks_on_seaweedfs: Mapping[str, str] = field(default_factory=dict)
    # Operations whose errors tell neither S3's code nor its message, and such that end in success
    # all the same. There the proxy's count of refusals, and the objects, have to do.
    hides: tuple[str, ...] = ()
    overlooks: tuple[str, ...] = ()
    only_read_links: bool = False
    # How often it sends a PUT that is refused as stale.
    tries: int = 1

    @property
    def operations(self) -> tuple[str, ...]:
        return tuple(operation for operation in OPERATIONS if operation not in self.lacks)

    def missing(self) -> str | None:
        """Why it cannot run here."""
        if shutil.which(self.tool, path=search_path()) is None:
            return f"no `{self.tool}` on PATH"
        if self.built is not None and not self.built.exists():
            return f"not built: {self.built} (tests/support/programs.py builds it)"
        return None

    def run(self, operations: tuple[str, ...], surroundings: Surroundings) -> list[Result]:
        if self.is_tool:
            return [self._result_of_tool(operation, surroundings) for operation in operations]
        done = self._start(operations, surroundings)
        assert done.returncode == 0, f"{self.name} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        results = [Result(**json.loads(line)) for line in done.stdout.splitlines() if line.startswith("{")]
        assert [result.operation for result in results] == list(operations), done.stdout + done.stderr
        return results

    def _result_of_tool(self, operation: str, surroundings: Surroundings) -> Result:
        done = self._start((operation,), surroundings)
        if done.returncode != 0:
            said = done.stderr + done.stdout
            code = re.search(r"StaleFenceToken|Fence[A-Z]\w+|InvalidFenceToken", said)
            return Result(operation, False, code=code[0] if code else None, said=said)
        return Result(
            operation, True,
            body=done.stdout,
            keys=[line.split()[-1] for line in done.stdout.splitlines() if line.strip()],
            links=dict(re.findall(r"^(GET|PUT) (http\S+)$", done.stdout, re.M)),
        )

    def _start(self, operations: tuple[str, ...], surroundings: Surroundings) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.command, *operations], env=surroundings.environment(), cwd=surroundings.scratch,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_TIMEOUT_SECONDS,
        )


def search_path() -> str:
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def python(name: str, file: str, **about: object) -> Client:
    source = f"python/{file}"
    return Client(name, source, (sys.executable, str(PROGRAMS / source)), sys.executable, **about)


def tool(name: str, command: str, **about: object) -> Client:
    source = f"shell/{name}.sh"
    return Client(name, source, (str(PROGRAMS / source),), command, is_tool=True, **about)


def go(name: str, **about: object) -> Client:
    built = BUILDS / "go" / name
    return Client(name, f"go/{name}/main.go", (str(built),), "go", built, **about)


# Beside the proxy, where .ci/run keeps both, or where `cargo build --example aws-sdk-rust` leaves it.
RUST = next((
    path for path in (BINARY.parent / "aws-sdk-rust", BINARY.parent / "examples" / "aws-sdk-rust") if path.exists()
), BINARY.parent / "aws-sdk-rust")
JS = BUILDS / "js"
JAVA = BUILDS / "java"
BOTH = (SESSION, HEADER)

CLIENTS = (
    python("boto3", "boto3_client.py", carriers=BOTH),
    tool("aws-cli", "aws", only_read_links=True),
    tool("s3cmd", "s3cmd", lacks={"presign": "its links have the older signature 2"}, overlooks=("delete-batch",)),
    tool("rclone", "rclone", lacks={"delete-batch": NO_BATCH}, only_read_links=True, tries=3),
    tool("s5cmd", "s5cmd", only_read_links=True),
    Client("aws-sdk-js-v3", "js/client.mjs", ("node", str(JS / "client.mjs")), "node", JS / "node_modules", carriers=BOTH),
    Client("aws-sdk-rust", "rust/main.rs", (str(RUST),), "cargo", RUST, carriers=BOTH),
    go("aws-sdk-go-v2", carriers=BOTH),
    go("minio-go"),
    Client(
        "aws-sdk-java-v2", "java/src/main/java/Client.java",
        # The first compiler is enough for what lives two seconds.
        ("java", "-XX:TieredStopAtLevel=1", "-cp", f"{JAVA}/target/classes:{JAVA}/target/dependency/*", "Client"),
        "java", JAVA / "target" / "classes" / "Client.class", carriers=BOTH,
    ),
    python("minio-py", "minio_py.py"),
    python("object_store", "obstore_client.py"),
    python("OpenDAL", "opendal_client.py", hides=("delete-batch",)),
    python(
        "pyarrow", "pyarrow_client.py", lacks={"presign": NO_LINKS},
        lacks_on_seaweedfs={"delete-batch": "it writes `directory/` afterwards, on which SeaweedFS holds no precondition"},
    ),
    python(
        "DuckDB", "duckdb_client.py", lacks={"copy": NO_COPY, "delete-batch": "it deletes nothing", "presign": NO_LINKS},
        tries=2, hides=("multipart",),
    ),
    tool("s3fs", "s3fs", lacks={"copy": NO_COPY, "delete-batch": NO_BATCH, "presign": NO_LINKS}, hides=WRITES),
)

# Has commands of its own in the place of the operations; see test_restic.py.
RESTIC = tool("restic", "restic")


# ---- building ---------------------------------------------------------------------------------

def build_js() -> None:
    copy_program("js", JS)
    call("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=JS)


def build_go() -> None:
    (BUILDS / "go").mkdir(parents=True, exist_ok=True)
    call("go", "build", "-mod=readonly", "-o", f"{BUILDS / 'go'}/", "./...", cwd=PROGRAMS / "go")


def build_java() -> None:
    copy_program("java", JAVA)
    call("mvn", "--batch-mode", "--quiet", "compile", "dependency:copy-dependencies", cwd=JAVA)


BUILDERS: Mapping[str, Callable[[], None]] = {"npm": build_js, "go": build_go, "mvn": build_java}


def copy_program(name: str, target: Path) -> None:
    """For toolchains that leave what they make beside the source."""
    shutil.copytree(PROGRAMS / name, target, dirs_exist_ok=True)


def call(*command: str, cwd: Path) -> None:
    subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, timeout=BUILD_TIMEOUT_SECONDS, check=True)


def main() -> int:
    missing = [builder for builder in BUILDERS if shutil.which(builder) is None]
    for builder, build in BUILDERS.items():
        if builder in missing:
            print(f"SKIPPED the clients that `{builder}` builds: there is none", flush=True)
        else:
            build()
    return 1 if missing and os.environ.get("CI") else 0


if __name__ == "__main__":
    sys.exit(main())
