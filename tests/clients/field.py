"""The objects that a client program of the matrix works on, and what has to become of them."""

from __future__ import annotations

import os

import pytest

from programs import Client, Surroundings
from s3_clients import Boto3
from stack import BUCKET

UNFENCED = "unfenced"
FENCED = "fenced"
STALE_HOLDER = "stale"

OLDER, HELD, NEWER = "41", "42", "43"
WRITTEN = "by the program\n"
STOOD = "by a newer holder\n"
BATCH = ("batch/a", "batch/b", "batch/c")


class Field:
    """The objects that one program finds, and what has become of them."""

    def __init__(self, boto: Boto3, surroundings: Surroundings) -> None:
        self._boto = boto
        self._prefix = surroundings.prefix
        self._large = surroundings.large_file
        self._token = surroundings.token
        self.ca_file = surroundings.site.ca_file

    def prepare(self, situation: str) -> None:
        token = {UNFENCED: None, FENCED: OLDER, STALE_HOLDER: NEWER}[situation]
        names = ["source", "listed/a", "listed/b", *BATCH]
        if situation == STALE_HOLDER:
            names += ["put", "copy", "multipart", "presigned"]
        for name in names:
            assert self._boto.put(BUCKET, self.key(name), STOOD.encode(), token).ok

    def key(self, name: str) -> str:
        return f"{self._prefix}/{name}"

    def content(self, name: str) -> bytes | None:
        answer = self._boto.get(BUCKET, self.key(name))
        assert answer.ok or answer.code == "NoSuchKey", answer
        return answer.body if answer.ok else None

    def check_written(self, operation: str) -> None:
        """The operation did what it should, and with the program's token."""
        if operation == "delete-batch":
            assert [self.content(name) for name in BATCH] == [None] * 3
        else:
            expected = {"put": WRITTEN.encode(), "copy": STOOD.encode(), "presigned": WRITTEN.encode()}
            # Not in the assertion: nobody wants to read 30 MiB.
            same = self.content(operation) == (expected.get(operation) or self._large.read_bytes())
            assert same, f"{operation} left something else"
        self._check_fence(BATCH if operation == "delete-batch" else (operation,))

    def check_untouched(self) -> None:
        for name in ("source", "put", "copy", "multipart", "presigned", *BATCH):
            assert self.content(name) == STOOD.encode(), name

    def _check_fence(self, names: tuple[str, ...]) -> None:
        """An older token is refused if the write had one, and any will do if it had none."""
        for name in names:
            answer = self._boto.put(BUCKET, self.key(name), b"", OLDER)
            assert answer.code == ("StaleFenceToken" if self._token else ""), (name, answer)


def skip_if_missing(client: Client) -> None:
    missing = client.missing()
    if missing is not None:
        assert not os.environ.get("CI"), missing
        pytest.skip(f"{client.name}: {missing}")


