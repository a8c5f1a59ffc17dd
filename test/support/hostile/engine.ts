import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Engine, Exit } from "../../../src/engines/engine.ts";
import { processEngine } from "../../../src/engines/local/engine.ts";
import type { ProcessHost } from "../../../src/engines/local/host.ts";
import { type ProcessStart, type Spawn, spawnPython } from "../../../src/engines/local/spawn.ts";
import type { FromPeer, ToPeer } from "./orders.ts";

const PEER = fileURLToPath(new URL("./peer.ts", import.meta.url));

/** Apps of this name are played; the others run. */
const HOSTILE = /^hostile-/;

/** Plays the processes of hostile apps in one process of its own, behind the engine that starts real ones. */
export class HostilePeer {
  readonly #child: ChildProcess;
  readonly #exits = new Map<number, (exit: Exit) => void>();
  #nextId = 1;
  /** Plans that were played, and how many of them no harness would have. */
  played = { plans: 0, cases: 0 };

  constructor(env: Record<string, string>) {
    this.#child = fork(PEER, { env: { ...process.env, ...env } });
    this.#child.on("message", (message: FromPeer) => {
      if ("cases" in message) this.played = message;
      else this.#exits.get(message.exited)?.({ detail: "exit code 1", initFailure: null });
    });
    // Without it no case would be played any more: better a loud end.
    this.#child.on("exit", (code) => {
      if (this.#child.connected || code !== 0) throw new Error(`the hostile peer ended with ${code}`);
    });
  }

  /** An engine whose hostile apps are played here. */
  engine(host: ProcessHost): Engine {
    const spawn: Spawn = (start, clock, events) =>
      HOSTILE.test(start.workload.variables["APP_NAME"] ?? "")
        ? this.#start(start)
        : spawnPython(start, clock, events);
    return processEngine(host, spawn);
  }

  close(): void {
    this.#child.removeAllListeners("exit").disconnect();
  }

  #start({ address, tickets }: ProcessStart): ReturnType<Spawn> {
    const id = this.#nextId++;
    const exited = new Promise<Exit>((resolve) => this.#exits.set(id, resolve));
    void exited.then(() => this.#exits.delete(id));
    this.#tell({ start: { id, address, tickets } });
    // Nothing is known of who is only played.
    const kill = (): void => this.#tell({ kill: id });
    return { exited, kill, vitals: () => null, usage: async () => null, residentBytes: async () => 0 };
  }

  #tell(order: ToPeer): void {
    if (this.#child.connected) this.#child.send(order);
  }
}
