import { stripVTControlCharacters } from "node:util";
import { paint, printableCell } from "./paint.ts";

const GAP = "  ";

/** Rows with aligned columns under dim headings; on a terminal each line is cut to its width. Cells cannot steer it. */
export function table(
  headings: readonly string[],
  given: readonly (readonly string[])[],
  width: number | undefined = process.stdout.isTTY ? process.stdout.columns : undefined,
): string {
  const rows = given.map((row) => row.map(printableCell));
  const widths = headings.map((heading, index) =>
    Math.max(heading.length, ...rows.map((row) => lengthOf(row[index] ?? ""))),
  );
  const line = (cells: readonly string[]): string => {
    const padded = cells.map((cell, index) => {
      const isLast = index === cells.length - 1;
      return isLast ? cell : cell + " ".repeat((widths[index] ?? 0) - lengthOf(cell));
    });
    return cut(padded.join(GAP).trimEnd(), width);
  };
  return [line(headings.map((heading) => paint("dim", heading))), ...rows.map(line)]
    .map((text) => `${text}\n`)
    .join("");
}

/** Names and values under each other, the values aligned. */
export function fields(pairs: readonly (readonly [name: string, value: string])[]): string {
  const width = Math.max(...pairs.map(([name]) => name.length));
  // Further lines of a value stand below it, where they cannot look like fields.
  const next = `\n${" ".repeat(width)}${GAP}`;
  const line = (name: string, value: string): string =>
    `${paint("dim", name.padEnd(width))}${GAP}${value.split("\n").map(printableCell).join(next)}\n`;
  return pairs.map(([name, value]) => line(name, value)).join("");
}

/** What a text takes on the screen, colours not counted. */
function lengthOf(text: string): number {
  return Array.from(stripVTControlCharacters(text)).length;
}

function cut(text: string, width: number | undefined): string {
  if (width === undefined || lengthOf(text) <= width) return text;
  // A cut may fall between a colour and its end: without colours nothing is left switched on.
  return `${Array.from(stripVTControlCharacters(text))
    .slice(0, width - 1)
    .join("")}…`;
}
