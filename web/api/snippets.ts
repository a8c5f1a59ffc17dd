import { installation } from "./installation.ts";
import type { CallMode, Language } from "./playground-search.ts";

/** A call of a function, as somebody would write it down. */
export type Call = {
  readonly projectId: string;
  readonly appName: string;
  readonly functionName: string;
  readonly mode: CallMode;
  /** JSON. */
  readonly body: string;
};

/** The call as code; the token comes from the environment. */
export function snippet(language: Language, call: Call): string {
  switch (language) {
    case "curl":
      return curlOf(call);
    case "typescript":
      return typescriptOf(call);
    case "python":
      return pythonOf(call);
    default:
      return language satisfies never;
  }
}

/** The address of a call. */
export function callUrl({ projectId, appName, functionName, mode }: Omit<Call, "body">): string {
  const query = mode === "async" ? "?async=true" : "";
  return `${installation.apiUrl}/v4/${projectId}/${appName}/${functionName}${query}`;
}

function curlOf(call: Call): string {
  return [
    `curl ${call.mode === "stream" ? "-N " : ""}${shellWord(callUrl(call))}`,
    `-H "Authorization: Bearer $MILLRACE_TOKEN"`,
    `-H "Content-Type: application/json"`,
    ...(call.mode === "stream" ? [`-H "Accept: text/event-stream"`] : []),
    `-d ${shellWord(call.body)}`,
  ].join(" \\\n  ");
}

function typescriptOf({ projectId, appName, functionName, mode, body }: Call): string {
  const options = functionName === "run" ? "" : `, { function: ${JSON.stringify(functionName)} }`;
  const given = `${JSON.stringify(appName)}, ${body}${options}`;
  const call = {
    sync: `const { result } = await millrace.run(${given});\nconsole.log(result);`,
    async: `const run = await millrace.runAsync(${given});\nconsole.log(run.id, (await run.wait()).result);`,
    stream: `for await (const text of millrace.stream(${given})) console.log(text);`,
  }[mode];
  return `import { Millrace } from "millrace/client";

const millrace = new Millrace({
  url: ${JSON.stringify(installation.apiUrl)},
  project: ${JSON.stringify(projectId)},
  token: process.env.MILLRACE_TOKEN ?? "",
});

${call}
`;
}

function pythonOf({ projectId, appName, functionName, mode, body }: Call): string {
  const option = functionName === "run" ? "" : `, function=${JSON.stringify(functionName)}`;
  const given = `${JSON.stringify(appName)}, ${pythonText(body)}${option}`;
  const call = {
    sync: `print(millrace.run(${given}).result)`,
    async: `run = millrace.run_async(${given})\nprint(run.id, run.wait().result)`,
    stream: `for text in millrace.stream(${given}):\n    print(text)`,
  }[mode];
  const where = `${JSON.stringify(installation.apiUrl)}, ${JSON.stringify(projectId)}`;
  return `import os
from millrace_client import Millrace

millrace = Millrace(${where}, os.environ["MILLRACE_TOKEN"])

${call}
`;
}

const WORDS: Readonly<Record<string, string>> = { true: "True", false: "False", null: "None" };

/** JSON as Python writes it. Texts are written anew: not every escape of JSON is one of Python's. */
function pythonText(json: string): string {
  return json.replaceAll(
    /"(?:[^"\\]|\\.)*"|true|false|null/g,
    (token) => WORDS[token] ?? JSON.stringify(JSON.parse(token)),
  );
}

/** Text as one word of a shell. */
export function shellWord(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
