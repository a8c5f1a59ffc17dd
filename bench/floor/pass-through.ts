import { spawn } from "node:child_process";
import { once } from "node:events";
import { Agent, request } from "node:http";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { announce, endWithParent, tellMemory } from "../child-side.ts";
import { barePass } from "./bare-pass.ts";

// The floor for server apps: `node:http` in front of the server that the arguments start, headers and bodies passed
// on as they are, connections kept, and nothing else.

const [program = "", ...args] = process.argv.slice(2);
// The server ends with its stdin, and that with this process.
const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
const { url } = JSON.parse(line) as { url: string };
const { hostname: host, port } = new URL(url);
const agent = new Agent({ keepAlive: true });

const server = barePass((options, onAnswer) => request({ host, port, agent, ...options }, onAnswer));
// A WebSocket: the handshake as it came, then bytes in both directions.
server.on("upgrade", ({ method, url: path, rawHeaders }, socket, head) => {
  const app = connect({ host, port: Number(port), noDelay: true });
  let text = `${method} ${path} HTTP/1.1\r\n`;
  for (let i = 0; i < rawHeaders.length; i += 2) text += `${rawHeaders[i]}: ${rawHeaders[i + 1]}\r\n`;
  app.write(`${text}\r\n`);
  app.write(head);
  app.on("error", () => socket.destroy());
  socket.on("error", () => app.destroy());
  app.pipe(socket);
  socket.pipe(app);
});
server.listen(0, "127.0.0.1", () => announce(server));
tellMemory();
endWithParent(() => void child.kill());
