import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { MILLRACE, scratchDirectory } from "../../support/command-line.ts";
import { commandsOf, tryCommand } from "../../support/document-commands.ts";
import { sharedService } from "../../support/shared-service.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";

const service = sharedService();

/** An empty folder, and the environment of a terminal in it. */
function terminal(): { readonly cwd: string; readonly env: Record<string, string> } {
  const cwd = scratchDirectory();
  const { baseUrl, apiUrl, owner } = service().service;
  mkdirSync(path.join(cwd, "bin"));
  symlinkSync(MILLRACE, path.join(cwd, "bin", "millrace"));
  const env = {
    HOME: cwd,
    PATH: `${path.join(cwd, "bin")}:${process.env["PATH"]}`,
    PYTHONPATH: path.join(REPOSITORY, "python"),
    MILLRACE_URL: baseUrl,
    MILLRACE_API_URL: apiUrl,
    MILLRACE_PROJECT: owner.projectId,
    MILLRACE_TOKEN: owner.token,
  };
  return { cwd, env };
}

/** Does what a page says: writes the files that it shows, then runs its commands. Gives what each printed. */
async function follow(page: string, { cwd, env } = terminal()): Promise<ReadonlyMap<string, string>> {
  const text = readFileSync(path.join(REPOSITORY, page), "utf8");
  const files = [...text.matchAll(/^`([\w./-]+)`:\n\n```\w+\n([^]*?)^```$/gm)];
  for (const [, name = "", content = ""] of files) {
    const file = path.join(cwd, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, content);
  }
  const printed = new Map<string, string>();
  for (const command of commandsOf(page)) printed.set(command, await tryCommand(command, { cwd, env }));
  // What the page says that the last one prints.
  const [, shown] = /^The last one prints:\n\n```text\n([^]*?)^```$/m.exec(text) ?? [];
  if (shown !== undefined) expect([page, [...printed.values()].at(-1)]).toEqual([page, shown]);
  return printed;
}

verifies("moving.modal", "the program on the page about Modal does here what it did there", async () => {
  const here = terminal();
  const printed = await follow("docs/moving/modal.md", here);
  expect(printed.get('millrace call triage embed text="two words" --json')).toContain("[9.0,2.0]");
  expect(printed.get("millrace call triage retrain --json")).toContain('{"words":4}');
  expect(await tryCommand("millrace schedules list triage", here)).toMatch(/retrain.*0 3 \* \* \*/);
});

verifies("moving.replicate", "the model on the page about Replicate deploys unchanged", async () => {
  const printed = await follow("docs/moving/replicate.md");
  expect(printed.get("millrace deploy melody --dry-run")).toContain(
    "take the folder for a Cog model: predict.py:Predictor\n",
  );
  expect(printed.get("millrace deploy melody")).toMatch(/^extract +a Cog model: predict\.py:Predictor$/m);
});

verifies("moving.bentoml", "the program on the page about BentoML does here what it did there", async () => {
  const printed = await follow("docs/moving/bentoml.md");
  expect(printed.get('millrace call summarizer summarize text="One. Two." --json')).toContain("One.");
});

verifies(
  "moving.litserve",
  "the program on the page about LitServe does here what it did there",
  async () => {
    await follow("docs/moving/litserve.md");
  },
);

verifies("moving.ray-serve", "the programs on the page about Ray Serve call each other", async () => {
  const printed = await follow("docs/moving/ray-serve.md");
  expect(printed.get('millrace call pipeline text="The  MILL stone" --json')).toContain("the Mühle Stein");
});

test("each page has a program before and after, a table, and what has no equivalent", () => {
  for (const name of ["modal", "replicate", "bentoml", "litserve", "ray-serve"]) {
    const text = readFileSync(path.join(REPOSITORY, `docs/moving/${name}.md`), "utf8");
    const headings = [...text.matchAll(/^## (.*)$/gm)].map(([, heading]) => heading ?? "");
    expect([name, headings.some((each) => / (?:program|model) (?:on|for) /.test(each))]).toEqual([
      name,
      true,
    ]);
    expect([name, headings.some((each) => /^The same .* here$/.test(each))]).toEqual([name, true]);
    expect([name, headings.at(-1)]).toEqual([name, "What has no equivalent"]);
    expect([name, /^\| .* \| (?:Millrace|here) \|$/m.test(text)]).toEqual([name, true]);
  }
});
