"""Asks ``tocsin mcp`` with the SDK's own client, and prints the answers as JSON; run by an
interpreter with the package mcp."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mcp import Client, MCPError, StdioServerParameters
from mcp.types import ElicitResult
from tocsin.cli.agent_places import Folder
from tocsin.cli.agent_server import server


async def over_stdio(folder: str) -> dict[str, Any]:
    """The answers of the command, as a client starts it."""
    own = {name: os.environ[name] for name in ("PYTHONPATH", "PATH")}
    arguments = ["-m", "tocsin", "mcp", folder]
    command = StdioServerParameters(command=sys.executable, args=arguments, env=own)
    async with Client(command, read_timeout_seconds=60) as client:
        tools = (await client.list_tools()).tools
        said = {
            "tools": [tool.name for tool in tools],
            "read_only": [
                bool(tool.annotations and tool.annotations.read_only_hint) for tool in tools
            ],
        }
        for name, tool, arguments in (
            ("runs", "list_runs", {}),
            ("verdict", "verdict", {"run": "bad"}),
            ("healthy", "verdict", {"run": "deep/good"}),
            ("outside", "verdict", {"run": "../secret"}),
            ("absolute", "series", {"run": "/etc", "tensor": "loss"}),
            ("tensors", "list_tensors", {"run": "bad", "search": "LO"}),
            ("series", "series", {"run": "bad", "tensor": "loss", "mode": "TRAIN", "points": 3}),
            ("misspelt", "series", {"run": "bad", "tensor": "los"}),
            ("mode", "series", {"run": "bad", "tensor": "loss", "mode": "ALL"}),
            ("many", "series", {"run": "bad", "tensor": "loss", "points": 100_000}),
            ("report", "report", {"run": "bad"}),
            ("rule", "rules", {"name": "ExplodingTensor"}),
            ("rules", "rules", {"search": "learning rate"}),
            ("no rule", "rules", {"name": "Exploding"}),
            ("silence", "silence", {"job": "j", "duration": "2h", "why": "known"}),
        ):
            said[name] = await call(client, tool, arguments)
        return said


async def silences(folder: str, action: str, confirm: bool, mode: str) -> dict[str, Any]:
    """A silence, by a person who answers so, and what was stored."""
    stored: list[list[str]] = []
    asked: list[str] = []

    def add(*silence: str) -> dict[str, Any]:
        stored.append(list(silence))
        return {"until": (datetime.now(UTC) + timedelta(hours=2)).isoformat()}

    async def answer(context: object, question: Any) -> ElicitResult:
        asked.append(question.message)
        content = {"confirm": confirm} if action == "accept" else None
        return ElicitResult(action=action, content=content)

    async with Client(
        server(Folder(Path(folder)), add), elicitation_callback=answer, mode=mode
    ) as client:
        arguments = {"job": "nightly", "duration": "2h", "why": "new disk"}
        said = await call(client, "silence", arguments)
    return {"said": said, "asked": asked, "stored": stored}


async def unasked(folder: str) -> dict[str, Any]:
    """A silence from a client that cannot ask its person."""
    stored: list[tuple[str, ...]] = []

    def add(*silence: str) -> dict[str, Any]:
        stored.append(silence)
        return {}

    async with Client(server(Folder(Path(folder)), add)) as client:
        try:
            said = await call(client, "silence", {"job": "j", "duration": "2h", "why": "known"})
        except MCPError as error:
            said = {"error": str(error)}
    return {"said": said, "stored": stored}


async def call(client: Client, tool: str, arguments: dict[str, Any]) -> Any:
    found = await client.call_tool(tool, arguments)
    if found.is_error:
        return {"error": found.content[0].text}
    return found.structured_content


async def main(folder: str) -> None:
    said = await over_stdio(folder)
    for mode in ("auto", "legacy"):
        said[f"confirmed {mode}"] = await silences(folder, "accept", True, mode)
        said[f"not confirmed {mode}"] = await silences(folder, "accept", False, mode)
        said[f"declined {mode}"] = await silences(folder, "decline", False, mode)
    said["unasked"] = await unasked(folder)
    print(json.dumps(said))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
