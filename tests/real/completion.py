"""A program that asks an engine for a completion and prints each line of the answer when it comes.

usage: completion.py ENDPOINT PROMPT TOKENS [--stream]

Needs nothing but Python: it runs where the engine is reachable, which may be a machine without this tree.
"""

import json
import sys
from urllib.request import Request, urlopen


def main() -> None:
    endpoint, prompt, tokens, *flags = sys.argv[1:]
    question = {"prompt": prompt, "max_tokens": int(tokens), "stream": "--stream" in flags}
    request = Request(
        f"{endpoint}/v1/completions", json.dumps(question).encode(), {"Content-Type": "application/json"}
    )
    with urlopen(request, timeout=60) as answer:
        for line in answer:
            print(line.decode().rstrip("\n"), flush=True)


main()
