"""How ids and unit names are written in object paths and in unit names."""

import re
import string

_ALNUM = frozenset((string.ascii_letters + string.digits).encode())
_UNIT_CHARS = _ALNUM | frozenset(b":_.")
_PATH_ESCAPE = re.compile(rb"_([0-9a-f]{2})")
_UNIT_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")
_UNITS = "/org/freedesktop/systemd1/unit/"


def path_label(text: str) -> str:
    """`text` as one element of an object path, as sd_bus_path_encode(3) writes it.

    >>> path_label("org/model-7b@x:0")
    'org_2fmodel_2d7b_40x_3a0'
    """
    raw = text.encode()
    kept = (
        chr(byte) if byte in _ALNUM and not (at == 0 and 0x30 <= byte <= 0x39) else f"_{byte:02x}"
        for at, byte in enumerate(raw)
    )
    return "".join(kept) or "_"


def from_path_label(label: str) -> str:
    """The text that `path_label` wrote as `label`; raises ValueError where it never did."""
    text = "" if label == "_" else _read(_PATH_ESCAPE, label)
    if text is None or path_label(text) != label:
        raise ValueError(f"not a label of an object path: {label!r}")
    return text


def unit_path(unit: str) -> str:
    """The object of the systemd unit with that name, loaded or not."""
    return _UNITS + path_label(unit)


def unit_escape(text: str) -> str:
    r"""`text` as part of a unit's name, as systemd-escape(1) writes it.

    >>> unit_escape("org/model-7b@x:0")
    'org-model\\x2d7b\\x40x:0'
    """
    return "".join(
        "-" if byte == 0x2F
        else chr(byte) if byte in _UNIT_CHARS and not (at == 0 and byte == 0x2E)
        else f"\\x{byte:02x}"
        for at, byte in enumerate(text.encode())
    )  # fmt: skip


def unit_unescape(escaped: str) -> str:
    """The text that `unit_escape` wrote as `escaped`; raises ValueError where it never did."""
    text = _read(_UNIT_ESCAPE, escaped.replace("-", "/"))
    if text is None or unit_escape(text) != escaped:
        raise ValueError(f"not escaped as part of a unit's name: {escaped!r}")
    return text


def _read(escape: re.Pattern[bytes], text: str) -> str | None:
    try:
        return escape.sub(lambda found: bytes.fromhex(found[1].decode()), text.encode()).decode()
    except UnicodeDecodeError:
        return None
