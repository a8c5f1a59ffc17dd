import { appendFileSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { startPostgres } from "../../support/postgres-server.ts";
import { type TestService, testService, WITHOUT_WALLS } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

/** Writes down every execution. */
const NOTING = `
def run(n, path):
    with open(path, "a") as file:
        file.write(f"{n}\\n")
    return n
`;

const ASYNC = { suffix: "?async=true" };

/** What became of each call that was sent while the database was frozen and before. */
type Sent = { readonly n: number; readonly status: number; readonly code: string; readonly id: string };

async function listApps({ service: { baseUrl, owner } }: TestService) {
  const response = await fetch(`${baseUrl}/v2/projects/${owner.projectId}/apps`, {
    headers: { authorization: `Bearer ${owner.token}` },
  });
  return { status: response.status, json: (await response.json()) as { code?: string } };
}

verifies(
  ["silence.sync", "silence.management", "silence.recovery"],
  "Postgres is frozen and goes on: sync calls never stop, what was accepted is executed, what was refused is not",
  async () => {
    const postgres = await startPostgres();
    onTestFinished(() => postgres.stop());
    const test = await testService(
      { app: { main: NOTING } },
      { ...WITHOUT_WALLS, databaseUrl: postgres.url },
    );
    const { store } = test.service;
    const file = path.join(test.directory, "executed");
    appendFileSync(file, "");
    expect((await test.call("app", { n: -1, path: file })).status).toBe(200);

    const sent: Promise<Sent>[] = [];
    const send = async (n: number): Promise<Sent> => {
      const { status, json, headers } = await test.call("app", { n, path: file }, ASYNC);
      return { n, status, code: json.code, id: headers.get("x-request-id") ?? "" };
    };
    for (let n = 0; n < 40; n++) sent.push(send(n));
    // Some are answered, others on their way.
    await Promise.any(sent);
    postgres.freeze(true);
    try {
      const listing = listApps(test);
      const synced = new Set<string>();
      await until("reads and writes are given up", async () => {
        const { status, json } = await test.call("app", { n: -1, path: file });
        expect(status).toBe(200);
        synced.add(json.run_id);
        return store.isSilent("read") && store.isSilent("write");
      });
      expect(await listing).toMatchObject({ status: 503, json: { code: "storage_unavailable" } });
      for (let n = 40; n < 60; n++) sent.push(send(n));
      const outcomes = await Promise.all(sent);
      expect(new Set(outcomes.slice(40).map(({ code }) => code))).toEqual(new Set(["storage_unavailable"]));
      for (let n = 0; n < 20; n++) {
        const { status, json } = await test.call("app", { n: -1, path: file });
        expect(status).toBe(200);
        synced.add(json.run_id);
      }
      postgres.freeze(false);
      await until("it answers again", () => !store.isSilent("read") && !store.isSilent("write"));
      expect((await listApps(test)).status).toBe(200);
      await test.service.settle();
      for (const id of synced)
        expect((await test.ofRun("app", id)).json).toMatchObject({ status: "success" });

      const executed = (n: number) =>
        readFileSync(file, "utf8")
          .split("\n")
          .filter((line) => line === String(n)).length;
      for (const { n, status, code, id } of outcomes) {
        if (status === 202) {
          await until(`${n} has ended`, async () => (await test.ofRun("app", id)).json.status === "success");
          expect([n, executed(n)]).toEqual([n, 1]);
        } else if (code === "in_doubt") {
          await until(`it is known what became of ${n}`, async () => {
            const { json } = await test.ofRun("app", id);
            return json.status === "success" || json.status === "failure";
          });
        } else {
          expect([n, code, executed(n)]).toEqual([n, "storage_unavailable", 0]);
        }
      }
    } finally {
      postgres.freeze(false);
    }
  },
);
