"""Python's own client: `client.py URL SIZE`. It sends all of a body before it reads."""

import http.client
import sys
import urllib.parse

url, size = urllib.parse.urlsplit(sys.argv[1]), int(sys.argv[2])
body = b"x" * size


def ask(connection, method, path, body=None, **options):
    connection.request(method, path, body, **options)
    response = connection.getresponse()
    return response.status, response.read()


def expect(expected, method, path, body=None, **options):
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=30)
    response = ask(connection, method, path, body, **options)
    assert response[0] == expected, (path, response[0], expected)
    connection.close()
    return response[1]


kept = http.client.HTTPConnection(url.hostname, url.port, timeout=30)
for _ in range(3):
    assert ask(kept, "GET", "/hello") == (200, b"hello")
assert ask(kept, "HEAD", "/hello") == (200, b"")
assert ask(kept, "POST", "/echo", b"small") == (200, b"small")
assert expect(200, "GET", f"/large/{size}") == body
assert expect(200, "POST", "/echo", iter([b"one ", b"two"]), encode_chunked=True) == b"one two"
for path, status in [("/buffered", 413), ("/unread", 403), ("/refused", 401)]:
    for _ in range(3):
        expect(status, "POST", path, body)
