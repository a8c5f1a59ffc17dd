import { connect } from "node:net";

// A process of its own that holds many connections to a listener, silent or with half a request, and opens those
// again that the other side closes, so many a second. It ends with its stdin.

type Crowd = {
  readonly url: string;
  readonly count: number;
  /** Of 127.0.x.y: whom the other side sees. */
  readonly addresses: readonly string[];
  readonly againPerSecond: number;
};

const BATCH = 100;
const BATCH_MS = 50;
/** What each of them says, and then nothing more. */
const WORDS = [
  "",
  "POST /v4/p-none/app/run HTTP/1.1\r\nHost: x\r\nX-Half: ",
  "POST /v2/session HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
  "GET / HT",
];

const crowd = JSON.parse(process.argv[2] ?? "{}") as Crowd;
const { hostname, port } = new URL(crowd.url);
const waiting = Array.from({ length: crowd.count }, (_, place) => place);
let opened = 0;
let open = 0;

function come(place: number): void {
  const localAddress = crowd.addresses[place % crowd.addresses.length]!;
  const socket = connect({ host: hostname, port: Number(port), localAddress });
  let isCounted = false;
  const count = (): void => {
    if (isCounted) return;
    isCounted = true;
    opened += 1;
    if (opened === crowd.count) process.stdout.write("all have come\n");
  };
  socket.on("connect", () => {
    open += 1;
    count();
    socket.write(WORDS[place % WORDS.length]!);
    socket.on("close", () => (open -= 1));
  });
  // A refusal is the other side's right.
  socket.on("error", count);
  socket.on("data", () => {});
  socket.on("close", () => waiting.push(place));
}

// First all of them as fast as they can be taken, then those again that were closed.
let isFirst = true;
setInterval(() => {
  const size = isFirst ? BATCH : Math.ceil((crowd.againPerSecond * BATCH_MS) / 1_000);
  for (const place of waiting.splice(0, size)) come(place);
  if (opened >= crowd.count) isFirst = false;
}, BATCH_MS);
process.on("SIGUSR2", () => process.stdout.write(`open: ${open}\n`));
process.stdin.on("end", () => process.exit(0)).resume();
