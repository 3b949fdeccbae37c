"""What is ZooKeeper's own: the number in a node's name is not a token, the czxid is."""

from __future__ import annotations

import pytest

from servers import ZooKeeper

pytestmark = pytest.mark.xdist_group("zookeeper")


def test_the_number_in_the_name_begins_again_with_a_new_parent_and_the_czxid_goes_on(
    zookeeper: ZooKeeper, key: str,
) -> None:
    parent = f"/locks/{key}"
    client = zookeeper.client()
    client.start()
    try:
        def make() -> tuple[int, int]:
            path, made = client.create(f"{parent}/lock-", sequence=True, makepath=True, include_data=True)
            return int(path.rsplit("-", 1)[1]), made.czxid

        first, second = make(), make()
        # What a tidy administrator does, or a container node by itself when it is empty.
        client.delete(parent, recursive=True)
        third = make()
    finally:
        client.stop()
        client.close()
    assert [number for number, _ in (first, second, third)] == [0, 1, 0]
    assert first[1] < second[1] < third[1]
