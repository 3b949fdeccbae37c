"""What `fencepost policy` prints, applied to stores that judge it: the proxy writes, others do not.

Ceph RGW and SeaweedFS are given the documents of `--store ceph` and `--store seaweedfs`. Those of
`--store aws` are given to MiniStack, an emulator, for want of AWS: it shows that they are policies
and mean what they should in its reading. It has no key `s3:if-match`, so that what
`--require-conditions` adds is not judged by anything here, nor are the documents for MinIO and GCS.
"""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import boto3
import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError

from ceph import Ceph
from conftest import OTHER, PROXY
from fencepost import BINARY, REGION, Proxy, Site, clean_environment
from ministack import MiniStack
from s3_clients import Boto3, boto_client
from seaweedfs import SeaweedFS, key_pair_of

ACCOUNT = "000000000000"


def documents(*arguments: str) -> dict[str, dict]:
    """What the command prints, by name."""
    done = subprocess.run(
        [BINARY, "policy", *arguments], env=clean_environment(), capture_output=True, text=True, check=True,
    )
    return json.loads(done.stdout)


@dataclass
class People:
    """One bucket, and the clients of three."""

    bucket: str
    owner: BaseClient
    proxy: BaseClient
    other: BaseClient

    def refused(self, request: Callable[[], object]) -> bool:
        try:
            request()
        except ClientError as error:
            assert error.response["Error"]["Code"] == "AccessDenied", error
            return True
        return False

    def attempts(self, client: BaseClient) -> dict[str, Callable[[], object]]:
        """Every way to change the object `k`, or to begin to."""
        of_k = {"Bucket": self.bucket, "Key": "k"}
        tags = {"TagSet": [{"Key": "a", "Value": "b"}]}
        return {
            "put": lambda: client.put_object(**of_k, Body=b"theirs"),
            "create": lambda: client.put_object(Bucket=self.bucket, Key="new", Body=b"theirs", IfNoneMatch="*"),
            "copy": lambda: client.copy_object(**of_k, CopySource=f"{self.bucket}/source"),
            "tag": lambda: client.put_object_tagging(**of_k, Tagging=tags),
            "upload": lambda: client.create_multipart_upload(**of_k),
            "delete": lambda: client.delete_object(**of_k),
        }


def judge(people: People, policy: dict) -> None:
    """`policy` lets the proxy write and nobody else, the owner of the bucket included."""
    people.owner.put_bucket_policy(Bucket=people.bucket, Policy=json.dumps(policy))
    for key in ("k", "source"):
        people.proxy.put_object(Bucket=people.bucket, Key=key, Body=b"ours")
    for name, attempt in people.attempts(people.other).items():
        assert people.refused(attempt), name
    assert people.proxy.get_object(Bucket=people.bucket, Key="k")["Body"].read() == b"ours"
    for name, attempt in people.attempts(people.proxy).items():
        assert not people.refused(attempt), name


def people_of(store: SeaweedFS | Ceph, bucket: str) -> People:
    owner = boto_client(Site(store.endpoint, store.access_key, store.secret_key))
    owner.create_bucket(Bucket=bucket)
    proxy, other = (boto_client(Site(store.endpoint, *key_pair_of(user))) for user in (PROXY, OTHER))
    return People(bucket, owner, proxy, other)


@pytest.mark.parametrize("name", ["seaweedfs", "ceph"])
def test_nobody_but_the_proxys_user_writes(request: pytest.FixtureRequest, name: str) -> None:
    store = request.getfixturevalue(name)
    data, ledger = f"data-{uuid.uuid4()}", f"ledger-{uuid.uuid4()}"
    policies = documents("--store", name, "--bucket", data, "--ledger-bucket", ledger, "--role", PROXY)
    for bucket in (data, ledger):
        people = people_of(store, bucket)
        # What follows is the policy's doing.
        if name == "seaweedfs":
            people.other.put_object(Bucket=bucket, Key="before", Body=b"theirs")
        judge(people, policies[f"bucket-policy/{bucket}"])
        assert people.refused(lambda people=people: people.owner.put_object(Bucket=people.bucket, Key="k", Body=b""))


def test_ceph_takes_the_policy_of_aws_and_does_not_heed_it(ceph: Ceph) -> None:
    """Why it has documents of its own. Fails when Ceph learns the key, which would be good news."""
    bucket = f"data-{uuid.uuid4()}"
    role = f"arn:aws:iam::{ACCOUNT}:user/{PROXY}"
    policy = documents("--bucket", bucket, "--role", role)[f"bucket-policy/{bucket}"]
    people = people_of(ceph, bucket)
    # The actions that it knows.
    policy["Statement"] = [{**policy["Statement"][0], "Action": ["s3:Put*", "s3:Delete*"]}]
    people.owner.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))
    people.owner.put_object(Bucket=bucket, Key="k", Body=b"not denied")


