import { expect } from "vitest";
import type { Finding } from "../../../src/cli/operator/doctor/finding.ts";
import { MILLRACE, run } from "../../support/command-line.ts";

/** What `doctor --json` finds in a data directory, and how it ends. */
export async function doctor(dataDir: string, env: Record<string, string> = {}) {
  // What is installed here is no subject of these tests, and takes its time to answer.
  const free = { MILLRACE_API_PORT: "0", MILLRACE_BASE_PORT: "0", MILLRACE_CONTAINER_ENGINE: "none" };
  const { code, stdout, stderr } = await run(MILLRACE, ["doctor", "--json"], {
    env: { MILLRACE_DATA_DIR: dataDir, ...free, ...env },
  });
  if (stdout === "") throw new Error(stderr);
  const findings = JSON.parse(stdout) as Finding[];
  // Whatever is not well has something to do about it.
  expect(findings.filter(({ status, remedy }) => (status === "ok") !== (remedy === null))).toEqual([]);
  const of = (check: string): Finding | undefined => findings.find((finding) => finding.check === check);
  return { code, findings, of };
}
