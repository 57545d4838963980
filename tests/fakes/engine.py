"""An engine that is none: it serves HTTP, prints, forks and ends as its flags say.

GET /health, /v1/models, /stream (a numbered line every 50 ms, for ever), /exit?STATUS (the program ends),
/sick and /well (/health answers 500 from then on, or not).
"""

import argparse
import json
import os
import signal
import socket
import sys
import threading
import time
from typing import Any

STREAM_S = 0.05


def main() -> None:
    flags = parse()
    began = time.monotonic()
    signal.signal(signal.SIGTERM, on_term(flags))
    for line in flags.say:
        print(line, flush=True)
    for child in flags.child:
        start_child(child)
    if flags.port:
        threading.Thread(target=serve, args=(flags, began), daemon=True).start()
    if flags.tick:
        threading.Thread(target=tick, args=(flags.tick,), daemon=True).start()
    threading.Event().wait(flags.ends_after)
    if flags.by_signal:
        os.kill(os.getpid(), flags.by_signal)
    leave(flags.status)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0, help="serves HTTP there")
    parser.add_argument("--opens-after", type=float, default=0, help="seconds before it listens")
    parser.add_argument("--ready-after", type=float, default=0, help="seconds in which /health answers 503")
    parser.add_argument("--model", action="append", default=[], help="what /v1/models lists")
    parser.add_argument("--hangs", action="store_true", help="accepts connections and never answers")
    parser.add_argument("--say", action="append", default=[], help="a line to print first")
    parser.add_argument("--tick", type=float, default=0, help="prints a numbered line every so many seconds")
    parser.add_argument("--child", action="append", default=[], choices=("plain", "setsid", "daemon"))
    parser.add_argument("--deaf", action="store_true", help="ignores SIGTERM")
    parser.add_argument("--last-words", default="", help="printed at SIGTERM, before it ends with 143")
    parser.add_argument("--term-status", type=int, help="exits with it at SIGTERM")
    parser.add_argument("--ends-after", type=float, help="seconds until it ends by itself")
    parser.add_argument("--status", type=int, default=0, help="how it ends then")
    parser.add_argument("--by-signal", type=int, default=0, help="kills itself instead")
    parser.set_defaults(sick=False)
    return parser.parse_args()


def on_term(flags: argparse.Namespace) -> Any:
    if flags.deaf:
        return signal.SIG_IGN
    if flags.term_status is not None:
        return lambda *_: leave(flags.term_status)
    if flags.last_words:
        return lambda *_: leave(143, flags.last_words)
    return signal.SIG_DFL


def leave(status: int, *words: str) -> None:
    for word in words:
        print(word)
    sys.stdout.flush()
    os._exit(status)


def start_child(kind: str) -> None:
    """One that outlives its parent and ignores SIGTERM and SIGHUP, the more detached the later its kind."""
    if os.fork():
        return
    for ignored in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(ignored, signal.SIG_IGN)
    if kind != "plain":
        os.setsid()
    if kind == "daemon" and os.fork():
        os._exit(0)
    while True:
        signal.pause()


def tick(every_s: float) -> None:
    number = 0
    while True:
        print(f"tick {number}", flush=True)
        number += 1
        time.sleep(every_s)


def serve(flags: argparse.Namespace, began: float) -> None:
    time.sleep(flags.opens_after)
    with socket.create_server(("127.0.0.1", flags.port)) as server:
        while True:
            client, _ = server.accept()
            threading.Thread(target=answer, args=(flags, began, client), daemon=True).start()


def answer(flags: argparse.Namespace, began: float, client: socket.socket) -> None:
    with client:
        request = client.recv(65536).decode(errors="replace")
        if not request:
            return
        path, _, query = request.split(" ", 2)[1].partition("?")
        if flags.hangs:
            threading.Event().wait()
        try:
            if path == "/stream":
                stream(client)
            if path == "/exit":
                leave(int(query))
            if path in {"/sick", "/well"}:
                flags.sick = path == "/sick"
            client.sendall(page(flags, path, ready=time.monotonic() - began >= flags.ready_after))
        except OSError:
            pass  # the client has gone


def stream(client: socket.socket) -> None:
    client.sendall(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    number = 0
    while True:
        client.sendall(f"{number}\n".encode())
        number += 1
        time.sleep(STREAM_S)


def page(flags: argparse.Namespace, path: str, *, ready: bool) -> bytes:
    status = "200 OK"
    content: dict[str, object] = {}
    if path == "/v1/models":
        content = {"object": "list", "data": [{"id": name, "object": "model"} for name in flags.model]}
    elif path not in {"/health", "/sick", "/well"}:
        status = "404 Not Found"
    elif flags.sick:
        status = "500 Internal Server Error"
    elif not ready:
        status, content = "503 Service Unavailable", {"error": {"message": "Loading model", "code": 503}}
    body = json.dumps(content).encode()
    head = f"HTTP/1.0 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


if __name__ == "__main__":
    main()
