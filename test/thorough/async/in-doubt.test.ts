import { Client } from "pg";
import { expect, onTestFinished, test } from "vitest";
import { createLog } from "../../../src/kit/log.ts";
import { AppError } from "../../../src/model/errors.ts";
import { Acceptor, InDoubt } from "../../../src/runs/acceptor.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { HandClock } from "../../support/clocks.ts";
import { type TestDatabase, testDatabases } from "../../support/databases.ts";
import { Tail } from "../../support/explain.ts";
import { LosingPooler } from "../../support/losing-pooler.ts";
import { queuedRun, samplePayload } from "../../support/sample-run.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

/** A store, and an acceptor whose writes a test interferes with. */
async function scratch(
  around: (store: Store) => Partial<Store["runs"]> = () => ({}),
  database?: TestDatabase,
) {
  database ??= await databases.fresh("postgres");
  const store = await openStore(database);
  onTestFinished(() => store.close());
  const createdAt = Date.now();
  await store.projects.insert({ id: "p-doubt", name: "test", createdAt });
  const { number: appNumber } = await store.apps.insertOrFind({
    projectId: "p-doubt",
    name: "app",
    createdAt,
  });
  const clock = new HandClock();
  const runs = { ...store.runs, ...around(store) };
  const log = new Tail();
  const acceptor = new Acceptor({ store: { runs }, clock, log: createLog("info", log) });
  const accepted = { run: queuedRun({ appNumber }), payload: samplePayload(), owner: null };
  const found = async () => (await store.runs.find({ appNumber, id: accepted.run.id }))?.state ?? null;
  return { database, store, clock, log, acceptor, accepted, found };
}

const lost = () => new AppError("in_doubt", {}, new Error("Connection terminated unexpectedly"));

verifies("async.in-doubt", "a commit whose answer was lost is accepted if it was done", async () => {
  const { acceptor, accepted, found } = await scratch((store) => ({
    accept: async (batch) => {
      await store.runs.accept(batch);
      throw lost();
    },
  }));
  await acceptor.accept(accepted);
  expect(await found()).toBe("queued");
});

verifies("async.in-doubt", "one that was not done is refused, and cannot be done later", async () => {
  let late = async (): Promise<void> => undefined;
  const { acceptor, accepted, found } = await scratch((store) => ({
    accept: (batch) => {
      late = () => store.runs.accept(batch);
      return Promise.reject(lost());
    },
  }));
  await expect(acceptor.accept(accepted)).rejects.toMatchObject({ code: "storage_unavailable" });
  expect(await found()).toBe("failure");
  // The first connection's statement arrives after all.
  await late();
  expect(await found()).toBe("failure");
});

verifies(
  "async.in-doubt",
  "what cannot be found out in 5 s is told so with the run's id, and settled later",
  async () => {
    let isAway = true;
    const { clock, acceptor, accepted, found } = await scratch((store) => ({
      accept: () => Promise.reject(lost()),
      refuse: (batch) => (isAway ? Promise.reject(lost()) : store.runs.refuse(batch)),
    }));
    const refusal = acceptor.accept(accepted).catch((error: unknown) => error);
    await until("it asks again", () => clock.pending === 2);
    clock.advance(5_000);
    const error = (await refusal) as InDoubt;
    expect(error).toBeInstanceOf(InDoubt);
    expect([error.code, error.status]).toEqual(["in_doubt", 503]);
    expect(error.message).toContain(accepted.run.id);
    isAway = false;
    await until("it is asked for once more", () => {
      clock.advance(250);
      return clock.pending === 0;
    });
    expect(await error.settled).toBe(false);
    expect(await found()).toBe("failure");
  },
);

test("the log tells once that runs are in doubt, and that they are not any more", async () => {
  let refusals = 0;
  const { clock, log, acceptor, accepted } = await scratch((store) => ({
    accept: () => Promise.reject(lost()),
    refuse: (batch) => (++refusals < 4 ? Promise.reject(lost()) : store.runs.refuse(batch)),
  }));
  const refusal = acceptor.accept(accepted).catch((error: unknown) => error);
  await until("it was asked for often", () => {
    if (clock.pending === 2) clock.advance(250);
    return refusals === 4;
  });
  expect(await refusal).toMatchObject({ code: "storage_unavailable" });
  const words = log.text.match(/"msg":"[^"]*/g);
  expect(words).toEqual([
    '"msg":"unclear whether a run was stored; checking until the storage answers',
    '"msg":"all runs in doubt are resolved',
  ]);
});

test("a refusal whose own answer was lost is not taken for the run", async () => {
  let refusals = 0;
  const { clock, acceptor, accepted } = await scratch((store) => ({
    accept: () => Promise.reject(lost()),
    refuse: async (batch) => {
      const ids = await store.runs.refuse(batch);
      if (refusals++ === 0) throw lost();
      return ids;
    },
  }));
  const refusal = acceptor.accept(accepted).catch((error: unknown) => error);
  await until("the first refusal was lost", () => refusals === 1 && clock.pending === 2);
  clock.advance(250);
  expect(await refusal).toMatchObject({ code: "storage_unavailable" });
});

verifies(
  "async.in-doubt",
  "a Postgres that drops the connection under a commit leaves no doubt",
  async () => {
    const { database, acceptor, accepted, found, clock } = await scratch();
    const other = new Client({ connectionString: database.databaseUrl! });
    await other.connect();
    try {
      await other.query("begin; lock table usage in exclusive mode");
      let answer: unknown = null;
      const accept = () =>
        void acceptor.accept(accepted).catch((error: unknown) => {
          answer = error;
        });
      accept();
      await until("its connection is ended", async () => {
        // On a machine that is slow enough it was given up before anybody looked.
        if (answer !== null) accept();
        answer = null;
        // Within a transaction the first look would be the only one.
        await other.query("select pg_stat_clear_snapshot()");
        const { rows } = await other.query(
          "select pg_terminate_backend(pid) from pg_stat_activity" +
            " where wait_event_type = 'Lock' and datname = current_database()",
        );
        return rows.length > 0;
      });
      await other.query("rollback");
      await until("it is known what became of it", () => {
        if (clock.pending === 2) clock.advance(250);
        return answer !== null;
      });
      expect(answer).toMatchObject({ code: "storage_unavailable" });
      expect(await found()).toBe("failure");
    } finally {
      await other.end();
    }
  },
);

verifies(
  "async.in-doubt",
  "whatever a pooler says of a commit whose answer it lost, the run that is stored is accepted",
  async () => {
    const { databaseUrl, dataDir } = await databases.fresh("postgres");
    const pooler = await LosingPooler.open(databaseUrl!);
    const { acceptor, accepted, store } = await scratch(undefined, { databaseUrl: pooler.url, dataDir });
    // Those of poolers and of the standard, and none at all.
    const words = ["08P01", "08007", "08000", "08003", "40003", "58000", "57P04", "XX000", "53300", null];
    for (const word of words) {
      const { appNumber } = accepted.run;
      const run = queuedRun({ appNumber });
      pooler.loseNext(word);
      await acceptor.accept({ ...accepted, run });
      expect([word, (await store.runs.find({ appNumber, id: run.id }))?.state]).toEqual([word, "queued"]);
    }
    expect(pooler.lost).toBe(words.length);
  },
);
