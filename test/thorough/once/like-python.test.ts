import { randomUUID } from "node:crypto";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { testService } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";
import { OnceClient } from "../../integration/once/site.ts";

/** Looks at every command line that is to be seen, its own and its keeper's among them. */
const SPY = `import json, os, sys
mark = json.loads(sys.argv[sys.argv.index("--data") + 1])["mark"].encode()
seen = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        with open("/proc/%s/cmdline" % pid, "rb") as line:
            if mark in line.read():
                seen.append(int(pid))
    except OSError:
        pass
print("seen", seen)
print("inherited", [name for name in os.listdir("/proc/self/fd") if int(name) > 2 and os.path.exists("/proc/self/fd/" + name)])
print("children find it", mark.decode() in os.popen("printenv CEREBRIUM_INPUT_DATA").read())
`;

/** Says all it can see of how it was started, except the folder of the helper module, then does what \`ending\` says. */
const describe = (ending: string): string => `"""Its words."""
import atexit, multiprocessing, os, sys, threading, time

def twice(n):
    return 2 * n

def late():
    time.sleep(0.2)
    print("thread", twice(3), __name__, sys.modules["__main__"].__dict__ is globals())

def work():
    raise ValueError("deep")

if __name__ == "__main__":
    print(sys.argv, sys.flags.safe_path if hasattr(sys.flags, "safe_path") else None)
    print(__name__, __doc__, os.path.relpath(__file__), __package__, __spec__, type(__loader__).__name__)
    print(sorted(name for name in globals()))
    print([os.path.relpath(place) if place.startswith(os.getcwd()) else place for place in sys.path
           if not os.path.isdir(os.path.join(place, "millrace_worker"))])
    print(sys.modules["__main__"].__dict__ is globals(), getattr(sys, "orig_argv", [0, *sys.argv])[1:])
    import beside
    print(beside.VALUE, sys.stdin.read() == "", os.environ.get("PYTHONPATH"))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(twice, [4]))
    atexit.register(lambda: print("atexit", twice(1)))
    threading.Thread(target=late).start()
    sys.stdout.flush()
    ${ending}
`;

const ENDINGS = [
  "pass",
  "work()",
  "sys.exit(3)",
  "sys.exit('words')",
  "raise SystemExit",
  "exec(compile('raise KeyError(1)', 'x.py', 'exec'))",
  "raise RuntimeError('outer') from ValueError('inner')",
];

verifies("hardening.once-hidden", "the data of a run is on no command line", async () => {
  const client = new OnceClient(await testService(), "hidden");
  const data = JSON.stringify({ mark: randomUUID() });
  const runId = await client.run("filename=main.py&functionName=work", { "main.py": SPY }, data);
  expect(await client.ended(runId)).toMatchObject({ status: "success", error: null });
  expect(await client.lines(runId)).toEqual([
    "stdout: seen []",
    "stdout: inherited []",
    "stdout: children find it True",
  ]);
});

verifies(
  ["hardening.once-like-python", "run-once.run"],
  "a file sees, prints and ends as with python FILE FUNCTION --data JSON",
  async () => {
    const service = await testService();
    const client = new OnceClient(service, "alike");
    const data = '{"text": "äöü \\u2028 \' 😀", "n": 1e400}';
    const beside = "VALUE = 'beside'\n";
    for (const source of [
      ...ENDINGS.map(describe),
      "def broken(:\n",
      "# coding: latin-1\nprint('ok')\n1/0\n",
    ]) {
      const files = { "jobs/main.py": source, "jobs/beside.py": beside };
      const runId = await client.run("filename=jobs/main.py&functionName=work", files, data);
      const run = await client.ended(runId);
      const direct = await runDirectly(files, ["jobs/main.py", "work", "--data", data]);
      const lines = (await client.lines(runId)).map((line) => line.replaceAll(/"[^"]*\/jobs\//g, '"jobs/'));
      for (const stream of ["stdout", "stderr"] as const) {
        expect(lines.filter((line) => line.startsWith(stream))).toEqual(direct[stream]);
      }
      expect(run.status).toBe(direct.status);
    }
  },
);

/** The same files by a plain start of Python: its lines by stream, and how the run of it would be told. */
async function runDirectly(
  files: Readonly<Record<string, string>>,
  args: readonly string[],
): Promise<{ stdout: string[]; stderr: string[]; status: string }> {
  const folder = await mkdtemp(path.join(tmpdir(), "millrace-plain-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) {
    await mkdir(path.dirname(path.join(folder, name)), { recursive: true });
    await writeFile(path.join(folder, name), text);
  }
  const env = { PATH: process.env["PATH"], LANG: "C.UTF-8", PYTHONUNBUFFERED: "1" };
  const python = process.env["MILLRACE_PYTHON"] ?? "python3";
  const ended = await new Promise<{ isFailure: boolean; out: string; err: string }>((resolve) => {
    const child = execFile(python, args, { cwd: folder, env }, (error, out, err) =>
      resolve({ isFailure: error !== null, out, err }),
    );
    child.stdin?.end();
  });
  const linesOf = (text: string, stream: string): string[] =>
    text
      .replace(/\n$/, "")
      .split(/\n/)
      .filter((line, _, all) => line !== "" || all.length > 1)
      .map((line) => `${stream}: ${line.replaceAll(`"${folder}/jobs/`, '"jobs/')}`);
  return {
    stdout: linesOf(ended.out, "stdout"),
    stderr: linesOf(ended.err, "stderr"),
    status: ended.isFailure ? "failed" : "success",
  };
}
