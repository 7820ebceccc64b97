from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import groupcommit
import pytest

TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT UNIQUE)"

Program = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(
    params=[("asyncio", {"use_uvloop": False}), ("asyncio", {"use_uvloop": True})],
    ids=["asyncio", "uvloop"],
)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    """Every asynchronous test runs on both event loops."""
    return request.param


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def db(path: Path) -> Iterator[groupcommit.Database]:
    with groupcommit.connect(path) as db:
        db.blocking.execute(TABLE)
        yield db


@pytest.fixture
def program(path: Path) -> Program:
    """Runs a program of its own, with the path of the database as its argument."""

    def run(source: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-X", "dev", "-c", textwrap.dedent(source), str(path)],
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run
