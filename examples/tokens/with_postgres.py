"""Holds an advisory lock of PostgreSQL while it makes one object, and writes it with the lock's token.

    make-report | python with_postgres.py jobs/report s3://demo/report

PGHOST, PGDATABASE and so on say where the database is. It wants PostgreSQL 14 or newer, and once,
by its owner, the statement SCHEMA below.

The token is the next value of a *sequence*, drawn in a statement of its own once the lock is ours.
Whoever had the lock before drew before letting go of it, so its number is lower; and the number
of a holder that is gone is never drawn again, for a sequence knows no rollback. What the database
has to promise for that is written beside each step.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from worker import arguments, renewing, say, write

# CACHE 1, because with more every session draws a block of numbers in advance and hands them out
# later, out of order. NO CYCLE, because it must not begin again. Both are the defaults.
SCHEMA = "CREATE SEQUENCE IF NOT EXISTS fence_tokens AS bigint MINVALUE 1 CACHE 1 NO CYCLE"


@contextmanager
def hold(lock: str, ttl_seconds: int) -> Iterator[int]:
    """Waits for the lock, holds it during the block, and gives its token."""
    # One session from the lock to its end: not through a pooler that changes sessions between
    # transactions. Each statement commits at once, and is flushed before it is answered: a number
    # that we have seen survives a crash. That is synchronous_commit, which a database may have off.
    with psycopg.connect(autocommit=True, options="-c synchronous_commit=on") as session:
        # The lock ends with the session, and a session of a paused process would never end: its
        # kernel answers for it. So the server is told to end it after a silence. There is no such
        # limit while a statement waits.
        session.execute("SELECT set_config('idle_session_timeout', %s, false)", [f"{ttl_seconds}s"])
        session.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", [lock])
        # Not in the same statement as the lock: SQL does not say which it would do first.
        row = session.execute("SELECT nextval('fence_tokens')").fetchone()

        def renew() -> bool:
            try:
                session.execute("SELECT 1")
            except psycopg.OperationalError:
                return False  # The session is over; another one would not have the lock.
            return True

        with renewing(renew, ttl_seconds / 3):
            yield row[0]


def main() -> None:
    job = arguments(__doc__)
    with hold(job.lock, job.ttl) as token:
        say(f"holds {job.lock} with token {token}")
        made = sys.stdin.buffer.read()  # The work. It may take long, and be paused for longer.
        write(job.target, token, made)


if __name__ == "__main__":
    main()
