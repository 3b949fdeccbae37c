"""Without a token the proxy is not noticed: the same answers as from a bare store.

Each test runs on the bare SeaweedFS too (aws-cli's excepted). A difference there is a mistake in the test, a
difference only through the proxy is the proxy's.
"""

from __future__ import annotations

import hashlib
import uuid
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from fencepost import Site
from raw_http import fetch
from s3_clients import CLIENTS, AwsCli, Boto3, boto_client
from stack import BARE_SEAWEEDFS, BUCKET, STORES, site_of

# aws-cli takes a second to start, and what it is a wrapper of, boto3, is on the bare store.
CLIENTS_AND_STORES = [
    pytest.param((client, store), id=f"{client.name}-{store}")
    for client in CLIENTS for store in STORES if (client, store) != (AwsCli, BARE_SEAWEEDFS)
]


@pytest.fixture(params=CLIENTS_AND_STORES)
def plain_client(request: pytest.FixtureRequest, tmp_path: Path) -> object:
    client_type, store = request.param
    return client_type(site_of(request, store), tmp_path)


def test_put_get_list_delete(plain_client: object, key: str) -> None:
    assert plain_client.put(BUCKET, key, b"").ok
    empty = plain_client.get(BUCKET, key)
    assert empty.ok and empty.body == b""
    assert plain_client.put(BUCKET, key, b"with something in it").ok
    assert plain_client.get(BUCKET, key).body == b"with something in it"
    assert plain_client.list(BUCKET, key).keys == (key,)
    assert plain_client.delete(BUCKET, key).ok
    assert plain_client.get(BUCKET, key).code in ("NoSuchKey", "404")


def test_an_odd_key_through_each_client(plain_client: object, key: str) -> None:
    odd = f"{key}/a space/a+b/naïve-✓-日本/q?x=1&y#z/100%25/~(tilde)'!*"
    assert plain_client.put(BUCKET, odd, b"odd").ok
    assert plain_client.get(BUCKET, odd).body == b"odd"
    assert plain_client.list(BUCKET, f"{key}/").keys == (odd,)
    assert plain_client.delete(BUCKET, odd).ok


@pytest.mark.parametrize("name", ["a space", "a+b", "naïve", "nai\u0308ve", "日本", "q?x=1&y#z", "100%", "%2F", "~'!*()=@,;:"])
def test_odd_keys_stay_apart(any_site: Site, key: str, name: str) -> None:
    boto = boto_client(any_site)
    plain = f"{key}/plain"
    boto.put_object(Bucket=BUCKET, Key=plain, Body=b"plain")
    odd = f"{key}/{name}"
    boto.put_object(Bucket=BUCKET, Key=odd, Body=name.encode())
    assert boto.get_object(Bucket=BUCKET, Key=odd)["Body"].read() == name.encode()
    listed = [entry["Key"] for entry in boto.list_objects_v2(Bucket=BUCKET, Prefix=f"{key}/")["Contents"]]
    assert sorted(listed) == sorted([odd, plain])


def test_metadata_and_etag(any_site: Site, key: str) -> None:
    boto = boto_client(any_site)
    body = b"with metadata"
    put = boto.put_object(
        Bucket=BUCKET, Key=key, Body=body, Metadata={"colour": "blue"}, ContentType="text/x-test", CacheControl="no-store",
    )
    head = boto.head_object(Bucket=BUCKET, Key=key)
    assert put["ETag"] == head["ETag"] == f'"{hashlib.md5(body).hexdigest()}"'
    assert head["ContentLength"] == len(body)
    # No more than what the client sent: a write without a token is not stamped.
    assert head["Metadata"] == {"colour": "blue"}
    assert (head["ContentType"], head["CacheControl"]) == ("text/x-test", "no-store")


