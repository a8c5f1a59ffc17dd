import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, expect } from "vitest";
import { pastable, programName, shellWord } from "../../../src/cli/program-name.ts";
import { verifies } from "../../verifies.ts";

const folder = realpathSync(mkdtempSync(path.join(tmpdir(), "millrace name-")));
afterAll(() => rmSync(folder, { recursive: true }));

verifies("cli.pastable", "the program is named as the shell finds it from where one stands", () => {
  const own = path.join(folder, "clone", "bin", "millrace");
  const installed = path.join(folder, "usr");
  for (const each of [path.dirname(own), installed]) mkdirSync(each, { recursive: true });
  writeFileSync(own, "");
  chmodSync(own, 0o755);
  const from = (cwd: string, searchPath = "/nowhere"): string => programName(own, { searchPath, cwd });
  expect(from(path.join(folder, "clone"))).toBe("bin/millrace");
  expect(from(path.dirname(own))).toBe("./millrace");
  // The path has a space.
  expect(from(path.join(folder, "usr"))).toBe(`'${own}'`);
  symlinkSync(own, path.join(installed, "millrace"));
  expect(from("/", `/nowhere:${installed}`)).toBe("millrace");
  expect(from(path.join(folder, "clone"), installed)).toBe("millrace");
  // Another one comes first: the bare name would start that.
  const other = path.join(folder, "other");
  mkdirSync(other);
  writeFileSync(path.join(other, "millrace"), "");
  expect(from(path.join(folder, "clone"), `${other}:${installed}`)).toBe("bin/millrace");
});

verifies("cli.pastable", "the commands of a hint name the service that the command at hand was told", () => {
  const own = programName();
  const flags = { dataDir: "my data", project: "p-a", url: undefined };
  const options = "--project p-a --data-dir 'my data'";
  expect(pastable("millrace apps list shows the apps; millrace deploy creates one", flags)).toBe(
    `${own} apps list ${options} shows the apps; ${own} deploy ${options} creates one`,
  );
  expect(pastable("millrace runs get hello 1, millrace nodes shows their ids", flags)).toBe(
    `${own} runs get ${options} hello 1, ${own} nodes ${options} shows their ids`,
  );
  expect(pastable("millrace doctor checks it", flags)).toBe(`${own} doctor --data-dir 'my data' checks it`);
  expect(pastable("millrace login http://x, or millrace run a.py", {})).toBe(
    `${own} login http://x, or ${own} run a.py`,
  );
});

verifies("cli.pastable", "a word is quoted if a shell would read it differently", () => {
  expect(shellWord("a=1")).toBe("a=1");
  expect(shellWord("it's $HOME")).toBe(`'it'\\''s $HOME'`);
});
