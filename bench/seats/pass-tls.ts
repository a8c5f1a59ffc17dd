import { createServer } from "node:net";
import { text } from "node:stream/consumers";
import { connect, createSecureContext } from "node:tls";

// A bare pass-through: `node pass-tls.ts SOCKET PORT`, with the authority's certificate on stdin. Connections to the
// socket are passed on by TLS, bytes as they are, and nothing else.

const [address = "", port = ""] = process.argv.slice(2);
const secureContext = createSecureContext({ ca: await text(process.stdin) });
const server = createServer({ allowHalfOpen: true }, (local) => {
  const home = connect({ port: Number(port), secureContext, servername: "home.seats.millrace.internal" });
  home.setNoDelay();
  local.pipe(home).pipe(local);
  for (const socket of [local, home]) {
    socket.on("error", () => {});
    socket.on("close", () => void (local.destroy(), home.destroy()));
  }
});
server.listen(address, () => console.log("up"));
// It ends with who started it.
setInterval(() => process.ppid === 1 && process.exit(), 500);
