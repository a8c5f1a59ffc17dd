import { expect, test } from "vitest";
import type { Exchange } from "../../../src/gateway/exchange.ts";
import { RouteFinder } from "../../../src/gateway/find-route.ts";
import type { HostedApp } from "../../../src/model/app-host.ts";
import { verifies } from "../../verifies.ts";

const APP = { projectId: "p-1", appName: "app" };
const finder = new RouteFinder({ appHosts: "apps.test", findHosted: async () => [] });

/** A request to a host; `from`: whose host the node before said it is. */
function request(url: string, host: string | null, from?: HostedApp | null): Exchange {
  const passed = from === undefined ? null : { hostOf: from };
  return { request: { url }, head: { host }, from: passed, isOnAppHost: false } as unknown as Exchange;
}

test("by its Host a request is the app's from the root, or one of the shared origin", () => {
  const own = request("/run?x=1", "app--p-1.apps.test");
  expect(finder.find(own)).toMatchObject({ kind: "call", ...APP, functionName: "run", query: "x=1" });
  expect(own.isOnAppHost).toBe(true);
  expect(finder.find(request("/", "app--p-1.apps.test"))).toEqual({ kind: "path", ...APP });
  expect(finder.find(request("/openapi.json?a", "app--p-1.apps.test"))).toEqual({ kind: "document", ...APP });
  for (const host of ["x", null, "apps.test"]) {
    const shared = request("/v4/p-2/other/run", host);
    expect(finder.find(shared)).toMatchObject({ kind: "call", projectId: "p-2", appName: "other" });
    expect(shared.isOnAppHost).toBe(false);
    expect(() => finder.find(request("/run", host))).toThrow("There is nothing here");
  }
  expect(() => finder.find(request("/v4/p-2/other/run", "x.apps.test"))).toThrow("No app has this host");
});

verifies(
  "origins.nodes",
  "what the node before took a host for counts, and not what it would be here",
  () => {
    const shared = request("/v4/p-2/other/run", "app--p-1.apps.test", null);
    expect(finder.find(shared)).toMatchObject({ kind: "call", projectId: "p-2", appName: "other" });
    expect(shared.isOnAppHost).toBe(false);
    const own = request("/v4/p-2/other/run", "unknown.example", APP);
    expect(finder.find(own)).toMatchObject({ kind: "call", ...APP, functionName: "v4" });
    expect(own.isOnAppHost).toBe(true);
  },
);
