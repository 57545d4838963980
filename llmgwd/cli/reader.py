"""Noticing that nobody reads our output any more, before there is something to write."""

import asyncio
import contextlib
import os
import stat
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def while_somebody_reads() -> Iterator[None]:
    """Raise BrokenPipeError in this task when standard output is a pipe and its reader leaves (`| head`)."""
    descriptor = sys.stdout.fileno()
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        yield
        return
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    left = False

    def reader_left() -> None:
        nonlocal left
        left = True
        loop.remove_reader(descriptor)
        if task is not None:
            task.cancel()

    # the end for writing is never readable; epoll reports its error the same way (epoll_ctl(2), EPOLLERR)
    loop.add_reader(descriptor, reader_left)
    try:
        yield
    except asyncio.CancelledError:
        if not left:
            raise
        raise BrokenPipeError("nobody reads standard output") from None
    finally:
        loop.remove_reader(descriptor)
