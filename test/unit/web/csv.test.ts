import { expect, test } from "vitest";
import { csvOf } from "../../../web/parts/csv.ts";

test("cells are quoted where they must be, and no spreadsheet calculates one", () => {
  const rows = [
    ["plain", 'a "word"', "a,b", "two\nlines"],
    ["=1+1", "+1", "-1", "@sum"],
  ];
  expect(csvOf(rows)).toBe('plain,"a ""word""","a,b","two\nlines"\r\n\'=1+1,\'+1,\'-1,\'@sum\r\n');
});
