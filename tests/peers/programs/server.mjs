// What `origin.rs` answers, from Node. Prints its port, and ends with its standard input.
import { createServer } from "node:http";

const statuses = { "/buffered": 413, "/unread": 403, "/refused": 401 };
const server = createServer((request, response) => {
  const [path] = request.url.split("?");
  if (path === "/hello") {
    response.end("hello");
  } else if (path === "/echo") {
    request.pipe(response);
  } else if (path in statuses) {
    response.writeHead(statuses[path]).end();
  } else {
    response.end(Buffer.alloc(Number(path.slice("/large/".length)), "x"));
  }
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.on("end", () => process.exit()).resume();
