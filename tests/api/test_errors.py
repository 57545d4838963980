"""Which errors a caller sees, and which are ours alone."""

import pytest

from llmgwd.api.face import error_of
from llmgwd.bus.connection import BusLost, CallFailed, CallTimedOut
from llmgwd.host.journal import JournalUnavailable
from llmgwd.model.errors import BY_NAME, Refusal


@pytest.mark.parametrize("name", sorted(BY_NAME.keys() - {"NotAllowed"}))
def test_a_refusal_has_its_name_in_the_error_and_first_in_the_text(name: str) -> None:
    assert error_of(BY_NAME[name]("port: got x")) == (
        f"org.llmgw.Node1.Error.{name}",
        f"{name}: port: got x",
    )


def test_what_is_not_allowed_is_the_buss_own_error() -> None:
    answer = error_of(BY_NAME["NotAllowed"]("only root"))
    assert answer is not None
    assert answer[0] == "org.freedesktop.DBus.Error.AccessDenied"
    assert answer[1].endswith(": only root")


def test_every_refusal_has_a_name() -> None:
    ours = {known for known in Refusal.__subclasses__() if known.__module__ == Refusal.__module__}
    assert ours == set(BY_NAME.values())


@pytest.mark.parametrize(
    "error",
    [JournalUnavailable("cannot read the journal"), BusLost("lost"), CallTimedOut("no answer in 25 s")],
)
def test_what_the_host_could_not_do_is_said_without_a_traceback(error: Exception) -> None:
    assert error_of(error) == ("org.llmgw.Node1.Error.Internal", f"Internal: {error}")


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), KeyError("a"), OSError(28, "full"), TimeoutError(), CallFailed("a.b", "c")],
    ids=lambda error: type(error).__name__,
)
def test_an_unexpected_exception_is_no_answer(error: Exception) -> None:
    assert error_of(error) is None
