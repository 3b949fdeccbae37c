"""What crosses the wire, and when: refusals before the body, drains, headers nobody signed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from raw_http import RawAnswer, RawConnection
from s3_clients import HEADER, SESSION, Boto3
from stack import BUCKET, INVALID, STALE, Stack

BODY = b"0123456789abcdef" * (4 << 16)  # 4 MiB


@pytest.fixture
def fenced_key(boto: Boto3, key: str) -> str:
    """A key whose fence stands at 42."""
    assert boto.put(BUCKET, key, b"by 42", "42").ok
    return key


def assert_stale(answer: RawAnswer) -> None:
    assert answer.status == 409 and b"<Code>StaleFenceToken</Code>" in answer.body, answer


def test_a_stale_upload_is_refused_instead_of_100_continue(stack: Stack, fenced_key: str) -> None:
    with stack.refused_once(STALE), RawConnection(stack.site) as connection:
        connection.send_head("PUT", BUCKET, fenced_key, length=len(BODY), token="41", unsigned=[("Expect", "100-continue")])
        # Not one byte of the body has been sent.
        assert connection.line().startswith(b"HTTP/1.1 409 ")


def test_an_admitted_upload_is_asked_for_its_body(stack: Stack, boto: Boto3, fenced_key: str) -> None:
    with RawConnection(stack.site) as connection:
        connection.send_head("PUT", BUCKET, fenced_key, length=len(BODY), token="43", unsigned=[("Expect", "100-continue")])
        assert connection.line().startswith(b"HTTP/1.1 100 ")
        assert connection.line() == b"\r\n"
        connection.send(BODY)
        assert connection.answer().status == 200
    assert boto.get(BUCKET, fenced_key).body == BODY


def test_a_client_that_sends_its_body_anyway_gets_its_409(stack: Stack, fenced_key: str) -> None:
    """It reads nothing before it has sent everything: a closed connection would cost it the answer."""
    with stack.refused_once(STALE), RawConnection(stack.site) as connection:
        connection.send_head("PUT", BUCKET, fenced_key, length=len(BODY), token="41")
        connection.send(BODY)
        assert_stale(connection.answer())


def test_a_refusal_does_not_wait_for_the_body(stack: Stack, fenced_key: str) -> None:
    with stack.refused_once(STALE), RawConnection(stack.site) as connection:
        connection.send_head("PUT", BUCKET, fenced_key, length=len(BODY), token="41")
        assert_stale(connection.answer())


@pytest.mark.parametrize("sent", [0, len(BODY) // 2], ids=["nothing", "half"])
def test_an_upload_that_breaks_off_changes_nothing(stack: Stack, boto: Boto3, fenced_key: str, sent: int) -> None:
    with RawConnection(stack.site) as connection:
        connection.send_head("PUT", BUCKET, fenced_key, length=len(BODY), token="43")
        connection.send(BODY[:sent])
    assert boto.get(BUCKET, fenced_key).body == b"by 42"
    assert boto.put(BUCKET, fenced_key, b"by 44", "44").ok, "what it left behind blocks nobody"
    assert boto.get(BUCKET, fenced_key).body == b"by 44"


def test_a_header_that_is_not_signed_is_no_token(stack: Stack, boto: Boto3, fenced_key: str) -> None:
    """Anyone on the way could have put it there. `token_signature = "any"` would take it."""
    with RawConnection(stack.site) as connection:
        connection.send_head("PUT", BUCKET, fenced_key, length=4, unsigned=[("X-Fence-Token", "99")])
        connection.send(b"by99")
        answer = connection.answer()
    assert answer.status == 400 and b"<Code>InvalidFenceToken</Code>" in answer.body, answer
    assert boto.get(BUCKET, fenced_key).body == b"by 42"
    assert boto.put(BUCKET, fenced_key, b"by 42", "42").ok, "and it raised no fence"


def test_an_x_amz_header_that_is_not_signed_is_refused(stack: Stack, boto: Boto3, fenced_key: str) -> None:
    with RawConnection(stack.site) as connection:
        connection.send_head("PUT", BUCKET, fenced_key, length=4, token="43", unsigned=[("x-amz-meta-colour", "red")])
        connection.send(b"by43")
        answer = connection.answer()
    assert answer.status == 403 and b"<Code>AccessDenied</Code>" in answer.body and b"x-amz-meta-colour" in answer.body
    assert boto.get(BUCKET, fenced_key).body == b"by 42"


def test_a_repeated_token_header_is_refused(stack: Stack, boto: Boto3, fenced_key: str) -> None:
    with stack.refused_once(INVALID), RawConnection(stack.site) as connection:
        connection.send_head("PUT", BUCKET, fenced_key, length=4, signed=[("X-Fence-Token", "43"), ("X-Fence-Token", "43")])
        connection.send(b"by43")
        answer = connection.answer()
    assert answer.status == 400 and b"<Code>InvalidFenceToken</Code>" in answer.body, answer
    assert boto.get(BUCKET, fenced_key).body == b"by 42"


def test_a_token_header_put_beside_the_signed_one_is_refused(stack: Stack, boto: Boto3, fenced_key: str) -> None:
    with RawConnection(stack.site) as connection:
        connection.send_head(
            "PUT", BUCKET, fenced_key, length=4, signed=[("X-Fence-Token", "43")], unsigned=[("x-fence-token", "44")],
        )
        connection.send(b"by44")
        answer = connection.answer()
    assert answer.status == 403 and b"<Code>SignatureDoesNotMatch</Code>" in answer.body, answer
    assert boto.get(BUCKET, fenced_key).body == b"by 42"


@pytest.mark.parametrize("carrier", [SESSION, HEADER])
def test_a_fenced_object_shows_its_stamps_and_nothing_else(boto: Boto3, key: str, carrier: str) -> None:
    """Reads pass as the store sent them: beside the client's metadata there are the proxy's two stamps."""
    stamps = []
    for body in (b"one", b"two"):
        boto.client("42", carrier).put_object(Bucket=BUCKET, Key=key, Body=body, Metadata={"colour": "blue"})
        metadata = boto.client().head_object(Bucket=BUCKET, Key=key)["Metadata"]
        assert metadata.pop("colour") == "blue"
        assert set(metadata) == {"fencepost-token", "fencepost-operation"}, "the carrier is not the store's business"
        assert metadata["fencepost-token"] == "42"
        assert re.fullmatch("[0-9a-f]{32}", metadata["fencepost-operation"])
        stamps.append(metadata["fencepost-operation"])
    assert stamps[0] != stamps[1], "every write is an operation of its own"


def test_one_connection_serves_again_after_a_small_refused_upload(stack: Stack, fenced_key: str) -> None:
    with RawConnection(stack.site) as connection:
        connection.send_head("PUT", BUCKET, fenced_key, length=5, token="41")
        connection.send(b"by 41")
        refused = connection.answer()
        assert_stale(refused)
        if refused.headers.get("connection", "").lower() == "close":
            return  # allowed, and then nothing may follow
        connection.send_head("GET", BUCKET, fenced_key)
        assert connection.answer().body == b"by 42"


def test_the_answer_names_the_object(stack: Stack, boto: Boto3, fenced_key: str, tmp_path: Path) -> None:
    answer = boto.put(BUCKET, fenced_key, b"", "41")
    assert fenced_key in answer.error.get("Key", "") + answer.error.get("Resource", "")
