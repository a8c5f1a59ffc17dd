import * as z from "zod/mini";
import { LOG_STREAMS } from "../model/log-line.ts";
import { EXACT_TIMESTAMP, NEXT_TOKEN } from "./common.ts";

const LINE = z.object({
  appId: z.string(),
  projectId: z.string(),
  runId: z.nullable(z.uuid()),
  containerId: z.string(),
  containerName: z.string(),
  logId: z.uuid(),
  lineNumber: z.int(),
  logLine: z.string(),
  stream: z.enum(LOG_STREAMS),
  timestamp: EXACT_TIMESTAMP,
});
export type LogLineRecord = z.infer<typeof LINE>;

export const LOG_PAGE = z.object({
  logs: z.array(LINE),
  nextPageToken: z.nullable(NEXT_TOKEN),
  hasMore: z.boolean(),
});

/** A line as `/ws-logs` sends it. */
export const LOG_FRAME = z.object({
  app_id: z.string(),
  run_id: z.nullable(z.uuid()),
  timestamp: EXACT_TIMESTAMP,
  container_name: z.string(),
  log: z.string(),
});
export type LogFrame = z.infer<typeof LOG_FRAME>;

/** A line as `/ws-logs` sends it with `withStream=true`. */
export const LOG_FRAME_WITH_STREAM = z.extend(LOG_FRAME, { stream: z.enum(LOG_STREAMS) });
