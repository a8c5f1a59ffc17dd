// A server in Node, without packages: Millrace starts it with a port in PORT, and passes every request on.
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

/** Answers with the body in capitals, piece by piece as it comes. */
async function shout(request, response) {
  response.writeHead(200, { "content-type": "text/plain; charset=utf-8" });
  request.setEncoding("utf8");
  for await (const text of request) response.write(text.toUpperCase());
  response.end();
}

/** Server-sent events: each one arrives when it is sent. */
async function ticks(request, response, { searchParams }) {
  response.writeHead(200, { "content-type": "text/event-stream" });
  const count = Number(searchParams.get("count") ?? 3);
  // A caller who leaves closes the connection.
  for (let number = 1; number <= count && !response.closed; number += 1) {
    response.write(`data: tick ${number}\n\n`);
    await sleep(200);
  }
  response.end();
}

const ROUTES = {
  "GET /health": (_, response) => response.end("ok\n"),
  "GET /ticks": ticks,
  "POST /shout": shout,
};

const server = createServer((request, response) => {
  const url = new URL(request.url, "http://localhost");
  const handle = ROUTES[`${request.method} ${url.pathname}`];
  if (handle) void handle(request, response, url);
  else response.writeHead(404).end("There is nothing here.\n");
});
server.listen(process.env.PORT, "127.0.0.1");
process.on("SIGTERM", () => server.close());
