"""The arena's application on FastPySGI, as an ASGI application, with orjson and asyncpg."""

import asyncio
import json
import os
import zlib
from urllib.parse import parse_qs

import asyncpg
import fastpysgi
import orjson

DATA = os.environ.get("DATA", "/data")

TEXT = [b"content-type", b"text/plain"]
JSON = [b"content-type", b"application/json"]
GZIP = [b"content-encoding", b"gzip"]

with open(f"{DATA}/dataset.json", encoding="utf-8") as file:
    ITEMS = json.load(file)

DATABASE_URL = os.environ.get("DATABASE_URL")
pool = None
# Requests may come before the server has started the application.
started = asyncio.Event()


def query_of(scope):
    return {name: values[0] for name, values in parse_qs(scope["query_string"].decode()).items()}


def text(content):
    return 200, [TEXT], str(content).encode()


async def body_of(receive):
    while True:
        message = await receive()
        yield message.get("body", b"")
        if not message.get("more_body", False):
            return


async def add(scope, receive):
    query = query_of(scope)
    total = int(query.get("a", 0)) + int(query.get("b", 0))
    if scope["method"] == "POST":
        total += int(b"".join([part async for part in body_of(receive)]))
    return text(total)


async def pipeline(scope, receive):
    return text("ok")


async def priced_items(scope, receive):
    count = int(scope["path"].rpartition("/")[2])
    multiplier = int(query_of(scope).get("m", 1))
    items = [item | {"total": item["price"] * item["quantity"] * multiplier} for item in ITEMS[:count]]
    content = orjson.dumps({"items": items, "count": len(items)})
    if not any(name == b"accept-encoding" and b"gzip" in value for name, value in scope["headers"]):
        return 200, [JSON], content
    return 200, [JSON, GZIP], zlib.compress(content, wbits=31)


async def upload(scope, receive):
    length = 0
    async for part in body_of(receive):
        length += len(part)
    return text(length)


async def items_by_price(scope, receive):
    if DATABASE_URL is None:
        return 200, [JSON], b'{"items":[],"count":0}'
    await started.wait()
    query = query_of(scope)
    limit = min(max(int(query.get("limit", 50)), 1), 50)
    rows = await pool.fetch(
        "SELECT * FROM items WHERE price BETWEEN $1 AND $2 LIMIT $3",
        int(query.get("min", 10)),
        int(query.get("max", 50)),
        limit,
    )
    items = [stored(row) for row in rows]
    return 200, [JSON], orjson.dumps({"items": items, "count": len(items)})


def stored(row):
    item = dict(row)
    item["tags"] = orjson.Fragment(item["tags"])
    item["rating"] = {"score": item.pop("rating_score"), "count": item.pop("rating_count")}
    return item


ROUTES = {
    "/baseline11": add,
    "/pipeline": pipeline,
    "/json": priced_items,
    "/upload": upload,
    "/async-db": items_by_price,
}


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        return await lifespan(receive, send)
    path = scope["path"]
    route = ROUTES.get(path) or ROUTES.get(path.rpartition("/")[0])
    status, fields, content = await route(scope, receive) if route else (404, [TEXT], b"")
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": content})


async def lifespan(receive, send):
    global pool
    while True:
        event = (await receive())["type"].removeprefix("lifespan.")
        if event == "startup" and DATABASE_URL is not None:
            max_size = int(os.environ.get("DATABASE_MAX_CONN", 256))
            pool = await asyncpg.create_pool(DATABASE_URL, max_size=max_size)
            started.set()
        elif event == "shutdown" and pool is not None:
            await pool.close()
        await send({"type": f"lifespan.{event}.complete"})
        if event == "shutdown":
            return


if __name__ == "__main__":
    fastpysgi.server.max_content_length = 25 << 20
    fastpysgi.server.tcp_nodelay = 1
    fastpysgi.run(app, host="0.0.0.0", port=int(os.environ.get("PORT", 8080)), loglevel=0)
