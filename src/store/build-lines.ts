import { uuidBytes } from "../kit/ids.ts";
import { BUILD_STAGES } from "../model/build.ts";
import type { BuildLine } from "../model/build.ts";
import { LOG_STREAMS } from "../model/log-line.ts";
import { read, write } from "./operation.ts";

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
