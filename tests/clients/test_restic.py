"""restic, whose objects are nearly all new ones: what a fence of objects can do for it, and what not.

It names packs, indexes and snapshots after what is in them, so a stale holder's backup adds
objects and overwrites none. What it removes is what a newer holder relies on, and that is refused.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from field import HELD, NEWER, OLDER, skip_if_missing
from programs import RESTIC, Surroundings
from s3_clients import Boto3, boto_client
from stack import BUCKET, EMBEDDED, STALE, Stack


def test_restic(stack: Stack, boto: Boto3, surroundings: Surroundings) -> None:
    skip_if_missing(RESTIC)
    surroundings = replace(surroundings, token=HELD)
    check_repository(surroundings)
    assert boto.put(BUCKET, f"{surroundings.prefix}/config", b"", OLDER).code == "StaleFenceToken"

    held = objects(stack, surroundings.prefix)
    for key, content in held.items():
        assert boto.put(BUCKET, key, content, NEWER).ok
    before = stack.proxy.rejected(BUCKET, STALE)
    (stale,) = RESTIC.run(("forget",), surroundings)
    assert not stale.ok
    assert f"The fence token {HELD} is older than {NEWER}" in stale.said
    assert stack.proxy.rejected(BUCKET, STALE) > before
    assert objects(stack, surroundings.prefix).items() >= held.items()


@pytest.mark.parametrize("stack", [EMBEDDED], indirect=True)
def test_restic_without_a_token(surroundings: Surroundings) -> None:
    skip_if_missing(RESTIC)
    check_repository(surroundings)
    (forgotten,) = RESTIC.run(("forget",), surroundings)
    assert forgotten.ok, forgotten


def check_repository(surroundings: Surroundings) -> None:
    """Two backups, the second of a changed file, and one restored."""
    changed = surroundings.scratch / "changed"
    changed.write_text("changed\n")
    results = RESTIC.run(("init", "backup"), surroundings)
    results += RESTIC.run(("backup", "snapshots", "restore"), replace(surroundings, small_file=changed))
    for result in results:
        assert result.ok, result
    restored = surroundings.scratch / "restored"
    for path in (changed, surroundings.large_file):
        assert (restored / path.relative_to("/")).read_bytes() == path.read_bytes()


def objects(stack: Stack, prefix: str) -> dict[str, bytes]:
    s3 = boto_client(stack.site)
    listed = s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix)["Contents"]
    return {
        entry["Key"]: s3.get_object(Bucket=BUCKET, Key=entry["Key"])["Body"].read()
        for entry in listed
    }