@dataclass
class Account:
    """The emulated account: its root, and users made by need."""

    site: Site

    def user(self, name: str, policy: dict) -> Site:
        """A user with one policy."""
        iam = boto3.client(
            "iam", endpoint_url=self.site.endpoint, region_name=REGION,
            aws_access_key_id=self.site.access_key, aws_secret_access_key=self.site.secret_key,
        )
        iam.create_user(UserName=name)
        iam.put_user_policy(UserName=name, PolicyName="only", PolicyDocument=json.dumps(policy))
        key = iam.create_access_key(UserName=name)["AccessKey"]
        return Site(self.site.endpoint, key["AccessKeyId"], key["SecretAccessKey"])


@pytest.fixture
def account(ministack_with_policies: MiniStack) -> Account:
    store = ministack_with_policies
    return Account(Site(store.endpoint, store.access_key, store.secret_key))


ALL_OF_S3 = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}],
}


def test_the_documents_of_aws_leave_one_writer_in_an_emulated_account(account: Account) -> None:
    tag = str(uuid.uuid4())
    data, ledger, name = f"data-{tag}", f"ledger-{tag}", f"proxy-{tag}"
    role = f"arn:aws:iam::{ACCOUNT}:user/{name}"
    policies = documents("--bucket", data, "--ledger-bucket", ledger, "--role", role)
    owner = boto_client(account.site)
    # Of the proxy's rights there is no more than what was printed.
    proxy = boto_client(account.user(name, policies["role-policy"]))
    other = boto_client(account.user(f"other-{tag}", ALL_OF_S3))
    for bucket in (data, ledger):
        owner.create_bucket(Bucket=bucket)
        other.put_object(Bucket=bucket, Key="before", Body=b"theirs")
    judge(People(data, owner, proxy, other), policies[f"bucket-policy/{data}"])
    people = People(ledger, owner, proxy, other)
    owner.put_bucket_policy(Bucket=ledger, Policy=json.dumps(policies[f"bucket-policy/{ledger}"]))
    assert not people.refused(lambda: proxy.put_object(Bucket=ledger, Key="k", Body=b"ours"))
    for attempt, change in people.attempts(other).items():
        assert people.refused(change), attempt


def test_the_policy_of_the_role_is_enough_for_the_proxy(account: Account, logs: Callable[[], Path]) -> None:
    tag = str(uuid.uuid4())
    data, ledger, name = f"data-{tag}", f"ledger-{tag}", f"proxy-{tag}"
    role = f"arn:aws:iam::{ACCOUNT}:user/{name}"
    policies = documents("--bucket", data, "--ledger-bucket", ledger, "--role", role)
    owner = boto_client(account.site)
    for bucket in (data, ledger):
        owner.create_bucket(Bucket=bucket)
        owner.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policies[f"bucket-policy/{bucket}"]))
    site = account.user(name, policies["role-policy"])
    people = People(data, owner, boto_client(site), owner)
    assert people.refused(lambda: people.proxy.delete_bucket(Bucket=data)), "what is not in it is refused"
    # The emulator takes signatures of any age (F9).
    trusted = "--set=backend.unsafe_trust_backend=expiry"
    proxy = Proxy.serve(logs(), site, "--ledger-bucket", ledger, trusted)
    holder = Boto3(proxy.site, Path())
    assert holder.put(data, "k", b"seven", token="7").ok
    assert holder.put(data, "k", b"seven", token="7").ok, "the same bytes again"
    assert holder.put(data, "k", b"six", token="6").code == "StaleFenceToken"
    assert holder.delete(data, "k", token="7").ok
    client = holder.client("8")
    parts = {"Bucket": data, "Key": "large"}
    upload = client.create_multipart_upload(**parts)["UploadId"]
    part = client.upload_part(**parts, UploadId=upload, PartNumber=1, Body=b"x")
    done = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    client.complete_multipart_upload(**parts, UploadId=upload, MultipartUpload=done)
    client.copy_object(Bucket=data, Key="copy", CopySource=f"{data}/large")
    client.put_object_tagging(Bucket=data, Key="copy", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    client.delete_objects(Bucket=data, Delete={"Objects": [{"Key": "copy"}, {"Key": "large"}]})
    assert client.list_objects_v2(Bucket=data)["KeyCount"] == 0
    assert proxy.stop() == 0, proxy.output()
