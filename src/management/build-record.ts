import { z } from "zod";
import { buildLineId } from "../apps/deploys/build-log.ts";
import { BUILD_STATUSES } from "../model/build.ts";
import type { Build, BuildLine } from "../model/build.ts";
import { timestampOf } from "../model/log-line.ts";
import { TIMESTAMP, timestamp } from "./api/schemas.ts";

/** A build as the API shows it. */
export const BUILD = z.object({
  id: z.uuid(),
  status: z.enum(BUILD_STATUSES),
  createdAt: TIMESTAMP,
  updatedAt: TIMESTAMP,
});

/** A line of its log. */
export const BUILD_LINE = z.object({ id: z.uuid(), createdAt: TIMESTAMP, log: z.string() });

export function buildRecord({ id, status, createdAt, updatedAt }: Build): z.input<typeof BUILD> {
  return { id, status, createdAt: timestamp(createdAt), updatedAt: timestamp(updatedAt) };
}

export function lineRecord(buildId: string, line: BuildLine): z.input<typeof BUILD_LINE> {
  const id = buildLineId(buildId, line);
  return { id, createdAt: timestampOf(id), log: line.text };
}
