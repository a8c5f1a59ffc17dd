/** Runtimes of the hosted original that belong to its partners. */
const PARTNERS = ["deepgram", "rime"] as const;
export type Partner = (typeof PARTNERS)[number];

/** The tables of a configuration file that only the hosted original can follow. */
export const HOSTED_ONLY_TABLES: readonly string[] = [
  "experimental",
  ...PARTNERS.map((name) => `runtime.${name}`),
];

/** Whose runtime that is, where it is a partner's. */
export function partnerOf(runtime: unknown): Partner | undefined {
  return PARTNERS.find((name) => name === runtime);
}

/** The partner whose table there is, if any. */
export function partnerIn(hasTable: (path: string) => boolean): Partner | undefined {
  return PARTNERS.find((name) => hasTable(`runtime.${name}`));
}

/** Why a partner's runtime is not served, and what to do; `name` is what asked for it. */
export function partnerRefusal(name: string): string {
  return (
    `${name} asks for a partner service of the hosted platform, which only that platform may run: ` +
    "remove it, and call the partner's own API from a function in main.py"
  );
}

/** What is said of `[experimental]`. */
export const EXPERIMENTAL_IGNORED =
  "[experimental] is ignored: its keys are for the hosted platform. Replicas here start as forks of a process that has imported the app, without a checkpoint";
