import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, onTestFinished } from "vitest";
import { below, nearestBelow } from "../../../src/host/processes.ts";
import { verifies } from "../../verifies.ts";

verifies("servers.own-listener", "of many processes below one the nearest are looked at first", async () => {
  // Three children, and one below the first of them.
  const shell = spawn("sh", ["-c", "sh -c 'sleep 1000 & wait' & sleep 1000 & sleep 1000 & echo up; wait"], {
    stdio: ["ignore", "pipe", "ignore"],
    detached: true,
  });
  onTestFinished(() => void process.kill(-(shell.pid ?? 0), "SIGKILL"));
  await once(shell.stdout, "data");
  const { children } = below(shell.pid ?? 0);
  expect(children).toHaveLength(3);
  const nearest = [...nearestBelow(shell.pid ?? 0)];
  expect(nearest.slice(0, 3)).toEqual(children);
});
