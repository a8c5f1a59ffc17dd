import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { awaitFates, Ledger, reckon, resultOf } from "../../../../../src/cli/operator/chaos/load.ts";
import type { Fate } from "../../../../../src/cli/operator/chaos/load.ts";

const RUN = "00000000-0000-7000-8000-000000000000";
const CALLS = { answered: 7, failed: 0, cut: 1, wrong: 0, stuck: 0 };
const envelope = (result: number): string => `{"run_id":"${RUN}","result":${result},"run_time_ms":1}`;

test("the ledger tells how often each run began, where, and which ended", () => {
  const ledger = new Ledger("begin a 1\nbegin b 2\nend a 1\nbegin b 3\nend b 3\nbegin c 4\n");
  expect([ledger.repeated, [...ledger.ended], [...ledger.pids.values()]]).toEqual([1, ["a", "b"], [1, 3, 4]]);
});

test("nothing is lost when every promise was kept, however often it was executed", () => {
  const fates = new Map<string, Fate>([
    ["a", "finished"],
    ["b", "finished"],
  ]);
  const ledger = new Ledger("begin a 1\nbegin a 2\nend a 2\nbegin b 2\nend b 2\n");
  expect(reckon(fates, ledger, CALLS, 1.234)).toEqual({
    accepted: 2,
    finished: 2,
    lost: 0,
    duplicated: 1,
    stuck: 0,
    seconds: 1.2,
    sync_calls: CALLS,
  });
});

test("a run that ended badly, one the app never finished, a wrong answer and what hangs all count", () => {
  const fates = new Map<string, Fate>([
    ["bad", "lost"],
    ["pretended", "finished"],
    ["hangs", "stuck"],
  ]);
  const calls = { ...CALLS, wrong: 1, stuck: 1 };
  const { finished, lost, stuck } = reckon(fates, new Ledger("begin pretended 1\n"), calls, 1);
  expect({ finished, lost, stuck }).toEqual({ finished: 0, lost: 3, stuck: 2 });
});

test("only the function's own result is a good end; 404, an error and another result are losses, 202 is no end", async () => {
  const answers: Record<string, [number, string]> = {
    good: [200, envelope(resultOf(1))],
    wrong: [200, envelope(0)],
    unknown: [404, "{}"],
    failed: [502, "{}"],
    hangs: [202, ""],
  };
  const server = createServer((request, response) => {
    const id = request.url?.split("/").at(-2) ?? "";
    const [status, body] = answers[id] ?? [500, ""];
    response.writeHead(status).end(body);
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await new Promise((resolve) => server.once("listening", resolve));
  const apiUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const accepted = new Map(Object.keys(answers).map((id) => [id, 1]));
  const address = { apiUrl, baseUrl: "", projectId: "p-a", token: "t" };
  const fates = await awaitFates(address, accepted, 0, new AbortController().signal);
  expect(Object.fromEntries(fates)).toEqual({
    good: "finished",
    wrong: "lost",
    unknown: "lost",
    failed: "lost",
    hangs: "stuck",
  });
});
