import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, readFile, readdir } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { promisify } from "node:util";
import { onTestFinished } from "vitest";

/** A package as a test writes it. */
export type TestWheel = {
  readonly name: string;
  readonly version: string;
  /** The text of its one module. */
  readonly module?: string;
  readonly requires?: readonly string[];
  /** The name of a command that calls the module's `main`. */
  readonly command?: string;
};

/** A package with a command, and another that it needs. */
export const GREETING: readonly TestWheel[] = [
  {
    name: "greeting",
    version: "1.2",
    module: "import polite\ndef main(): print(polite.word)",
    requires: ["polite>=1"],
    command: "greet",
  },
  { name: "polite", version: "1.0", module: "word = 'please'" },
  { name: "polite", version: "2.0", module: "word = 'thanks'" },
];

/** A wheel is a zip with three papers: what it is, how it was made, what is in it. */
const WRITE = `import json, sys, zipfile
for wheel in json.loads(sys.argv[2]):
    name, version = wheel["name"], wheel["version"]
    papers = f"{name}-{version}.dist-info"
    files = {f"{name}.py": wheel.get("module", "")}
    files[f"{papers}/METADATA"] = f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n" + "".join(
        f"Requires-Dist: {other}\\n" for other in wheel.get("requires", []))
    files[f"{papers}/WHEEL"] = "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    if wheel.get("command"):
        files[f"{papers}/entry_points.txt"] = f"[console_scripts]\\n{wheel['command']} = {name}:main\\n"
    files[f"{papers}/RECORD"] = "".join(f"{file},,\\n" for file in [*files, f"{papers}/RECORD"])
    with zipfile.ZipFile(f"{sys.argv[1]}/{name}-{version}-py3-none-any.whl", "w") as archive:
        for file, text in files.items():
            # Of the same bytes whenever it is made, so that the same wheel is the same dependency.
            archive.writestr(zipfile.ZipInfo(file), text)`;

/** Writes wheels into a folder; returns it. */
export async function writeWheels(folder: string, wheels: readonly TestWheel[]): Promise<string> {
  await mkdir(folder, { recursive: true });
  await promisify(execFile)("python3", ["-I", "-c", WRITE, folder, JSON.stringify(wheels)]);
  return folder;
}

export type TestIndex = {
  readonly url: string;
  /** The paths that were asked for. */
  readonly asked: string[];
};

export type IndexFaults = {
  /** Names other hashes than those of its files. */
  readonly wrongHashes?: boolean;
  /** Never answers for this package. */
  readonly silentFor?: string;
};

const LOOPBACK = "127.0.0.1";

/** A package index (PEP 503) of the wheels in a folder, at an address of this machine. */
export async function testIndex(
  folder: string,
  faults: IndexFaults = {},
  host = LOOPBACK,
): Promise<TestIndex> {
  const asked: string[] = [];
  const answer = async (url: string, response: ServerResponse): Promise<unknown> => {
    const [kind = "", name = ""] = url.split("/").slice(1);
    asked.push(url);
    if (name === faults.silentFor) return undefined;
    if (kind === "files") return response.end(await readFile(path.join(folder, path.basename(name))));
    const files = (await readdir(folder)).filter((file) => file.toLowerCase().startsWith(`${name}-`));
    if (files.length === 0) return response.writeHead(404).end();
    const links = files.map(async (file) => {
      const content = faults.wrongHashes ? "other" : await readFile(path.join(folder, file));
      const hash = createHash("sha256").update(content).digest("hex");
      return `<a href="/files/${file}#sha256=${hash}" data-requires-python="&gt;=3.7">${file}</a>`;
    });
    response.setHeader("content-type", "text/html");
    return response.end(`<!DOCTYPE html><html><body>${(await Promise.all(links)).join("\n")}</body></html>`);
  };
  const server = createServer((request, response) => void answer(request.url ?? "", response));
  // An address that only others see may come later than this.
  const at = host === LOOPBACK ? LOOPBACK : "0.0.0.0";
  await new Promise<void>((resolve) => server.listen(0, at, resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://${host}:${(server.address() as AddressInfo).port}/simple`, asked };
}
