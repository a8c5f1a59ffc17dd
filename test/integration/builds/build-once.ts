import { prepareBuild } from "../../../src/apps/builds/build.ts";
import { StorageFolders } from "../../../src/host/storage/folders.ts";
import { readAppConfig } from "../../../src/config/app-config.ts";
import { findInterpreter } from "../../../src/host/interpreter.ts";

/** A process of its own that builds one bundle and tells what the build says: something to kill. */
const [, , bundleDir = "", dataDir = "", python = ""] = process.argv;
const input = {
  buildId: "killed",
  projectId: "p-killed",
  bundleDir,
  dataDir,
  config: readAppConfig({ host: { cpuCount: 2 } }).config,
  python: await findInterpreter(python),
  walls: null,
  limits: null,
  images: null,
  storage: new StorageFolders(dataDir),
  say: (text: string) => void process.stdout.write(`${text}\n`),
  signal: new AbortController().signal,
};
await prepareBuild(input, () => undefined);
