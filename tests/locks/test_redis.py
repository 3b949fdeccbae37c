"""What is Redis' own: the counter can go back, and what becomes of the next holder then.

The failover is played with two servers: the replica loses its connection, the primary goes on for
a while and dies, and the replica is promoted with what it has.
"""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import fencepost
from fencepost import Proxy
from holders import Holder
from s3_clients import Boto3
from servers import HOST, Redis
from stack import BUCKET, STALE, Stack
from wait import until

pytestmark = pytest.mark.xdist_group("redis")


class Pair:
    """A primary and its replica, without a disk."""

    def __init__(self) -> None:
        self.primary, self.replica = Redis(Redis.IN_MEMORY), Redis(Redis.IN_MEMORY)
        with self.replica.client() as replica:
            replica.replicaof(HOST, self.primary.port)
            until(lambda: replica.info("replication")["master_link_status"] == "up", "the replica is in step")

    def in_step(self) -> None:
        """Waits until the replica has all that the primary has done."""
        with self.primary.client() as primary, self.replica.client() as replica:
            until(
                lambda: replica.info("replication")["slave_repl_offset"] == primary.info("replication")["master_repl_offset"],
                "the replica has caught up",
            )

    def cut(self) -> None:
        """No connection from the replica to the primary any more, while clients still reach both."""
        with self.primary.client() as primary:
            primary.execute_command("ACL SETUSER default -psync -sync")
            primary.execute_command("CLIENT KILL TYPE replica")
            until(lambda: primary.info("replication")["connected_slaves"] == 0, "the replica is cut off")

    def fail_over(self) -> Redis:
        """The primary dies and the replica is promoted; gives the new primary."""
        self.primary.kill()
        with self.replica.client() as replica:
            replica.replicaof("NO", "ONE")
            assert replica.role()[0] == "master"
        return self.replica

    def end(self) -> None:
        self.primary.end()
        self.replica.end()


@pytest.fixture
def pair(redis: Redis) -> Iterator[Pair]:
    # `redis` is asked for only because it skips or fails where there is no Redis.
    both = Pair()
    yield both
    both.end()


def lost_counts(pair: Pair, holder: Callable[[Redis], Holder]) -> tuple[Redis, int]:
    """A failover that loses the last two counts: the new primary, and the highest token that has written."""
    first = holder(pair.primary)
    known = first.token()
    assert first.finish(b"known to the replica")[0] == 0
    pair.in_step()
    pair.cut()
    for _ in range(2):
        one = holder(pair.primary)
        highest = one.token()
        assert one.finish(b"unknown to the replica")[0] == 0
    assert highest == known + 2
    return pair.fail_over(), highest


def test_after_a_failover_the_new_holder_is_refused_until_the_counter_is_set_right(
    pair: Pair, holder: Callable[[Redis], Holder], stack: Stack, boto: Boto3, key: str,
) -> None:
    promoted, highest = lost_counts(pair, holder)
    new = holder(promoted)
    assert new.token() == highest - 1, "the counter went back"
    with stack.refused_once(STALE):
        status, said = new.finish(b"by the new holder")
    assert (status, f"the highest is {highest}" in said) == (1, True), said
    assert boto.get(BUCKET, key).body == b"unknown to the replica"
    # The answer to the refused one says how far the counter has to go.
    with promoted.client() as client:
        client.set(f"token:{{{key}}}", highest)
    new = holder(promoted)
    assert new.token() == highest + 1
    assert new.finish(b"and on")[0] == 0
    assert boto.get(BUCKET, key).body == b"and on"


def race_for_one_number(pair: Pair, start: Callable[[Redis], Holder]) -> tuple[Holder, Holder]:
    """Two holders that were given the same number; the older one is paused."""
    pair.cut()
    older = start(pair.primary)
    token = older.token()
    older.pause()
    newer = start(pair.fail_over())
    assert newer.token() == token, "one number for two holders"
    return older, newer


def test_one_number_for_two_holders_is_not_told_apart(
    pair: Pair, holder: Callable[[Redis], Holder], boto: Boto3, key: str,
) -> None:
    """What no fence can do by the number alone: nobody should take Redis for more than it is."""
    older, newer = race_for_one_number(pair, holder)
    assert newer.finish(b"by the newer holder")[0] == 0
    assert older.finish(b"by the older one")[0] == 0
    assert boto.get(BUCKET, key).body == b"by the older one"


