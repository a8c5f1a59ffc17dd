import { expect, onTestFinished } from "vitest";
import { Connections, targetOf } from "../../../src/store/postgres/connections.ts";
import { testDatabases } from "../../support/databases.ts";
import { SilentProxy } from "../../support/silent-proxy.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
/** More than any answer takes here, on a busy machine too. */
const LIMIT_MS = 4_000;

/** Does nothing for longer than anything here is waited for, as a process that is stopped. */
function standStill(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LIMIT_MS + 500);
}

function connections(databaseUrl: string): Connections {
  const limits = { max: 1, waitMs: LIMIT_MS, statementMs: 60_000, answerMs: LIMIT_MS };
  const opened = new Connections(targetOf(databaseUrl), limits);
  onTestFinished(() => opened.close());
  return opened;
}

async function ask({ db }: Connections): Promise<boolean> {
  return (await db.selectFrom("meta").select("key").execute()).length >= 0;
}

verifies(
  "frozen.answers",
  "a process that stood still reads the answers and connections that came meanwhile, and gives up on none of them",
  async () => {
    const { databaseUrl } = await databases.fresh("postgres");
    const [connected, fresh] = [connections(databaseUrl!), connections(databaseUrl!)];
    expect(await ask(connected)).toBe(true);
    const asked = [ask(connected), ask(fresh)];
    // Sent before, and answered while nobody reads.
    await new Promise(setImmediate);
    standStill();
    expect(await Promise.all(asked)).toEqual([true, true]);
  },
);

verifies("frozen.answers", "a server that says nothing is given up while the process runs", async () => {
  const { databaseUrl } = await databases.fresh("postgres");
  const proxy = await SilentProxy.open(databaseUrl!);
  const opened = connections(proxy.url);
  expect(await ask(opened)).toBe(true);
  proxy.fallSilent();
  await expect(ask(opened)).rejects.toThrow("Query read timeout");
  proxy.speak();
  expect(await ask(opened)).toBe(true);
});
