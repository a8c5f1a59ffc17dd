// Longer words are no spelling of anything known, and the work per comparison grows with the square.
const MAX_CHARS = 64;

/** How many single-character edits lead from one word to the other. */
export function editDistance(from: string, to: string): number {
  let previous = Array.from({ length: to.length + 1 }, (_, i) => i);
  for (let i = 0; i < from.length; i++) {
    const current = [i + 1];
    for (let j = 0; j < to.length; j++) {
      const replaced = previous[j]! + (from[i] === to[j] ? 0 : 1);
      current.push(Math.min(replaced, previous[j + 1]! + 1, current[j]! + 1));
    }
    previous = current;
  }
  return previous[to.length]!;
}

/** The known word that `word` most likely meant; null when none is close. */
export function nearest(word: string, known: Iterable<string>): string | null {
  if (word.length > MAX_CHARS) return null;
  const given = word.toLowerCase();
  let best: string | null = null;
  let bestDistance = Math.max(1, Math.floor(given.length / 3)) + 1;
  for (const candidate of known) {
    // So many letters at least are one's and not the other's.
    if (Math.abs(candidate.length - given.length) >= bestDistance) continue;
    const distance = editDistance(given, candidate.toLowerCase());
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}
