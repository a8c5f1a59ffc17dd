import type { Socket } from "node:net";
import { READING_PACE } from "./reading-pace.ts";
import type { ReadingPace } from "./reading-pace.ts";

/** One line that a replica printed. */
export type LogLine = {
  readonly stream: "stdout" | "stderr";
  readonly text: string;
  /** The run that printed it, where Python could tell; null for raw descriptor output. */
  readonly runId: string | null;
};

const TAG_START = "\x1e";
const TAG_END = "\x1f";
/** A line longer than this is cut into several. */
const MAX_LINE_BYTES = 64 * 1024;

/** Looks at the clock are far between: one costs as much as a short line. */
const LINES_BETWEEN_LOOKS = 32;

/** Reads a replica's stdout or stderr to its end, line by line, as fast as the pace allows. */
export function readLogLines(
  socket: Socket,
  stream: LogLine["stream"],
  onLine: (line: LogLine) => void,
  pace: ReadingPace = READING_PACE,
): void {
  let rest: Buffer = Buffer.alloc(0);
  /** The run of a line of which a piece has been handed on; null between lines. */
  let cut: { runId: string | null } | null = null;
  /** Whole lines are left in `rest`. */
  let isBehind = false;
  /** The end may come while that is so. */
  let hasEnded = false;

  const emit = (bytes: Buffer, isPiece = false): void => {
    const text = bytes.toString("utf8");
    // The tag stands in front of the first piece only.
    const line: LogLine = cut ? { stream, text, runId: cut.runId } : parseLine(text, stream);
    cut = isPiece ? { runId: line.runId } : null;
    onLine(line);
  };
  /** Hands on what is too long; returns what is left. */
  const emitPieces = (bytes: Buffer): Buffer => {
    let left = bytes;
    for (; left.length > MAX_LINE_BYTES; left = left.subarray(MAX_LINE_BYTES)) {
      emit(left.subarray(0, MAX_LINE_BYTES), true);
    }
    return left;
  };
  /** Hands on the lines in `rest`; false when there was no time for all of them. */
  const emitLines = (startedAt: number): boolean => {
    let start = 0;
    let count = 0;
    for (let end = rest.indexOf(0x0a); end !== -1; end = rest.indexOf(0x0a, start)) {
      emit(emitPieces(rest.subarray(start, end)));
      start = end + 1;
      if (++count % LINES_BETWEEN_LOOKS !== 0 || !pace.isSpent(performance.now() - startedAt)) continue;
      rest = rest.subarray(start);
      return false;
    }
    rest = emitPieces(rest.subarray(start));
    return true;
  };
  const finish = (): void => {
    if (rest.length > 0) emit(emitPieces(rest));
    socket.end();
  };
  const read = (): void => {
    const startedAt = performance.now();
    isBehind = !emitLines(startedAt);
    pace.spend(performance.now() - startedAt);
    if (isBehind || pace.isSpent()) {
      socket.pause();
      pace.wait(isBehind ? read : () => socket.resume());
    } else {
      socket.resume();
    }
    if (hasEnded && !isBehind) finish();
  };
  socket.on("data", (data: Buffer) => {
    rest = rest.length === 0 ? data : Buffer.concat([rest, data]);
    read();
  });
  socket.on("end", () => {
    hasEnded = true;
    if (!isBehind) finish();
  });
  socket.resume();
}

function parseLine(text: string, stream: LogLine["stream"]): LogLine {
  const line = text.endsWith("\r") ? text.slice(0, -1) : text;
  const end = line.startsWith(TAG_START) ? line.indexOf(TAG_END) : -1;
  if (end === -1) return { stream, text: line, runId: null };
  return { stream, text: line.slice(end + 1), runId: line.slice(1, end) || null };
}
