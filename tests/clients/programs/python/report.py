"""What every Python program of the matrix shares: its surroundings, and how it reports.

A program is told by the environment where the proxy is and which token it holds, and by its
arguments which operations to do. It prints one line of JSON for each. It judges nothing: whether
an answer is the right one is for the test to say.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

ENDPOINT = os.environ["S3_ENDPOINT"]
ADDRESS = ENDPOINT.split("//")[1]
SECURE = ENDPOINT.startswith("https://")
REGION = os.environ["S3_REGION"]
ACCESS_KEY = os.environ["S3_ACCESS_KEY"]
SECRET_KEY = os.environ["S3_SECRET_KEY"]
BUCKET = os.environ["S3_BUCKET"]
PREFIX = os.environ["S3_PREFIX"]
# The authority that signed the proxy's certificate; for https only.
CA_FILE = os.environ.get("S3_CA_FILE")
# None: this run holds no lock.
TOKEN = os.environ.get("FENCE_TOKEN")
IN_HEADER = os.environ["FENCE_CARRIER"] == "header"
SMALL_FILE = Path(os.environ["SMALL_FILE"])
LARGE_FILE = Path(os.environ["LARGE_FILE"])

BATCH = [f"{PREFIX}/batch/{name}" for name in "abc"]
PART_BYTES = 8 << 20
LINK_SECONDS = 60


class Refused(Exception):
    """An answer that is a success by its status and a refusal by its content."""

    def __init__(self, code: str, said: str) -> None:
        super().__init__(said)
        self.code = code


def run(
    operations: Mapping[str, Callable[[], dict[str, object] | None]],
    refusal: Callable[[Exception], dict[str, object]] = lambda _: {},
) -> None:
    """Does the operations named by the arguments. `refusal` finds `status` and `code` in an error."""
    for name in sys.argv[1:]:
        result: dict[str, object] = {"operation": name, "ok": True}
        try:
            result |= operations[name]() or {}
        except Refused as refused:
            result |= {"ok": False, "code": refused.code, "said": str(refused)}
        # Whatever a client raises is its way to say that it was refused.
        except Exception as error:
            result |= {"ok": False, "said": f"{type(error).__name__}: {error}", **refusal(error)}
        print(json.dumps(result), flush=True)
