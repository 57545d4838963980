"""Whether a llama-server serves here: one that was built for another processor starts, and then dies."""

import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import BinaryIO
from urllib.error import URLError
from urllib.request import urlopen

from tests.machine.waiting import wait_for
from tests.real import gguf

SERVES_IN_S = 20.0


def what_is_wrong(program: Path) -> str:
    """Why it does not serve the smallest model, in a few words; empty when it does."""
    with tempfile.TemporaryDirectory(prefix="llmgwd-trial-") as directory, tempfile.TemporaryFile() as output:
        model = Path(directory, "model.gguf")
        gguf.write(model)
        port = free_port()
        command = [
            str(program),
            "--model", str(model),
            "--host", "127.0.0.1",
            "--port", str(port),
            "--device", "none",
            "--threads", "1",
        ]  # fmt: skip
        try:
            engine = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        except OSError as error:
            return f"{program} cannot be run: {error.strerror}"
        try:
            # It answers when it has run the model once.
            wait_for("it serves", lambda: engine.poll() is not None or _is_well(port), timeout_s=SERVES_IN_S)
        except TimeoutError:
            return f"{program} does not serve within {SERVES_IN_S:g} s: {_last_line(output)}"
        finally:
            ended = engine.poll()
            engine.kill()
            engine.wait()
        if ended is not None:
            return f"{program} ended with {_status(ended)}: {_last_line(output)}"
        return ""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _is_well(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/health", timeout=1) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def _status(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"status {code}"


def _last_line(output: BinaryIO) -> str:
    output.seek(0)
    lines = output.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
