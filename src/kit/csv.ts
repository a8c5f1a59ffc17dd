type Cell = string | number | null;

/** A spreadsheet would execute a text that begins like this. */
const FORMULA = /^[=+\-@\t\r]/;
const SPECIAL = /[",\r\n]/;

/** A table as CSV by RFC 4180, with its heading. Texts that look like formulas get an apostrophe in front. */
export function csvOf<Row>(
  rows: readonly Row[],
  columns: Readonly<Record<string, (row: Row) => Cell>>,
): string {
  const getters = Object.values(columns);
  const lines = rows.map((row) => getters.map((get) => cellText(get(row))).join(","));
  return [Object.keys(columns).join(","), ...lines].map((line) => `${line}\r\n`).join("");
}

function cellText(cell: Cell): string {
  if (cell === null) return "";
  if (typeof cell === "number") return String(cell);
  const text = FORMULA.test(cell) ? `'${cell}` : cell;
  return SPECIAL.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
