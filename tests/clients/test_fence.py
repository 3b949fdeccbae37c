"""A stale holder gets 409 and changes nothing, whatever client it uses.

Each refusal is counted exactly once by the proxy: that one number shows both that the metric
works and that no client takes the answer for something to try again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost import Site
from raw_http import fetch
from s3_clients import CLIENTS, HEADER, SESSION, Answer, AwsCli, Boto3, S3Cmd, boto_answer, boto_client
from stack import BUCKET, CONFLICTING, INVALID, MISSING, STALE, UNSUPPORTED, Stack

# A client together with the way it carries its token.
PUTTERS = [
    pytest.param(client, carrier, id=f"{client.name}-{carrier}") for client in CLIENTS for carrier in client.put_carriers
]
DELETERS = [
    pytest.param(client, carrier, id=f"{client.name}-{carrier}") for client in CLIENTS for carrier in client.delete_carriers
]


def assert_refused(answer: Answer, status: int, code: str) -> None:
    # The command line tools show the code and not always the status.
    assert (answer.code, answer.status or status) == (code, status), answer


@pytest.mark.parametrize(("client_type", "carrier"), PUTTERS)
def test_a_stale_put_gets_409_and_changes_nothing(
    stack: Stack, boto: Boto3, client_type: type, carrier: str, tmp_path: Path, key: str,
) -> None:
    client = client_type(stack.site, tmp_path)
    admitted = stack.proxy.metric("fence_admitted_total", bucket=BUCKET)
    assert client.put(BUCKET, key, b"by 42", "42", carrier).ok
    assert stack.proxy.metric("fence_admitted_total", bucket=BUCKET) == admitted + 1
    with stack.refused_once(STALE):
        assert_refused(client.put(BUCKET, key, b"by 41", "41", carrier), 409, "StaleFenceToken")
    # A token held is a token to read with, stale or not: reads pass.
    assert client.get(BUCKET, key, "41").body == b"by 42"
    assert client.put(BUCKET, key, b"by 42 again", "42", carrier).ok, "an equal token is the same holder"
    assert boto.put(BUCKET, key, b"by 43", "43", carrier).ok
    assert boto.get(BUCKET, key).body == b"by 43"


@pytest.mark.parametrize(("client_type", "carrier"), DELETERS)
def test_a_stale_delete_gets_409_and_a_delete_leaves_the_fence(
    stack: Stack, boto: Boto3, client_type: type, carrier: str, tmp_path: Path, key: str,
) -> None:
    client = client_type(stack.site, tmp_path)
    assert boto.put(BUCKET, key, b"by 42", "42").ok
    with stack.refused_once(STALE):
        assert_refused(client.delete(BUCKET, key, "41", carrier), 409, "StaleFenceToken")
    assert boto.get(BUCKET, key).body == b"by 42"
    assert client.delete(BUCKET, key, "42", carrier).ok
    with stack.refused_once(STALE):
        assert_refused(boto.put(BUCKET, key, b"by 41", "41"), 409, "StaleFenceToken")
    assert boto.list(BUCKET, key).keys == ()


def test_a_key_with_a_fence_takes_no_write_without_a_token(stack: Stack, boto: Boto3, client: object, key: str) -> None:
    assert boto.put(BUCKET, key, b"unfenced").ok
    assert boto.put(BUCKET, key, b"by 42", "42").ok
    with stack.refused_once(MISSING):
        assert_refused(client.put(BUCKET, key, b"unfenced"), 428, "FenceTokenRequired")
    with stack.refused_once(MISSING):
        assert_refused(client.delete(BUCKET, key), 428, "FenceTokenRequired")
    assert boto.get(BUCKET, key).body == b"by 42"


def test_an_invalid_token_gets_400_through_each_client(stack: Stack, boto: Boto3, client: object, key: str) -> None:
    with stack.refused_once(INVALID):
        assert_refused(client.put(BUCKET, key, b"", "forty-two"), 400, "InvalidFenceToken")
    assert boto.list(BUCKET, key).keys == ()


@pytest.mark.parametrize("carrier", [SESSION, HEADER])
@pytest.mark.parametrize("token", ["0", "-1", "+1", "1.0", "1e3", "0x1f", "4 2", "18446744073709551616", ""])
def test_what_is_no_token(stack: Stack, boto: Boto3, key: str, token: str, carrier: str) -> None:
    with stack.refused_once(INVALID):
        assert_refused(boto.put(BUCKET, key, b"", token, carrier), 400, "InvalidFenceToken")
    assert boto.list(BUCKET, key).keys == ()


@pytest.mark.parametrize(("carrier", "code"), [(SESSION, "InvalidRequest"), (HEADER, "InvalidFenceToken")])
def test_digits_of_other_scripts_are_no_token(boto: Boto3, key: str, carrier: str, code: str) -> None:
    """In the header it is a token that is wrong; a session token is ASCII or no session token at all."""
    token = "4٢" if carrier == SESSION else "4٢".encode().decode("latin-1")
    assert_refused(boto.put(BUCKET, key, b"", token, carrier), 400, code)
    assert boto.list(BUCKET, key).keys == ()


@pytest.mark.parametrize(("high", "low"), [("0042", "41"), ("18446744073709551615", "18446744073709551614"), ("1", None)])
def test_the_ends_of_the_range(stack: Stack, boto: Boto3, key: str, high: str, low: str | None) -> None:
    assert boto.put(BUCKET, key, b"high", high).ok
    status = 409 if low else 428
    assert boto.put(BUCKET, key, b"low", low).status == status
    assert boto.get(BUCKET, key).body == b"high"


def test_two_carriers_have_to_agree(stack: Stack, boto: Boto3, key: str) -> None:
    both = boto.client("42", SESSION)
    header = "42"

    def add_header(request: object, **_: object) -> None:
        request.headers["X-Fence-Token"] = header

    both.meta.events.register("before-sign.s3.*", add_header)
    assert boto_answer(both.put_object, Bucket=BUCKET, Key=key, Body=b"42").ok
    header = "43"
    with stack.refused_once(CONFLICTING):
        assert_refused(boto_answer(both.put_object, Bucket=BUCKET, Key=key, Body=b"43"), 400, "InvalidFenceToken")
    assert boto.get(BUCKET, key).body == b"42"


@pytest.mark.parametrize("carrier", [SESSION, HEADER])
def test_what_a_stale_answer_tells(stack: Stack, boto: Boto3, key: str, carrier: str) -> None:
    boto.put(BUCKET, key, b"", "42", carrier)
    answer = boto.put(BUCKET, key, b"", "41", carrier)
    assert answer.status == 409
    assert (answer.error["FenceToken"], answer.error["HighestFenceToken"]) == ("41", "42")
    assert "41" in answer.error["Message"] and "42" in answer.error["Message"]
    assert (answer.headers["x-fence-token"], answer.headers["x-fence-highest"]) == ("41", "42")
    assert answer.headers["content-type"] == "application/xml"
    assert answer.headers["x-amz-request-id"]
    # SDKs set their clocks by it.
    assert answer.headers["date"]


def test_a_fence_belongs_to_one_key(boto: Boto3, key: str) -> None:
    assert boto.put(BUCKET, key, b"", "42").ok
    assert boto.put(BUCKET, f"{key}-beside", b"", "1").ok


@pytest.mark.parametrize("name", ["a space", "a+b", "naïve-日本", "q?x=1&y#z", "100%", "%2F", "~'!*()=@,;:"])
def test_odd_keys_are_fenced(stack: Stack, boto: Boto3, key: str, name: str) -> None:
    assert_fenced(boto, f"{key}/{name}")


@pytest.mark.parametrize(
    ("name", "folded"),
    [
        ("d//e", "d/e"), ("d/./e", "d/e"), ("d/../e", "e"), ("trail/", "trail"), ("back\\slash", "back/slash"),
        ("nai\u0308ve", "naïve"), ("a%2Fb", "a/b"),
    ],
)
def test_keys_that_some_stores_fold_are_fenced_apart(
    embedded_stack: Stack, tmp_path: Path, key: str, name: str, folded: str,
) -> None:
    """S3's keys are bytes. SeaweedFS folds `//` and `\\` (measured), so it is left out here."""
    boto = Boto3(embedded_stack.site, tmp_path)
    assert_fenced(boto, f"{key}/{name}")
    assert boto.put(BUCKET, f"{key}/{folded}", b"", "1").ok, "another key, which has seen no token"


