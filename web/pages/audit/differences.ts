/** A member that is not what it was; undefined where it was not, or is no more. */
export type Difference = {
  readonly path: string;
  readonly before: string | undefined;
  readonly after: string | undefined;
};

const MAX_DIFFERENCES = 200;
const MAX_CHARACTERS = 1_000;

/** What differs between two JSON values, member by member. */
export function differencesOf(before: unknown, after: unknown): readonly Difference[] {
  const [was, is] = [flat(before), flat(after)];
  const paths = new Set([...was.keys(), ...is.keys()]);
  return [...paths]
    .map((path) => ({ path, before: was.get(path), after: is.get(path) }))
    .filter((one) => one.before !== one.after)
    .slice(0, MAX_DIFFERENCES);
}

/** Every leaf by its path; lists are leaves. */
function flat(value: unknown, path = "", found = new Map<string, string>()): Map<string, string> {
  if (value === null || value === undefined) return found;
  if (typeof value === "object" && !Array.isArray(value)) {
    for (const [name, member] of Object.entries(value)) flat(member, path ? `${path}.${name}` : name, found);
    return found;
  }
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return found.set(path, text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)}…` : text);
}
