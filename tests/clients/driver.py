"""Clients without a driver of their own next to the checkout: `python -m tests.clients.driver NAME BASE_URL MARKER`.

It ends as those drivers do: 0 when the marker was printed, 1 when not, 77 when the client cannot be installed.
"""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

import pytest

from tests.tools.clients import PACKAGES, command_of, installed, make_scratch, run_client

PROMPT = "Fix the typo in calc.py"
PROGRAMS = {
    "codex-sdk": """
import { Codex } from '@openai/codex-sdk';
const codex = new Codex({ baseUrl: process.env.BASE_URL, apiKey: 'any' });
const thread = codex.startThread({ model: 'auto', skipGitRepoCheck: true, sandboxMode: 'danger-full-access' });
console.log((await thread.run(process.env.PROMPT)).finalResponse);
const { events } = await thread.runStreamed(process.env.PROMPT);
for await (const event of events) if (event.type === 'item.completed' && event.item.text) console.log(event.item.text);
""",
    "claude-agent-sdk": """
import { query } from '@anthropic-ai/claude-agent-sdk';
const options = { model: 'auto', permissionMode: 'bypassPermissions', allowDangerouslySkipPermissions: true };
for await (const message of query({ prompt: process.env.PROMPT, options })) {
  if (message.type === 'result') console.log(message.result);
}
""",
}
"""By client: a program that asks as the SDK's own page does."""


def copilot(base_url: str, wire: str) -> tuple[list[str], dict[str, str]]:
    """Copilot's command line with a provider of one's own."""
    is_messages = wire == "messages"
    address = base_url.removesuffix("/v1") if is_messages else base_url
    kind = {"COPILOT_PROVIDER_TYPE": "anthropic" if is_messages else "openai", "COPILOT_PROVIDER_BASE_URL": address}
    if not is_messages:
        kind["COPILOT_PROVIDER_WIRE_API"] = "responses" if wire == "responses" else "completions"
    rest = {"COPILOT_PROVIDER_API_KEY": "any", "COPILOT_MODEL": "auto", "COPILOT_OFFLINE": "true"}
    return [command_of("copilot"), "--allow-all-tools", "-p", PROMPT], {**kind, **rest}


def program(name: str, base_url: str, scratch: Path) -> tuple[list[str], dict[str, str]]:
    """A program that uses an SDK, next to its modules."""
    (scratch / "node_modules").symlink_to(installed(name))
    file = scratch / "program.mjs"
    file.write_text(PROGRAMS[name])
    address = {"BASE_URL": base_url, "ANTHROPIC_BASE_URL": base_url.removesuffix("/v1"), "ANTHROPIC_API_KEY": "any"}
    return ["node", str(file)], {
        **address,
        "PROMPT": PROMPT,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",
    }


async def run(name: str, base_url: str, folder: Path, seconds: float = 100) -> str:
    """What the client printed."""
    scratch = make_scratch(folder)
    wire = name.removeprefix("copilot-")
    command, environment = copilot(base_url, wire) if wire != name else program(name, base_url, scratch)
    return await run_client(command, scratch, environment, seconds)


def version(name: str) -> str:
    """The version that is pinned."""
    return PACKAGES["copilot" if name.startswith("copilot-") else name].rpartition("@")[2]


def main(name: str, base_url: str, marker: str) -> int:
    seconds = float(os.environ.get("CLIENT_TIMEOUT", "100"))
    try:
        with tempfile.TemporaryDirectory(prefix="tandem-client-", ignore_cleanup_errors=True) as folder:
            said = asyncio.run(run(name, base_url, Path(folder), seconds))
    except pytest.skip.Exception as reason:
        print(reason)
        return 77
    print(said[-1_000:])
    return 0 if marker in said else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
