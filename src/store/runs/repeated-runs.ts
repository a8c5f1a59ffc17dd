import { uuidBytes, uuidText } from "../../kit/ids.ts";
import { type SkipReason, whyNotAgain } from "../../model/bulk-job.ts";
import { NOT_BEGUN, type Run } from "../../model/run.ts";
import type { Session } from "../operation.ts";
import { firstOf } from "../queries.ts";
import { acceptedRows, type AcceptedRun, packAccepted } from "./accepted-runs.ts";
import { nameBlob } from "./payloads.ts";
import { addUsage } from "./removal.ts";
import { RUN_COLUMNS, runFromRow } from "./run-columns.ts";

/** A run that has ended, and the id of the new run with its arguments. */
export type RepeatedRun = { readonly id: string; readonly newId: string };

type Copied = { readonly inputBlob: string | null; readonly size: number };

/** Queues runs once more, as the app's current version runs them, with the arguments and the caller they had. */
export async function repeatRuns(
  session: Session,
  { appNumber, now }: { readonly appNumber: number; readonly now: number },
  repeated: readonly RepeatedRun[],
): Promise<{ readonly done: number; readonly skipped: readonly SkipReason[] }> {
  const { db } = session;
  const app = db.selectFrom("apps").select("currentVersionId").where("number", "=", appNumber);
  const version = (await firstOf(app.where("deletedAt", "is", null)))?.currentVersionId;
  const newIds = new Map(repeated.map(({ id, newId }) => [id, newId]));
  if (!version || newIds.size === 0) return { done: 0, skipped: repeated.map(() => "gone") };
  const rows = await db
    .selectFrom("runs")
    .innerJoin("payloads", (join) =>
      join.onRef("payloads.appNumber", "=", "runs.appNumber").onRef("payloads.id", "=", "runs.id"),
    )
    .select([...RUN_COLUMNS.map((name) => `runs.${name}` as const), "payloads.isBare"])
    .where("runs.appNumber", "=", appNumber)
    .where(
      "runs.id",
      "in",
      repeated.map(({ id }) => uuidBytes(id)),
    )
    // In the order in which they were accepted.
    .orderBy("runs.id")
    .execute();
  const skipped: SkipReason[] = Array<SkipReason>(repeated.length - rows.length).fill("input_not_kept");
  const accepted: AcceptedRun[] = [];
  let bytes = 0;
  for (const { isBare, ...row } of rows) {
    const run = runFromRow(row);
    const key = { appNumber, id: newIds.get(run.id)! };
    const copied = whyNotAgain(run, true) === null ? await copyInput(session, run, key.id) : null;
    const reason = whyNotAgain(run, copied !== null);
    if (reason !== null || !copied) {
      skipped.push(reason ?? "input_not_kept");
      continue;
    }
    bytes += copied.size;
    if (copied.inputBlob !== null) await nameBlob(session, { ...key, hash: copied.inputBlob });
    // The row of its arguments is there already.
    const payload = {
      input: null,
      result: null,
      contentType: null,
      isBare: isBare === 1,
      sealedSecret: null,
    };
    accepted.push({ run: anew(run, key.id, uuidText(version), now), payload, owner: null });
  }
  if (accepted.length > 0) await session.insertCounted(acceptedRows(packAccepted(accepted)));
  await addUsage(session, { bytes });
  return { done: accepted.length, skipped };
}

/** The same run, accepted now: what its caller asked of the queue stays, but for times that have passed. */
function anew(run: Run, id: string, versionId: string, now: number): Run {
  const { webhookEndpoint, terms, trace } = run;
  return {
    ...run,
    ...NOT_BEGUN,
    id,
    versionId,
    isAsync: true,
    state: "queued",
    createdAt: now,
    updatedAt: now,
    ip: null,
    webhookState: webhookEndpoint === null ? "none" : "pending",
    terms: terms && { ...terms, notBefore: null, startBy: null, endBy: null },
    // That a schedule fired is a span of the first run alone.
    trace: trace && { ...trace, isFired: false },
  };
}

/** Inside the database: arguments may be large. Null if they are not stored. */
async function copyInput({ sql, db }: Session, run: Run, newId: string): Promise<Copied | null> {
  const { rows } = await sql<Copied>`
    insert into payloads (app_number, id, is_bare, input, input_blob, input_bytes)
    select app_number, ${uuidBytes(newId)}, is_bare, input, input_blob, input_bytes from payloads
    where app_number = ${run.appNumber} and id = ${uuidBytes(run.id)} and (input is not null or input_blob is not null)
    returning input_blob, coalesce(length(input), 0) + coalesce(input_bytes, 0) as size
  `.execute(db);
  return rows[0] ?? null;
}
