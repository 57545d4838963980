"""Runs the command line many times at the price of one start: forks where a test would execute.

Standard input is a socket. Each message there is a JSON object with arguments and environment, and carries
the three standard files; it is answered by the pid. `{"wait": pid}` is answered by the exit status.
"""

import importlib
import io
import json
import os
import pkgutil
import signal
import socket
import sys
import time
from typing import Any, NoReturn

import llmgwd.cli
from llmgwd.cli.main import main

MOST_BYTES = 65536


def serve(control: socket.socket) -> None:
    for module in pkgutil.iter_modules(llmgwd.cli.__path__, "llmgwd.cli."):
        importlib.import_module(module.name)
    importlib.import_module("llmgwd.model.spec")
    while True:
        data, files, _, _ = socket.recv_fds(control, MOST_BYTES, 3)
        if not data:
            return
        order: dict[str, Any] = json.loads(data)
        if "wait" in order:
            _, status = os.waitpid(order["wait"], 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = os.fork()
            if answer == 0:
                control.close()
                become(files, order["words"], order["environment"])
            for file in files:
                os.close(file)
        control.send(json.dumps(answer).encode())


def become(files: list[int], words: list[str], environment: dict[str, str]) -> NoReturn:
    """What a new process would be, started by somebody who can be interrupted."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell it is ignored
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    encoding = environment.get("PYTHONIOENCODING", "utf-8")
    sys.stdin = io.TextIOWrapper(io.FileIO(0), encoding)
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w")), encoding)
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(2, "w")), encoding, errors="backslashreplace", line_buffering=True
    )
    sys.argv = ["llmgwctl", *words]
    status: object = 1
    try:
        status = main()
    except SystemExit as end:
        status = end.code
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status if isinstance(status, int) else 1)


if __name__ == "__main__":
    with socket.socket(fileno=0) as listening:
        serve(listening)
