import { expect } from "vitest";
import type { TestService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { pair } from "./pair.ts";

const MAIN = "import time\n\ndef run(n=0, ms=0):\n    time.sleep(ms / 1000)\n    return n\n";
const SCALING = "[scaling]\nmin_replicas = 1\nmax_attempts = 20\n";
const APPS = ["a", "b", "c", "d"];

const nodes = pair(Object.fromEntries(APPS.map((name) => [name, { main: MAIN, toml: SCALING }])));

verifies(
  "cluster.orderly-stop",
  "calls through the other node go on while one stops and hands over",
  async () => {
    const leaving: TestService = (await nodes.sides("a")).owner;
    const staying = leaving === nodes.first ? nodes.second : nodes.first;
    const over = new AbortController();
    const answers: number[] = [];
    const callers = APPS.map(async (app) => {
      while (!over.signal.aborted) answers.push((await staying.call(app, { n: 1 })).status);
    });
    await until("calls are under way", () => answers.length > 2 * APPS.length);
    await leaving.service.stop();
    const before = answers.length;
    await until("calls go on", () => answers.length > before + 2 * APPS.length);
    over.abort();
    await Promise.all(callers);
    expect(new Set(answers)).toEqual(new Set([200]));
    const { store, owner } = staying.service;
    const places = await store.appOwners.find(APPS.map((name) => ({ projectId: owner.projectId, name })));
    expect(places).toHaveLength(APPS.length);
    expect(new Set(places.map((place) => place.owner)).size).toBe(1);
  },
);
