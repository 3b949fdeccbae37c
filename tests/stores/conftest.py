"""Real stores, one of each kind for the whole session, with users of their own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from ceph import Ceph
from ministack import MiniStack
from nanio import Nanio
from s3s_fs import S3sFs
from seaweedfs import SeaweedFS, key_pair_of

# Who the proxy is, and who else there is.
PROXY = "fencepost"
OTHER = "somebody"


@pytest.fixture(scope="session")
def seaweedfs() -> Iterator[SeaweedFS]:
    with SeaweedFS(users=(PROXY, OTHER)) as store:
        yield store


@pytest.fixture(scope="session")
def ceph() -> Iterator[Ceph]:
    if shutil.which("radosgw") is None:
        pytest.skip("no radosgw here: apt-get install radosgw ceph-mon ceph-osd ceph-common")
    with Ceph() as store:
        for user in (PROXY, OTHER):
            store.add_user(user, key_pair_of(user))
        yield store


@pytest.fixture(scope="session")
def ministack() -> Iterator[MiniStack]:
    with MiniStack() as store:
        yield store


@pytest.fixture(scope="session")
def ministack_with_policies() -> Iterator[MiniStack]:
    with MiniStack(policies=True) as store:
        yield store


@pytest.fixture(scope="session")
def nanio() -> Iterator[Nanio]:
    with Nanio() as store:
        yield store


@pytest.fixture(scope="session")
def s3s_fs() -> Iterator[S3sFs]:
    with S3sFs() as store:
        yield store
