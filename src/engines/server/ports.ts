import { randomInt } from "node:crypto";
import { createServer } from "node:net";
import { type PortRange, SERVER_PORTS } from "../../host/walls/network.ts";
import { once } from "node:events";

export type PortSource = { take(): Promise<number | null>; giveBack(port: number): void };

/** The ports that are reserved for servers, in turn: connections that have just closed may hold a port for a minute. */
export class Ports implements PortSource {
  readonly #range: PortRange;
  readonly #given = new Set<number>();
  #next: number;

  constructor(range = SERVER_PORTS) {
    this.#range = range;
    // Another service on this machine may use the same range.
    this.#next = randomInt(range.first, range.last + 1);
  }

  giveBack(port: number): void {
    this.#given.delete(port);
  }

  /** Ports of another machine: unique among the servers of this service. */
  readonly remote: PortSource = {
    take: async () => await this.take(async () => true),
    giveBack: (port) => this.giveBack(port),
  };

  /** A port that is free on this machine. */
  async take(isUsable = isFree): Promise<number | null> {
    const { first, last } = this.#range;
    for (let tries = first; tries <= last; tries++) {
      const port = this.#next;
      this.#next = port === last ? first : port + 1;
      if (this.#given.has(port)) continue;
      this.#given.add(port);
      if (await isUsable(port)) return port;
      this.#given.delete(port);
    }
    return null;
  }
}

/** Whether a server could listen on that port, on any address. */
async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    server.listen({ port, host: "0.0.0.0", exclusive: true });
    await once(server, "listening");
    return true;
  } catch {
    return false;
  } finally {
    if (server.listening) await new Promise((resolve) => server.close(resolve));
  }
}

/** Where a server on this machine listens: only the service has to reach it. */
const LOOPBACK = "127.0.0.1";
/** Hosts that mean every address of the machine. */
const EVERY_HOST = new Set(["", "0.0.0.0", "::", "[::]", "*"]);
const PORT_OPTIONS = new Set(["--port", "-p"]);
const BIND_OPTIONS = new Set(["--bind", "-b"]);
const HOST_OPTION = "--host";
const PORT_VARIABLE = /\$(?:PORT\b|\{PORT\})/g;
const HOST_AND_PORT = /^(\[[0-9a-fA-F:]*\]|[A-Za-z0-9.*_-]*):(\d{1,5})$/;

/** A server's command with the value of `$PORT` in it. */
export function withPortVariable(entrypoint: readonly string[], port: number): string[] {
  return entrypoint.map((word) => word.replace(PORT_VARIABLE, String(port)));
}

/** A server's command with its own port, and loopback in place of all addresses: there it could be called without a token. */
export function withPort(entrypoint: readonly string[], authored: number, port: number): string[] {
  let before = "";
  return entrypoint.map((word, index) => {
    const option = before;
    before = word;
    return index === 0 ? word : replaced(word, option, authored, port);
  });
}

function replaced(word: string, option: string, authored: number, port: number): string {
  const text = word.replace(PORT_VARIABLE, String(port));
  if (PORT_OPTIONS.has(option) && isPort(text, option === "--port" ? null : authored)) return String(port);
  if (option === HOST_OPTION && EVERY_HOST.has(text)) return LOOPBACK;
  const mark = text.indexOf("=");
  if (text.startsWith("--") && mark !== -1) {
    const name = text.slice(0, mark);
    return `${name}=${replaced(text.slice(mark + 1), name, authored, port)}`;
  }
  const bound = HOST_AND_PORT.exec(text);
  if (!bound) return text;
  const [, host = "", number = ""] = bound;
  if (!isPort(number, BIND_OPTIONS.has(option) ? null : authored) && Number(number) !== port) return text;
  return `${EVERY_HOST.has(host) ? LOOPBACK : host}:${port}`;
}

/** Whether it is that port; with null, whether it is any. */
function isPort(text: string, port: number | null): boolean {
  if (!/^\d{1,5}$/.test(text)) return false;
  return port === null || Number(text) === port;
}
