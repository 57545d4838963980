"""Prints what is hard to read, then numbered lines, no newline at the end: chatty.py LINES [LENGTH]"""

import signal
import sys

HARD = (
    b"\xff\xfe\x80 not UTF-8\n"
    b"  1 %\r  2 %\r  3 %\n"
    b"\x1b[31mred\x1b[0m\tand a bell\a\n"
    b"a\0NUL\n"
    b"emoji \xf0\x9f\xa6\x99\n"
)


def main() -> None:
    lines, length = int(sys.argv[1]), int([*sys.argv, "0"][2])
    out = sys.stdout.buffer
    out.write(HARD)
    for number in range(lines):
        out.write(f"line {number} ".encode().ljust(length, b"x") + b"\n")
    out.write(b"no newline")
    out.flush()
    signal.pause()


if __name__ == "__main__":
    main()
