"""`tandem mcp`: the tools of `mcp_tools` over the Model Context Protocol, on standard input and output.

The official package, of the extra `mcp`, takes a second to import. Standard output is for the protocol alone.
"""

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING, Any

from router.cli import Ended, installed_version
from router.cli.background import Jobs, find_agent_session
from router.cli.mcp_tools import INSTRUCTIONS, PACKAGE_HINT, TOOLS, Delegation, Tool, UnknownTool, has_package
from router.cli.reaching import add_router_arguments, find_url, read_own_key

if TYPE_CHECKING:
    from mcp import types
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server

EXAMPLES = ("mcp", "mcp --url https://tandem.example --key-env TANDEM_KEY")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_router_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve one agent until it closes standard input."""
    if not has_package():
        raise Ended(1, f"tandem mcp needs the package mcp, which is not installed\n  hint: {PACKAGE_HINT}")
    if sys.stdin.isatty():
        print("tandem mcp speaks to a coding agent on standard input and output; Ctrl-C stops it", file=sys.stderr)
        print("  hint: tandem connect --mcp codex has Codex start it by itself", file=sys.stderr)
    jobs = Jobs(find_url(arguments.url), read_own_key(arguments.key_env))
    asyncio.run(_serve(Delegation(jobs)))
    return 0


async def _serve(delegation: Delegation) -> None:
    from mcp.server.stdio import stdio_server  # takes a second

    server = build_server(delegation)
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())


def build_server(delegation: Delegation) -> "Server[Any]":
    from mcp import MCPError, types
    from mcp.server.lowlevel import Server

    async def list_tools(_: object, __: "types.PaginatedRequestParams | None") -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_write_tool(tool) for tool in TOOLS])

    async def call_tool(
        context: "ServerRequestContext[Any, Any]", asked: "types.CallToolRequestParams"
    ) -> types.CallToolResult:
        async def report(progress: float, state: str) -> None:
            await context.session.report_progress(progress, message=state)  # sent to clients that asked for it alone

        session = find_agent_session(asked.meta)
        try:
            answer = await delegation.call(asked.name, asked.arguments or {}, session, report)
        except UnknownTool as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        return types.CallToolResult(content=[types.TextContent(type="text", text=answer.text)], is_error=answer.is_error)

    return Server(
        "tandem",
        version=installed_version(),
        title="Tandem",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _write_tool(tool: Tool) -> "types.Tool":
    from mcp import types

    about = types.ToolAnnotations(
        title=tool.title, read_only_hint=tool.only_reads, destructive_hint=False, open_world_hint=False
    )
    return types.Tool(
        name=tool.name, title=tool.title, description=tool.description, input_schema=tool.schema, annotations=about
    )
