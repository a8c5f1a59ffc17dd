import { expect } from "vitest";
import type { Engine, Exit, Seat } from "../../../src/engines/engine.ts";
import type { ProcessHost } from "../../../src/engines/local/host.ts";
import { processEngine } from "../../../src/engines/local/engine.ts";
import { faultsOfState } from "../../support/axe.ts";
import { sharedDashboard } from "../../support/dashboard-site.ts";
import { verifies } from "../../verifies.ts";

const REASON = "its pod has no machine yet: 0/2 nodes are available: 2 Insufficient memory.";

const END = "exit code 1: ModuleNotFoundError: No module named 'json'";
/** Whether what is asked of the engine ends at once, as a pod whose image is broken. */
let isBroken = false;

/** An engine elsewhere that has no room: what is asked of it waits until nobody wants it any more. */
function fullEngine(host: ProcessHost): Engine {
  const open = (): Seat => ({
    start: () => {
      if (isBroken)
        return {
          exited: Promise.resolve({ detail: END, initFailure: null }),
          kill: () => {},
          vitals: () => null,
          usage: async () => null,
        };
      const { promise: exited, resolve } = Promise.withResolvers<Exit>();
      const kill = (): void => resolve({ detail: "stopped before it started", initFailure: null });
      return { exited, kill, vitals: () => null, usage: async () => null, obstacle: () => REASON };
    },
    keepFor: () => {},
    leave: () => {},
    close: async () => {},
  });
  return { ...processEngine(host), open };
}

const { service, open } = sharedDashboard(
  { hello: { main: "def run():\n    return 1\n" }, broken: { main: "def run():\n    return 1\n" } },
  {},
  { engine: fullEngine },
);

verifies("kubernetes.shown", "an app's page says why a replica does not start", async () => {
  const leaving = new AbortController();
  const call = service()
    .call("hello", {}, { signal: leaving.signal })
    .catch(() => null);
  const { page, complaints } = await open("/apps/hello");
  const replicas = page.getByRole("region", { name: "Replicas", exact: true });
  await replicas.getByText("starting", { exact: true }).waitFor();
  await replicas.getByText(REASON, { exact: true }).waitFor();
  expect(await faultsOfState(page)).toEqual([]);
  expect(complaints).toEqual([]);
  leaving.abort();
  await call;
});

verifies("kubernetes.last-words", "an app's page says why its replicas ended when they started", async () => {
  isBroken = true;
  const { status, json } = await service().call("broken");
  const failure = `The app's process ended while it started (${END}).`;
  expect([status, json.message]).toEqual([503, expect.stringContaining(END)]);
  const { page, complaints } = await open("/apps/broken");
  await page.getByText("Could not start", { exact: true }).waitFor();
  await page.getByRole("paragraph").filter({ hasText: failure }).waitFor();
  expect(await faultsOfState(page)).toEqual([]);
  expect(complaints).toEqual([]);
});
