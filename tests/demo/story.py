"""The story that the demonstration tells. What a sentence says is looked at, not only printed."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from tests.demo.node import Node, NotSo, Shard
from tests.demo.place import Place
from tests.demo.teller import Teller
from tests.machine.waiting import wait_for
from tests.real.stream import Stream

ID: Final = "demo"
UNIT: Final = f"llmgw-shard-{ID}.scope"
PROMPT: Final = "Once upon a time"
FEW_TOKENS: Final = 24
MANY_TOKENS: Final = 600
BEFORE_THE_KILL: Final = 50
STREAM_S: Final = 3.0


def tell(place: Place, teller: Teller) -> None:
    """From the first start to the last trace. Raises NotSo, CommandError, TimeoutError, TimeoutExpired."""
    story = Story(place, teller)
    story.daemon_is_there()
    shard = story.shard_starts()
    tokens = story.it_answers(shard)
    story.it_has_a_scope(shard)
    story.it_is_no_part_of_the_daemon(shard)
    printed = story.its_output_is_in_the_journal(shard)
    with story.it_writes(shard, tokens) as stream:
        killed, tokens_then = story.daemon_is_killed(stream)
        story.it_writes_on(stream, killed, tokens_then)
        story.shard_was_adopted(shard)
        story.its_output_is_still_there(printed)
        story.it_comes_to_the_end(stream, tokens)
    story.shard_stops()
    story.nothing_is_left(shard)


def start_command(place: Place) -> list[str]:
    return [
        "llmgwctl", *place.user_flag, "start", ID,
        "--engine", "llama-cpp", "--model", place.model, "--port", str(place.port), "--set", "gpus=[]",
        "--wait", "--", "--threads", "1", "--parallel", "1",
    ]  # fmt: skip


class Story:
    """One method a sentence, with what has to be so for it."""

    def __init__(self, place: Place, teller: Teller) -> None:
        self.place = place
        self.node = Node(place)
        self.teller = teller

    def daemon_is_there(self) -> None:
        self.teller.sentence(self.place.opening)
        self.shows("llmgwctl", *self.place.user_flag, "status")
        expect(self.node.shards() == [], "llmgwd has shards already")

    def shard_starts(self) -> Shard:
        self.teller.sentence(
            "A shard is started, a llama-server in a systemd scope of its own, and waited for."
        )
        self.shows(*start_command(self.place))
        shard = self.node.shard(ID)
        expect(shard["state"] == "ready", f"the shard is {shard['state']}: {shard['reason']}")
        self.teller.lines([f"It took {(shard['ready'] - shard['started']) / 1e6:.2f} s."])
        return shard

    def it_answers(self, shard: Shard) -> int:
        """How many tokens take it some seconds, at least MANY_TOKENS if it was slow just now."""
        self.teller.sentence("It answers.")
        answer = json.loads(self.place.run(self.completion(shard, FEW_TOKENS)).stdout)
        text, tokens = answer["choices"][0]["text"], answer["usage"]["completion_tokens"]
        expect(answer["model"] == shard["model"], f"another model answered: {answer['model']}")
        expect(tokens == FEW_TOKENS and text.strip() != "", f"{tokens} tokens came: {text!r}")
        per_second: float = answer["timings"]["predicted_per_second"]
        self.teller.lines(
            [
                f'POST {shard["endpoint"]}/v1/completions "{PROMPT}"',
                f'{tokens} tokens: "{text.strip()}"',
            ]
        )
        return max(MANY_TOKENS, round(per_second * STREAM_S / 100) * 100)

    def it_has_a_scope(self, shard: Shard) -> None:
        who = self.place.engine_user
        self.teller.sentence(
            f"It runs as user {who}, in its scope. The shell beside it is its gate: it let the engine run "
            "when the scope was there, and keeps its exit status."
        )
        shown = self.shows("systemctl", *self.place.user_flag, "status", "--no-pager", "--lines=0", UNIT)
        expect("Active: active (running)" in shown, f"{UNIT} is not active")
        pids = map(str, self.node.processes(shard["control_group"]))
        self.shows("ps", "-o", "user:16,pid,comm", "--pid", ",".join(pids))
        owner = self.node.user_of(shard["pid"])
        expect(owner == who, f"the engine runs as {owner}")

    def it_is_no_part_of_the_daemon(self, shard: Shard) -> None:
        self.teller.sentence("It is no part of the daemon's unit, so what happens to that does not touch it.")
        unit = "--user-unit" if self.place.user_flag else "--unit"
        self.shows("systemd-cgls", "--no-pager", unit, self.place.daemon_unit, unit, "llmgw.slice")
        daemon, engine = self.node.daemon_processes(), self.node.processes(shard["control_group"])
        expect(daemon == [self.node.daemon_pid()], f"the daemon's unit has the processes {daemon}")
        expect(shard["pid"] in engine, f"the scope has the processes {engine}")

    def its_output_is_in_the_journal(self, shard: Shard) -> list[str]:
        engine = shard["pid"]
        self.teller.sentence(
            "What it prints goes to the journal, and not through the daemon: the kernel tells journald who "
            f"writes a line, and that is the engine, pid {engine}."
        )
        lines = self.runs(*self.logs()).splitlines()
        expect(any("listening" in line for line in lines), f"it printed {lines}")
        self.teller.lines(["…", *lines[-3:]])
        self.shows("journalctl", "--no-pager", "--lines=3", self.place.engines_journal, f"--unit={UNIT}")
        writers = self.node.writers(shard)
        expect(writers == {engine}, f"its lines were written by {writers}, and it is {engine}")
        return lines

    @contextmanager
    def it_writes(self, shard: Shard, tokens: int) -> Iterator[Stream]:
        self.teller.sentence(f"It is asked for a text of {tokens} tokens, and sends each as it comes.")
        with self.place.popen([*self.completion(shard, tokens), "--stream"]) as process:
            assert process.stdout is not None
            stream = Stream(process.stdout)
            wait_for("tokens come", lambda: stream.tokens >= BEFORE_THE_KILL or stream.ended)
            self.teller.lines([f'"{stream.text[:80].strip()} …"'])
            yield stream

    def daemon_is_killed(self, stream: Stream) -> tuple[int, int]:
        """The pid that it had, and how many tokens had come."""
        pid = self.node.daemon_pid()
        self.teller.sentence("In the middle of it the daemon is killed.")
        self.shows(*self.main_pid())
        tokens = stream.tokens
        expect(not stream.ended, f"the stream ended after {tokens} tokens")
        self.shows("kill", "-9", str(pid))
        self.teller.lines([f"{tokens} tokens had come."])
        return pid, tokens

    def it_writes_on(self, stream: Stream, killed: int, tokens_then: int) -> None:
        self.teller.sentence("It writes on. Meanwhile systemd starts another daemon.")
        began = time.monotonic()

        def is_back() -> bool:
            return self.node.daemon_pid() not in {0, killed} and self.node.daemon_is_ready()

        wait_for("the daemon is back", is_back, timeout_s=20)
        tokens, without_s = stream.tokens, time.monotonic() - began
        expect(tokens > tokens_then, "no token came while there was no daemon")
        self.teller.lines(
            [f"{tokens - tokens_then} tokens came in the {without_s:.1f} s until there was another one."]
        )
        self.shows(*self.main_pid())

    def shard_was_adopted(self, before: Shard) -> None:
        self.teller.sentence("The new daemon has the shard as it was: the same run, the same pid, ready.")
        self.shows("llmgwctl", *self.place.user_flag, "status", ID)
        now = self.node.shard(ID)
        for key in ("pid", "state", "invocation_id", "started", "ready"):
            expect(now[key] == before[key], f"{key} was {before[key]} and is {now[key]}")
        expect(now["adopted"] is True, "the shard was not adopted")

    def its_output_is_still_there(self, before: Sequence[str]) -> None:
        self.teller.sentence("What it printed before is still there.")
        lines = self.runs(*self.logs()).splitlines()
        expect(lines[: len(before)] == list(before), f"it printed {lines}")
        self.teller.lines(["…", *before[-3:], f"… and {len(lines) - len(before)} lines since."])

    def it_comes_to_the_end(self, stream: Stream, asked: int) -> None:
        self.teller.sentence("The text comes to its end.")
        wait_for("the stream ends", lambda: stream.ended, timeout_s=60)
        found = (stream.tokens, stream.completion_tokens, stream.finish_reason, stream.done)
        expect(found == (asked, asked, "length", True), f"the stream ended with {found}")
        self.teller.lines(
            [f'"… {stream.text[-80:].strip()}"', f"{stream.tokens} of {asked} tokens, and [DONE]."]
        )

    def shard_stops(self) -> None:
        self.teller.sentence("The shard is stopped.")
        self.shows("llmgwctl", *self.place.user_flag, "stop", ID)
        shard = self.node.shard(ID)
        expect(shard["state"] == "stopped", f"the shard is {shard['state']}: {shard['reason']}")

    def nothing_is_left(self, shard: Shard) -> None:
        self.teller.sentence("Its scope is gone, and nothing is left of it.")
        scopes = self.shows(
            "systemctl",
            *self.place.user_flag,
            "list-units",
            "--all",
            "--plain",
            "--no-legend",
            "llmgw-shard-*",
            empty="(nothing)",
        )
        expect(scopes == "", f"there still is {scopes}")
        for path in (f"/sys/fs/cgroup{shard['control_group']}", f"/proc/{shard['pid']}"):
            expect(not self.node.exists(path), f"there still is {path}")
        self.shows("llmgwctl", *self.place.user_flag, "remove", ID)
        self.shows("llmgwctl", *self.place.user_flag, "status")
        expect(self.node.shards() == [], "the shard was not forgotten")

    def completion(self, shard: Shard, tokens: int) -> list[str]:
        program = f"{self.place.tree}/tests/real/completion.py"
        return ["/usr/bin/python3", program, shard["endpoint"], PROMPT, str(tokens)]

    def logs(self) -> list[str]:
        return ["llmgwctl", *self.place.user_flag, "logs", ID]

    def main_pid(self) -> list[str]:
        return ["systemctl", *self.place.user_flag, "show", "--property=MainPID", self.place.daemon_unit]

    def shows(self, *command: str, empty: str = "") -> str:
        """Runs what the reader sees, and shows what that prints; `empty` where that is nothing."""
        self.teller.command(command)
        ran = self.place.run(command)
        printed = f"{ran.stdout}{ran.stderr}" or empty
        self.teller.lines(filter(None, printed.splitlines()))
        return ran.stdout

    def runs(self, *command: str) -> str:
        """Runs what the reader sees; what of its output is worth a look is for the caller to show."""
        self.teller.command(command)
        return self.place.run(command).stdout


def expect(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise NotSo(otherwise)
