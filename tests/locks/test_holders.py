"""What every source of tokens has to show: the race is harmless, and the tokens rise.

With the programs of examples/tokens as they are, real lock servers, and the proxy.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from holders import Holder, contend
from s3_clients import Boto3
from servers import Server
from stack import BUCKET, STALE, Stack

CONTENDERS = 4
ROUNDS = 20


def test_a_holder_writes_with_its_token(
    holder: Callable[[Server], Holder], server: Server, stack: Stack, boto: Boto3, key: str,
) -> None:
    for number in (1, 2):
        one = holder(server)
        token = one.token()
        status, said = one.finish(b"report %d" % number)
        assert (status, f"written with token {token}" in said) == (0, True), said
        assert boto.get(BUCKET, key).body == b"report %d" % number
    # The fence knows the token, and no other.
    with stack.refused_once(STALE):
        assert boto.put(BUCKET, key, b"", str(token - 1)).error["HighestFenceToken"] == str(token)


def test_the_late_write_of_a_paused_holder_is_refused(
    holder: Callable[[Server], Holder], server: Server, stack: Stack, boto: Boto3, key: str,
) -> None:
    late = holder(server)
    older = late.token()
    late.pause()
    # It gets the lock because the server has ended the lease or session of a silent holder.
    newer = holder(server)
    assert newer.token() > older
    status, said = newer.finish(b"by the newer holder")
    assert status == 0, said
    with stack.refused_once(STALE):
        status, said = late.finish(b"by the late one")
    assert (status, f"refused: token {older} is stale" in said) == (1, True), said
    assert "Traceback" not in said, said
    assert boto.get(BUCKET, key).body == b"by the newer holder"


def test_tokens_rise_with_every_acquisition_and_across_a_kill_9(server: Server, key: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    before = contend(server, key, CONTENDERS, ROUNDS, notes)
    server.kill()
    server.start()
    tokens = contend(server, key, CONTENDERS, ROUNDS, notes)
    assert len(before) == CONTENDERS * ROUNDS and len(tokens) == 2 * len(before)
    assert all(older < newer for older, newer in zip(tokens, tokens[1:])), tokens
    # They did contend: the lock went from one process to another.
    holders = [line.split()[1] for line in notes.read_text().splitlines()]
    assert sum(one != other for one, other in zip(holders, holders[1:])) > CONTENDERS * 2, holders


def test_a_restored_backup_is_refused_until_it_has_caught_up(
    holder: Callable[[Server], Holder], server: Server, stack: Stack, boto: Boto3, key: str,
) -> None:
    copy = server.back_up()
    for _ in range(2):
        one = holder(server)
        highest = one.token()
        assert one.finish(b"after the backup")[0] == 0
    server.restore(copy)
    refused = 0
    while True:
        one = holder(server)
        token = one.token()
        # Whoever gets the number of the last writer again is taken for that one.
        if token >= highest:
            break
        with stack.refused_once(STALE):
            status, said = one.finish(b"after the restoration")
        assert (status, f"the highest is {highest}" in said) == (1, True), said
        assert boto.get(BUCKET, key).body == b"after the backup"
        refused += 1
    assert refused > 0, "the tokens did not go back"
    status, said = one.finish(b"caught up")
    assert status == 0, said
    assert boto.get(BUCKET, key).body == b"caught up"
