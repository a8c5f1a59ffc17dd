/** Each round begins with another one, so that none always follows the same. */
export function turnOrder<T>(all: readonly T[], round: number): T[] {
  const first = round % all.length;
  return [...all.slice(first), ...all.slice(0, first)];
}
