import { uuidBytes, uuidText } from "../../kit/ids.ts";
import { BUILD_STAGES, BUILD_STATUSES, buildStatusesBefore, isFinalBuild } from "../../model/build.ts";
import type { Build, BuildLine, BuildStatus } from "../../model/build.ts";
import { LOG_STREAMS } from "../../model/log-line.ts";
import { read, type Row, type Session, write } from "../operation.ts";
import { chunks, doNothing, firstOf, isDone } from "../queries.ts";

/** A build with the options of its deploy, as JSON. */
export type StoredBuild = Build & { readonly payload: string };

type NewBuild = Pick<StoredBuild, "id" | "appNumber" | "payload" | "createdAt">;
type BuildPage = { readonly appNumber: number; readonly limit: number; readonly before?: string };
type Pruning = { readonly appNumber: number; readonly keep: number };
type BuildMove = Readonly<{ id: string; to: BuildStatus; message?: string | null; now: number }>;

/** Deploys in progress, and how they ended. Ids are UUIDv7: they are ordered by time. */
export const builds = {
  /** Stores a build that waits for its upload. */
  insert: write(async ({ db }, build: NewBuild): Promise<void> => {
    const start = { status: statusCode("pending"), message: null, updatedAt: build.createdAt };
    const row = { ...build, ...start, id: uuidBytes(build.id) };
    await db.insertInto("builds").values(row).execute();
  }),

  find: read(async ({ db }, id: string): Promise<StoredBuild | null> => {
    const row = await firstOf(db.selectFrom("builds").selectAll().where("id", "=", uuidBytes(id)));
    return row && fromRow(row);
  }),

  /** An app's builds, newest first. */
  list: read(async (session, { appNumber, limit, before }: BuildPage): Promise<StoredBuild[]> => {
    let query = ofApp(session, appNumber);
    if (before !== undefined) query = query.where("id", "<", uuidBytes(before));
    return (await query.limit(limit).execute()).map(fromRow);
  }),

  /** The app's newest build. */
  latest: read(async (session, appNumber: number): Promise<StoredBuild | null> => {
    const row = await firstOf(ofApp(session, appNumber).limit(1));
    return row && fromRow(row);
  }),

  /** Builds that have not ended, oldest first. */
  unfinished: read(async (session): Promise<StoredBuild[]> => {
    const rows = await unfinished(session).selectAll().orderBy("id").execute();
    return rows.map(fromRow);
  }),

  /** Records in the payload that the bundle was uploaded completely: the build is ready to start. */
  noteUpload: write(async ({ db }, { id, payload }: Pick<StoredBuild, "id" | "payload">): Promise<void> => {
    await db.updateTable("builds").set({ payload }).where("id", "=", uuidBytes(id)).execute();
  }),

  /** Moves a build to its next status. False if there is no such move from its present one. */
  move: write(async ({ db }, { id, to, message = null, now }: BuildMove): Promise<boolean> => {
    const before = buildStatusesBefore(to).map(statusCode);
    if (before.length === 0) return false;
    const update = db.updateTable("builds").set({ status: statusCode(to), message, updatedAt: now });
    return await isDone(update.where("id", "=", uuidBytes(id)).where("status", "in", before));
  }),

  /** Removes an app's builds except the newest `keep`, those with a version and those that have not ended. */
  prune: write(async ({ sql, db }, { appNumber, keep }: Pruning): Promise<number> => {
    const { rows } = await sql<{ id: Uint8Array; status: number; number: number | null }>`
      select builds.id, builds.status, versions.number from builds left join versions on versions.id = builds.id
      where builds.app_number = ${appNumber} order by builds.id desc limit 1000 offset ${keep}
    `.execute(db);
    const old = rows.filter(({ status, number }) => number === null && isFinalBuild(statusOf(status)));
    if (old.length === 0) return 0;
    const ids = old.map(({ id }) => id);
    await db.deleteFrom("buildLines").where("buildId", "in", ids).execute();
    await db.deleteFrom("builds").where("id", "in", ids).execute();
    return ids.length;
  }),
};

function unfinished({ db }: Session) {
  // A literal: SQLite uses a partial index only if the query repeats its condition.
  const firstFinal = BUILD_STATUSES.findIndex(isFinalBuild);
  return db.selectFrom("builds").where("status", "<", (eb) => eb.lit(firstFinal));
}

/** The numbers of apps that have an unfinished build. */
export function unfinishedApps(session: Session) {
  return unfinished(session).select("appNumber");
}

function ofApp({ db }: Session, appNumber: number) {
  return db.selectFrom("builds").selectAll().where("appNumber", "=", appNumber).orderBy("id", "desc");
}

function statusCode(status: BuildStatus): number {
  return BUILD_STATUSES.indexOf(status);
}

function statusOf(code: number): BuildStatus {
  const status = BUILD_STATUSES[code];
  if (!status) throw new Error(`there is no build status ${code}`);
  return status;
}

function fromRow(row: Row<"builds">): StoredBuild {
  return { ...row, id: uuidText(row.id), status: statusOf(row.status) };
}

type NewLines = { readonly buildId: string; readonly lines: readonly BuildLine[] };
type LinePage = { readonly buildId: string; readonly after: number; readonly limit: number };

/** The logs of builds. */
export const buildLines = {
  append: write(async ({ db }, { buildId, lines }: NewLines): Promise<void> => {
    const rows = lines.map((line) => ({
      ...line,
      buildId: uuidBytes(buildId),
      stream: LOG_STREAMS.indexOf(line.stream),
      stage: BUILD_STAGES.indexOf(line.stage),
      text: line.text.replaceAll("\0", "\uFFFD"), // Postgres accepts no NUL in text.
    }));
    for (const some of chunks(rows))
      await db.insertInto("buildLines").values(some).onConflict(doNothing).execute();
  }),

  /** A build's lines after that number, in order. */
  list: read(async ({ db }, { buildId, after, limit }: LinePage): Promise<BuildLine[]> => {
    const lines = db.selectFrom("buildLines").select(["number", "createdAt", "stream", "stage", "text"]);
    const later = lines.where("buildId", "=", uuidBytes(buildId)).where("number", ">", after);
    const rows = await later.orderBy("number").limit(limit).execute();
    return rows.map((row) => ({
      ...row,
      stream: LOG_STREAMS[row.stream] ?? "stdout",
      stage: BUILD_STAGES[row.stage] ?? "build",
    }));
  }),
};
