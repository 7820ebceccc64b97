"""Where outcomes go: an event loop, or a thread that resolves ``concurrent.futures``.

Each lane has a pipe. The thread that flushed a group writes one byte into it, however many
transactions the group has, and never needs the GIL.
"""

from __future__ import annotations

import threading
from asyncio import AbstractEventLoop
from asyncio import Future as LoopFuture
from concurrent.futures import Future
from typing import Any

from groupcommit._native import Job, Lane


class LoopLane:
    """The lane of one database to one event loop. Everything here runs on the loop's thread."""

    __slots__ = ("closing", "loop", "native")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self.loop = loop
        self.native = Lane()
        self.closing = False
        loop.add_reader(self.native.fileno(), self.wake)

    def start(self, job: Job) -> LoopFuture[Any]:
        """Starts a job; the future is resolved with all others that share its flush."""
        future = self.loop.create_future()
        self.native.start(job, future)
        return future

    def wake(self) -> None:
        """Resolves what is done; the loop calls it when there is something."""
        if self.native.drain() and self.closing:
            self.loop.remove_reader(self.native.fileno())

    def close(self) -> None:
        """Resolves what is done, and leaves the loop once nothing is left."""
        self.closing = True
        if not self.loop.is_closed():
            self.wake()

    def close_from_outside(self) -> None:
        """As `close`, from any thread."""
        try:
            self.loop.call_soon_threadsafe(self.close)
        except RuntimeError:
            pass  # the loop is closed, and all that waited for it is gone


class ThreadLane(threading.Thread):
    """The lane of one database to those who use ``concurrent.futures``."""

    def __init__(self) -> None:
        super().__init__(name="groupcommit-futures", daemon=True)
        self.native = Lane()
        self.start()

    def submit(self, job: Job) -> Future[Any]:
        """Starts a job."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        self.native.start(job, future)
        return future

    def run(self) -> None:
        """Resolves what is done, until the lane is closed and nothing is left."""
        while self.native.wait():
            self.native.drain()

    def close(self) -> None:
        """Waits until every future is resolved."""
        self.native.stop()
        if threading.current_thread() is not self:
            self.join()
