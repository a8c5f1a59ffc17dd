import type { SubjectResult, SyncSettings } from "./sync.ts";

/** Of the same services. */
const SET_ROUNDS = 2;

/**
 * Measures set after set of fresh services. Two of the same kind differ by a quarter for as long as they live (measured:
 * 0.77 and 1.09 for the same code), so rounds of one set would tell of that one alone.
 */
export async function measureFreshSets(
  settings: SyncSettings,
  measure: (settings: SyncSettings) => Promise<readonly SubjectResult[]>,
): Promise<SubjectResult[]> {
  let all: readonly SubjectResult[] = [];
  for (let done = 0; done < settings.rounds; done += SET_ROUNDS) {
    const rounds = Math.min(SET_ROUNDS, settings.rounds - done);
    const set = await measure({ ...settings, rounds });
    all = set.map((result, index) => joined(all[index], result));
  }
  return [...all];
}

function joined(before: SubjectResult | undefined, result: SubjectResult): SubjectResult {
  if (!before) return result;
  if (before.status !== "measured") return before;
  const rounds = {
    32: [...before.rounds[32], ...result.rounds[32]],
    1: [...before.rounds[1], ...result.rounds[1]],
  };
  return { ...result, rounds };
}
