import { execFileSync, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { onTestFinished } from "vitest";
import { isAlive } from "../process-tree.ts";
import { until } from "../until.ts";

/** Of a range that is kept for tests of networks. */
const NETWORK = "198.18.77";
const ADDRESS = `${NETWORK}.2`;

/** Whether a network namespace can be made here. */
export const canStandApart = process.getuid?.() === 0 && existsSync("/usr/sbin/ip");

/** What other programs take for another machine: a network namespace, with an address of its own. Gone after the test. */
export class MachineApart {
  readonly address = ADDRESS;
  readonly #name = `millrace-${process.pid}`;

  constructor() {
    const outer = `mr${process.pid}`;
    const ip = (...args: readonly string[]): void => void execFileSync("ip", args);
    ip("netns", "add", this.#name);
    onTestFinished(() => ip("netns", "del", this.#name));
    ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", this.#name);
    ip("addr", "add", `${NETWORK}.1/30`, "dev", outer);
    ip("link", "set", outer, "up");
    ip("-n", this.#name, "addr", "add", `${ADDRESS}/30`, "dev", "eth0");
    for (const device of ["lo", "eth0"]) ip("-n", this.#name, "link", "set", device, "up");
    ip("-n", this.#name, "route", "add", "default", "via", `${NETWORK}.1`);
  }

  /** Runs a program there, with all that it starts, until the test is over; gives its pid. */
  run(command: readonly string[], env: NodeJS.ProcessEnv = process.env): number {
    const child = spawn("ip", ["netns", "exec", this.#name, ...command], {
      env,
      stdio: "ignore",
      detached: true,
    });
    const pid = child.pid ?? 0;
    onTestFinished(async () => {
      if (isAlive(pid)) process.kill(-pid, "SIGTERM");
      await until("what ran there has ended", () => !isAlive(pid));
    });
    return pid;
  }
}
