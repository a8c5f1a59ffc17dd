import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import type { Run } from "../../../src/model/run.ts";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { RawConnection, rawRequest } from "../../support/raw-http.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

/** Notes when a call begins and how it ends; it ends when the file `open` is there. */
const GATED = `
import os, time

def note(dir, line):
    with open(os.path.join(dir, "notes"), "a") as file:
        file.write(line + "\\n")

def run(dir, name):
    note(dir, name + " begins")
    try:
        while not os.path.exists(os.path.join(dir, "open")):
            time.sleep(0.01)
        note(dir, name + " returns")
    except BaseException as error:
        note(dir, name + " " + type(error).__name__)
        raise
    return name
`;

const service = sharedService({ app: { main: GATED, toml: "[scaling]\nmax_replicas = 1\n" } }, WITHOUT_WALLS);

/** A place for one test: a gate that is shut, and notes of what the code did. */
async function gate() {
  const dir = await mkdtemp(path.join(service().directory, "gate-"));
  return {
    call: (name: string, signal?: AbortSignal, headers: Record<string, string> = {}) =>
      service().call("app", { dir, name }, { headers, ...(signal && { signal }) }),
    open: () => writeFile(path.join(dir, "open"), ""),
    notes: async () =>
      (await readFile(path.join(dir, "notes"), "utf8").catch(() => ""))
        .split("\n")
        .filter((line) => line !== ""),
  };
}

/** The app's newest records, the newest first. */
async function records(count: number): Promise<Run[]> {
  await service().service.settle();
  return await service().service.store.runs.list({ appNumber: pool().app.number, limit: count });
}

function pool() {
  const live = service().apps.get("app");
  if (!live) throw new Error("the app is not there");
  return live;
}

verifies("run.sync.leave-queued", "a caller who leaves while queued drops the run", async () => {
  const { call, open, notes } = await gate();
  const leaving = new AbortController();
  const first = call("first");
  await until("the first call runs", async () => (await notes()).includes("first begins"));
  const second = call("second", leaving.signal);
  await until("the second call waits", () => pool().pool.slots.waiting === 1);
  leaving.abort();
  await expect(second).rejects.toThrow("aborted");
  await until("the second call is dropped", () => pool().pool.slots.waiting === 0);
  await open();
  expect(await first).toMatchObject({ status: 200 });
  expect(await call("third")).toMatchObject({ status: 200 });
  expect(await notes()).toEqual(["first begins", "first returns", "third begins", "third returns"]);
  const dropped = (await records(3)).find(({ state }) => state === "cancelled");
  expect(dropped).toMatchObject({ statusCode: null, startedAt: null, replicaId: null, runMs: null });
});

verifies("run.sync.leave-running", "a run whose caller leaves while it runs goes on to its end", async () => {
  const { call, open, notes } = await gate();
  const leaving = new AbortController();
  const left = call("left", leaving.signal);
  await until("the call runs", async () => (await notes()).includes("left begins"));
  leaving.abort();
  await expect(left).rejects.toThrow("aborted");
  await open();
  await until("the run ends", async () => (await notes()).length === 2);
  expect(await notes()).toEqual(["left begins", "left returns"]);
  expect(await call("next")).toMatchObject({ status: 200 });
  expect((await records(2))[1]).toMatchObject({ state: "success", statusCode: 200 });
});

verifies(
  "run.sync.leave-cancel",
  "with X-Disconnect: cancel the code is stopped when its caller leaves",
  async () => {
    const { call, open, notes } = await gate();
    const leaving = new AbortController();
    const left = call("left", leaving.signal, { "x-disconnect": "Cancel" });
    await until("the call runs", async () => (await notes()).includes("left begins"));
    leaving.abort();
    await expect(left).rejects.toThrow("aborted");
    await until("the code stops", async () => (await notes()).length === 2);
    expect(await notes()).toEqual(["left begins", "left RunCancelled"]);
    await open();
    expect(await call("next")).toMatchObject({ status: 200 });
    expect((await records(2))[1]).toMatchObject({ state: "cancelled", statusCode: null });
  },
);

test("a caller who leaves after the answer changes nothing", async () => {
  const { call, open } = await gate();
  await open();
  const answer = await call("done", undefined, { "x-disconnect": "cancel", connection: "close" });
  expect(answer.status).toBe(200);
  expect((await records(1))[0]).toMatchObject({ id: answer.json.run_id, state: "success" });
});

for (const [title, header] of [
  ["of a body with a length", "Content-Length: 1000"],
  ["of a chunked body", "Transfer-Encoding: chunked"],
]) {
  test(`a caller who leaves in the middle ${title} starts no run`, async () => {
    const { apiUrl, owner, store } = service().service;
    await service().service.settle();
    const before = await store.runs.count({});
    const line = `POST /v4/${owner.projectId}/app/run HTTP/1.1`;
    const auth = `Authorization: Bearer ${owner.token}`;
    for (let i = 0; i < 5; i++) {
      await using connection = await RawConnection.open(apiUrl);
      connection.send(
        rawRequest(line, ["Host: x", auth, "Content-Type: application/json", header ?? ""], "2\r\n{}\r\n"),
      );
    }
    const { call, open } = await gate();
    await open();
    for (let i = 0; i < 3; i++) await call("after");
    await service().service.settle();
    expect(await store.runs.count({})).toBe(before + 3);
  });
}
