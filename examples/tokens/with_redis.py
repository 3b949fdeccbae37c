"""Holds a lock of Redis while it makes one object, and writes it with the lock's token.

    make-report | python with_redis.py jobs/report s3://demo/report

REDIS_URL says where Redis is (redis://127.0.0.1:6379).

The token is a counter that one script counts up when, and only when, it takes the lock. Redis runs
scripts one at a time, so that on *one* server the order of tokens is the order of acquisition.

Redis does not promise more than that. It copies its data to replicas after it has answered, and to
its disk every second, or less often: after a failover, or a crash, the counter can be an older one,
and so can the lock. Then a new holder gets a number that was given before. The fence refuses it if
a higher one has written, which keeps the data safe and the new holder out, until somebody sets the
counter right. If no higher one has written it cannot tell the two apart. See docs/tokens.md.
"""

from __future__ import annotations

import os
import random
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import redis

from worker import arguments, renewing, say, write

URL = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")

# The lock has a time to live and the counter none. Redis must not evict it either: its
# maxmemory-policy has to be noeviction or one of the volatile ones.
ACQUIRE = """
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    return redis.call('INCR', KEYS[2])
end
return false
"""

# Only while the lock is still ours: it may have become another's.
RENEW = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('PEXPIRE', KEYS[1], ARGV[2])"
RELEASE = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1])"


@contextmanager
def hold(lock: str, ttl_seconds: int) -> Iterator[int]:
    """Waits for the lock, holds it during the block, and gives its token."""
    server = redis.Redis.from_url(URL)
    acquire, renew, release = (server.register_script(script) for script in (ACQUIRE, RENEW, RELEASE))
    # The braces keep both keys on one node of a cluster.
    keys = [f"lock:{{{lock}}}", f"token:{{{lock}}}"]
    me, ttl_milliseconds = secrets.token_hex(16), ttl_seconds * 1000
    while (token := acquire(keys, [me, ttl_milliseconds])) is None:
        time.sleep(random.uniform(0.05, 0.15))
    try:
        with renewing(lambda: bool(renew(keys[:1], [me, ttl_milliseconds])), ttl_seconds / 3):
            yield token
    finally:
        try:
            release(keys[:1], [me])
        except redis.RedisError as error:  # It will run out.
            say(f"not released: {error}")
        server.close()


def main() -> None:
    job = arguments(__doc__)
    with hold(job.lock, job.ttl) as token:
        say(f"holds {job.lock} with token {token}")
        made = sys.stdin.buffer.read()  # The work. It may take long, and be paused for longer.
        write(job.target, token, made)


if __name__ == "__main__":
    main()
