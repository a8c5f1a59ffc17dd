import { expect } from "vitest";
import { testDatabases, triedKinds } from "../../support/databases.ts";
import { KillableService, inPostgres } from "../../support/killable-service.ts";
import { LEDGER_APP, Ledger } from "../../support/ledger.ts";
import { StreamReader } from "../../support/stream-reader.ts";
import { until } from "../../support/until.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `${LEDGER_APP}
def count(run_id):
    note("begin", run_id)
    for n in range(3):
        yield n
    while True:
        time.sleep(1)
`;
const CONTINUE = { "x-disconnect": "continue" };
const databases = testDatabases();

/** How a run that its caller was told to come back for ends under a service that is killed. */
const INTERRUPTED = { status: "failure", statusCode: 503, async: false, error: { code: "interrupted" } };

/** Whether the third chunk of these streams is in the database of the running service. */
async function areStored(service: KillableService, ids: readonly string[]): Promise<boolean> {
  const { database, appNumber } = service;
  if (database.databaseUrl === null) {
    const parts = await service.withStore((store) =>
      Promise.all(ids.map((id) => store.transcripts.next({ appNumber, id, after: 2 }))),
    );
    return parts.every((part) => part !== null);
  }
  let count = 0;
  await inPostgres(database, async (client) => {
    const third =
      "select count(distinct id)::int as count from transcripts where first_event + event_count > 3";
    count = (await client.query<{ count: number }>(third)).rows[0]?.count ?? 0;
  });
  return count === ids.length;
}

for (const kind of triedKinds("sqlite")) {
  verifies(
    ["run.remembered", "run.remembered.transcript", "webhook.sync-remembered"],
    `kill -9 forgets no call that its caller comes back for, or that is forwarded (${kind})`,
    async () => {
      const target = await WebhookTarget.open();
      const env = { MILLRACE_WEBHOOK_ALLOW: "127.0.0.0/8" };
      const toml = "[scaling]\nmax_replicas = 1\nreplica_concurrency = 8\n";
      const service = await KillableService.deploy(await databases.fresh(kind), { main: MAIN, toml }, env);
      await service.start();
      const forwarded = `?webhookEndpoint=${encodeURIComponent(`${target.url}/sync`)}`;
      const hold = async (query: string, headers = {}): Promise<string> => {
        const before = Ledger.read(service).begins;
        const call = { functionName: "hold", query, headers };
        service.post({ n: 1, name: "go" }, call).catch(() => {});
        let id: string | undefined;
        await until("it runs", () => {
          id = [...Ledger.read(service).begins.keys()].find((each) => !before.has(each));
          return id !== undefined;
        });
        return id!;
      };
      const stream = async (query: string, headers = {}): Promise<StreamReader> => {
        const url = `${service.appUrl}/count${query}`;
        const reader = new StreamReader({ url, token: service.token, body: "{}", headers });
        await reader.hasMessages(3);
        return reader;
      };
      const plain = await hold("");
      const sync = { continued: await hold("", CONTINUE), forwarded: await hold(forwarded) };
      const streams = {
        continued: await stream("", CONTINUE),
        forwarded: await stream(`?webhookEndpoint=${encodeURIComponent(`${target.url}/stream`)}`),
      };
      const ids = Object.values(streams).map(({ runId }) => runId);
      // Its chunks are on their way to the store, within half a second.
      await until("the chunks are stored", () => areStored(service, ids));
      await service.kill();
      expect(target.received).toEqual([]);
      await service.start();
      for (const id of [...Object.values(sync), ...ids])
        expect(await service.ended(id)).toMatchObject(INTERRUPTED);
      expect(await service.find(plain)).toBe(null);
      for (const id of ids) {
        const events = new StreamReader({
          url: `${service.appUrl}/runs/${id}/events`,
          token: service.token,
          method: "GET",
          body: "",
        });
        await events.ended();
        expect(events.messages.map(({ event, data }) => event ?? data)).toEqual(["0", "1", "2", "end"]);
      }
      await until("both were forwarded", () => target.received.length === 2, target.news);
      const bodies = new Map(target.received.map(({ path, body }) => [path, body.toString()]));
      expect(JSON.parse(bodies.get("/sync") ?? "")).toMatchObject({ code: "interrupted" });
      expect(bodies.get("/stream")).toMatch(
        /^data: 0\n\ndata: 1\n\ndata: 2\n\nevent: error\ndata: .*interrupted/,
      );
      await service.stop();
    },
  );
}
