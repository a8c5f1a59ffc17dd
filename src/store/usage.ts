import { read } from "./operation.ts";
import type { Session } from "./operation.ts";

/** What is stored: records, and the bytes of inputs, results and transcripts. */
export type Usage = { readonly runs: number; readonly bytes: number };

/** Counts what a write adds, or with negative numbers what it removes: the last step of its transaction. */
export async function addUsage(
  { db, usageSlot }: Pick<Session, "db" | "usageSlot">,
  { runs, bytes }: Usage,
): Promise<void> {
  if (runs === 0 && bytes === 0) return;
  await db
    .updateTable("usage")
    .set((eb) => ({ runs: eb("runs", "+", runs), bytes: eb("bytes", "+", bytes) }))
    .where("slot", "=", usageSlot)
    .execute();
}

/** The sum over all connections; it costs the same however much is stored. */
export const readUsage = read(async ({ db }): Promise<Usage> => {
  const { runs, bytes } = await db
    .selectFrom("usage")
    .select((eb) => [
      eb.fn.sum<number | string>("runs").as("runs"),
      eb.fn.sum<number | string>("bytes").as("bytes"),
    ])
    .executeTakeFirstOrThrow();
  // Postgres gives a sum of bigints as text.
  return { runs: Number(runs), bytes: Number(bytes) };
});
