"""Reads the stream of engine.py until standard input ends, then tells how it went: stream_reader.py PORT

Prints `reading` when it has an answer and, at the end, a JSON object: how many numbers came, whether they
came in order and without a gap, whether the stream was cut, and the longest wait between two, in seconds.
"""

import json
import select
import socket
import sys
import time


def main() -> None:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as server:
        server.sendall(b"GET /stream HTTP/1.0\r\n\r\n")
        while b"\r\n\r\n" not in (got := server.recv(4096, socket.MSG_PEEK)):
            pass
        server.recv(got.index(b"\r\n\r\n") + 4)
        print("reading", flush=True)
        print(json.dumps(read(server)), flush=True)


def read(server: socket.socket) -> dict[str, object]:
    text, longest, last, cut = b"", 0.0, time.monotonic(), False
    while True:
        readable, _, _ = select.select([server, sys.stdin], [], [])
        now = time.monotonic()
        if server in readable:
            more = server.recv(65536)
            longest, last = max(longest, now - last), now
            if not more:
                cut = True
                break
            text += more
        elif sys.stdin in readable:
            break
    numbers = text.rpartition(b"\n")[0].split()
    return {
        "numbers": len(numbers),
        "in_order": numbers == [str(number).encode() for number in range(len(numbers))],
        "cut": cut,
        "longest_wait_s": max(longest, time.monotonic() - last),
    }


if __name__ == "__main__":
    main()
