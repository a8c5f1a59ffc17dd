import { buildLineId } from "../apps/deploys/build-log.ts";
import type { Build, BuildLine } from "../model/build.ts";
import { timestampOf } from "../model/log-line.ts";
import type { BuildLineRecord, BuildRecord } from "../shapes/builds.ts";
import { timestamp } from "../shapes/timestamp.ts";

/** A build as the API shows it. */
export function buildRecord({ id, status, createdAt, updatedAt }: Build): BuildRecord {
  return { id, status, createdAt: timestamp(createdAt), updatedAt: timestamp(updatedAt) };
}

/** A line of its log. */
export function lineRecord(buildId: string, line: BuildLine): BuildLineRecord {
  const id = buildLineId(buildId, line);
  return { id, createdAt: timestampOf(id), log: line.text };
}
