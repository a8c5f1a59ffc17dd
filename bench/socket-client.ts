import { join } from "node:path";
import { startChild, withOpenFiles } from "./processes.ts";
import type { Running } from "./subject.ts";

/** What the other end of many WebSockets is to do: open them, have frames echoed and close them, or close them. */
export type SocketJob = {
  readonly kind: "open" | "echo" | "close";
  readonly host: string;
  readonly port: number;
  /** The handshake. */
  readonly request: string;
  readonly sockets: number;
  /** Time under load before counting starts. */
  readonly leadInMs: number;
  readonly measureMs: number;
};

export type SocketAnswer = {
  readonly problem: string | null;
  /** Frames that came back inside the window. */
  readonly perSecond: number;
  /** And in all. */
  readonly frames: number;
};

/** The bench's end of it: one job at a time. */
export type SocketClient = {
  /** Opens so many. */
  readonly open: (server: Running, sockets: number) => Promise<void>;
  /** Opens so many, has a frame echoed on each again and again, and closes them. */
  readonly echo: (server: Running, sockets: number, measureMs: number) => Promise<SocketAnswer>;
  /** Closes those that were opened. */
  readonly close: (server: Running) => Promise<void>;
  readonly stop: () => Promise<void>;
};

const LEAD_IN_MS = 250;

/** Starts it in its own process. */
export function startSocketClient(): SocketClient {
  const script = join(import.meta.dirname, "socket-load.ts");
  const child = startChild(...withOpenFiles(process.execPath, [script]));
  const ask = async (
    kind: SocketJob["kind"],
    server: Running,
    sockets: number,
    measureMs = 0,
  ): Promise<SocketAnswer> => {
    const { hostname: host, port } = new URL(server.url);
    const request = handshake(server);
    const job: SocketJob = {
      kind,
      host,
      port: Number(port),
      request,
      sockets,
      leadInMs: LEAD_IN_MS,
      measureMs,
    };
    child.send(JSON.stringify(job));
    const answer = JSON.parse(await child.nextLine()) as SocketAnswer;
    if (answer.problem !== null) throw new Error(answer.problem);
    return answer;
  };
  return {
    open: async (server, sockets) => void (await ask("open", server, sockets)),
    echo: (server, sockets, measureMs) => ask("echo", server, sockets, measureMs),
    close: async (server) => void (await ask("close", server, 0)),
    stop: child.stop,
  };
}

function handshake({ url, headers }: Running): string {
  const { host, pathname } = new URL(url);
  const lines = [
    `GET ${pathname} HTTP/1.1`,
    `Host: ${host}`,
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
  ];
  return `${lines.join("\r\n")}\r\n\r\n`;
}
