"""What is PostgreSQL's own: when a sequence keeps the order of acquisition, and when it does not."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
import with_postgres

from holders import Holder
from s3_clients import Boto3
from servers import Postgres, Standby
from stack import BUCKET, STALE, Stack
from wait import until

pytestmark = pytest.mark.xdist_group("postgres")


def draw(session: psycopg.Connection, sequence: str = "fence_tokens") -> int:
    return session.execute("SELECT nextval(%s)", [sequence]).fetchone()[0]


def test_a_silent_session_is_ended_and_its_lock_freed(
    holder: Callable[[Postgres], Holder], postgres: Postgres, key: str,
) -> None:
    """Without `idle_session_timeout` nobody would ever get the lock of a paused holder."""
    silent = holder(postgres)
    silent.token()
    silent.pause()
    with postgres.connect() as session:
        def free() -> bool:
            return session.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [key]).fetchone()[0]

        assert not free()
        until(free, "the lock of the silent session is free")
    status, said = silent.finish(b"")
    assert status == 0 and "written" in said, "no newer holder wrote: the fence lets it pass"


def test_a_number_is_not_drawn_again_after_a_rollback(postgres: Postgres) -> None:
    with postgres.connect() as session:
        with session.transaction(force_rollback=True):
            drawn = draw(session)
        assert draw(session) > drawn


def test_a_sequence_skips_numbers_in_a_crash_and_repeats_none(postgres: Postgres) -> None:
    with postgres.connect() as session:
        drawn = draw(session)
    postgres.kill()
    postgres.start()
    with postgres.connect() as session:
        assert drawn < draw(session) <= drawn + 33


def test_a_number_whose_transaction_did_not_commit_is_drawn_again_after_a_crash(postgres: Postgres) -> None:
    """Why the program commits the draw before it uses the number."""
    session = postgres.connect()
    session.execute("CREATE SEQUENCE uncommitted")
    # The next draw goes into the log, however many were put there in advance.
    session.execute("CHECKPOINT")
    session.execute("BEGIN")
    drawn = draw(session, "uncommitted")
    postgres.kill()
    session.close()
    postgres.start()
    with postgres.connect() as session:
        assert draw(session, "uncommitted") == drawn


def test_a_sequence_with_a_cache_gives_tokens_out_of_order(
    postgres: Postgres, stack: Stack, boto: Boto3, key: str,
) -> None:
    """With CACHE above 1 and sessions that stay open, a later holder can have a lower token."""
    with postgres.connect() as one, postgres.connect() as other:
        one.execute("CREATE SEQUENCE cached CACHE 10")
        # In this order, each under the lock.
        tokens = [draw(one, "cached"), draw(other, "cached"), draw(one, "cached")]
        assert tokens == [1, 11, 2]
    assert boto.put(BUCKET, key, b"by the second holder", str(tokens[1])).ok
    with stack.refused_once(STALE):
        assert boto.put(BUCKET, key, b"by the third", str(tokens[2])).code == "StaleFenceToken"


# A sequence puts so many numbers into the log in advance.
LOGGED_AHEAD = 32


@pytest.mark.parametrize(("lost", "goes_back"), [(LOGGED_AHEAD - 2, False), (LOGGED_AHEAD + 8, True)])
def test_a_standby_that_lags_takes_the_sequence_back_when_it_has_lost_more_than_was_logged_ahead(
    postgres: Postgres, stack: Stack, boto: Boto3, key: str, lost: int, goes_back: bool,
) -> None:
    # `postgres` is asked for only because it skips or fails where there is none.
    primary = Postgres()
    try:
        with primary.connect() as session:
            session.execute(with_postgres.SCHEMA)
        standby = Standby(primary)
        try:
            with primary.connect() as session:
                draw(session)
                standby.in_step()
                standby.stop()
                highest = [draw(session) for _ in range(lost)][-1]
            assert boto.put(BUCKET, key, b"by the last holder", str(highest)).ok
            primary.kill()
            standby.start()
            standby.promote()
            with standby.connect() as session:
                token = draw(session)
        finally:
            standby.end()
    finally:
        primary.end()
    assert (token < highest) == goes_back, (token, highest)
    assert boto.put(BUCKET, key, b"by the next holder", str(token)).code == ("StaleFenceToken" if goes_back else "")


def test_setval_is_the_way_out_after_a_restored_backup(
    holder: Callable[[Postgres], Holder], postgres: Postgres, stack: Stack, boto: Boto3, key: str,
) -> None:
    copy = postgres.back_up()
    for _ in range(2):
        one = holder(postgres)
        one.token()
        assert one.finish(b"after the backup")[0] == 0
    postgres.restore(copy)
    refused = holder(postgres)
    refused.token()
    with stack.refused_once(STALE):
        status, said = refused.finish(b"after the restoration")
    assert status == 1, said
    # The answer to the refused one says how far the sequence has to go.
    highest = int(said.split("the highest is ")[1].split()[0])
    with postgres.connect() as session:
        session.execute("SELECT setval('fence_tokens', %s)", [highest])
    next_one = holder(postgres)
    assert next_one.token() == highest + 1
    assert next_one.finish(b"and on")[0] == 0
    assert boto.get(BUCKET, key).body == b"and on"
