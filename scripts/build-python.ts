import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { buffer } from "node:stream/consumers";
import { ZipFile } from "yazl";

// Makes the wheel `millrace`: `node scripts/build-python.ts [FOLDER]`. It needs neither Python nor a network.

const REPOSITORY = path.join(import.meta.dirname, "..");
const SOURCES = path.join(REPOSITORY, "python");
/** What the wheel holds: the helper module, and the client under its own name. */
const PACKAGES = ["millrace", "millrace_client"];
/** Files of the harness that the helper module needs outside runs too, and their names in it. */
const COPIED = [["millrace_worker/signs.py", "millrace/_signs.py"]] as const;
/** Not compressed and with a fixed time: equal files make equal wheels, whatever wrote them. */
const ENTRY = { mtime: new Date(1980, 0, 1), forceDosTimestamp: true, mode: 0o100644, compress: false };

const SUMMARY = "Calls the apps of a Millrace service, and tells an app's functions which run they belong to";
const DESCRIPTION = `# millrace

\`from millrace import Millrace\` calls the apps of a Millrace service. Inside a run, \`millrace.run\` has the run's id,
attempt and deadline. It needs only the standard library.
`;

/** Makes the wheel in a folder; returns its path. */
export async function buildPython(folder: string): Promise<string> {
  const { version, license } = JSON.parse(readFileSync(path.join(REPOSITORY, "package.json"), "utf8")) as {
    version: string;
    license: string;
  };
  const own = pythonVersion(version);
  const files = new Map<string, Buffer>();
  for (const name of PACKAGES)
    for (const file of readdirSync(path.join(SOURCES, name)).toSorted())
      if (file.endsWith(".py") || file === "py.typed")
        files.set(`${name}/${file}`, readFileSync(path.join(SOURCES, name, file)));
  for (const [from, to] of COPIED) files.set(to, readFileSync(path.join(SOURCES, from)));
  const info = `millrace-${own}.dist-info`;
  const metadata = [
    "Metadata-Version: 2.1",
    "Name: millrace",
    `Version: ${own}`,
    `Summary: ${SUMMARY}`,
    `License: ${license}`,
    "Classifier: Programming Language :: Python :: 3",
    "Classifier: Typing :: Typed",
    "Requires-Python: >=3.9",
    "Description-Content-Type: text/markdown",
  ];
  files.set(`${info}/LICENSE`, readFileSync(path.join(REPOSITORY, "LICENSE")));
  files.set(`${info}/METADATA`, Buffer.from(`${metadata.join("\n")}\n\n${DESCRIPTION}`));
  files.set(
    `${info}/WHEEL`,
    Buffer.from("Wheel-Version: 1.0\nGenerator: millrace\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
  );
  const record = Array.from(files, ([name, content]) => {
    const hash = createHash("sha256").update(content).digest("base64url");
    return `${name},sha256=${hash},${content.length}\n`;
  });
  files.set(`${info}/RECORD`, Buffer.from(`${record.join("")}${info}/RECORD,,\n`));
  const zip = new ZipFile();
  for (const [name, content] of files) zip.addBuffer(content, name, ENTRY);
  zip.end();
  mkdirSync(folder, { recursive: true });
  const file = path.join(folder, `millrace-${own}-py3-none-any.whl`);
  writeFileSync(file, await buffer(zip.outputStream));
  return file;
}

/** A version as Python writes it: `1.2.0-beta.3` is `1.2.0b3`. */
function pythonVersion(version: string): string {
  const own = version.replace(/-(a|b|rc)[a-z]*\.(\d+)$/, "$1$2");
  if (!/^\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?$/.test(own)) throw new Error(`${version} is no version for Python`);
  return own;
}

if (import.meta.main)
  console.log(await buildPython(process.argv[2] ?? path.join(REPOSITORY, "dist", "python")));
