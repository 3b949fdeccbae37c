"""The snippets of docs/clients.md are passages of the tested programs.

    python tests/support/snippets.py

writes them into the document anew. A passage stands between comments `docs:begin` (and a name, if
there are several) and `docs:end`; its block in the document follows a comment with the program's
path and that name.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

from fencepost import REPOSITORY
from programs import CLIENTS, PROGRAMS, RESTIC

DOCUMENT = REPOSITORY / "docs" / "clients.md"
# The comment, the language of the block, its text.
BLOCK = re.compile(r"(<!-- tests/clients/programs/(?P<where>\S+(?: \w+)?) -->\n\n```\w+\n)(?P<text>.*?)(```\n)", re.S)


def passages() -> dict[str, str]:
    """By path and name: the text of every passage."""
    found = {}
    for client in (*CLIENTS, RESTIC):
        name = None
        for line in (PROGRAMS / client.source).read_text().splitlines(keepends=True):
            mark = re.search(r"docs:(begin|end) ?(\w*)$", line.rstrip("\n"))
            if mark and mark[1] == "begin":
                name = f"{client.source} {mark[2]}".rstrip()
                found[name] = ""
            elif mark:
                name = None
            elif name is not None:
                found[name] += line
    return {name: textwrap.dedent(text).strip("\n") + "\n" for name, text in found.items()}


def blocks(document: str) -> dict[str, str]:
    return {block["where"]: block["text"] for block in BLOCK.finditer(document)}


def with_passages(document: str) -> str:
    current = passages()
    return BLOCK.sub(lambda block: block[1] + current[block["where"]] + block[4], document)


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCUMENT
    path.write_text(with_passages(path.read_text()))


if __name__ == "__main__":
    main()
