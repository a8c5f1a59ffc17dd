import { type Row, write } from "../operation.ts";
import { chunks } from "../queries.ts";

const SUMS = ["replicaMs", "cpuMs", "gpuMs", "gbMs"] as const;

/** What the replicas of apps used, as far as it was measured. */
export const replicaUsage = {
  /** Adds to what is stored of an app's day. */
  add: write(async ({ db }, uses: readonly Row<"replicaUsage">[]): Promise<void> => {
    // In one order: two nodes that wait for each other would both fail.
    const sorted = uses.toSorted((one, other) => one.appNumber - other.appNumber || one.day - other.day);
    for (const rows of chunks(sorted))
      await db
        .insertInto("replicaUsage")
        .values(rows)
        .onConflict((conflict) =>
          conflict
            .columns(["appNumber", "day"])
            .doUpdateSet((eb) =>
              Object.fromEntries(
                SUMS.map((name) => [name, eb(`replicaUsage.${name}`, "+", eb.ref(`excluded.${name}`))]),
              ),
            ),
        )
        .execute();
  }),
};
