"""The doctor over real stores: what it finds is what docs/stores.md says.

With FENCEPOST_TEST_WRITE_DOCS=1 the reports in docs/stores are written anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from typing import Protocol

import pytest

from fencepost import BINARY, REGION, REPOSITORY, Site, clean_environment
from s3_clients import boto_client

REPORTS = REPOSITORY / "docs" / "stores"

# Exit codes of the doctor.
SAFE = 0
UNSAFE = 1

# Several rounds of several races, each of which a store may make last.
EXAMINATION_SECONDS_MAX = 480


# MiniStack takes signatures of any age. With that taken for granted, the rest can be looked at.
TRUST_EXPIRY = "--set=backend.unsafe_trust_backend=expiry"


class Store(Protocol):
    endpoint: str
    access_key: str
    secret_key: str


def examine(store: Store, *extra: str, versioned: bool) -> tuple[int, dict]:
    """Exit code and report of a whole examination, in buckets made for it."""
    client = boto_client(Site(store.endpoint, store.access_key, store.secret_key))
    bucket = f"scratch-{uuid.uuid4()}"
    client.create_bucket(Bucket=bucket)
    arguments = ["--backend", store.endpoint, "--region", REGION, "--bucket", bucket, "--json", *extra]
    if versioned:
        client.create_bucket(Bucket=f"{bucket}-v")
        client.put_bucket_versioning(Bucket=f"{bucket}-v", VersioningConfiguration={"Status": "Enabled"})
        arguments += ["--versioned-bucket", f"{bucket}-v"]
    done = subprocess.run(
        [BINARY, "doctor", *arguments],
        env=clean_environment({"AWS_ACCESS_KEY_ID": store.access_key, "AWS_SECRET_ACCESS_KEY": store.secret_key}),
        capture_output=True, text=True, timeout=EXAMINATION_SECONDS_MAX,
    )
    assert done.stdout, done.stderr
    left = client.list_objects_v2(Bucket=bucket)
    assert left["KeyCount"] == 0, f"left behind: {left.get('Contents')}"
    return done.returncode, json.loads(done.stdout)


def what_matters(report: dict) -> dict:
    """A report without what differs from run to run."""
    return {
        "safe": report["safe"],
        "tags": report["facts"]["tags"],
        "etag_quotes": report["facts"]["etag_quotes"],
        "aliases": report["facts"]["aliases"],
        "versioning": [bucket["versioning"] for bucket in report["buckets"]],
    }


# From the best to the worst.
PLANS = ("conditional", "exclusive", "refused")


def rests_on_races_alone(bucket: dict, operation: str) -> bool:
    """Whether everything that speaks against an operation is a race that somebody has lost."""
    # A batch is planned as a single DELETE.
    name = "delete" if operation == "delete-objects" else operation
    failed = [check["id"] for check in bucket["checks"] if check["outcome"] == "failed"]
    failed = [check for check in failed if check.startswith(f"{name}.")]
    return bool(failed) and all(check.endswith(".race") for check in failed)


def differences(found: dict, documented: dict) -> list[str]:
    """Verdicts that differ. A race that is not lost proves nothing, so that a run may find less
    against an operation than the documents say where that is races alone; never more."""
    wrong = []
    for run, known in zip(found["buckets"], documented["buckets"], strict=True):
        for operation, verdict in known["verdicts"].items():
            now, then = run["verdicts"][operation]["plan"], verdict["plan"]
            lucky = PLANS.index(now) < PLANS.index(then) and (
                rests_on_races_alone(known, operation) or undone_by_luck(known, operation)
            )
            if now != then and not lucky:
                wrong.append(f"{run['versioning']} {operation}: {now}, documented: {then}")
    return wrong


def undone_by_luck(bucket: dict, operation: str) -> bool:
    """Whether it is refused, and not exclusive, because of a lost race."""
    name = "delete" if operation == "delete-objects" else operation
    race = [check for check in bucket["checks"] if check["id"] == f"{name}.plain.race"]
    return any(check["outcome"] == "failed" for check in race)


@pytest.mark.timeout(EXAMINATION_SECONDS_MAX + 60)
@pytest.mark.parametrize("name", ["seaweedfs", "ministack", "ceph", "nanio", "s3s_fs"])
def test_a_store_is_found_as_the_documents_have_it(request: pytest.FixtureRequest, name: str) -> None:
    store = request.getfixturevalue(name)
    extra = [TRUST_EXPIRY] if name == "ministack" else []
    code, report = examine(store, *extra, versioned=name in ("seaweedfs", "ministack", "ceph"))
    assert code == (SAFE if report["safe"] else UNSAFE)
    file = REPORTS / f"{name}.json"
    if os.environ.get("FENCEPOST_TEST_WRITE_DOCS"):
        text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
        # The name is made up for one run.
        file.write_text(text.replace(report["buckets"][0]["bucket"], "scratch"))
    documented = json.loads(file.read_text())
    assert what_matters(report) == what_matters(documented)
    assert differences(report, documented) == []


@pytest.mark.parametrize("name", ["nanio", "s3s_fs"])
def test_stores_that_lie_or_race_are_refused(request: pytest.FixtureRequest, name: str) -> None:
    code, report = examine(request.getfixturevalue(name), versioned=False)
    assert code == UNSAFE
    assert not report["safe"]
    put = report["buckets"][0]["verdicts"]["put"]
    assert put["plan"] == "refused"
    # Conditions hold on s3s-fs one after the other: what tells are races and overtaken bodies.
    why = ("put.create.taken",) if name == "nanio" else ("put.create.race", "put.swap.race", "overtaken")
    assert any(word in put["because"] for word in why), put


def test_a_store_that_takes_old_signatures_is_refused(ministack: Store) -> None:
    code, report = examine(ministack, "--quick", versioned=False)
    assert code == UNSAFE
    put = report["buckets"][0]["verdicts"]["put"]
    assert put["plan"] == "refused"
    assert "signature.too-old" in put["because"]
