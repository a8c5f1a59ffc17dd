import type { NodeDetails, ServiceNode } from "../model/node.ts";
import { noteChange } from "./changes.ts";
import { renewLease, shortenLeases } from "./leases.ts";
import type { Lease } from "./leases.ts";
import { read, write } from "./operation.ts";

/** A sign of life, and what the others are to know of the node that gives it. */
export type NodeSign = Lease & {
  /** Null for a service alone. */
  readonly url: string | null;
  readonly details: NodeDetails | null;
  readonly isLeaving: boolean;
};

/** The services of an installation. */
export const nodes = {
  /** Renews a node's lease on apps, runs and deliveries for that long; returns the database's time. */
  renew: write(async (session, { owner, leaseMs, url, details, isLeaving }: NodeSign): Promise<number> => {
    await shortenLeases(session);
    const now = await renewLease(session, { owner, leaseMs });
    if (url === null) return now;
    const said = { url, details: JSON.stringify(details) };
    const changed = await session.db
      .updateTable("owners")
      .set((eb) => ({
        ...said,
        leavingAt: isLeaving ? eb.fn.coalesce("leavingAt", eb.val(now)) : null,
      }))
      .where("id", "=", owner)
      .where((eb) =>
        eb.or([
          eb("url", "is distinct from", said.url),
          eb("details", "is distinct from", said.details),
          eb("leavingAt", isLeaving ? "is" : "is not", null),
        ]),
      )
      .executeTakeFirst();
    if (changed.numUpdatedRows === 1n) await noteChange(session, "node", owner);
    return now;
  }),

  /** Those whose lease stands, by id. */
  list: read(async ({ db, databaseNow }): Promise<ServiceNode[]> => {
    const rows = await db
      .selectFrom("owners")
      .select((eb) => [
        "id",
        "url",
        "details",
        "leavingAt",
        eb(eb.ref("leaseUntil"), "-", databaseNow).as("leaseMs"),
      ])
      .where("leaseUntil", ">", databaseNow)
      .where("url", "is not", null)
      .orderBy("id")
      .execute();
    return rows.flatMap(({ id, url, details, leavingAt, leaseMs }) =>
      url === null || details === null
        ? []
        : [
            {
              id,
              url,
              details: JSON.parse(details) as NodeDetails,
              isLeaving: leavingAt !== null,
              leaseMs: Number(leaseMs),
            },
          ],
    );
  }),

  /** It has let go of everything: nobody need wait until its lease has passed. */
  leave: write(async (session, id: string): Promise<void> => {
    await session.db.deleteFrom("owners").where("id", "=", id).execute();
    await noteChange(session, "node", id);
  }),
};