def assert_fenced(boto: Boto3, key: str) -> None:
    assert boto.put(BUCKET, key, b"by 42", "42").ok
    assert boto.put(BUCKET, key, b"by 41", "41").status == 409
    assert boto.get(BUCKET, key).body == b"by 42"
    assert boto.delete(BUCKET, key, "41").status == 409
    assert boto.delete(BUCKET, key, "42").ok


def test_a_presigned_link_is_fenced(stack: Stack, key: str, tmp_path: Path) -> None:
    def link(token: str) -> str:
        signer = boto_client(stack.site, token, signature_version="s3v4")
        return signer.generate_presigned_url("put_object", {"Bucket": BUCKET, "Key": key}, ExpiresIn=60)

    assert fetch("PUT", link("42"), b"by 42")[0] == 200
    with stack.refused_once(STALE):
        status, body = fetch("PUT", link("41"), b"by 41")
    assert status == 409 and b"<Code>StaleFenceToken</Code>" in body
    assert Boto3(stack.site, tmp_path).get(BUCKET, key).body == b"by 42"


@pytest.mark.parametrize("how", ["bytes", "file"])
def test_a_large_stale_put(stack: Stack, boto: Boto3, tmp_path: Path, key: str, how: str) -> None:
    """20 MiB, over `body_buffer_bytes_max`: streamed when admitted, refused before it has travelled."""
    source = tmp_path / "body"
    source.write_bytes(b"0123456789abcdef" * (20 << 16))

    def body() -> object:
        return source.read_bytes() if how == "bytes" else source.open("rb")

    assert boto_answer(boto.client("42").put_object, Bucket=BUCKET, Key=key, Body=body()).ok
    assert boto.get(BUCKET, key).body == source.read_bytes()
    assert boto.put(BUCKET, key, b"by 43", "43").ok
    with stack.refused_once(STALE):
        stale = boto_answer(boto.client("42").put_object, Bucket=BUCKET, Key=key, Body=body())
    assert_refused(stale, 409, "StaleFenceToken")
    assert boto.get(BUCKET, key).body == b"by 43"


