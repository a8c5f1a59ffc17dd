import { closeSync, openSync, readFileSync } from "node:fs";
import type { Containers } from "../../src/host/containers/containers.ts";
import { startContainer } from "../../src/host/containers/start-container.ts";
import { askModule } from "../../src/host/interpreter.ts";
import { runProgram } from "../../src/engines/programs/run-program.ts";

/** Takes every descriptor that its limit leaves, starts a process in the way that it is told, and prints what became of that. */
const [way = "", tool = ""] = process.argv.slice(2);
const taken: number[] = [];

function take(): void {
  try {
    for (;;) taken.push(openSync("/dev/null", "r"));
  } catch {
    // None is left.
  }
}

const program = {
  program: "/bin/true",
  args: [],
  cwd: "/",
  env: {},
  onLine: () => {},
  walls: null,
  held: null,
};

/** What a container of `tool` needs of its host; `onSecond` is called before its second process. */
function containers(onSecond: () => void): Containers {
  let looks = 0;
  const fake = {
    cleared: Promise.resolve(),
    get env() {
      if (++looks === 2) onSecond();
      return {};
    },
    nameOf: (id: string) => id,
    before: async () => [],
    runFolder: () => `${tool}.run`,
    label: "label",
    run: async () => ({ code: 0, stdout: "", stderr: "" }),
  };
  return fake as unknown as Containers;
}

async function startIn(host: Containers): Promise<unknown> {
  return await startContainer(
    host,
    { kind: "docker", program: tool, isRootless: false, runtimes: [] } as unknown as Parameters<
      typeof startContainer
    >[1],
    {
      projectId: "p",
      id: "made",
      image: "image",
      program: null,
      args: [],
      variables: {},
      mounts: [],
      user: null,
      limits: { memoryBytes: null, cpus: null, cpuShare: 1 },
      runtime: null,
      hasNetwork: false,
      gpus: [],
      port: null,
      input: null,
    },
  );
}

const WAYS: Readonly<Record<string, () => Promise<unknown>>> = {
  kept: () => runProgram(process.execPath, program, new AbortController().signal),
  module: () => askModule(process.execPath, "millrace_walls.probe", {}),
  container: () => startIn(containers(() => {})),
  attached: () => startIn(containers(take)),
};

if (way !== "attached") take();
const told = await WAYS[way]?.().then(
  () => "it ran",
  (error: unknown) => String(error),
);
// Whatever an event without a listener would throw comes before this.
await new Promise((resolve) => setImmediate(resolve));
for (const descriptor of taken) closeSync(descriptor);
process.stdout.write(
  way === "attached" ? `${told}, ${readFileSync(`${tool}.told`, "utf8").trim()}` : String(told),
);
