import { indentedJson } from "../../src/model/json-layout.ts";

/** Five times what is read of a payload; JSON that would take more is shown as it came. */
const MAX_CHARS = 1_000_000;

/** JSON with a member on each line, unless that would be too long for a page; anything else as it is. */
export function prettyText(text: string, isCut: boolean): string {
  if (isCut) return text;
  try {
    const indented = indentedJson(text);
    return indented.length > MAX_CHARS ? text : indented;
  } catch {
    return text;
  }
}
