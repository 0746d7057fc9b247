// Node's fetch: `client.mjs URL SIZE`.
import assert from "node:assert";

const [url, size] = [process.argv[2], Number(process.argv[3])];
const body = Buffer.alloc(size, "x");
const post = (path, body, options) => fetch(url + path, { method: "POST", body, ...options });

for (let round = 0; round < 3; round += 1) {
  assert.equal(await (await fetch(`${url}/hello`)).text(), "hello");
}
assert.equal(await (await fetch(`${url}/hello?q=|^`)).text(), "hello");
assert.equal((await fetch(`${url}/hello`, { method: "HEAD" })).status, 200);
assert.equal((await (await fetch(`${url}/large/${size}`)).arrayBuffer()).byteLength, size);
assert.equal(await (await post("/echo", "small")).text(), "small");
const stream = new Blob(["one ", "two"]).stream();
assert.equal(await (await post("/echo", stream, { duplex: "half" })).text(), "one two");
for (const [path, status] of [["/buffered", 413], ["/unread", 403], ["/refused", 401]]) {
  for (let round = 0; round < 3; round += 1) {
    const response = await post(path, body);
    assert.equal(response.status, status, path);
    await response.arrayBuffer();
  }
}
