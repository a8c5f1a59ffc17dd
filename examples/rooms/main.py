"""Rooms over WebSockets: whoever connects to /NAME gets each message that is sent there, their own too."""

import asyncio
import collections
import http
import os
import signal

from websockets.asyncio.server import broadcast, serve

ROOMS = collections.defaultdict(set)


async def visit(socket):
    """One visitor, from the handshake to the close frame."""
    name = socket.request.path.split("?")[0]
    room = ROOMS[name]
    room.add(socket)
    try:
        async for message in socket:
            broadcast(room, message)
    finally:
        room.discard(socket)
        if not room:
            del ROOMS[name]


def answer_check(connection, request):
    """The health check is plain HTTP; any other path is a room."""
    return connection.respond(http.HTTPStatus.OK, "ok\n") if request.path == "/health" else None


async def main():
    async with serve(visit, "127.0.0.1", int(os.environ["PORT"]), process_request=answer_check) as server:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.close)
        await server.wait_closed()


asyncio.run(main())
