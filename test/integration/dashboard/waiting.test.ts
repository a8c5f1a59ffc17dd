import { expect } from "vitest";
import type { Engine, Exit, Seat } from "../../../src/replicas/engine.ts";
import type { ProcessHost } from "../../../src/replicas/process/host.ts";
import { processEngine } from "../../../src/replicas/process/engine.ts";
import { faultsOfState } from "../../support/axe.ts";
import { sharedDashboard } from "../../support/dashboard-site.ts";
import { verifies } from "../../verifies.ts";

const REASON = "its pod has no machine yet: 0/2 nodes are available: 2 Insufficient memory.";

/** An engine elsewhere that has no room: what is asked of it waits until nobody wants it any more. */
function fullEngine(host: ProcessHost): Engine {
  const open = (): Seat => ({
    start: () => {
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
  { hello: { main: "def run():\n    return 1\n" } },
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
