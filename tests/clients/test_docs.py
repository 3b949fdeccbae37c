"""docs/clients.md says what the tests found: its snippets are the programs', its table the matrix's."""

from __future__ import annotations

from snippets import DOCUMENT, blocks, passages

from programs import CLIENTS, HEADER, Client

COLUMNS = ("copy", "multipart", "delete-batch", "presign")


def test_the_snippets_are_passages_of_the_programs() -> None:
    written = blocks(DOCUMENT.read_text())
    tested = passages()
    assert written.keys() == tested.keys()
    for where, text in tested.items():
        assert written[where] == text, f"{where}: tests/support/snippets.py writes it anew"


def test_the_table_is_the_matrix() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|\n").split("|")]
        for line in DOCUMENT.read_text().splitlines() if line.startswith("| [")
    ]
    assert [row[:-1] for row in rows] == [row_of(client) for client in CLIENTS]


def row_of(client: Client) -> list[str]:
    anchor = client.name.lower()
    return [
        f"[{client.name}](#{anchor})",
        "both" if HEADER in client.carriers else "session token",
        *(cell(client, operation) for operation in COLUMNS),
        "no" if "put" in client.hides else "yes",
        str(client.tries),
    ]


def cell(client: Client, operation: str) -> str:
    if operation in client.lacks:
        return "no"
    return "read" if operation == "presign" and client.only_read_links else "yes"
