"""Lists of processors or memory nodes as the kernel writes them, `0-15,32`."""


def bitmask(numbers: str) -> bytes:
    """One bit a number, lowest first, as systemd takes AllowedCPUs over D-Bus. Raises ValueError."""
    mask = 0
    for part in numbers.split(","):
        first, _, last = part.strip().partition("-")
        for number in range(int(first), int(last or first) + 1):
            mask |= 1 << number
    return mask.to_bytes((mask.bit_length() + 7) // 8, "little")
