import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import type { Clock } from "../kit/clock.ts";
import { LineCutter } from "../kit/line-cutter.ts";
import type { LogStream } from "../model/log-line.ts";
import { RUN_ID } from "../model/names.ts";
import { type PaceOptions, readPaced } from "../host/read-paced.ts";
import { WIRE_LIMITS } from "./protocol.ts";

export type PrintedLine = {
  readonly stream: LogStream;
  readonly text: string;
  /** The run that printed it, if Python knew; null for output to a raw file descriptor. */
  readonly runId: string | null;
};

const TAG_START = "\x1e";
const TAG_END = "\x1f";
/** How long the output of a process is read after its end. */
export const LAST_LINES_MS = 10_000;

export type OutputEvents = {
  onLog(line: PrintedLine): void;
  /** An internal error while reading from it. */
  onError(error: unknown): void;
};

export function readOutput(
  pipes: { readonly stdout: Readable; readonly stderr: Readable },
  owner: string,
  events: OutputEvents,
): void {
  for (const name of ["stdout", "stderr"] as const) readOne(pipes[name], name, owner, events);
}

function readOne(stream: Readable, name: LogStream, owner: string, events: OutputEvents): void {
  readLogLines(stream, name, (line) => events.onLog(line), { owner }).catch((error: unknown) =>
    events.onError(error),
  );
}

/** The outputs that a process sends over connections of its own. */
export class LogSockets {
  readonly #owner: string;
  readonly #events: OutputEvents;
  readonly #sockets: Socket[] = [];

  constructor(owner: string, events: OutputEvents) {
    this.#owner = owner;
    this.#events = events;
  }

  /** Reads the connection if it carries output; otherwise returns false. */
  take(kind: string, socket: Socket): boolean {
    if (kind !== "stdout" && kind !== "stderr") return false;
    this.#sockets.push(socket);
    readOne(socket, kind, this.#owner, this.#events);
    return true;
  }

  get isEmpty(): boolean {
    return this.#sockets.length === 0;
  }

  /** Closes the connections, `LAST_LINES_MS` after now if a clock is given: those, too, that are only on their way. */
  close(clock: Clock | null): void {
    const close = (): void => this.#sockets.forEach((socket) => socket.destroy());
    if (clock === null) close();
    else clock.after(LAST_LINES_MS, close);
  }
}

/** Reads a process's stdout or stderr to its end, line by line, as fast as the pace allows. */
export async function readLogLines(
  stream: Readable,
  name: PrintedLine["stream"],
  onLine: (line: PrintedLine) => void,
  options: PaceOptions = {},
): Promise<void> {
  /** The run of a line that was delivered in part; null between lines. */
  let cut: { readonly runId: string | null } | null = null;
  const cutter = new LineCutter({ maxBytes: WIRE_LIMITS.lineBytes }, (bytes, isPiece) => {
    const text = bytes.toString("utf8");
    // Only the first piece has the tag.
    const line: PrintedLine = cut ? { stream: name, text, runId: cut.runId } : parseLine(text, name);
    cut = isPiece ? { runId: line.runId } : null;
    onLine(line);
  });
  await readPaced(stream, cutter, options);
}

/** The tag is part of the app's output, so a tag that is not a run id is dropped. */
function parseLine(text: string, stream: PrintedLine["stream"]): PrintedLine {
  const line = text.endsWith("\r") ? text.slice(0, -1) : text;
  const end = line.startsWith(TAG_START) ? line.indexOf(TAG_END) : -1;
  if (end === -1) return { stream, text: line, runId: null };
  const tag = line.slice(1, end);
  return { stream, text: line.slice(end + 1), runId: RUN_ID.test(tag) ? tag : null };
}
