"""Every client does every operation it has: without a token, with one, and with a stale one.

The programs are in programs/ and judge nothing; here is what has to come of them. A key is looked
at afterwards with boto3, and so is its fence: that an older token is refused there now shows that
the program's own token arrived.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from field import FENCED, HELD, NEWER, STALE_HOLDER, STOOD, UNFENCED, WRITTEN, Field, skip_if_missing
from programs import CLIENTS, SESSION, WRITES, Client, Result, Surroundings
from raw_http import fetch
from s3_clients import Boto3
from stack import BUCKET, EMBEDDED, SEAWEEDFS, STALE, Stack

MESSAGE = f"The fence token {HELD} is older than {NEWER}"

# What passes without a token passes as it is, and a header reaches no store: for these one is enough.
SITUATIONS = [
    (UNFENCED, EMBEDDED), (FENCED, EMBEDDED), (FENCED, SEAWEEDFS), (STALE_HOLDER, EMBEDDED), (STALE_HOLDER, SEAWEEDFS),
]
MATRIX = [
    pytest.param(store, client, situation, carrier, id="-".join((client.name, situation, carrier, store)))
    for client in CLIENTS
    for situation, store in SITUATIONS
    for carrier in (client.carriers if store == EMBEDDED and situation != UNFENCED else (SESSION,))
]


@pytest.mark.parametrize(("stack", "client", "situation", "carrier"), MATRIX, indirect=["stack"])
def test_matrix(
    stack: Stack, boto: Boto3, surroundings: Surroundings, client: Client, situation: str, carrier: str,
) -> None:
    skip_if_missing(client)
    if situation != UNFENCED:
        surroundings = replace(surroundings, token=HELD, carrier=carrier)
    field = Field(boto, surroundings)
    field.prepare(situation)
    before = stack.proxy.rejected(BUCKET, STALE)
    if situation == STALE_HOLDER:
        check_stale(client, client.run(("put",), surroundings), field)
        assert stack.proxy.rejected(BUCKET, STALE) - before == client.tries
        others = tuple(each for each in operations(client, stack, carrier) if each != "put")
        check_stale(client, client.run(others, surroundings), field)
        refused_at_least = len([each for each in ("put", *others) if each in WRITES])
        assert stack.proxy.rejected(BUCKET, STALE) - before >= refused_at_least
    else:
        check_done(client.run(operations(client, stack, carrier), surroundings), field)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_matrix_over_https(
    https_stack: Stack, tmp_path: Path, files: tuple[Path, Path], client: Client,
) -> None:
    """What a client signs and sends differs between http and https, so it has to arrive both ways."""
    skip_if_missing(client)
    site = https_stack.site
    surroundings = Surroundings(site, BUCKET, f"matrix/{uuid.uuid4()}", *files, scratch=tmp_path, token=HELD)
    field = Field(Boto3(site, tmp_path), surroundings)
    field.prepare(FENCED)
    check_done(client.run(client.operations, surroundings), field)


def operations(client: Client, stack: Stack, carrier: str) -> tuple[str, ...]:
    left_out = set(client.lacks_on_seaweedfs) if stack.name == SEAWEEDFS else set()
    if carrier != SESSION:
        # The header would have to be sent by whoever follows the link.
        left_out.add("presign")
    return tuple(each for each in client.operations if each not in left_out)


def check_done(results: list[Result], field: Field) -> None:
    for result in results:
        assert result.ok, result
        if result.operation in WRITES:
            field.check_written(result.operation)
        else:
            check_read(result, field.key(""))
        for method, link in result.links.items():
            status, body = follow(method, link, field.ca_file)
            assert status == 200, body
            if method == "GET":
                assert body == STOOD.encode()
            else:
                field.check_written("presigned")


def check_stale(client: Client, results: list[Result], field: Field) -> None:
    for result in results:
        if result.operation in WRITES:
            check_refused(client, result)
        else:
            # A token held is a token to read with, stale or not.
            check_read(result, field.key(""))
        if "PUT" in result.links:
            status, body = follow("PUT", result.links["PUT"], field.ca_file)
            assert status == 409 and b"<Code>StaleFenceToken</Code>" in body
    field.check_untouched()


def check_read(result: Result, prefix: str) -> None:
    assert result.ok, result
    if result.operation == "get":
        assert result.body == STOOD
    if result.operation == "list":
        assert sorted(key.rsplit("/", 1)[-1] for key in result.keys) == ["a", "b"]
    if result.operation == "presign":
        assert result.links and all(prefix in link for link in result.links.values())


def check_refused(client: Client, result: Result) -> None:
    assert result.ok == (result.operation in client.overlooks), result
    if result.operation not in (*client.hides, *client.overlooks):
        told = (result.code or "", result.said)
        assert any("StaleFenceToken" in said or MESSAGE in said for said in told), result
    # A batch is answered 200, with an error for each key.
    if result.status is not None and result.operation != "delete-batch":
        assert result.status == 409, result


def follow(method: str, link: str, ca_file: Path | None) -> tuple[int, bytes]:
    """Uses a link as anybody would whom it was given to: it holds the token that it was made with."""
    return fetch(method, link, WRITTEN.encode() if method == "PUT" else None, ca_file)
