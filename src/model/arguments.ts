import type { FunctionSignature } from "./app.ts";
import type { Misfit } from "./outcome.ts";

/** How many are named, and how much of each name: a caller may send a million. */
const MAX_NAMED = 500;
const MAX_NAME_CHARS = 128;

/** Each argument that is missing or unknown, as the harness would find them; `more` of them are not named. */
export function misfits(
  { parameters, wantsRunId }: FunctionSignature,
  given: readonly string[],
  ignoresExtra: boolean,
): { readonly details: readonly Misfit[]; readonly more: number } {
  const named = new Set(parameters.filter(({ kind }) => kind === "named").map(({ name }) => name));
  const hasRest = parameters.some(({ kind }) => kind === "rest");
  const takesAll = ignoresExtra || hasRest;
  const isGiven = new Set(given);
  const missing = parameters.filter(({ name, kind, required }) => {
    return kind === "named" && required && !isGiven.has(name);
  });
  const unknown = given.filter((field) => {
    if (field === "run_id" && wantsRunId) return !ignoresExtra || hasRest;
    return !takesAll && !named.has(field);
  });
  const details = [
    ...missing.map(({ name }): Misfit => ({ field: name, problem: "missing" })).toSorted(byField),
    ...unknown
      .slice(0, MAX_NAMED)
      .map((field): Misfit => ({ field: shortName(field), problem: "unknown" }))
      .toSorted(byField),
  ];
  const count = missing.length + unknown.length;
  return { details: details.slice(0, MAX_NAMED), more: Math.max(0, count - MAX_NAMED) };
}

/** By code points, as Python cuts. */
function shortName(name: string): string {
  if (name.length <= MAX_NAME_CHARS) return name;
  const signs = Array.from(name.slice(0, 2 * MAX_NAME_CHARS + 1));
  return signs.length <= MAX_NAME_CHARS ? name : `${signs.slice(0, MAX_NAME_CHARS - 1).join("")}…`;
}

/** By code points, as Python sorts; `<` would go by UTF-16 units. */
function byField(a: Misfit, b: Misfit): number {
  return Buffer.compare(Buffer.from(a.field), Buffer.from(b.field));
}
