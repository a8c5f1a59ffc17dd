import { membersOfJson } from "../../../../src/model/json-layout.ts";

/** Arguments by name, each as JSON text; what is not given is not there. */
type Texts = Readonly<Record<string, string>>;

/** What will be sent: as a form has it, and as one JSON text. Both say the same while the text is an object. */
export type Draft = { readonly texts: Texts; readonly json: string };

export const EMPTY_DRAFT: Draft = { texts: {}, json: "{}" };

/** After an argument was filled in; undefined takes it out. */
export function withArgument({ texts }: Draft, name: string, text: string | undefined): Draft {
  const { [name]: _, ...rest } = texts;
  const next = text === undefined ? rest : { ...texts, [name]: text };
  return { texts: next, json: composed(next) };
}

/** After the text was edited; the form follows as soon as it is an object again. */
export function withJson({ texts }: Draft, json: string): Draft {
  const members = membersOfJson(json);
  return { texts: members ? Object.fromEntries(members) : texts, json };
}

/** What is wrong with the text; null when it can be sent. */
export function faultOf({ json }: Draft): string | null {
  if (objectOf(json)) return null;
  try {
    JSON.parse(json);
    return "This is not an object.";
  } catch (error) {
    return error instanceof Error ? error.message : "This is not JSON.";
  }
}

/** Whether a text is a value. */
export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function composed(texts: Texts): string {
  const members = Object.entries(texts).map(([name, text]) => `  ${JSON.stringify(name)}: ${indented(text)}`);
  return members.length === 0 ? "{}" : `{\n${members.join(",\n")}\n}`;
}

function indented(text: string): string {
  return text.replaceAll("\n", "\n  ");
}

function objectOf(json: string): object | null {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}
