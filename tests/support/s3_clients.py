"""Three S3 clients behind one interface: boto3, aws-cli and s3cmd, as their users run them.

Each method is one request of a user and gives an `Answer`; a refusal is an answer, not an
exception. A token travels in one of two carriers: `SESSION`, the session token `fence:<n>`
that every client can send, or `HEADER`, a signed X-Fence-Token. Retry settings are the
clients' own defaults, since that is what the tests are about.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import boto3
from botocore.client import BaseClient
from botocore.config import Config
from botocore.exceptions import ClientError

from fencepost import REGION, Site, clean_environment

SESSION = "session-token"
HEADER = "header"

COMMAND_TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class Answer:
    """What came back: `code` is S3's error code ("" for success), the rest as far as the client shows it."""

    code: str = ""
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    # The error's child elements, as in {"Code": …, "FenceToken": …}.
    error: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    keys: tuple[str, ...] = ()
    output: str = ""

    @property
    def ok(self) -> bool:
        return self.code == ""


class Boto3:
    """boto3's client, one for each token, as its users would make one for each lease."""

    name = "boto3"
    put_carriers = (SESSION, HEADER)
    delete_carriers = (SESSION, HEADER)

    def __init__(self, site: Site, scratch: Path) -> None:
        self._site = site

    def put(self, bucket: str, key: str, body: bytes, token: str | None = None, carrier: str = SESSION) -> Answer:
        return boto_answer(self.client(token, carrier).put_object, Bucket=bucket, Key=key, Body=body)

    def get(self, bucket: str, key: str, token: str | None = None) -> Answer:
        return boto_answer(self.client(token).get_object, Bucket=bucket, Key=key)

    def list(self, bucket: str, prefix: str, token: str | None = None) -> Answer:
        return boto_answer(self.client(token).list_objects_v2, Bucket=bucket, Prefix=prefix)

    def delete(self, bucket: str, key: str, token: str | None = None, carrier: str = SESSION) -> Answer:
        return boto_answer(self.client(token, carrier).delete_object, Bucket=bucket, Key=key)

    def client(self, token: str | None = None, carrier: str = SESSION) -> BaseClient:
        return boto_client(self._site, token, carrier)


class AwsCli:
    """`aws s3api`, one process for each request."""

    name = "aws-cli"
    put_carriers = (SESSION,)
    delete_carriers = (SESSION,)

    def __init__(self, site: Site, scratch: Path) -> None:
        self._site = site
        self._scratch = scratch

    def put(self, bucket: str, key: str, body: bytes, token: str | None = None, carrier: str = SESSION) -> Answer:
        source = scratch_file(self._scratch, body)
        return self._s3api(token, "put-object", bucket, "--key", key, "--body", str(source))

    def get(self, bucket: str, key: str, token: str | None = None) -> Answer:
        target = scratch_file(self._scratch, b"")
        answer = self._s3api(token, "get-object", bucket, "--key", key, str(target))
        return Answer(**{**vars(answer), "body": target.read_bytes()})

    def list(self, bucket: str, prefix: str, token: str | None = None) -> Answer:
        answer = self._s3api(token, "list-objects-v2", bucket, "--prefix", prefix)
        shown = json.loads(answer.output or "{}") if answer.ok else {}
        return Answer(**{**vars(answer), "keys": tuple(entry["Key"] for entry in shown.get("Contents", []))})

    def delete(self, bucket: str, key: str, token: str | None = None, carrier: str = SESSION) -> Answer:
        return self._s3api(token, "delete-object", bucket, "--key", key)

    def run(self, token: str | None, *arguments: str) -> Answer:
        """`aws ARGUMENTS`, as for the high-level `s3` commands."""
        environment = {
            "AWS_ACCESS_KEY_ID": self._site.access_key,
            "AWS_SECRET_ACCESS_KEY": self._site.secret_key,
            "AWS_ENDPOINT_URL": self._site.endpoint,
            "AWS_DEFAULT_REGION": REGION,
            **({} if token is None else {"AWS_SESSION_TOKEN": f"fence:{token}"}),
        }
        return command_answer(
            [tool("aws"), *arguments], environment,
            # A HEAD's answer has no body: the tool shows its status in the place of the code.
            r"An error occurred \((?P<code>\w+)\) when calling",
        )

    def _s3api(self, token: str | None, operation: str, bucket: str, *arguments: str) -> Answer:
        return self.run(token, "s3api", operation, "--bucket", bucket, "--output", "json", *arguments)


