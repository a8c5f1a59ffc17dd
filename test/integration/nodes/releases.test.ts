import { expect, onTestFinished } from "vitest";
import { systemClock } from "../../../src/kit/clock.ts";
import { createLog } from "../../../src/kit/log.ts";
import { NodeLease } from "../../../src/nodes/lease.ts";
import { Roster } from "../../../src/nodes/roster.ts";
import { openStore } from "../../../src/store/store.ts";
import { testDatabases } from "../../support/databases.ts";
import { sampleNode } from "../../support/sample-node.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

verifies(
  "payloads.blob.before",
  "while a service of another release lives, no payload becomes a blob",
  async () => {
    const store = await openStore(await databases.fresh("postgres"));
    onTestFinished(() => store.close());
    const basics = { store, clock: systemClock, log: createLog("silent") };
    const lease = new NodeLease({ ...basics, id: "n-0", self: null });
    const nothing = (): void => undefined;
    const roster = new Roster({ ...basics, lease, onDeaths: nothing, onChange: nothing, onGone: nothing });
    const isAlone = async (): Promise<boolean> => {
      await roster.look();
      return roster.isOfOneRelease("2.0.0");
    };
    await sampleNode(store, { release: "2.0.0" });
    expect(await isAlone()).toBe(true);
    const other = await sampleNode(store, { release: "1.9.0" });
    expect(await isAlone()).toBe(false);
    await store.nodes.leave(other.owner);
    expect(await isAlone()).toBe(true);
    // One of a release that knew no nodes tells nothing but that it lives.
    const stranger = { ...other, url: null, details: null };
    await store.nodes.renew(stranger);
    expect(await isAlone()).toBe(false);
    await store.nodes.renew({ ...stranger, leaseMs: 0 });
    expect(await isAlone()).toBe(true);
  },
);
