import { expect } from "vitest";
import { AppHosts } from "../../../src/gateway/app-hosts.ts";
import { hostLabel } from "../../../src/model/app-host.ts";
import type { HostedApp } from "../../../src/model/app-host.ts";
import { verifies } from "../../verifies.ts";

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
