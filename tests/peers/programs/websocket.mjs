// Node's WebSocket, which is that of browsers: `websocket.mjs URL SIZE`, where SIZE is more than a message may have.
import assert from "node:assert";

const [url, size] = [process.argv[2].replace("http", "ws"), Number(process.argv[3])];

/** Sends messages one after the other, and then closes. Resolves to the code of the close frame. */
const talk = messages => new Promise((resolve, reject) => {
  const [socket, left] = [new WebSocket(url), [...messages]];
  socket.binaryType = "arraybuffer";
  const next = () => (left.length > 0 ? socket.send(left[0]) : socket.close(4000, "bye"));
  socket.onopen = next;
  socket.onmessage = ({ data }) => {
    const sent = left.shift();
    const isSame = typeof sent === "string" ? data === sent : data.byteLength === sent.byteLength;
    if (!isSame) reject(new Error("it came back otherwise"));
    next();
  };
  socket.onerror = () => {};
  socket.onclose = ({ code }) => resolve(code);
});

const sizes = [0, 1, 125, 126, 65_535, 65_536, 200_000];
assert.equal(await talk(sizes.map(length => "x".repeat(length))), 4000);
assert.equal(await talk(sizes.map(length => new Uint8Array(length))), 4000);
assert.equal(await talk(["é".repeat(1000), "😀"]), 4000);
assert.equal(await talk([crypto.getRandomValues(new Uint8Array(65_536)), new Uint8Array(size)]), 1009);
