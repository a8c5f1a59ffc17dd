import { connect } from "node:net";

// A process of its own that holds many connections to a listener, silent or with half a request, and opens those
// again that the other side closes, so many a second. It says when each has been there once, and at the end of its
// stdin how many are open.

type Crowd = {
  readonly url: string;
  readonly count: number;
  /** Of 127.0.0.0/8: whom the other side sees. */
  readonly addresses: readonly string[];
  readonly againPerSecond: number;
};

/** So many are on their way at once: more than a listener has in its queue would only wait for the kernel. */
const ON_THE_WAY = 200;
const AGAIN_MS = 50;
/** What each of them says, and then nothing more. */
const WORDS = [
  "",
  "POST /v4/p-none/app/run HTTP/1.1\r\nHost: x\r\nX-Half: ",
  "POST /v2/session HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
  "GET / HT",
];

const crowd = JSON.parse(process.argv[2] ?? "{}") as Crowd;
const { hostname, port } = new URL(crowd.url);
/** Whoever was closed, and comes again. */
const closed: number[] = [];
let begun = 0;
let arrived = 0;
let open = 0;

function come(place: number, onArrived: () => void): void {
  const localAddress = crowd.addresses[place % crowd.addresses.length]!;
  const socket = connect({ host: hostname, port: Number(port), localAddress });
  let isOpen = false;
  socket.on("connect", () => {
    isOpen = true;
    open += 1;
    socket.write(WORDS[place % WORDS.length]!);
    onArrived();
  });
  // A refusal is the other side's right.
  socket.on("error", () => {});
  socket.on("data", () => {});
  socket.on("close", () => {
    closed.push(place);
    if (isOpen) open -= 1;
    else onArrived();
  });
}

/** First all of them, as fast as they are taken; then those again that were closed. */
function comeFirst(): void {
  if (begun === crowd.count) return;
  begun += 1;
  come(begun - 1, () => {
    arrived += 1;
    if (arrived < crowd.count) comeFirst();
    else comeAgain();
  });
}

function comeAgain(): void {
  process.stdout.write("all have come\n");
  const size = Math.ceil((crowd.againPerSecond * AGAIN_MS) / 1_000);
  setInterval(() => {
    for (const place of closed.splice(0, size)) come(place, () => {});
  }, AGAIN_MS);
}

for (let count = 0; count < ON_THE_WAY; count++) comeFirst();
process.stdin
  .on("end", () => process.stdout.write(`${JSON.stringify({ open })}\n`, () => process.exit(0)))
  .resume();
