import type { Readable } from "node:stream";
import { LineCutter } from "../../kit/line-cutter.ts";
import { readPaced } from "../../host/read-paced.ts";

/** A longer line is handed on in pieces. */
const MAX_LINE_BYTES = 16 * 1024;
/** Builds and file runs share one turn, next to those of the apps. */
const OWNER = "builds";

/**
 * Reads what a process prints to its end, line by line; a carriage return ends a line too, as progress bars use
 * it. A process that prints faster than the pace of all reading waits for us.
 */
export async function readLines(stream: Readable, onLine: (text: string) => void): Promise<void> {
  const cutter = new LineCutter({ maxBytes: MAX_LINE_BYTES, endsAtReturn: true }, (bytes) =>
    onLine(bytes.toString("utf8")),
  );
  await readPaced(stream, cutter, { owner: OWNER });
}
