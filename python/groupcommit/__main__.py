"""``python -m groupcommit``: shows on this machine what sharing a flush is worth."""

from __future__ import annotations

import argparse
import asyncio
import platform
import sys
import tempfile
import time
from pathlib import Path

import groupcommit

ONE_BY_ONE = 200
AT_ONCE = 20_000
TASKS = 1_000


async def main(folder: Path) -> None:
    path = folder / "groupcommit-demonstration.db"
    print(f"groupcommit {groupcommit.__version__}, Python {platform.python_version()}")
    print(f"inserts into {path}, each a durable transaction of its own:\n")
    insert = "INSERT INTO t (name) VALUES (?)"
    async with groupcommit.connect(path) as db:
        for warning in db.warnings:
            print(f"note: {warning}")
        await db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")

        began = time.perf_counter()
        for number in range(ONE_BY_ONE):
            await db.execute(insert, (f"one {number}",))
        alone = ONE_BY_ONE / (time.perf_counter() - began)
        print(f"  one after the other    {alone:>9,.0f} a second")

        async def worker(task: int) -> None:
            for number in range(AT_ONCE // TASKS):
                await db.execute(insert, (f"{task} {number}",))

        flushes = db.stats().flushes
        began = time.perf_counter()
        await asyncio.gather(*map(worker, range(TASKS)))
        together = AT_ONCE / (time.perf_counter() - began)
        flushes = db.stats().flushes - flushes
        print(f"  {TASKS:,} tasks at once    {together:>9,.0f} a second, with {flushes:,} flushes")
        print(f"\n{together / alone:.1f} times as many, and each was on disk when its task went on.")


def parsed() -> Path:
    parser = argparse.ArgumentParser(prog="python -m groupcommit", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="where to write (default: here)")
    folder: Path | None = parser.parse_args().folder
    if folder is not None and not folder.is_dir():
        sys.exit(f"{folder} is not a folder")
    return folder or Path(".")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=parsed(), prefix="groupcommit-") as temporary:
        asyncio.run(main(Path(temporary)))
