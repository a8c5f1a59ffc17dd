/** A section of the guide, as search sees it. */
export type IndexedSection = {
  readonly url: string;
  /** The title of its page. */
  readonly page: string;
  readonly heading: string;
  readonly text: string;
  /** The settings, codes and headers that its tables explain, in lower case. */
  readonly names: readonly string[];
  /** Whether it tells how Millrace is made; users come first. */
  readonly isForContributors: boolean;
};

export type Found = { readonly url: string; readonly title: string; readonly excerpt: readonly Piece[] };

/** A stretch of an excerpt; some of them are what was searched for. */
type Piece = { readonly text: string; readonly isMatch: boolean };

const MAX_FOUND = 12;
/** Characters before the first word that matches, and in all. */
const LEAD = 40;
const EXCERPT = 150;

/** A heading that is just what was typed goes first, a page's title before others. */
const WHOLE_HEADING = 100;

/** How much a word counts in a heading and in the title of the page; in the text it counts 1 at most. */
const IN_HEADING = 4;
const IN_TITLE = 2;
/** How much a name counts where a table explains it. */
const EXPLAINED = 6;

/** A section without half of the words is no answer. */
const LEAST_COVERED = 0.5;
/** A word that fewer sections have is as rare as if so many had it: it may be the wrong word. */
const RARE = 8;
/** What pages for contributors count, beside those for users. */
const FOR_CONTRIBUTORS = 0.5;
/** By how much a heading counts less for each further word in it. */
const PER_HEADING_WORD = 0.1;

/** Words that a question has and its answer need not have. */
const FILLERS = new Set(
  (
    "a about am an and any are as at be been but by can could did do does every for from get got had has have how i " +
    "if in into is it its like make many may me mean much my need of on one or our should so some take takes than " +
    "that the their them then there these they this those to too two us use using want was way we were what when " +
    "where which while who why will with work works would you your"
  ).split(" "),
);

/** What is looked for: a word as it was typed, and its beginning, which its other forms share. */
type Term = { readonly word: string; readonly stem: string };

/** The sections that answer the query, best first: rare words count more than common ones, a heading more than text. */
export function searchGuide(sections: readonly IndexedSection[], query: string): Found[] {
  const terms = termsOf(query);
  if (terms.length === 0) return [];
  const fields = sections.map(fieldsOf);
  const meanLength = fields.reduce((sum, { text }) => sum + text.length, 1) / fields.length;
  const points = terms.map((term) => fields.map((each) => pointsOf(each, term, meanLength)));
  const rarity = points.map((values) => {
    const holding = values.filter((value) => value > 0).length;
    return Math.log(1 + sections.length / Math.max(RARE, holding));
  });
  const whole = terms.map(({ word }) => word).join(" ");
  const scoreOf = (place: number): number => {
    const { page, heading, words } = fields[place]!;
    const values = points.map((each) => each[place]!);
    const covered = values.filter((value) => value > 0).length / values.length;
    if (covered < LEAST_COVERED) return 0;
    const isWhole = heading === whole || words.join(" ") === whole;
    const bonus = isWhole ? WHOLE_HEADING * (page === "" ? 2 : 1) : 0;
    const sum = values.reduce((total, value, i) => total + value * rarity[i]!, 0);
    return (bonus + covered * sum) * (sections[place]!.isForContributors ? FOR_CONTRIBUTORS : 1);
  };
  return sections
    .map((section, place) => ({ section, score: scoreOf(place) }))
    .filter(({ score }) => score > 0)
    .toSorted((a, b) => b.score - a.score)
    .slice(0, MAX_FOUND)
    .map(({ section: { url, page, heading, text } }) => ({
      url,
      title: heading === page ? page : `${page} › ${heading}`,
      excerpt: excerptOf(text, terms),
    }));
}

type Fields = ReturnType<typeof fieldsOf>;

/** A section in lower case, with the words of its heading. */
function fieldsOf({ page, heading, text, names }: IndexedSection) {
  const lower = heading.toLowerCase();
  // The first section of a page has its title as its heading, which counts once.
  const title = page === heading ? "" : page.toLowerCase();
  return { page: title, heading: lower, words: wordsOf(lower), text: text.toLowerCase(), names };
}

/** What a section is worth for one word; 0 if it does not have it. */
function pointsOf(fields: Fields, { word, stem }: Term, meanLength: number): number {
  const { page, heading, words, text, names } = fields;
  const times = countOf(text, stem);
  const inText = times / (times + 0.5 + text.length / meanLength);
  const inHeading = exactness(heading, word, stem) / (1 + PER_HEADING_WORD * (words.length - 1));
  const inNames = explains(names, word) ? EXPLAINED : 0;
  return IN_HEADING * inHeading + IN_TITLE * exactness(page, word, stem) + inText + inNames;
}

/** What the query looks for. If it has nothing but fillers, it looks for those. */
function termsOf(query: string): Term[] {
  const words = wordsOf(query.toLowerCase());
  const telling = words.filter((word) => !FILLERS.has(word));
  return (telling.length > 0 ? telling : words).map((word) => ({ word, stem: stemOf(word) }));
}

/** The words of a text, without the punctuation around them. */
function wordsOf(text: string): string[] {
  return text.split(/\s+/).flatMap((word) => word.match(/[\p{L}\p{N}](?:.*[\p{L}\p{N}])?/u)?.[0] ?? []);
}

/** `deploys`, `deployed` and `deploying` begin with `deploy`, `retries` and `retry` with `retr`. */
function stemOf(word: string): string {
  const stem = word.replace(/(?:ies|ing|ed|es|s)$/, "");
  const bare = stem.length < 3 ? word : stem;
  return bare.length > 4 ? bare.replace(/[ey]$/, "") : bare;
}

/** Whether a name such as `queue_full` or `scaling.cooldown` is among these, whole or by its last part. */
function explains(names: readonly string[], word: string): boolean {
  return /[_-]/.test(word) && names.some((name) => name === word || name.endsWith(`.${word}`));
}

const isEdge = (letter: string | undefined): boolean => !/[\p{L}\p{N}]/u.test(letter ?? " ");

/** How often words of a text begin like this. */
function countOf(text: string, stem: string): number {
  let count = 0;
  for (let at = text.indexOf(stem); at !== -1; at = text.indexOf(stem, at + stem.length))
    if (isEdge(text[at - 1])) count += 1;
  return count;
}

function holds(text: string, stem: string): boolean {
  for (let at = text.indexOf(stem); at !== -1; at = text.indexOf(stem, at + 1))
    if (isEdge(text[at - 1])) return true;
  return false;
}

/** 1 if a text has the word as it was typed, less if only another form of it. */
function exactness(text: string, word: string, stem: string): number {
  if (!holds(text, stem)) return 0;
  if (!holds(text, word)) return 0.7;
  return isEdge(text[text.indexOf(word) + word.length]) ? 1 : 0.8;
}

function excerptOf(text: string, terms: readonly Term[]): Piece[] {
  const lower = text.toLowerCase();
  const words = terms.map(({ word, stem }) => (lower.includes(word) ? word : stem));
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
