import { run } from "./command-line.ts";

/** Runs programs in turn, some rounds of them, and tells the least processor time that each took with all it waited for. */
const MEASURE = `
import json, resource, subprocess, sys
def used():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
programs, rounds = json.loads(sys.argv[1]), int(sys.argv[2])
least = [float("inf")] * len(programs)
for _ in range(rounds):
    for place, program in enumerate(programs):
        before = used()
        subprocess.run(program, stdout=subprocess.DEVNULL, check=True)
        least[place] = min(least[place], used() - before)
print(json.dumps(least))
`;

/** The processor time of each program; of several rounds the least, since others in the same caches cost too. */
export async function leastProcessorSeconds(
  programs: readonly (readonly string[])[],
  rounds = 5,
): Promise<number[]> {
  const args = ["-c", MEASURE, JSON.stringify(programs), String(rounds)];
  const { code, stdout, stderr } = await run("python3", args);
  if (code !== 0) throw new Error(stderr);
  return JSON.parse(stdout) as number[];
}

/** The same as multiples of what `node -e 0` takes in the same breath: by that a busy or slow machine does not count. */
export async function startCosts(programs: readonly (readonly string[])[]): Promise<number[]> {
  const [bare = 0, ...rest] = await leastProcessorSeconds([[process.execPath, "-e", "0"], ...programs]);
  return rest.map((seconds) => seconds / bare);
}