SUBRESOURCES = {
    "PutObjectTagging": lambda client, key: client.put_object_tagging(Bucket=BUCKET, Key=key, Tagging={"TagSet": []}),
    "DeleteObjectTagging": lambda client, key: client.delete_object_tagging(Bucket=BUCKET, Key=key),
    "PutObjectAcl": lambda client, key: client.put_object_acl(Bucket=BUCKET, Key=key, ACL="private"),
}


@pytest.mark.parametrize("operation", SUBRESOURCES)
def test_what_changes_an_object_beside_its_bytes_is_fenced(stack: Stack, boto: Boto3, key: str, operation: str) -> None:
    assert boto.put(BUCKET, key, b"by 42", "42").ok
    with stack.refused_once(STALE):
        answer = boto_answer(lambda: SUBRESOURCES[operation](boto.client("41"), key))
    assert_refused(answer, 409, "StaleFenceToken")
    with stack.refused_once(MISSING):
        answer = boto_answer(lambda: SUBRESOURCES[operation](boto.client(), key))
    assert_refused(answer, 428, "FenceTokenRequired")


@pytest.mark.parametrize("token", ["42", None], ids=["token", "no-token"])
def test_what_cannot_be_fenced_is_refused(stack: Stack, boto: Boto3, key: str, token: str | None) -> None:
    assert boto.put(BUCKET, key, b"by 42", "42").ok
    with stack.refused_once(UNSUPPORTED):
        answer = boto_answer(boto.client(token).put_object, Bucket=BUCKET, Key=key, Body=b"more", WriteOffsetBytes=5)
    assert_refused(answer, 501, "FenceUnsupportedOperation")
    assert boto.get(BUCKET, key).body == b"by 42"


