// A server for tests under load. Each answer, message and WebSocket tells the process and the version it comes from.
const { createServer } = require("node:http");
const { WebSocketServer } = require(process.env.WS_PACKAGE);

const self = { pid: process.pid, version: Number(process.env.APP_VERSION) };
const PACE_MS = 20;
const TICKS = 15;

const server = createServer((request, response) => {
  request.resume();
  if (request.url !== "/ticks") {
    setTimeout(() => response.end(JSON.stringify(self)), PACE_MS);
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  let count = 0;
  const timer = setInterval(() => {
    response.write(`data: ${JSON.stringify({ ...self, count })}\n\n`);
    count += 1;
    if (count < TICKS) return;
    clearInterval(timer);
    response.end();
  }, PACE_MS);
  response.on("close", () => clearInterval(timer));
});
new WebSocketServer({ server }).on("connection", (peer) => {
  peer.on("message", (data) => setTimeout(() => peer.send(data.toString(), () => {}), PACE_MS));
  peer.on("error", () => {});
  peer.send(JSON.stringify(self));
});
server.listen(Number(process.env.PORT), "127.0.0.1");
