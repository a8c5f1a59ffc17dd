import { pino } from "pino";
import type { Logger } from "pino";

export type Log = Logger;

/** One JSON line per event on stderr. Callers name each field they log: nothing is logged by accident. */
export function createLog(level: string, stream: NodeJS.WritableStream = process.stderr): Log {
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, stream);
}