BUCKET_WIDE = {
    "PutBucketVersioning": lambda client: client.put_bucket_versioning(
        Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"}),
    "DeleteBucketPolicy": lambda client: client.delete_bucket_policy(Bucket=BUCKET),
}


@pytest.mark.parametrize("operation", BUCKET_WIDE)
@pytest.mark.parametrize("token", ["42", None], ids=["token", "no-token"])
def test_what_reaches_all_of_a_bucket_is_refused(stack: Stack, boto: Boto3, operation: str, token: str | None) -> None:
    with stack.refused_once(UNSUPPORTED):
        answer = boto_answer(lambda: BUCKET_WIDE[operation](boto.client(token)))
    assert_refused(answer, 403, "FenceBucketOperationDenied")


def test_a_batch_is_answered_key_by_key(stack: Stack, boto: Boto3, key: str) -> None:
    newer, older, free = (f"{key}/{name}" for name in ("newer", "older", "free"))
    assert boto.put(BUCKET, newer, b"by 43", "43").ok
    assert boto.put(BUCKET, older, b"by 41", "41").ok
    assert boto.put(BUCKET, free, b"by nobody").ok
    objects = [{"Key": name} for name in (newer, older, free)]
    with stack.refused_once(STALE):
        answer = boto.client("42").delete_objects(Bucket=BUCKET, Delete={"Objects": objects})
    assert [(error["Key"], error["Code"]) for error in answer["Errors"]] == [(newer, "StaleFenceToken")]
    assert [deleted["Key"] for deleted in answer["Deleted"]] == [older, free]
    assert boto.list(BUCKET, key).keys == (newer,)


def test_a_stale_multipart_upload_of_the_command_line_tools(stack: Stack, boto: Boto3, tmp_path: Path, key: str) -> None:
    """Both turn to multipart by themselves: `aws s3 cp` above 8 MiB, s3cmd above 15 MiB."""
    large = tmp_path / "large"
    large.write_bytes(bytes(16 << 20))
    assert boto.put(BUCKET, key, b"by 42", "42").ok
    with stack.refused_once(STALE):
        answer = AwsCli(stack.site, tmp_path).run("41", "s3", "cp", "--only-show-errors", str(large), f"s3://{BUCKET}/{key}")
    assert_refused(answer, 409, "StaleFenceToken")
    with stack.refused_once(STALE):
        answer = S3Cmd(stack.site, tmp_path).put(BUCKET, key, large.read_bytes(), "41")
    assert_refused(answer, 409, "StaleFenceToken")
    assert boto.get(BUCKET, key).body == b"by 42"


def test_an_upload_that_loses_the_lock_half_way(stack: Stack, boto: Boto3, key: str) -> None:
    """A newer holder writes between two parts: the next part is refused, and so is the end."""
    upload = {"Bucket": BUCKET, "Key": key, "UploadId": boto.client("42").create_multipart_upload(
        Bucket=BUCKET, Key=key)["UploadId"]}
    part = boto.client("42").upload_part(**upload, PartNumber=1, Body=b"by 42")
    assert boto.put(BUCKET, key, b"by 43", "43").ok
    with stack.refused_once(STALE):
        answer = boto_answer(boto.client("42").upload_part, **upload, PartNumber=2, Body=b"late")
    assert_refused(answer, 409, "StaleFenceToken")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    with stack.refused_once(STALE):
        answer = boto_answer(boto.client("42").complete_multipart_upload, **upload, MultipartUpload=parts)
    assert_refused(answer, 409, "StaleFenceToken")
    assert boto.get(BUCKET, key).body == b"by 43"


def test_the_high_level_commands_of_aws_cli(stack: Stack, tmp_path: Path, key: str) -> None:
    cli = AwsCli(stack.site, tmp_path)
    source = tmp_path / "body"
    source.write_bytes(b"by 42")
    target = f"s3://{BUCKET}/{key}"
    assert cli.run("42", "s3", "cp", str(source), target).ok
    with stack.refused_once(STALE):
        assert_refused(cli.run("41", "s3", "cp", str(source), target), 409, "StaleFenceToken")
    assert cli.run(None, "s3", "cp", target, "-").output == "by 42"
    assert key.rsplit("/", 1)[1] in cli.run(None, "s3", "ls", target).output
    with stack.refused_once(STALE):
        assert_refused(cli.run("41", "s3", "rm", target), 409, "StaleFenceToken")
    assert cli.run("42", "s3", "rm", target).ok


def test_without_the_proxy_the_stale_write_lands(seaweedfs: Site, client_type: type, tmp_path: Path, key: str) -> None:
    """The control: on the bare store the same client's same write goes through."""
    boto = Boto3(seaweedfs, tmp_path)
    assert boto.put(BUCKET, key, b"newer").ok
    assert client_type(seaweedfs, tmp_path).put(BUCKET, key, b"older").ok
    assert boto.get(BUCKET, key).body == b"older"
