import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { MILLRACE } from "../../support/command-line.ts";
import { follow } from "../../support/document-pages.ts";
import { ReaderHome } from "../../support/example-folders.ts";
import { sharedService } from "../../support/shared-service.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";

const HELLO = { main: 'def run(name: str = "world"):\n    return {"message": f"Hello, {name}!"}\n' };
const PAGES = ["docs/first-app.md", "docs/packages.md", "docs/scaling.md", "docs/ci.md"];

// A GPU that does not exist, and a program that answers as vLLM does.
const service = sharedService({ hello: HELLO }, { gpus: "fake:1xH100:80" });
const folders: string[] = [];

beforeAll(() => {
  const programs = newFolder();
  const vllm = path.join(programs, "vllm");
  writeFileSync(vllm, `#!/bin/sh\nexec python3 '${REPOSITORY}/test/examples/vllm.py' "$@"\n`);
  chmodSync(vllm, 0o755);
  vi.stubEnv("PATH", `${programs}${path.delimiter}${process.env["PATH"]}`);
});
afterAll(() => {
  vi.unstubAllEnvs();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function newFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-pages-"));
  folders.push(folder);
  return folder;
}

/** What a reader has who has followed docs/install.md. */
function readerEnvironment(): Record<string, string> {
  const home = newFolder();
  mkdirSync(path.join(home, "bin"));
  symlinkSync(MILLRACE, path.join(home, "bin", "millrace"));
  const { baseUrl, apiUrl, owner } = service().service;
  return {
    HOME: home,
    PATH: `${path.join(home, "bin")}${path.delimiter}${process.env["PATH"]}`,
    MILLRACE_URL: baseUrl,
    MILLRACE_API_URL: apiUrl,
    MILLRACE_TOKEN: owner.token,
    PROJECT: owner.projectId,
  };
}

describe("a reader who does what it says, from the first line to the last, of", () => {
  for (const page of PAGES) {
    verifies(["docs.pages", "docs.blocks"], `${page} sees what it shows`, async () => {
      await follow(page, { cwd: newFolder(), env: readerEnvironment() });
    });
  }

  verifies(["docs.pages", "docs.blocks"], "docs/models.md gets an answer of the model", async () => {
    const home = new ReaderHome(newFolder());
    // As much of PyTorch as tells the size of a GPU.
    const torch =
      "from types import SimpleNamespace as N\n\n" +
      "cuda = N(device_count=lambda: 1, get_device_properties=lambda gpu: N(total_memory=80 * 2**30))\n";
    home.withoutPackages("vllm", { "torch.py": torch });
    await follow("docs/models.md", { cwd: home.folder, env: readerEnvironment() });
  });
});

describe("what a page shows is compared", () => {
  const PAGE = "# A page\n\n```text here/it.txt\none\ntwo\n```\n\n```sh\ncat here/it.txt\n```\n\n```text\n";
  const shows = async (shown: string): Promise<void> => {
    const cwd = newFolder();
    const page = path.join(cwd, "page.md");
    writeFileSync(page, `${PAGE}${shown}\n\`\`\`\n`);
    await follow(page, { cwd, env: { PATH: process.env["PATH"] ?? "" } });
  };

  test.each(["one\ntwo", "…\ntwo", "o…e\ntwo", "one\n…"])("%j is what is printed", async (shown) => {
    await shows(shown);
  });

  test.each(["one", "one\nthree", "two\n…", "one\ntw."])("%j is not", async (shown) => {
    await expect(shows(shown)).rejects.toThrow("to match");
  });
});
