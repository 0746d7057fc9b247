"""The library websockets of Python: `websocket.py URL SIZE`, where SIZE is more than a message may have."""

import asyncio
import os
import sys

import websockets


async def talk(url, compression):
    async with websockets.connect(url, compression=compression, max_size=None) as socket:
        for size in [0, 1, 125, 126, 65_535, 65_536, 200_000]:
            for message in ["é" * (size // 2), bytes([7]) * size]:
                await socket.send(message)
                assert await socket.recv() == message, size
        parts = [f"part {number} " for number in range(10)]
        await socket.send(parts)
        assert await socket.recv() == "".join(parts)
        await (await socket.ping(b"p"))
        for number in range(200):
            await socket.send(f"message {number}")
        for number in range(200):
            assert await socket.recv() == f"message {number}"
        await socket.close(4000, "bye")
        assert socket.close_code == 4000, socket.close_code


async def send_too_much(url, size):
    async with websockets.connect(url, max_size=None) as socket:
        try:
            await socket.send(os.urandom(size))
            await socket.recv()
        except websockets.ConnectionClosed as closed:
            assert closed.rcvd.code == 1009, closed
        else:
            raise AssertionError("it was taken")


async def come_from_elsewhere(url):
    try:
        await websockets.connect(url, origin="http://evil.example")
    except websockets.InvalidHandshake as refused:
        # Releases before 14 have the status itself.
        response = refused if hasattr(refused, "status_code") else refused.response
        assert response.status_code == 403, refused
    else:
        raise AssertionError("it was let in")


async def main(url, size):
    for compression in [None, "deflate"]:
        await talk(url, compression)
    await send_too_much(url, size)
    await come_from_elsewhere(url)


asyncio.run(main(sys.argv[1].replace("http", "ws", 1), int(sys.argv[2])))
