// The arena's application in Elysia on Bun, with Bun's own compression and SQL, and Elysia's plugin for files.

import { staticPlugin } from "@elysiajs/static";
import { SQL } from "bun";
import { Elysia } from "elysia";

const variable = (name: string, otherwise: string) => process.env[name] ?? otherwise;
const data = variable("DATA", "/data");
const items: any[] = await Bun.file(`${data}/dataset.json`).json();
const url = process.env.DATABASE_URL;
const sql = url ? new SQL({ url, max: Number(variable("DATABASE_MAX_CONN", "256")) }) : undefined;

const text = { "content-type": "text/plain" };
const sum = (query: Record<string, string>) => (Number(query.a) || 0) + (Number(query.b) || 0);

const stored = ({ rating_score, rating_count, ...item }: any) => ({
  ...item,
  rating: { score: rating_score, count: rating_count },
});

const app = new Elysia()
  .use(await staticPlugin({ assets: `${data}/static`, prefix: "/static" }))
  .get("/baseline11", ({ query }) => String(sum(query)))
  .post("/baseline11", ({ query, body }) => String(sum(query) + Number(body)), { parse: "text" })
  .get("/pipeline", () => "ok")
  .get("/json/:count", ({ params, query, headers, set }) => {
    const multiplier = Number(query.m) || 1;
    const priced = items
      .slice(0, Number(params.count))
      .map((item) => ({ ...item, total: item.price * item.quantity * multiplier }));
    const page = { items: priced, count: priced.length };
    if (!headers["accept-encoding"]?.includes("gzip")) return page;
    set.headers["content-type"] = "application/json";
    set.headers["content-encoding"] = "gzip";
    return Bun.gzipSync(JSON.stringify(page));
  })
  .post(
    "/upload",
    async ({ request }) => {
      let length = 0;
      if (request.body) for await (const chunk of request.body as any) length += chunk.byteLength;
      return new Response(String(length), { headers: text });
    },
    { parse: "none" },
  )
  .get("/async-db", async ({ query }) => {
    if (!sql) return { items: [], count: 0 };
    const [min, max] = [Number(query.min) || 10, Number(query.max) || 50];
    const limit = Math.min(Math.max(Number(query.limit) || 50, 1), 50);
    const rows = await sql`SELECT * FROM items WHERE price BETWEEN ${min} AND ${max} LIMIT ${limit}`;
    return { items: rows.map(stored), count: rows.length };
  })
  .ws("/ws", {
    message(socket, message) {
      socket.send(message as any);
    },
  });

app.listen({ port: Number(variable("PORT", "8080")), maxRequestBodySize: 25 << 20 });
