"""A bare HTTP/1.1 connection, for what no S3 client does on purpose.

It signs with botocore's own signer and then sends exactly the bytes that a test asks for, in
the order the test asks for: a body without waiting for `100 Continue`, half a body, headers
that are not signed.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from fencepost import REGION, Site

TIMEOUT_SECONDS = 30


class UnsignedPayload(S3SigV4Auth):
    """botocore's signer without its rule that over plain http a payload is always signed."""

    def _should_sha256_sign_payload(self, request: AWSRequest) -> bool:
        return False


@dataclass(frozen=True)
class RawAnswer:
    status: int
    headers: dict[str, str]
    body: bytes


class RawConnection:
    """One TCP connection to the data listener."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._socket = socket.create_connection(site.address, TIMEOUT_SECONDS)

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send_head(
        self, method: str, bucket: str, key: str, *,
        length: int = 0, token: str | None = None,
        signed: Sequence[tuple[str, str]] = (), unsigned: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Sends a request's head, signed with `UNSIGNED-PAYLOAD`; the body is up to the test.

        Headers in `signed` are part of the signature, those in `unsigned` are added afterwards; a
        name may be repeated.
        """
        path = f"/{bucket}/{quote(key)}"
        request = AWSRequest(method, f"{self._site.endpoint}{path}")
        for name, value in signed:
            # Its headers are an email message's: a second one goes beside the first.
            request.headers.add_header(name, value)
        session_token = None if token is None else f"fence:{token}"
        credentials = Credentials(self._site.access_key, self._site.secret_key, session_token)
        UnsignedPayload(credentials, "s3", REGION).add_auth(request)
        host, port = self._site.address
        headers = [("Host", f"{host}:{port}"), ("Content-Length", str(length)), *request.headers.items(), *unsigned]
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""]
        self._socket.sendall("\r\n".join(lines).encode("latin-1"))

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def answer(self) -> RawAnswer:
        """The next answer that is not `100 Continue`."""
        response = http.client.HTTPResponse(self._socket)
        response.begin()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return RawAnswer(response.status, headers, response.read())

    def line(self) -> bytes:
        """The next line, without reading past it."""
        data = b""
        while not data.endswith(b"\r\n"):
            byte = self._socket.recv(1)
            if not byte:
                break
            data += byte
        return data

    def silent_for(self, seconds: float) -> bool:
        """Whether nothing at all arrives for that long."""
        self._socket.settimeout(seconds)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        finally:
            self._socket.settimeout(TIMEOUT_SECONDS)
        return False

    def shut(self) -> None:
        """Ends the sending side."""
        self._socket.shutdown(socket.SHUT_WR)


def fetch(method: str, url: str, body: bytes | None = None, ca_file: Path | None = None) -> tuple[int, bytes]:
    """One request without any client's help."""
    request = urllib.request.Request(url, data=body, method=method)
    if body is not None:
        # urllib would add a form's type, and the link signs no type.
        request.add_header("Content-Type", "application/octet-stream")
    context = ssl.create_default_context(cafile=ca_file) if ca_file else None
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS, context=context) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read()
