"""Browser forms as boto3 signs them, sent by an HTTP client that knows nothing of S3."""

from __future__ import annotations

import re

import pytest
import urllib3

from s3_clients import Boto3, boto_client
from stack import BUCKET, MISSING, STALE, Stack

# urllib3 sends fields in the order of the dictionary: the file has to be the last.
FILE = "file"


def presigned(stack: Stack, key: str, token: str | None = None, signature_version: str = "s3v4", **post: object) -> dict:
    """What a server hands to a browser: where to send the form, and its fields."""
    signer = boto_client(stack.site, token, signature_version=signature_version)
    return signer.generate_presigned_post(BUCKET, key, **post)


def send(post: dict, body: bytes, **fields: str) -> urllib3.BaseHTTPResponse:
    with urllib3.PoolManager(retries=False) as http:
        form = {**post["fields"], **fields, FILE: ("report.txt", body, "text/plain")}
        return http.request("POST", post["url"], fields=form)


def code(answer: urllib3.BaseHTTPResponse) -> str:
    found = re.search(b"<Code>(.*)</Code>", answer.data)
    return f"{answer.status} {found[1].decode()}" if found else str(answer.status)


def test_a_form_carries_the_token_of_whoever_signed_it(stack: Stack, boto: Boto3, key: str) -> None:
    assert code(send(presigned(stack, key, "42"), b"by 42")) == "204"
    with stack.refused_once(STALE):
        assert code(send(presigned(stack, key, "41"), b"late")) == "409 StaleFenceToken"
    with stack.refused_once(MISSING):
        assert code(send(presigned(stack, key), b"late")) == "428 FenceTokenRequired"
    assert boto.get(BUCKET, key).body == b"by 42"
    assert boto.put(BUCKET, key, b"by 43", "43").ok
    with stack.refused_once(STALE):
        assert code(send(presigned(stack, key, "42"), b"late")) == "409 StaleFenceToken"
    assert boto.get(BUCKET, key).body == b"by 43"


def test_a_form_without_a_token_passes_until_its_key_has_seen_one(stack: Stack, boto: Boto3, key: str) -> None:
    answer = send(presigned(stack, key), b"free")
    assert code(answer) == "204"
    assert answer.headers["Location"] == f"{stack.site.endpoint}/{BUCKET}/{key}"
    head = boto.client().head_object(Bucket=BUCKET, Key=key)
    assert answer.headers["ETag"] == head["ETag"] and head["Metadata"] == {}


def test_conditions_and_fields_of_boto3(stack: Stack, boto: Boto3, key: str) -> None:
    """`${filename}`, a range of lengths, and fields that become headers."""
    post = presigned(
        stack, key + "/${filename}", "42",
        Fields={"Content-Type": "text/csv", "success_action_status": "201", "x-amz-meta-colour": "red"},
        Conditions=[
            ["starts-with", "$Content-Type", "text/"], {"success_action_status": "201"},
            {"x-amz-meta-colour": "red"}, ["content-length-range", 2, 10],
        ],
    )
    assert code(send(post, b"1")) == "400 EntityTooSmall"
    assert code(send(post, b"0123456789a")) == "400 EntityTooLarge"
    assert code(send({**post, "fields": {**post["fields"], "Content-Type": "image/png"}}, b"123")) == "403 AccessDenied"
    assert code(send(post, b"123", acl="public-read")) == "403 AccessDenied"
    answer = send(post, b"123")
    assert answer.status == 201 and f"<Key>{key}/report.txt</Key>".encode() in answer.data
    got = boto.client().get_object(Bucket=BUCKET, Key=f"{key}/report.txt")
    assert (got["Body"].read(), got["ContentType"], got["Metadata"]["colour"]) == (b"123", "text/csv", "red")


@pytest.mark.parametrize("change", ["key", "x-amz-security-token", "policy", "x-amz-signature", "x-amz-date"])
def test_a_form_that_was_changed_is_refused(stack: Stack, boto: Boto3, key: str, change: str) -> None:
    post = presigned(stack, key, "42")
    post["fields"][change] = post["fields"][change].replace("42", "43") + "0"
    assert send(post, b"x").status in (400, 403)
    assert boto.get(BUCKET, key).code == "NoSuchKey"


def test_an_expired_form_is_refused(stack: Stack, key: str) -> None:
    assert code(send(presigned(stack, key, "42", ExpiresIn=-1), b"x")) == "403 AccessDenied"


def test_a_form_of_signature_version_2_says_what_to_set(stack: Stack, key: str) -> None:
    answer = send(presigned(stack, key, "42", signature_version="s3"), b"x")
    assert code(answer) == "400 InvalidRequest" and b"s3v4" in answer.data
