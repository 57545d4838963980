"""A streaming completion, counted as it comes (OpenAI's API: server-sent events, `[DONE]` at the end)."""

import json
import threading
from collections.abc import Iterable

_DATA = "data: "


class Stream:
    """Reads the lines of an answer in a thread until they end. Others look at what has come so far."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.tokens = 0
        self.text = ""
        self.finish_reason = ""
        self.completion_tokens = 0
        """As the engine counted them; 0 until it says so."""
        self.done = False
        self.thread = threading.Thread(target=self._read, args=(lines,), daemon=True)
        self.thread.start()

    @property
    def ended(self) -> bool:
        """No more will come, whatever has come."""
        return not self.thread.is_alive()

    def _read(self, lines: Iterable[str]) -> None:
        for line in lines:
            if line.startswith(_DATA):
                self._hear(line.removeprefix(_DATA).strip())

    def _hear(self, event: str) -> None:
        if event == "[DONE]":
            self.done = True
            return
        said = json.loads(event)
        choice = said["choices"][0]
        if choice["finish_reason"] is None:
            self.tokens += 1
            self.text += choice["text"]
        else:
            self.finish_reason = choice["finish_reason"]
            self.completion_tokens = said["usage"]["completion_tokens"]
