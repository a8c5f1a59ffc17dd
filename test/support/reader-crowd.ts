import { connect, type Socket } from "node:net";

// A process of its own that opens many readers of runs' events and takes what they are sent, as cheaply as it can. It says when
// each has had the head of its answer, when each that was let in has had the end of its run, and at the end of its
// stdin what the statuses were, how many were open, and how many bytes came.

type Crowd = {
  /** The events of one or more runs; the readers are spread over them. */
  readonly urls: readonly string[];
  readonly token: string;
  readonly count: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** How many of a hundred stop reading after the head. */
  readonly deafPercent?: number;
};

/** So many are on their way at once: more than a listener has in its queue would only wait for the kernel. */
const ON_THE_WAY = 100;
const STATUS = { at: "HTTP/1.1 ".length, length: 3 };
const END = "event: end";

const { urls, token, count, headers = {}, deafPercent = 0 } = JSON.parse(process.argv[2] ?? "{}") as Crowd;
const statuses: Record<string, number> = {};
const open = new Set<Socket>();
let begun = 0;
let answered = 0;
let ended = 0;
let bytes = 0;

const targets = urls.map((text) => {
  const url = new URL(text);
  const lines = [`GET ${url.pathname} HTTP/1.1`, "Host: crowd", `Authorization: Bearer ${token}`];
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
  return { host: url.hostname, port: Number(url.port), request: `${lines.join("\r\n")}\r\n\r\n` };
});

function answer(status: string): void {
  statuses[status] = (statuses[status] ?? 0) + 1;
  answered += 1;
  if (answered === count) process.stdout.write("all were answered\n");
  else come();
}

function end(): void {
  ended += 1;
  if (ended === statuses["200"]) process.stdout.write("all have had the end\n");
}

function come(): void {
  if (begun === count) return;
  const { host, port, request } = targets[begun % targets.length]!;
  const isDeaf = begun % 100 < deafPercent;
  begun += 1;
  const socket = connect({ host, port });
  let isAnswered = false;
  /** What came last, in case the end is cut in two; null once it has come. */
  let rest: string | null = "";
  const settle = (status: string): void => {
    if (isAnswered) return;
    isAnswered = true;
    if (status === "200") open.add(socket);
    else socket.destroy();
    if (isDeaf) socket.pause();
    answer(status);
  };
  socket.on("connect", () => socket.write(request));
  socket.on("data", (data: Buffer) => {
    bytes += data.length;
    settle(data.toString("latin1", STATUS.at, STATUS.at + STATUS.length));
    if (rest === null) return;
    const text = rest + data.toString("latin1");
    rest = text.includes(END) ? null : text.slice(-END.length);
    if (rest === null) end();
  });
  socket.on("error", () => {});
  socket.on("close", () => {
    open.delete(socket);
    settle("none");
  });
}

for (let first = 0; first < ON_THE_WAY; first++) come();
process.stdin
  .on("end", () => {
    const told = JSON.stringify({ statuses, open: open.size, ended, bytes });
    process.stdout.write(`${told}\n`, () => process.exit(0));
  })
  .resume();
