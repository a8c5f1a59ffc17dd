import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { readPipSettings } from "../../../../src/apps/builds/pip-settings.ts";

async function home(files: Record<string, string>): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), "millrace-pip-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) {
    await mkdir(path.dirname(path.join(folder, name)), { recursive: true });
    await writeFile(path.join(folder, name), text);
  }
  return folder;
}

test("nothing set: the index is left to the installer", async () => {
  expect(await readPipSettings({ PIP_CONFIG_FILE: "/dev/null" })).toEqual({
    indexUrl: null,
    extraIndexUrls: [],
    findLinks: [],
    noIndex: false,
    trustedHosts: [],
    cert: "",
  });
});

test("variables come before the file they name, that before the user's", async () => {
  const HOME = await home({
    "named.conf": "[global]\nindex-url = https://named.test/simple\nno-index: true\n",
    ".config/pip/pip.conf":
      "# comment\n[global]\nindex_url = https://user.test/simple\nextra-index-url =\n    https://one.test\n    https://two.test\n[install]\nfind-links = /wheels\n",
  });
  const user = await readPipSettings({ HOME });
  expect(user).toMatchObject({
    indexUrl: "https://user.test/simple",
    findLinks: ["/wheels"],
  });
  expect(user.extraIndexUrls).toEqual(["https://one.test", "https://two.test"]);
  const named = { HOME, PIP_CONFIG_FILE: path.join(HOME, "named.conf") };
  expect(await readPipSettings(named)).toMatchObject({
    indexUrl: "https://named.test/simple",
    noIndex: true,
    findLinks: ["/wheels"],
  });
  const variable = { ...named, PIP_INDEX_URL: "https://variable.test/simple", PIP_NO_INDEX: "0" };
  expect(await readPipSettings(variable)).toMatchObject({
    indexUrl: "https://variable.test/simple",
    noIndex: false,
  });
});
