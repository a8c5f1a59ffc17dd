/** What a spreadsheet would take for a formula. */
const FORMULA = /^[=+\-@\t\r]/;
const SPECIAL = /[",\r\n]/;

/** Rows as comma-separated values, RFC 4180. A text that a spreadsheet would calculate has an apostrophe in front. */
export function csvOf(rows: readonly (readonly string[])[]): string {
  return rows.map((row) => `${row.map(cellOf).join(",")}\r\n`).join("");
}

function cellOf(text: string): string {
  const plain = FORMULA.test(text) ? `'${text}` : text;
  return SPECIAL.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
}
