"""The floor: the same fleet against a server that only waits and answers: no sign-in, no leases, no database.

python -m uvicorn benchmarks.agents.baseline:answer
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
BODY = {"incarnation": 1, "assignments": [], "renewals": [], "cancels": [], "fenced": [], "orders": []}


async def answer(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """Reads the sync, holds it as long as it asks for, answers with nothing."""
    if scope["type"] != "http":
        return
    body = b""
    while True:
        part = await receive()
        body += part.get("body", b"")
        if not part.get("more_body"):
            break
    await asyncio.sleep(json.loads(body)["hold_ms"] / 1000)
    out = json.dumps(BODY).encode()
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-length", str(len(out)).encode()), (b"content-type", b"application/json")],
        }
    )
    await send({"type": "http.response.body", "body": out})