class S3Cmd:
    """s3cmd with a configuration file, one process for each command."""

    name = "s3cmd"
    put_carriers = (SESSION, HEADER)
    # `--add-header` is not sent with a DELETE (measured on 2.4.0).
    delete_carriers = (SESSION,)

    def __init__(self, site: Site, scratch: Path) -> None:
        self._scratch = scratch
        address = site.endpoint.removeprefix("http://")
        self._config = scratch_file(scratch, "\n".join((
            "[default]",
            f"access_key = {site.access_key}",
            f"secret_key = {site.secret_key}",
            f"host_base = {address}",
            # The same without %(bucket)s: path style.
            f"host_bucket = {address}",
            f"bucket_location = {REGION}",
            "use_https = False",
            "signature_v2 = False",
            # Guessing needs libmagic, which a machine may not have.
            "guess_mime_type = False",
            "",
        )).encode())

    def put(self, bucket: str, key: str, body: bytes, token: str | None = None, carrier: str = SESSION) -> Answer:
        source = scratch_file(self._scratch, body)
        return self._s3cmd(token, carrier, "put", str(source), f"s3://{bucket}/{key}")

    def get(self, bucket: str, key: str, token: str | None = None) -> Answer:
        target = scratch_file(self._scratch, b"")
        answer = self._s3cmd(token, SESSION, "get", "--force", f"s3://{bucket}/{key}", str(target))
        return Answer(**{**vars(answer), "body": target.read_bytes()})

    def list(self, bucket: str, prefix: str, token: str | None = None) -> Answer:
        answer = self._s3cmd(token, SESSION, "ls", "--recursive", f"s3://{bucket}/{prefix}")
        return Answer(**{**vars(answer), "keys": tuple(re.findall(rf"s3://{bucket}/(.*)$", answer.output, re.M))})

    def delete(self, bucket: str, key: str, token: str | None = None, carrier: str = SESSION) -> Answer:
        return self._s3cmd(token, carrier, "del", f"s3://{bucket}/{key}")

    def _s3cmd(self, token: str | None, carrier: str, *arguments: str) -> Answer:
        sent = []
        if token is not None:
            sent = [f"--access_token=fence:{token}"] if carrier == SESSION else [f"--add-header=X-Fence-Token:{token}"]
        return command_answer(
            [tool("s3cmd"), f"--config={self._config}", "--no-progress", *sent, *arguments], {},
            # It looks for an object by HEAD before it gets it, and words that 404 itself.
            r"S3 error: (?P<status>\d+) \((?P<code>\w+)\)|Source object '.*' does not exist",
        )


CLIENTS = (Boto3, AwsCli, S3Cmd)


def boto_client(site: Site, token: str | None = None, carrier: str = SESSION, **config: object) -> BaseClient:
    """A boto3 client that sends `token` with every request."""
    in_session = token is not None and carrier == SESSION
    client = boto3.client(
        "s3",
        endpoint_url=site.endpoint, region_name=REGION,
        aws_access_key_id=site.access_key, aws_secret_access_key=site.secret_key,
        aws_session_token=f"fence:{token}" if in_session else None,
        verify=site.ca_file and str(site.ca_file),
        config=Config(s3={"addressing_style": "path"}, **config),
    )
    if token is not None and carrier == HEADER:
        def add_header(request: object, **_: object) -> None:
            request.headers["X-Fence-Token"] = token
        client.meta.events.register("before-sign.s3.*", add_header)
    return client


def boto_answer(call: object, **parameters: object) -> Answer:
    """Calls a client's method and turns success or refusal into an `Answer`."""
    try:
        result = call(**parameters)
    except ClientError as refused:
        about = refused.response["ResponseMetadata"]
        # boto3 tries again on its own when it takes an error for a passing one.
        assert about["RetryAttempts"] == 0, refused.response
        return Answer(
            code=refused.response["Error"]["Code"], status=about["HTTPStatusCode"],
            headers=about["HTTPHeaders"], error=refused.response["Error"],
        )
    about = result["ResponseMetadata"]
    return Answer(
        status=about["HTTPStatusCode"], headers=about["HTTPHeaders"],
        body=result["Body"].read() if "Body" in result else b"",
        keys=tuple(entry["Key"] for entry in result.get("Contents", [])),
    )


def command_answer(command: list[str], environment: dict[str, str], error_pattern: str) -> Answer:
    """Runs a client's command; on failure `error_pattern` finds `code` and `status` in what it says."""
    done = subprocess.run(
        command, env=clean_environment(environment), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=COMMAND_TIMEOUT_SECONDS,
    )
    if done.returncode == 0:
        return Answer(output=done.stdout)
    shown = done.stderr + done.stdout
    found = re.search(error_pattern, shown, re.M)
    assert found, f"{command} failed without an S3 error:\n{shown}"
    said = found.groupdict()
    return Answer(
        code=said.get("code") or "404", status=int(said["status"]) if said.get("status") else None, output=shown,
    )


def tool(name: str) -> str:
    """The tool of the virtual environment that runs the tests, not one that PATH happens to have."""
    return str(Path(sys.executable).parent / name)


def scratch_file(directory: Path, content: bytes) -> Path:
    """A new file with `content`."""
    with tempfile.NamedTemporaryFile(dir=directory, delete=False) as file:
        file.write(content)
    return Path(file.name)
