import { Agent, request, type RequestOptions } from "node:http";

// A process of its own that takes all it can get for one project: heavy reads without a pause, and log sockets, and again after each refusal. It says
// when every one of them has been answered once, and at the end of its stdin what the answers were.

type Greed = {
  readonly baseUrl: string;
  readonly projectId: string;
  readonly token: string;
  readonly reads: number;
  readonly sockets: number;
};

const UPGRADE = {
  connection: "Upgrade",
  upgrade: "websocket",
  "sec-websocket-version": "13",
  "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
};

const { baseUrl, projectId, token, reads, sockets } = JSON.parse(process.argv[2] ?? "{}") as Greed;
const authorization = `Bearer ${token}`;
const agent = new Agent({ keepAlive: true });
const seen: Record<"reads" | "sockets", Record<number, number>> = { reads: {}, sockets: {} };
let unanswered = reads + sockets;

/** Asks again and again; an answer of 101 is kept for as long as it lasts. */
function keepAsking(kind: "reads" | "sockets", url: string, options: RequestOptions): void {
  let isFirst = true;
  const ask = (): void => {
    const over = (status: number, retryAfter = "1"): void => {
      seen[kind][status] = (seen[kind][status] ?? 0) + 1;
      if (isFirst) unanswered -= 1;
      if (isFirst && unanswered === 0) process.stdout.write("all were answered\n");
      isFirst = false;
      if (status === 200) ask();
      else if (status !== 101) setTimeout(ask, Number(retryAfter) * 1_000);
    };
    const asked = request(url, options);
    asked.once("response", (response) => {
      response.resume().once("end", () => over(response.statusCode ?? 0, response.headers["retry-after"]));
    });
    asked.once("upgrade", (_, socket) => {
      over(101);
      socket.on("error", () => {}).on("close", ask);
      socket.resume();
    });
    asked.once("error", () => over(0)).end();
  };
  ask();
}

for (let count = 0; count < reads; count++) {
  const url = `${baseUrl}/v2/projects/${projectId}/figures?range=1h`;
  keepAsking("reads", url, { agent, headers: { authorization } });
}
for (let count = 0; count < sockets; count++) {
  const url = `${baseUrl}/ws-logs?projectID=${projectId}&appID=${projectId}-app`;
  keepAsking("sockets", url, { agent: false, headers: { ...UPGRADE, authorization } });
}
process.stdin
  .on("end", () => process.stdout.write(`${JSON.stringify(seen)}\n`, () => process.exit(0)))
  .resume();
