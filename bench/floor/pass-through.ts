import { spawn } from "node:child_process";
import { once } from "node:events";
import { Agent, createServer, request } from "node:http";
import { createInterface } from "node:readline";
import { announce, endWithParent } from "../child-side.ts";

// The floor for server apps: `node:http` in front of the server that the arguments start, headers and bodies passed
// on as they are, connections kept, and nothing else.

const [program = "", ...args] = process.argv.slice(2);
// The server ends with its stdin, and that with this process.
const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
const { url } = JSON.parse(line) as { url: string };
const { hostname: host, port } = new URL(url);
const agent = new Agent({ keepAlive: true });

const server = createServer({ noDelay: true }, (req, res) => {
  const { method, url: path, rawHeaders: headers } = req;
  const forwarded = request({ host, port, agent, method, path, headers }, (answer) => {
    res.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
    answer.pipe(res);
  });
  forwarded.on("error", () => res.destroy());
  req.pipe(forwarded);
});
server.listen(0, "127.0.0.1", () => announce(server));
endWithParent(() => void child.kill());
