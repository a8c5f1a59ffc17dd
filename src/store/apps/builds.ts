import type { Row } from "../schema/schema.ts";
import { uuidBytes, uuidText } from "../../kit/ids.ts";
import { BUILD_STAGES, BUILD_STATUSES, buildStatusesBefore, isFinalBuild } from "../../model/build.ts";
import type { Build, BuildLine, BuildStatus } from "../../model/build.ts";
import { read, write } from "../operation.ts";
import type { Session } from "../operation.ts";
import { LOG_STREAMS } from "../../model/log-line.ts";

/** A build with what the deploy was asked for with, as JSON. */
export type StoredBuild = Build & { readonly payload: string };

/** Deploys on their way, and how they ended. Ids are UUIDv7: their order is that of their birth. */
export const builds = {
  /** Stores a build that waits for its upload. */
  insert: write(
    async ({ db }, build: Pick<StoredBuild, "id" | "appNumber" | "payload" | "createdAt">): Promise<void> => {
      const row = {
        ...build,
        id: uuidBytes(build.id),
        status: statusCode("pending"),
        message: null,
        updatedAt: build.createdAt,
      };
      await db.insertInto("builds").values(row).execute();
    },
  ),

  find: read(async ({ db }, id: string): Promise<StoredBuild | null> => {
    const row = await db.selectFrom("builds").selectAll().where("id", "=", uuidBytes(id)).executeTakeFirst();
    return row ? fromRow(row) : null;
  }),

  /** An app's builds, newest first. */
  list: read(
    async (
      session,
      input: { readonly appNumber: number; readonly limit: number; readonly before?: string },
    ): Promise<StoredBuild[]> => {
      let query = ofApp(session, input.appNumber);
      if (input.before !== undefined) query = query.where("id", "<", uuidBytes(input.before));
      return (await query.limit(input.limit).execute()).map(fromRow);
    },
  ),

  /** The app's newest build. */
  latest: read(async (session, appNumber: number): Promise<StoredBuild | null> => {
    const row = await ofApp(session, appNumber).limit(1).executeTakeFirst();
    return row ? fromRow(row) : null;
  }),

  /** Those that have not ended, oldest first. */
  unfinished: read(async (session): Promise<StoredBuild[]> => {
    const rows = await unfinished(session).selectAll().orderBy("id").execute();
    return rows.map(fromRow);
  }),

  /** The bundle of a build has come, whole: it waits for its turn, and says so in its payload. */
  noteUpload: write(async ({ db }, { id, payload }: Pick<StoredBuild, "id" | "payload">): Promise<void> => {
    await db.updateTable("builds").set({ payload }).where("id", "=", uuidBytes(id)).execute();
  }),

  /** Moves a build on. False when there is no such move from where it is. */
  move: write(
    async (
      { db },
      input: {
        readonly id: string;
        readonly to: BuildStatus;
        readonly message?: string | null;
        readonly now: number;
      },
    ): Promise<boolean> => {
      const { id, to, message = null, now } = input;
      const before = buildStatusesBefore(to).map(statusCode);
      if (before.length === 0) return false;
      const result = await db
        .updateTable("builds")
        .set({ status: statusCode(to), message, updatedAt: now })
        .where("id", "=", uuidBytes(id))
        .where("status", "in", before)
        .executeTakeFirst();
      return result.numUpdatedRows === 1n;
    },
  ),

  /** Removes an app's builds but the newest ones and those that have a version or have not ended. */
  prune: write(
    async (
      { db },
      { appNumber, keep }: { readonly appNumber: number; readonly keep: number },
    ): Promise<number> => {
      const rows = await db
        .selectFrom("builds")
        .leftJoin("versions", "versions.id", "builds.id")
        .select(["builds.id", "builds.status", "versions.number"])
        .where("builds.appNumber", "=", appNumber)
        .orderBy("builds.id", "desc")
        .offset(keep)
        .limit(1_000)
        .execute();
      const old = rows.filter(({ status, number }) => number === null && isFinalBuild(statusOf(status)));
      if (old.length === 0) return 0;
      const ids = old.map(({ id }) => id);
      await db.deleteFrom("buildLines").where("buildId", "in", ids).execute();
      await db.deleteFrom("builds").where("id", "in", ids).execute();
      return ids.length;
    },
  ),
};

function unfinished({ db }: Session) {
  // Written out: SQLite takes a partial index only if the query repeats its condition.
  const firstFinal = BUILD_STATUSES.findIndex(isFinalBuild);
  return db.selectFrom("builds").where("status", "<", (eb) => eb.lit(firstFinal));
}

/** The numbers of apps that have a build which has not ended. */
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

/** Rows of one statement: databases bound how many values it may have. */
const MAX_ROWS = 500;

/** The logs of builds. */
export const buildLines = {
  append: write(
    async (
      { db },
      { buildId, lines }: { readonly buildId: string; readonly lines: readonly BuildLine[] },
    ): Promise<void> => {
      const rows = lines.map((line) => ({
        ...line,
        buildId: uuidBytes(buildId),
        stream: LOG_STREAMS.indexOf(line.stream),
        stage: BUILD_STAGES.indexOf(line.stage),
        text: line.text.replaceAll("\0", "\uFFFD"), // Postgres takes no NUL in text.
      }));
      for (let start = 0; start < rows.length; start += MAX_ROWS) {
        const some = rows.slice(start, start + MAX_ROWS);
        await db
          .insertInto("buildLines")
          .values(some)
          .onConflict((conflict) => conflict.doNothing())
          .execute();
      }
    },
  ),

  /** A build's lines after that number, in order. */
  list: read(
    async (
      { db },
      { buildId, after, limit }: { readonly buildId: string; readonly after: number; readonly limit: number },
    ): Promise<BuildLine[]> => {
      const rows = await db
        .selectFrom("buildLines")
        .select(["number", "createdAt", "stream", "stage", "text"])
        .where("buildId", "=", uuidBytes(buildId))
        .where("number", ">", after)
        .orderBy("number")
        .limit(limit)
        .execute();
      return rows.map((row) => ({
        ...row,
        stream: LOG_STREAMS[row.stream] ?? "stdout",
        stage: BUILD_STAGES[row.stage] ?? "build",
      }));
    },
  ),
};
