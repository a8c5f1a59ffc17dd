import { spawn } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import path from "node:path";
import { createInterface } from "node:readline";
import { PYTHON_DIR } from "../../../config/package-files.ts";
import { CliFailure } from "../../failure.ts";

/** A process of the same user, outside all walls. It ends, and cleans up, when this process does. */
export type Victim = {
  /** Where it can be reached, and the names under which it removes what hostile apps leave in shared memory. */
  readonly facts: Readonly<Record<string, unknown>>;
  readonly end: () => Promise<void>;
};

export async function startVictim(python: string, signal: AbortSignal): Promise<Victim> {
  const program = path.join(PYTHON_DIR, "millrace_escape", "victim.py");
  const child = spawn(python, ["-I", program], {
    stdio: ["pipe", "pipe", "inherit"],
    // It does not get Ctrl-C from our terminal: it has to clean up.
    detached: true,
  });
  child.on("error", () => {}); // Without a process id it prints nothing.
  const end = async (): Promise<void> => {
    const { exitCode, signalCode } = child;
    if (exitCode !== null || signalCode !== null) return;
    const gone = once(child, "exit");
    child.stdin.end();
    await gone;
  };
  try {
    for await (const line of createInterface({ input: child.stdout, signal })) {
      const { folder, abstract, ...others } = JSON.parse(line) as Victim["facts"];
      const ours = { victim_pid: child.pid ?? 0, victim_folder: folder, victim_abstract: abstract };
      return { facts: { ...ours, ...others }, end };
    }
    signal.throwIfAborted();
    throw new CliFailure("the process that is to be attacked does not start");
  } catch (error) {
    // It cleans up by itself, and this process does not wait for it.
    child.stdin.end();
    throw error;
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

  /** Starts a server that no app has used before; gives its port. */
  async listen(host: string): Promise<number> {
    const server = createServer((socket) => {
      this.#sockets.add(socket);
      socket.on("error", () => {}); // The other side has gone.
      socket.on("close", () => this.#sockets.delete(socket));
    });
    this.#servers.push(server);
    server.listen(0, host);
    await once(server, "listening");
    return (server.address() as AddressInfo).port;
  }

  close(): void {
    for (const server of this.#servers) server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}
