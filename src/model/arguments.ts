import type { FunctionSignature } from "./app.ts";
import type { Misfit } from "./outcome.ts";

/** Each argument that is missing or unknown, as the harness would find them. */
export function misfits(
  { parameters, wantsRunId }: FunctionSignature,
  given: readonly string[],
  ignoresExtra: boolean,
): Misfit[] {
  const named = parameters.filter(({ kind }) => kind === "named");
  const hasRest = parameters.some(({ kind }) => kind === "rest");
  const takesAll = ignoresExtra || hasRest;
  const missing = named.filter(({ name, required }) => required && !given.includes(name));
  const unknown = given.filter((field) => {
    if (field === "run_id" && wantsRunId) return !ignoresExtra || hasRest;
    return !takesAll && !named.some(({ name }) => name === field);
  });
  return [
    ...missing.map(({ name }): Misfit => ({ field: name, problem: "missing" })).toSorted(byField),
    ...unknown.map((field): Misfit => ({ field, problem: "unknown" })).toSorted(byField),
  ];
}

/** By code points, as Python sorts; `<` would go by UTF-16 units. */
function byField(a: Misfit, b: Misfit): number {
  return Buffer.compare(Buffer.from(a.field), Buffer.from(b.field));
}
