"""What the four programs share: their arguments, renewing in the background, and the write.

None of it looks at the lock before it writes. Such a look is a race: the lock can be lost between
the look and the write, and a paused process does not see it go. The token that goes along with
the write is looked at by the proxy, and there is no gap after that.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError


class LockLost(Exception):
    """The lock server let go of the lock before we knew that we had it."""


def arguments(description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lock", metavar="LOCK", help="the name of the lock")
    parser.add_argument("target", metavar="s3://BUCKET/KEY", help="the object that the lock protects")
    parser.add_argument("--ttl", metavar="SECONDS", type=int, default=10, help="the lock is lost after so long a silence (10)")
    return parser.parse_args()


@contextmanager
def renewing(renew: Callable[[], bool], every_seconds: float) -> Iterator[None]:
    """Calls `renew` now and then while the block runs, until it says that there is nothing left to renew.

    This shows the lock server that the process lives, not that the work goes on.
    """
    over = threading.Event()

    def loop() -> None:
        while not over.wait(every_seconds):
            try:
                held = renew()
            except Exception as error:  # The server may be back by the next time.
                say(f"not renewed: {error}")
                continue
            if not held:
                # A courtesy to whoever reads along. It comes too late for a write that is under way.
                say("the lock is lost")
                return

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def write(target: str, token: int, body: bytes) -> None:
    """Puts the object through the proxy, with the token; ends the program if a newer holder has written."""
    bucket, key = target.removeprefix("s3://").split("/", 1)
    # A client for this one holding of the lock: the token is its session token. The endpoint and
    # the region come from AWS_ENDPOINT_URL and AWS_DEFAULT_REGION.
    s3 = boto3.client(
        "s3",
        aws_access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
        aws_session_token=f"fence:{token}",
        config=Config(s3={"addressing_style": "path"}),
    )
    try:
        s3.put_object(Bucket=bucket, Key=key, Body=body)
    except ClientError as refused:
        error = refused.response["Error"]
        if error["Code"] != "StaleFenceToken":
            raise
        # Nothing was changed, and no retry will help: whoever wants to go on takes the lock again.
        sys.exit(f"refused: token {token} is stale, the highest is {error['HighestFenceToken']}")
    say(f"written with token {token}")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
