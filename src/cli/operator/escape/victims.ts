import path from "node:path";
import { spawn } from "node:child_process";
import type { ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { PYTHON_DIR } from "../../../config/package-files.ts";
import { CliFailure } from "../../failure.ts";
import { createServer } from "node:net";
import type { AddressInfo, Server, Socket } from "node:net";

type Said = {
  readonly folder: string;
  readonly abstract: string;
  readonly memory_key: number;
  /** Names under which it removes what hostile apps leave in memory that they share with the host. */
  readonly filler: string;
  readonly filler_key: number;
};

/** A process of the same user, outside all walls. It ends, and cleans up, when this process does. */
export class Victim {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #said: Said;

  private constructor(child: ChildProcessByStdio<Writable, Readable, null>, said: Said) {
    this.#child = child;
    this.#said = said;
  }

  static async start(python: string, signal: AbortSignal): Promise<Victim> {
    const program = path.join(PYTHON_DIR, "millrace_escape", "victim.py");
    const child = spawn(python, ["-I", program], {
      stdio: ["pipe", "pipe", "inherit"],
      // Ctrl-C at our terminal is not for it: it has to clean up.
      detached: true,
    });
    child.on("error", () => {}); // It has no process id then, and says nothing.
    try {
      for await (const line of createInterface({ input: child.stdout, signal })) {
        return new Victim(child, JSON.parse(line) as Said);
      }
      signal.throwIfAborted();
      throw new CliFailure("the process that is to be attacked does not start");
    } catch (error) {
      // Nobody will know of it: it cleans up by itself, and this process does not wait for it.
      child.stdin.end();
      throw error;
    }
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Where it can be reached. */
  get facts(): Readonly<Record<string, unknown>> {
    const { folder, abstract, ...others } = this.#said;
    return { victim_folder: folder, victim_abstract: abstract, ...others };
  }

  async end(): Promise<void> {
    const { exitCode, signalCode } = this.#child;
    if (exitCode !== null || signalCode !== null) return;
    const gone = once(this.#child, "exit");
    this.#child.stdin.end();
    await gone;
  }
}

/** Stands in for an address where clouds tell a machine its own secrets. Nothing ever leaves this machine. */
export const METADATA_STAND_IN = "127.0.0.66";
/** Stands in for any private address. */
export const PRIVATE_STAND_IN = "127.0.0.1";

/** Servers on this machine that no app may reach. */
export class StandIns {
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<Socket>();

  /** Listens, and tells where. */
  async open(): Promise<Readonly<Record<string, unknown>>> {
    return {
      metadata_host: METADATA_STAND_IN,
      metadata_port: await this.#listen(METADATA_STAND_IN),
      private_host: PRIVATE_STAND_IN,
      private_port: await this.#listen(PRIVATE_STAND_IN),
    };
  }

  /** A server that no app has used before; gives its port. */
  async openAnother(): Promise<number> {
    return await this.#listen(PRIVATE_STAND_IN);
  }

  close(): void {
    for (const server of this.#servers) server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  async #listen(host: string): Promise<number> {
    const server = createServer((socket) => {
      this.#sockets.add(socket);
      socket.on("error", () => {}); // Whoever came has gone.
      socket.on("close", () => this.#sockets.delete(socket));
    });
    this.#servers.push(server);
    server.listen(0, host);
    await once(server, "listening");
    return (server.address() as AddressInfo).port;
  }
}
