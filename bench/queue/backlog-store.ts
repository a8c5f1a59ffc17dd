import { openStore } from "../../src/store/store.ts";

// Times what the store is asked while many runs wait: `node backlog-store.ts PROJECT/APP DATA_DIR [DATABASE_URL]`, with no
// service on it. It prints one line, {"claimMs": […], "storedPositionMs": […]}.

/** As many as the dispatcher asks for when a replica is about to be free, and when many are. */
const LIMITS = [8, 64];
const ROUNDS = 30;
const MAX_BYTES = 16 * 1024 * 1024;
const OWNER = "bench";

const [path = "", dataDir = "", databaseUrl = null] = process.argv.slice(2);
const [projectId = "", name] = path.split("/");
const store = await openStore({ dataDir, databaseUrl });
const app = (await store.apps.list(projectId)).find((each) => each.name === name);
if (!app) throw new Error(`there is no app ${path}`);
const { number: appNumber } = app;

const claimMs: number[] = [];
const storedPositionMs: number[] = [];
for (let round = 0; round < ROUNDS; round++) {
  const { runs } = await store.runs.pageOfApp({ appNumber, limit: 1, state: "queued" });
  for (const { id } of runs)
    storedPositionMs.push(await timed(() => store.claims.position({ appNumber, id })));
  for (const limit of LIMITS)
    claimMs.push(
      await timed(() => store.claims.claim({ appNumber, owner: OWNER, limit, maxBytes: MAX_BYTES })),
    );
}
console.log(JSON.stringify({ claimMs, storedPositionMs }));
await store.close();

async function timed(act: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await act();
  return performance.now() - startedAt;
}