def test_one_number_for_two_holders_writes_once_if_tokens_have_to_be_strictly_greater(
    pair: Pair, logs: Callable[[], Path], key: str, tmp_path: Path,
) -> None:
    proxy = Proxy.dev(logs(), settings=("fence.compare=strictly-greater",))
    boto = Boto3(proxy.site, tmp_path)
    boto.client().create_bucket(Bucket=BUCKET)
    older, newer = race_for_one_number(pair, lambda server: Holder(server, proxy.site, key, key))
    assert newer.finish(b"by the newer holder")[0] == 0
    status, said = older.finish(b"by the older one")
    assert (status, "refused: " in said) == (1, True), said
    assert proxy.rejected(BUCKET, STALE) == 1
    assert boto.get(BUCKET, key).body == b"by the newer holder"
    assert proxy.stop() == 0


def test_a_restart_without_a_disk_begins_at_1_and_is_refused(
    redis: Redis, holder: Callable[[Redis], Holder], stack: Stack, boto: Boto3, key: str,
) -> None:
    in_memory = Redis(Redis.IN_MEMORY)
    try:
        for _ in range(2):
            one = holder(in_memory)
            one.token()
            assert one.finish(b"before")[0] == 0
        in_memory.kill()
        in_memory.start()
        new = holder(in_memory)
        assert new.token() == 1
        with stack.refused_once(STALE):
            assert new.finish(b"after")[0] == 1
        assert boto.get(BUCKET, key).body == b"before"
    finally:
        in_memory.end()


def test_after_a_failover_a_reset_lets_the_new_holder_in_and_is_on_record(
    pair: Pair, logs: Callable[[], Path], key: str, tmp_path: Path,
) -> None:
    """Where the counter cannot be set right, the fence is set back, by somebody who answers for it."""
    tokens = tmp_path / "admin.tokens"
    tokens.write_text(f"operator:{secrets.token_hex(16)}\n")
    proxy = Proxy.dev(logs(), settings=(f"admin.token_file={tokens}",))
    boto = Boto3(proxy.site, tmp_path)
    boto.client().create_bucket(Bucket=BUCKET)
    promoted, highest = lost_counts(pair, lambda server: Holder(server, proxy.site, key, key))

    new = Holder(promoted, proxy.site, key, key)
    token = new.token()
    assert token == highest - 1, "the counter went back"
    # Who claims has just got the lock: its token should be the highest.
    claimed = fencepost.run("claim", f"s3://{BUCKET}/{key}", "--token", str(token), environment={
        "AWS_ENDPOINT_URL": proxy.site.endpoint,
        "AWS_ACCESS_KEY_ID": proxy.site.access_key, "AWS_SECRET_ACCESS_KEY": proxy.site.secret_key,
    })
    assert claimed.returncode != 0 and "StaleFenceToken" in claimed.stderr, claimed
    assert proxy.metric("fence_token_regressed_total", bucket=BUCKET) == 1
    assert new.finish(b"by the new holder")[0] == 1
    assert boto.get(BUCKET, key).body == b"unknown to the replica"

    def reset(*more: str) -> subprocess.CompletedProcess[str]:
        return fencepost.run(
            "reset", f"s3://{BUCKET}/{key}", "--to", str(token), "--reason", f"failover of {key}",
            "--admin-url", proxy.admin, "--admin-token-file", str(tokens), *more,
        )

    down = reset()
    assert down.returncode != 0 and "FenceResetRefused" in down.stderr, down
    assert boto.put(BUCKET, key, b"", str(token)).code == "StaleFenceToken", "nothing was reset"
    done = reset("--force")
    assert done.returncode == 0, done
    attempts = [line for line in proxy.output().splitlines() if "fencepost::audit" in line and f"failover of {key}" in line]
    assert len(attempts) == 2, proxy.output()
    for said in ("operator", str(highest), str(token), f"s3://{BUCKET}/{key}"):
        assert said in attempts[1], attempts[1]

    new = Holder(promoted, proxy.site, key, key)
    assert new.token() == highest, "a number that was given before"
    assert new.finish(b"by the new holder")[0] == 0
    assert boto.get(BUCKET, key).body == b"by the new holder"
    assert proxy.stop() == 0
