"""Who owns a name on the bus, and how one of our own is taken."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from llmgwd.bus import errors
from llmgwd.bus.errors import CallFailed, NameTaken

GHOST_S = 5.0
"""How long a connection of ours that has ended may go on to own a name: until the bus has read its end."""

_DO_NOT_QUEUE = 4
_OWNED = {1, 4}  # now, and already
_RETRY_S = 0.05

Ask = Callable[..., Awaitable[list[Any]]]
"""`ask(member, signature, *body)`: calls the bus itself."""


async def owner(ask: Ask, name: str) -> str:
    """The unique name that owns `name`, empty where nobody does."""
    try:
        [unique_name] = await ask("GetNameOwner", "s", name)
    except CallFailed as error:
        if error.error != errors.NAME_HAS_NO_OWNER:
            raise
        return ""
    return str(unique_name)


async def take(ask: Ask, name: str, ghost: str) -> None:
    """Makes `name` ours or raises NameTaken; `ghost` is a unique name that was ours until just now."""
    loop = asyncio.get_running_loop()
    patience = loop.time() + GHOST_S
    while True:
        [answer] = await ask("RequestName", "su", name, _DO_NOT_QUEUE)
        if answer in _OWNED:
            return
        other = await owner(ask, name)
        if other not in {"", ghost} or loop.time() > patience:
            raise NameTaken(f"{name} is owned by {other}")
        await asyncio.sleep(_RETRY_S)
