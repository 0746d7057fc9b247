"""httpx: `client_httpx.py URL SIZE`."""

import sys

import httpx

url, size = sys.argv[1], int(sys.argv[2])
body = b"x" * size

with httpx.Client(timeout=30, trust_env=False) as client:
    for _ in range(3):
        assert client.get(f"{url}/hello").text == "hello"
    assert client.get(f"{url}/hello?q=|^").text == "hello"
    assert client.head(f"{url}/hello").status_code == 200
    assert client.get(f"{url}/large/{size}").content == body
    assert client.post(f"{url}/echo", content=iter([b"one ", b"two"])).content == b"one two"
    for path, status in [("/buffered", 413), ("/unread", 403), ("/refused", 401)]:
        for _ in range(3):
            response = client.post(url + path, content=body)
            assert response.status_code == status, (path, response)
