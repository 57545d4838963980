"""Which llama-server is taken, with stand-ins for all of them; nothing here is downloaded."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.real.llama import NoLlamaServer, Source, llama_server
from tests.real.packages import PackageError

SERVES = f"""#!{sys.executable} -IS
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Health(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()

HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Health).serve_forever()
"""
DIES = "#!/bin/sh\necho loads the model\nkill -ILL $$\n"
REFUSES = "#!/bin/sh\nexit 3\n"


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o700)
    return path


def makes(text: str) -> Callable[[Path], None]:
    def make(directory: Path) -> None:
        put(directory / "bin/llama-server", text)

    return make


def fails(directory: Path) -> None:
    put(directory / "bin/half-of-it", "")
    raise PackageError("pip install it: no such package")


def must_not_be_made(directory: Path) -> None:
    raise AssertionError(f"{directory} is made")


@pytest.fixture
def nowhere(tmp_path: Path) -> str:
    """A PATH on which no llama-server is."""
    return str(tmp_path / "nowhere")


def source(tmp_path: Path, name: str, make: Callable[[Path], None] = must_not_be_made) -> Source:
    return Source(f"the {name} one", tmp_path / "cache" / name, "bin/llama-server", make)


def test_an_installed_one_comes_before_all_others(tmp_path: Path) -> None:
    installed = put(tmp_path / "usr/llama-server", SERVES)
    prebuilt = source(tmp_path, "prebuilt")
    put(prebuilt.path, SERVES)
    assert llama_server(search=str(installed.parent), choices=[prebuilt]) == installed


def test_an_installed_one_that_dies_is_passed_over(tmp_path: Path) -> None:
    installed = put(tmp_path / "usr/llama-server", DIES)
    prebuilt = source(tmp_path, "prebuilt")
    put(prebuilt.path, SERVES)
    assert llama_server(search=str(installed.parent), choices=[prebuilt]) == prebuilt.path


def test_one_that_is_here_is_taken_before_another_is_got(tmp_path: Path, nowhere: str) -> None:
    choices = [source(tmp_path, "prebuilt"), source(tmp_path, "built")]
    put(choices[1].path, SERVES)
    said: list[str] = []
    assert (llama_server(search=nowhere, choices=choices, say=said.append), said) == (choices[1].path, [])


def test_the_first_that_can_be_got_is_got_once(tmp_path: Path, nowhere: str) -> None:
    said: list[str] = []
    first = [source(tmp_path, "prebuilt", makes(SERVES)), source(tmp_path, "built")]
    again = [source(tmp_path, "prebuilt"), source(tmp_path, "built")]
    taken = [llama_server(search=nowhere, choices=choices, say=said.append) for choices in (first, again)]
    assert (taken, said) == ([first[0].path] * 2, ["gets the prebuilt one"])


def test_after_one_that_cannot_be_got_or_does_not_run_comes_the_next(tmp_path: Path, nowhere: str) -> None:
    choices = [
        source(tmp_path, "lost", fails),
        source(tmp_path, "prebuilt", makes(DIES)),
        source(tmp_path, "built", makes(SERVES)),
    ]
    said: list[str] = []
    assert llama_server(search=nowhere, choices=choices, say=said.append) == choices[2].path
    assert said == ["gets the lost one", "gets the prebuilt one", "gets the built one"]
    assert sorted(os.listdir(tmp_path / "cache")) == ["built", "lock", "prebuilt"]


def test_where_there_is_none_it_says_why_of_each(tmp_path: Path, nowhere: str) -> None:
    choices = [
        source(tmp_path, "lost", fails),
        source(tmp_path, "dying", makes(DIES)),
        source(tmp_path, "refusing", makes(REFUSES)),
        source(tmp_path, "broken", makes("no program\n")),
    ]
    with pytest.raises(NoLlamaServer) as caught:
        llama_server(search=nowhere, choices=choices)
    cache = tmp_path / "cache"
    assert str(caught.value) == (
        "pip install it: no such package; "
        f"{cache}/dying/bin/llama-server ended with SIGILL: loads the model; "
        f"{cache}/refusing/bin/llama-server ended with status 3: it printed nothing; "
        f"{cache}/broken/bin/llama-server cannot be run: Exec format error"
    )


def test_what_was_got_can_be_read_and_run_by_every_user(tmp_path: Path, nowhere: str) -> None:
    before = os.umask(0o077)
    try:
        program = llama_server(search=nowhere, choices=[source(tmp_path, "prebuilt", makes(SERVES))])
    finally:
        os.umask(before)
    modes = [path.stat().st_mode & 0o777 for path in (program.parents[1], program.parent, program)]
    assert modes == [0o755, 0o755, 0o744]
