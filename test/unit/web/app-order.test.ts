import { expect, test } from "vitest";
import { inOrder, orderAfter, readAppOrder } from "../../../web/pages/apps/app-order.ts";

const app = (id: string, status = "ready") => ({ id, status, createdAt: "", updatedAt: "" }) as const;
const traffic = (appId: string, runs: number[], errorRate: number | null, p95Ms: number | null) => ({
  appId,
  version: 1,
  replicas: { starting: 0, ready: 0, draining: 0 },
  runs,
  failures: [],
  callerErrors: 0,
  errorRate,
  p50Ms: p95Ms,
  p95Ms,
});
const APPS = [app("p-x-a"), app("p-x-b", "error"), app("p-x-c"), app("p-x-d")] as Parameters<
  typeof inOrder
>[0];
const TRAFFIC = new Map(
  [traffic("p-x-a", [1, 1], 0.5, 9), traffic("p-x-b", [3], 0, 90), traffic("p-x-c", [], null, null)].map(
    (item) => [item.appId, item],
  ),
);

/** The last letters of the apps in that order. */
function letters(sort: string): string {
  return inOrder(APPS, readAppOrder(sort), TRAFFIC)
    .map(({ id }) => id.at(-1))
    .join("");
}

test("apps go by any column, either way round; what is not known comes last, and equals go by name", () => {
  expect(["name", "-name", "status", "-runs", "runs", "-errors", "latency", "-latency"].map(letters)).toEqual(
    ["abcd", "dcba", "bacd", "bacd", "cabd", "abcd", "abcd", "bacd"],
  );
});

test("a click sorts by a column, numbers from the largest, and another turns it around", () => {
  const first = orderAfter("runs", readAppOrder(undefined));
  expect([first, orderAfter("runs", readAppOrder(first)), orderAfter("name", readAppOrder(first))]).toEqual([
    "-runs",
    "runs",
    "name",
  ]);
  expect(orderAfter("name", readAppOrder("name"))).toBe("-name");
  expect(readAppOrder("nonsense")).toEqual({ by: "name", order: "ascending" });
});
