/** A section of the guide: its address, its page's title, its heading, its words. */
export type IndexedSection = readonly [url: string, page: string, heading: string, text: string];

export type Found = { readonly url: string; readonly title: string; readonly excerpt: readonly Piece[] };

/** A stretch of an excerpt; some of them are what was searched for. */
type Piece = { readonly text: string; readonly isMatch: boolean };

const MAX_FOUND = 12;
/** Characters before the first word that matches, and in all. */
const LEAD = 40;
const EXCERPT = 150;

/** A heading that is just what was typed goes first, a page's title before others. */
const WHOLE_HEADING = 100;

/** The sections that hold every word of the query, best first: a heading counts more than a title, a title than text. */
export function searchGuide(sections: readonly IndexedSection[], query: string): Found[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const scored = sections
    .map((section) => ({ section, score: scoreOf(section, words) }))
    .filter(({ score }) => score > 0);
  return scored
    .toSorted((a, b) => b.score - a.score)
    .slice(0, MAX_FOUND)
    .map(({ section: [url, page, heading, text] }) => ({
      url,
      title: heading === page ? page : `${page} › ${heading}`,
      excerpt: excerptOf(text, words),
    }));
}

/** 0 unless every word is there. */
function scoreOf([, page, heading, text]: IndexedSection, words: readonly string[]): number {
  // The first section of a page has its title as its heading, which counts once.
  const inPage = page === heading ? "" : page.toLowerCase();
  const [inHeading, inText] = [heading.toLowerCase(), text.toLowerCase()];
  const isWhole = inHeading === words.join(" ");
  let score = isWhole ? WHOLE_HEADING * (page === heading ? 2 : 1) : 0;
  for (const word of words) {
    const found = weight(inHeading, word, 12) + weight(inPage, word, 4) + weight(inText, word, 1);
    if (found === 0) return 0;
    score += found;
  }
  return score;
}

/** More where a word begins with it, and most where it is a whole word. */
function weight(text: string, word: string, points: number): number {
  const at = text.indexOf(word);
  if (at === -1) return 0;
  const isEdge = (index: number): boolean => !/[\p{L}\p{N}]/u.test(text[index] ?? " ");
  if (!isEdge(at - 1)) return points;
  return isEdge(at + word.length) ? points * 3 : points * 2;
}

function excerptOf(text: string, words: readonly string[]): Piece[] {
  const lower = text.toLowerCase();
  const starts = words.map((word) => lower.indexOf(word)).filter((at) => at !== -1);
  const first = Math.min(...starts, text.length);
  const start = first === text.length ? 0 : Math.max(0, first - LEAD);
  const end = Math.min(text.length, start + EXCERPT);
  const pieces: Piece[] = start > 0 ? [{ text: "…", isMatch: false }] : [];
  for (let at = start; at < end;) {
    const next = nextMatch(lower, words, at, end);
    if (next.at > at) pieces.push({ text: text.slice(at, next.at), isMatch: false });
    if (next.length > 0) pieces.push({ text: text.slice(next.at, next.at + next.length), isMatch: true });
    at = next.at + Math.max(next.length, 1);
    if (next.length === 0) break;
  }
  return end < text.length ? [...pieces, { text: "…", isMatch: false }] : pieces;
}

/** The nearest match from a place on; of no length at the end, if there is none. */
function nextMatch(
  lower: string,
  words: readonly string[],
  from: number,
  end: number,
): { readonly at: number; readonly length: number } {
  let nearest = { at: end, length: 0 };
  for (const word of words) {
    const at = lower.indexOf(word, from);
    if (at !== -1 && at < nearest.at && at + word.length <= end) nearest = { at, length: word.length };
  }
  return nearest;
}
