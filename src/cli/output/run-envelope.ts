/** Where the parts of a run's answer lie in it: cut out, they are byte for byte what the function gave. */
const ENVELOPE = /^\{"run_id":"([0-9a-f-]{36})","result":(.*),"run_time_ms":([\d.e+-]+)\}$/s;

/** The parts of a sync answer, the result as its own JSON text; null when it has not that form. */
export function readEnvelope(text: string): { runId: string; result: string; runTimeMs: number } | null {
  const [, runId = "", result = "", runTimeMs = ""] = ENVELOPE.exec(text) ?? [];
  return runId === "" ? null : { runId, result, runTimeMs: Number(runTimeMs) };
}
