"""What is counted of a streaming completion."""

import json

from tests.real.stream import Stream


def event(text: str, finish_reason: str | None = None, **more: object) -> str:
    choice = {"text": text, "finish_reason": finish_reason}
    return f"data: {json.dumps({'choices': [choice], **more})}\n"


def test_tokens_are_counted_and_the_end_is_told() -> None:
    end = event("", "length", usage={"completion_tokens": 2})
    stream = Stream([event("lo"), "\n", event("mi"), "\n", end, "\n", "data: [DONE]\n"])
    stream.thread.join()
    found = (stream.tokens, stream.text, stream.completion_tokens, stream.finish_reason)
    assert (found, stream.done, stream.ended) == ((2, "lomi", 2, "length"), True, True)


def test_a_stream_that_breaks_off_has_ended_and_is_not_done() -> None:
    stream = Stream([event("lo"), "\n"])
    stream.thread.join()
    assert (stream.tokens, stream.finish_reason, stream.done, stream.ended) == (1, "", False, True)
