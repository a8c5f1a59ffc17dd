/** What the engine has and the language's typings do not know yet. */
type ExactJson = {
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { source?: string }) => unknown,
  ): unknown;
  rawJSON(text: string): unknown;
};

/** JSON text on several lines, every number with the digits it came with. */
export function indented(text: string): string {
  return JSON.stringify(exactly(text), null, 2);
}

/** The same on one line. */
export function compacted(text: string): string {
  return JSON.stringify(exactly(text));
}

function exactly(text: string): unknown {
  const exact = JSON as unknown as ExactJson;
  return exact.parse(text, (_, value, { source }) =>
    typeof value === "number" && source !== undefined ? exact.rawJSON(source) : value,
  );
}

/** Where the parts of a run's answer lie in it: cut out, they are byte for byte what the function gave. */
const ENVELOPE = /^\{"run_id":"([0-9a-f-]{36})","result":(.*),"run_time_ms":([\d.e+-]+)\}$/s;

/** The parts of a sync answer, the result as its own JSON text; null when it has not that form. */
export function readEnvelope(text: string): { runId: string; result: string; runTimeMs: number } | null {
  const [, runId = "", result = "", runTimeMs = ""] = ENVELOPE.exec(text) ?? [];
  return runId === "" ? null : { runId, result, runTimeMs: Number(runTimeMs) };
}
