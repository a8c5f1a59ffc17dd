import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { type CommandOptions, run } from "./command-line.ts";
import { REPOSITORY } from "./source-files.ts";

/** What a page has its reader do: write a file, or enter commands; null if it does not show what they print. */
type Step =
  | { readonly kind: "file"; readonly name: string; readonly text: string }
  | { readonly kind: "commands"; readonly script: string; readonly shown: string | null };

/**
 * The steps of a page. A block whose language is followed by a relative path is that file. Commands are in blocks of
 * `sh`, and what they print is in a block of `text` that comes next.
 */
function stepsOf(page: string): Step[] {
  const text = readFileSync(path.resolve(REPOSITORY, page), "utf8");
  const steps: Step[] = [];
  let above: Step | undefined;
  for (const [, language = "", name = "", body = ""] of text.matchAll(/^```(\w*) ?(\S*)\n([^]*?)^```$/gm)) {
    let step: Step | undefined;
    if (/^\w[\w./-]*$/.test(name)) step = { kind: "file", name, text: body };
    else if (language === "sh") step = { kind: "commands", script: body, shown: null };
    else if (language === "text" && above?.kind === "commands")
      steps.splice(-1, 1, { ...above, shown: body });
    if (step) steps.push(step);
    above = step;
  }
  return steps;
}

/** Does what a page of the repository, or at another place, says, in a folder, from its first step to its last. */
export async function follow(
  page: string,
  options: CommandOptions & { readonly cwd: string },
): Promise<void> {
  for (const step of stepsOf(page)) {
    if (step.kind === "file") {
      const file = path.join(options.cwd, step.name);
      mkdirSync(path.dirname(file), { recursive: true });
      writeFileSync(file, step.text);
      continue;
    }
    const { code, stdout, stderr } = await run("sh", ["-e", "-c", step.script], options);
    expect([step.script, code, code === 0 ? "" : stderr]).toEqual([step.script, 0, ""]);
    if (step.shown !== null) expect(likeAnyOther(stdout)).toMatch(patternOf(step.shown));
  }
}

/** What is printed, with what differs each time named. */
function likeAnyOther(text: string): string {
  return text
    .trim()
    .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "ID")
    .replaceAll(/http:\/\/127\.0\.0\.1:\d+/g, "URL")
    .replaceAll(/\bp-[a-z0-9]{8}\b/g, "PROJECT")
    .replaceAll(/[\d.]+ m?s\b/g, "TIME")
    .replaceAll(/[\d.]+ (?:[kM]?B|bytes)\b/g, "SIZE")
    .replaceAll(/"run_time_ms":[\d.]+/g, '"run_time_ms":TIME');
}

/** What a page shows, in which `…` stands for anything: of a line, or for any number of lines. */
function patternOf(shown: string): RegExp {
  const lines = likeAnyOther(shown)
    .split("\n")
    .map((line) => (line === "…" ? "(?:.*\n)*?.*" : escaped(line).replaceAll("…", ".*")));
  return new RegExp(`^${lines.join("\n")}$`);
}

/** A text as a pattern of itself. */
function escaped(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`);
}