def test_ranges_and_read_conditions(any_site: Site, key: str) -> None:
    boto = boto_client(any_site)
    etag = boto.put_object(Bucket=BUCKET, Key=key, Body=b"0123456789")["ETag"]
    part = boto.get_object(Bucket=BUCKET, Key=key, Range="bytes=2-4")
    assert (part["Body"].read(), part["ContentRange"]) == (b"234", "bytes 2-4/10")
    assert part["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert boto.get_object(Bucket=BUCKET, Key=key, IfMatch=etag)["Body"].read() == b"0123456789"
    assert refusal(boto.get_object, Bucket=BUCKET, Key=key, IfNoneMatch=etag) == 304
    assert refusal(boto.get_object, Bucket=BUCKET, Key=key, IfMatch='"0"') == 412
    assert refusal(boto.get_object, Bucket=BUCKET, Key=key, Range="bytes=100-") == 416


def test_write_conditions_of_the_client(any_site: Site, key: str) -> None:
    boto = boto_client(any_site)
    etag = boto.put_object(Bucket=BUCKET, Key=key, Body=b"1", IfNoneMatch="*")["ETag"]
    assert refusal(boto.put_object, Bucket=BUCKET, Key=key, Body=b"2", IfNoneMatch="*") == 412
    boto.put_object(Bucket=BUCKET, Key=key, Body=b"2", IfMatch=etag)
    assert refusal(boto.put_object, Bucket=BUCKET, Key=key, Body=b"3", IfMatch=etag) == 412
    assert boto.get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"2"


def test_lists_in_pages_and_by_delimiter(any_site: Site, key: str) -> None:
    boto = boto_client(any_site)
    names = [f"{key}/{folder}/{number}" for folder in "ab" for number in range(3)]
    for name in names:
        boto.put_object(Bucket=BUCKET, Key=name, Body=b"")
    pages = boto.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=key, PaginationConfig={"PageSize": 4})
    assert [entry["Key"] for page in pages for entry in page["Contents"]] == names
    old = boto.list_objects(Bucket=BUCKET, Prefix=f"{key}/", Delimiter="/")
    assert [entry["Prefix"] for entry in old["CommonPrefixes"]] == [f"{key}/a/", f"{key}/b/"]


@pytest.mark.parametrize("store", STORES)
def test_buckets(request: pytest.FixtureRequest, store: str) -> None:
    boto = boto_client(site_of(request, store))
    name = f"bucket-{uuid.uuid4()}"
    assert refusal(boto.head_bucket, Bucket=name) == 404
    boto.create_bucket(Bucket=name)
    assert boto.head_bucket(Bucket=name)["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert name in [bucket["Name"] for bucket in boto.list_buckets()["Buckets"]]
    # us-east-1 is spelt as no location at all.
    assert boto.get_bucket_location(Bucket=name)["LocationConstraint"] in (None, "us-east-1")
    if store == BARE_SEAWEEDFS:
        boto.delete_bucket(Bucket=name)
        assert refusal(boto.head_bucket, Bucket=name) == 404
    else:
        # Its objects may be fenced; the setting bucket_operations lets it be deleted.
        assert refusal(boto.delete_bucket, Bucket=name) == 403
        assert boto.head_bucket(Bucket=name)["ResponseMetadata"]["HTTPStatusCode"] == 200


def test_presigned_urls(any_site: Site, key: str) -> None:
    boto = boto_client(any_site, signature_version="s3v4")
    put = boto.generate_presigned_url("put_object", {"Bucket": BUCKET, "Key": key}, ExpiresIn=60)
    get = boto.generate_presigned_url("get_object", {"Bucket": BUCKET, "Key": key}, ExpiresIn=60)
    assert fetch("PUT", put, b"by link")[0] == 200
    assert fetch("GET", get) == (200, b"by link")
    assert fetch("GET", get.replace(key, key + "x"))[0] == 403, "the path is signed"


@pytest.mark.parametrize("size", [5, 9 << 20, 20 << 20], ids=["5B", "9MiB", "20MiB"])
@pytest.mark.parametrize("how", ["bytes", "file"])
def test_single_puts_of_any_size(any_site: Site, tmp_path: Path, key: str, size: int, how: str) -> None:
    """From a file boto3 asks with `Expect: 100-continue` first; from memory it just sends."""
    boto = boto_client(any_site)
    content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    if how == "file":
        source = tmp_path / "body"
        source.write_bytes(content)
        with source.open("rb") as body:
            etag = boto.put_object(Bucket=BUCKET, Key=key, Body=body)["ETag"]
    else:
        etag = boto.put_object(Bucket=BUCKET, Key=key, Body=content)["ETag"]
    assert etag == f'"{hashlib.md5(content).hexdigest()}"'
    assert boto.get_object(Bucket=BUCKET, Key=key)["Body"].read() == content


@pytest.mark.parametrize(
    ("change", "code"),
    [({"secret_key": "wrong"}, "SignatureDoesNotMatch"), ({"access_key": "nobody"}, "InvalidAccessKeyId")],
    ids=["secret", "access-key"],
)
def test_wrong_credentials_are_refused(any_site: Site, tmp_path: Path, key: str, change: dict[str, str], code: str) -> None:
    stranger = Boto3(Site(**{**vars(any_site), **change}), tmp_path)
    answer = stranger.put(BUCKET, key, b"")
    assert (answer.status, answer.code) == (403, code)


def refusal(call: object, **parameters: object) -> int:
    """The HTTP status that `call` is refused with."""
    with pytest.raises(ClientError) as refused:
        call(**parameters)
    return refused.value.response["ResponseMetadata"]["HTTPStatusCode"]
