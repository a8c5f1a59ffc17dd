import path from "node:path";
import type { CDPSession, Page, Request } from "playwright-core";
import { beforeAll, expect } from "vitest";
import { packEnded } from "../../src/store/runs/ended-runs.ts";
import { addressOf, openPage, sharedDashboard, signIn } from "../support/dashboard-site.ts";
import { idAt, sampleEnd, sampleRun } from "../support/sample-run.ts";
import { writeApp } from "../support/service.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const APPS = Number(process.env["MILLRACE_SCALE_APPS"] ?? 1_000);
const RUNS = Number(process.env["MILLRACE_SCALE_RUNS"] ?? 100_000);
const BATCH = 5_000;
const MAX_MS = 1_000;
const TRIES = 3;
const DAY_MS = 86_400_000;
/** Of a page that asks again every 5 s: an hour of it. */
const UPDATES = 720;
/** After these what is built once is there. */
const WARM_UP = 60;
const MAX_GROWTH_BYTES = 3_000_000;
const MAIN = {
  main: "def run(lines=0):\n    for i in range(lines):\n        print('line', i)\n    return lines\n",
};

const { service, browser } = sharedDashboard();

beforeAll(async () => {
  const { service: running, directory } = service();
  for (let i = 0; i < APPS; i++) {
    await running.install(await writeApp(path.join(directory, "sources", "app"), `app-${i}`, MAIN));
  }
  const apps = await running.store.apps.list(running.owner.projectId);
  for (let n = 0; n < RUNS; n += BATCH) {
    await running.store.runs.insertFinished([
      packEnded(Array.from({ length: Math.min(BATCH, RUNS - n) }, (_, i) => ended(n + i, apps))),
    ]);
  }
}, 600_000);

/** Half of the runs are the first app's, the rest is spread over all; half are of the last hour. */
function ended(n: number, apps: readonly { readonly number: number }[]) {
  const ageMs = n % 2 === 0 ? (n / RUNS) * 3_600_000 : (n / RUNS) * DAY_MS;
  const createdAt = Math.floor(Date.now() - 1_000 - ageMs);
  const failed = n % 50 === 0;
  const run = sampleRun({
    id: idAt(createdAt),
    createdAt,
    appNumber: apps[n % 4 < 2 ? 0 : (n * 7_919) % apps.length]!.number,
    isAsync: n % 5 === 0,
    state: failed ? "failure" : "success",
    statusCode: failed ? 500 : 200,
    ...(failed && { errorCode: "app_error", errorMessage: "KeyError: 'prompt'" }),
  });
  return sampleEnd(run);
}

/** Milliseconds from following a link until nothing is on its way any more. */
async function openMs(page: Page, underWay: ReadonlySet<Request>, url: string): Promise<number> {
  const began = performance.now();
  await page.goto(url);
  await page.getByRole("heading", { level: 1 }).waitFor();
  const waiting = page.locator(".bg-line[class*='shimmer_1.6s']");
  await until(url, async () => underWay.size === 0 && (await waiting.count()) === 0);
  return performance.now() - began;
}

/** The requests that a page has made and has no answer to. */
function requestsOf(page: Page): ReadonlySet<Request> {
  const underWay = new Set<Request>();
  page.on("request", (request) => underWay.add(request));
  page.on("requestfinished", (request) => underWay.delete(request));
  page.on("requestfailed", (request) => underWay.delete(request));
  // What the page before had asked for may end without a word.
  page.on("framenavigated", (frame) => {
    if (frame !== page.mainFrame()) return;
    for (const request of underWay) if (!request.isNavigationRequest()) underWay.delete(request);
  });
  return underWay;
}

verifies(
  "dashboard.scale",
  `with ${RUNS} runs and ${APPS} apps each page is usable within ${MAX_MS} ms`,
  async () => {
    const { baseUrl } = service().service;
    const answer = await service().call("app-0", { lines: 5_000 });
    const run = `/apps/app-0/runs/${answer.headers.get("x-request-id")}`;
    await service().service.settle();
    const { page } = await openPage(browser());
    const underWay = requestsOf(page);
    await signIn(page, baseUrl);
    const slow: string[] = [];
    const app = ["", "/runs", "/logs", "/builds", "/playground", "/settings", "/secrets"].map(
      (tab) => `/apps/app-0${tab}`,
    );
    const lists = [
      "/runs",
      "/runs?status=failure",
      "/runs?mode=async",
      "/runs?function=none",
      "/runs?app=app-7",
    ];
    const rest = [
      "",
      "?range=24h",
      "/apps",
      "/apps?page=5",
      "/apps?search=99",
      "/keys",
      "/webhooks",
      "/files",
      "/audit",
      "/settings",
    ];
    for (const place of [...rest, ...lists, ...app, run]) {
      let ms = Number.POSITIVE_INFINITY;
      for (let i = 0; i < TRIES; i++)
        ms = Math.min(ms, await openMs(page, underWay, addressOf(service(), place)));
      console.log(`${place || "overview"}: ${Math.round(ms)} ms`);
      if (ms > MAX_MS) slow.push(`${place}: ${Math.round(ms)} ms`);
    }
    expect(slow).toEqual([]);
  },
);

/** What the page's scripts hold once what nobody holds is gone. */
async function heldBytes(devtools: CDPSession): Promise<number> {
  for (let i = 0; i < 3; i++) await devtools.send("HeapProfiler.collectGarbage");
  return (await devtools.send("Runtime.getHeapUsage")).usedSize;
}

verifies("dashboard.scale", "a live page that is left open for an hour does not grow", async () => {
  const { baseUrl, store } = service().service;
  const apps = await store.apps.list(service().service.owner.projectId);
  const { page } = await openPage(browser());
  await page.clock.install();
  await signIn(page, baseUrl);
  const devtools = await page.context().newCDPSession(page);
  const grown: string[] = [];
  for (const [place, asked] of [
    ["", "/figures"],
    ["/runs", "/runs"],
    ["/apps", "/traffic"],
    ["/apps/app-0/logs", ""],
  ] as const) {
    await page.goto(addressOf(service(), place));
    await page.getByRole("heading", { level: 1 }).waitFor();
    let before = 0;
    for (let update = 0; update < UPDATES; update++) {
      if (update === WARM_UP) before = await heldBytes(devtools);
      await store.runs.insertFinished([packEnded([ended(update, apps)])]);
      if (asked === "") await service().call("app-0", { lines: 100 });
      const response =
        asked === "" ? null : page.waitForResponse((one) => new URL(one.url()).pathname.endsWith(asked));
      await page.clock.runFor(5_000);
      await response;
    }
    const bytes = (await heldBytes(devtools)) - before;
    console.log(
      `${place || "overview"}: ${Math.round(bytes / 1_000)} KB more after ${UPDATES - WARM_UP} updates, ${Math.round(before / 1_000)} KB before`,
    );
    if (bytes > MAX_GROWTH_BYTES) grown.push(`${place}: ${bytes} bytes`);
  }
  expect(grown).toEqual([]);
});
