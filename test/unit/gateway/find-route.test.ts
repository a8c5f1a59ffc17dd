import { expect, test } from "vitest";
import type { Exchange } from "../../../src/gateway/exchange.ts";
import { AppHosts, RouteFinder } from "../../../src/gateway/find-route.ts";
import { type HostedApp, hostLabel } from "../../../src/model/names.ts";
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

const LONG = { projectId: "p-abcdefgh", appName: "a".repeat(60) };
const OTHER = { projectId: "p-abcdefgh", appName: "b".repeat(60) };

/** Hosts of apps that are found in a list, and what was looked up. */
function listed(apps: HostedApp[]): { hosts: AppHosts; asked: (readonly string[])[] } {
  const asked: (readonly string[])[] = [];
  const hosts = new AppHosts("apps.example", async (labels) => {
    asked.push(labels);
    return apps.filter((app) => labels.includes(hostLabel(app) ?? ""));
  });
  return { hosts, asked };
}

verifies("origins.lookup", "only labels with a hash are looked up, each once, many at a time", async () => {
  const { hosts, asked } = listed([LONG, OTHER]);
  expect(hosts.find("app--p-1.apps.example")).toEqual({ projectId: "p-1", appName: "app" });
  expect(hosts.find("example.org")).toBeNull();
  expect(asked).toEqual([]);
  const [long, other] = [LONG, OTHER].map((app) => `${hostLabel(app)}.apps.example`);
  const found = await Promise.all(
    [long, long, other, long].map(async (host) => await hosts.find(host ?? "")),
  );
  expect(found).toEqual([LONG, LONG, OTHER, LONG]);
  expect(asked).toEqual([[hostLabel(LONG), hostLabel(OTHER)]]);
  expect(hosts.find(long ?? "")).toEqual(LONG);
  expect(asked).toHaveLength(1);
});

verifies(
  "origins.lookup",
  "a label that no app has is asked for again: there may be one by then",
  async () => {
    const apps: HostedApp[] = [];
    const { hosts } = listed(apps);
    const host = `${hostLabel(LONG)}.apps.example`;
    await expect(hosts.find(host)).rejects.toMatchObject({ code: "misdirected" });
    apps.push(LONG);
    expect(await hosts.find(host)).toEqual(LONG);
  },
);

verifies("origins.label", "a name that reads both ways is the app's whose hash it has", async () => {
  const cut = { projectId: "p-abcdefgh", appName: `${"a".repeat(37)}--p-${"c".repeat(20)}` };
  const label = hostLabel(cut) ?? "";
  expect(label).toMatch(/^a{37}--p-[a-z2-7]{20}$/);
  expect(await listed([cut]).hosts.find(`${label}.apps.example`)).toEqual(cut);
  const plain = { projectId: label.slice(39), appName: "a".repeat(37) };
  expect(await listed([]).hosts.find(`${label}.apps.example`)).toEqual(plain);
});
