"""What the container tests share: the image, built once."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import image as images


@pytest.fixture(scope="session")
def image() -> Iterator[images.Image]:
    """The image of docker/Dockerfile around the binary that is meant for it."""
    reason = images.why_not()
    if reason is not None:
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    built = images.Image(images.IMAGE_BINARY)
    yield built
    built.remove()
