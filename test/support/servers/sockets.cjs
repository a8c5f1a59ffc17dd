// A server of WebSockets that echoes what it gets, and tells what it saw of each connection.
const { createServer } = require("node:http");
const { WebSocketServer } = require(process.env.WS_PACKAGE);

const seen = new Map();
const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url, "http://x");
  if (pathname === "/die") process.kill(process.pid, "SIGKILL");
  const answer = pathname === "/port" ? process.env.PORT : (seen.get(searchParams.get("id")) ?? null);
  response.end(JSON.stringify(answer));
});
const sockets = new WebSocketServer({
  noServer: true,
  perMessageDeflate: true,
  handleProtocols: (offered) => (offered.has("chat") ? "chat" : false),
});

server.on("upgrade", (request, socket, head) => {
  const { pathname, searchParams } = new URL(request.url, "http://x");
  if (pathname === "/refused") {
    socket.end("HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain\r\ncontent-length: 8\r\n\r\nnot here");
    return;
  }
  sockets.handleUpgrade(request, socket, head, (peer) => {
    const told = [];
    seen.set(searchParams.get("id"), told);
    if (pathname === "/hello") peer.send(JSON.stringify({ url: request.url, headers: request.headers }));
    if (pathname === "/cut") socket.destroy();
    if (pathname === "/bytes") peer.send(Buffer.from([0, 1, 255]), () => peer.close(1000));
    peer.on("message", (data, isBinary) => {
      told.push(["message", data.toString("hex"), isBinary]);
      if (pathname === "/close") peer.close(4321, "as you like");
      else peer.send(data, { binary: isBinary });
      if (pathname === "/twice" && told.length === 2) peer.close(1000, "enough");
    });
    peer.on("ping", (data) => told.push(["ping", data.toString("hex")]));
    peer.on("pong", (data) => told.push(["pong", data.toString("hex")]));
    peer.on("error", (error) => told.push(["error", error.message]));
    peer.on("close", (code, reason) => told.push(["close", code, reason.toString()]));
  });
});
server.listen(Number(process.env.PORT), "127.0.0.1");
