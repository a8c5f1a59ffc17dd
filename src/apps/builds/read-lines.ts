import { StringDecoder } from "node:string_decoder";
import type { Readable } from "node:stream";
import { READING_PACE } from "../../replicas/reading-pace.ts";

/** A longer line is handed on in pieces. */
const MAX_LINE_CHARS = 16 * 1024;

/**
 * Reads what a process prints to its end, line by line; a carriage return ends a line too, as progress bars use
 * it. A process that prints faster than the pace of all reading waits for us.
 */
export async function readLines(stream: Readable, onLine: (text: string) => void): Promise<void> {
  const decoder = new StringDecoder("utf8");
  let rest = "";
  try {
    for await (const data of stream) {
      const startedAt = performance.now();
      const lines = (rest + decoder.write(data as Buffer)).split(/\r?\n|\r(?!$)/);
      rest = lines.pop() ?? "";
      for (const line of lines) handOn(line, onLine);
      for (; rest.length > MAX_LINE_CHARS; rest = rest.slice(MAX_LINE_CHARS))
        onLine(rest.slice(0, MAX_LINE_CHARS));
      READING_PACE.spend(performance.now() - startedAt);
      if (READING_PACE.isSpent()) await new Promise<void>((resolve) => READING_PACE.wait(resolve));
    }
  } catch {
    // Closed under us: whoever did that knows why.
  }
  if (rest !== "") handOn(rest.replace(/\r$/, ""), onLine);
}

function handOn(line: string, onLine: (text: string) => void): void {
  if (line.length <= MAX_LINE_CHARS) return onLine(line);
  for (let start = 0; start < line.length; start += MAX_LINE_CHARS) {
    onLine(line.slice(start, start + MAX_LINE_CHARS));
  }
}
